//! HTTP/1.1 over as many connections as are allowed, none of which can hold its place for nothing.

use axum::Router;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use rustix::net::sockopt::set_tcp_user_timeout;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::time::timeout;
use tracing::{debug, warn};

/// A browser takes up to six a page.
pub const MAX_CONNECTIONS: usize = 48;
/// Connections beyond that which are told so; others are closed.
const MAX_REFUSALS: usize = 8;
const REFUSAL_LIMIT: Duration = Duration::from_secs(1);
/// From the connection, or the end of an answer, to the end of the next request's headers.
const HEADER_LIMIT: Duration = Duration::from_secs(5);
/// No request has more headers than this.
const MAX_HEADER_BYTES: usize = 16 << 10;
/// A peer that takes nothing of what was sent is taken for dead.
const PEER_LIMIT: Duration = Duration::from_secs(30);

const FULL: &[u8] = b"HTTP/1.1 503 Service Unavailable\r\nconnection: close\r\nretry-after: 10\r\n\
    content-type: text/plain\r\ncontent-length: 21\r\n\r\nToo many connections\n";

/// Until the runtime ends.
pub async fn serve(listener: TcpListener, router: Router) {
    let seats = Arc::new(Semaphore::new(MAX_CONNECTIONS));
    let refusals = Arc::new(Semaphore::new(MAX_REFUSALS));
    loop {
        let stream = match listener.accept().await {
            Ok((stream, _)) => stream,
            Err(error) => {
                // Out of file descriptors, most likely: not to be tried again at once.
                warn!("a browser's connection cannot be accepted: {error}");
                tokio::time::sleep(Duration::from_millis(100)).await;
                continue;
            }
        };
        let Ok(seat) = seats.clone().try_acquire_owned() else {
            if let Ok(seat) = refusals.clone().try_acquire_owned() {
                tokio::spawn(async move {
                    let _ = timeout(REFUSAL_LIMIT, refuse(stream)).await;
                    drop(seat);
                });
            }
            continue;
        };
        let router = router.clone();
        tokio::spawn(async move {
            if let Err(error) = answer(stream, router).await {
                debug!("a browser's connection ended: {error}");
            }
            drop(seat);
        });
    }
}

/// The request is taken first: what is closed with something unread takes its answer back.
async fn refuse(mut stream: TcpStream) -> std::io::Result<()> {
    let mut request = [0; 4096];
    let _some = stream.read(&mut request).await?;
    stream.write_all(FULL).await?;
    stream.shutdown().await
}

async fn answer(stream: TcpStream, router: Router) -> hyper::Result<()> {
    let limit = u32::try_from(PEER_LIMIT.as_millis()).unwrap_or(u32::MAX);
    // Without it a peer that is gone keeps its seat for longer, no more.
    let _ = set_tcp_user_timeout(&stream, limit);
    let _ = stream.set_nodelay(true);
    http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEADER_LIMIT)
        .max_buf_size(MAX_HEADER_BYTES)
        .serve_connection(TokioIo::new(stream), TowerToHyperService::new(router))
        .await
}
