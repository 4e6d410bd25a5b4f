//! The page: what the daemon knows, for browsers, and its metrics for Prometheus.
//!
//! It has a thread of its own with a lower priority, on which everything is served, drawn up and computed. The
//! thread that serves MPI programs is asked for [`Facts`], at most once a second and only while somebody
//! looks; it hands out shared plans and matrices. Nothing can be changed from here.

mod binds;
mod bundle;
mod desk;
mod detail;
mod facts;
mod guard;
mod past;
pub mod record;
mod routes;
mod server;
mod sites;
mod token;
mod use_and_delay;
mod view;

use crate::config::{ConfigError, PageConfig};
use arborcast_proto::{GroupHash, Target};
use desk::Desk;
pub use facts::{Detail, Facts, LinkFacts, LinkPast, TargetFacts};
use guard::Guard;
use std::io;
use std::net::TcpListener;
use std::sync::Arc;
pub use token::Token;
use tokio::sync::{mpsc, oneshot};
use tracing::{error, info};

/// Questions that wait for the daemon.
const QUEUED_QUESTIONS: usize = 4;
/// Of the page's threads, so that MPI programs and the daemon come first.
const NICE: i32 = 10;

/// What the page asks the daemon.
#[derive(Debug)]
pub enum Question {
    Facts(oneshot::Sender<Facts>),
    /// `None` where there is no such target.
    Detail(Target, oneshot::Sender<Option<Detail>>),
    /// Of the link from the site of one node of a group to that of another one; `None` where there is no such
    /// group.
    LinkPast(GroupHash, [usize; 2], oneshot::Sender<Option<LinkPast>>),
    /// In the text format of Prometheus.
    Metrics(oneshot::Sender<String>),
}

/// The daemon's end of a page that is served.
#[derive(Debug)]
pub struct Page {
    questions: mpsc::Receiver<Question>,
}

/// Why there is no page.
#[derive(Debug, thiserror::Error)]
pub enum PageError {
    #[error(transparent)]
    Config(#[from] ConfigError),
    #[error("page.listen = \"{listen}\": {source}")]
    Listen { listen: std::net::SocketAddr, source: io::Error },
    #[error("the page cannot be served: {0}")]
    Runtime(io::Error),
}

impl Page {
    /// Listens, and serves on a thread of its own; `None` where no page is configured.
    ///
    /// # Errors
    /// Where the token cannot be used or the address cannot be listened on.
    pub fn start(config: &PageConfig, host_name: &str) -> Result<Option<Self>, PageError> {
        let Some(listen) = config.listen else { return Ok(None) };
        let token = Token::configured(config)?;
        let listener = TcpListener::bind(listen)
            .and_then(|listener| listener.set_nonblocking(true).map(|()| listener))
            .map_err(|source| PageError::Listen { listen, source })?;
        let guard = Guard::new(token, host_name, &config.hosts);
        let (asks, questions) = mpsc::channel(QUEUED_QUESTIONS);
        std::thread::Builder::new()
            .name("page".into())
            .spawn(move || {
                if let Err(error) = serve(listener, guard, asks) {
                    error!("the page cannot be served: {error}");
                }
            })
            .map_err(PageError::Runtime)?;
        info!("the page is at http://{listen}/");
        Ok(Some(Page { questions }))
    }

    /// The next question; for `select!`. Waits for ever where the page is not served any more.
    pub async fn question(&mut self) -> Question {
        match self.questions.recv().await {
            Some(question) => question,
            None => std::future::pending().await,
        }
    }
}

fn serve(listener: TcpListener, guard: Guard, asks: mpsc::Sender<Question>) -> io::Result<()> {
    // Of this thread and those that it starts. Refused it costs nothing but that.
    let _ = rustix::process::setpriority_process(None, NICE);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .max_blocking_threads(1)
        .build()?;
    runtime.block_on(async {
        let desk = Arc::new(Desk::new(asks));
        tokio::spawn(desk.clone().keep());
        let listener = tokio::net::TcpListener::from_std(listener)?;
        server::serve(listener, routes::router(desk, guard)).await;
        Ok(())
    })
}
