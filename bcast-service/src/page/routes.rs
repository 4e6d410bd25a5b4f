//! What can be asked for: the page's files, its events, single targets and groups, metrics.

use super::bundle::{Module, bundle};
use super::desk::Desk;
use super::guard::{self, Guard};
use super::view::SECTIONS;
use arborcast_proto::{GroupHash, SizeClass, Target};
use axum::Router;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use futures_util::stream::{self, Stream};
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

/// So that proxies, and hosts that forget, keep a quiet connection.
const KEEP_ALIVE: Duration = Duration::from_secs(15);
/// After which a browser connects again.
const RETRY: Duration = Duration::from_secs(1);

const JSON: &str = "application/json";
/// What Prometheus asks for.
const METRICS: &str = "text/plain; version=0.0.4; charset=utf-8";

const INDEX: &str = include_str!("assets/index.html");
const STYLE: &str = include_str!("assets/page.css");
const ICON: &str = include_str!("assets/icon.svg");

macro_rules! module {
    ($name:literal) => {
        ($name, include_str!(concat!("assets/", $name, ".js")))
    };
}

/// Each after those that it imports.
const MODULES: [Module; 13] = [
    module!("element"),
    module!("units"),
    module!("chart"),
    module!("link_past"),
    module!("links"),
    module!("trees"),
    module!("targets"),
    module!("programs"),
    module!("binds"),
    module!("experiment"),
    module!("delays"),
    module!("events"),
    module!("page"),
];

pub fn router(desk: Arc<Desk>, guard: Guard) -> Router {
    let mut router = Router::new()
        .route("/", get(index))
        .route("/updates", get(updates))
        .route("/links/{group}", get(links))
        .route("/links/{group}/{from}/{to}", get(link_past))
        .route("/target/{group}/{root}/{class}", get(target))
        .route("/target/{group}/{root}/{class}/{plan}", get(earlier_trees))
        .route("/metrics", get(metrics));
    let script: Arc<str> = bundle(&MODULES).into();
    let files: [(&str, &str, Arc<str>); 3] = [
        ("/page.js", "text/javascript; charset=utf-8", script),
        ("/page.css", "text/css; charset=utf-8", STYLE.into()),
        ("/icon.svg", "image/svg+xml", ICON.into()),
    ];
    for (path, kind, text) in files {
        let answer = async move || ([(CONTENT_TYPE, kind)], text.to_string());
        router = router.route(path, get(answer));
    }
    router
        .with_state(desk)
        .layer(axum::middleware::from_fn_with_state(Arc::new(guard), guard::check))
}

async fn index(State(desk): State<Arc<Desk>>) -> impl IntoResponse {
    desk.expect_viewer();
    ([(CONTENT_TYPE, "text/html; charset=utf-8")], INDEX)
}

/// A message for each section that has changed, named as the section is.
async fn updates(
    State(desk): State<Arc<Desk>>,
) -> Sse<impl Stream<Item = Result<Event, Infallible>>> {
    // The versions that the viewer has.
    let start = (desk.viewer(), [0; SECTIONS.len()]);
    let events = stream::unfold(start, async |(mut viewer, mut has)| {
        loop {
            let snapshot = viewer.borrow_and_update().clone();
            let news = snapshot.and_then(|snapshot| {
                let sections = SECTIONS.iter().zip(&snapshot.sections).zip(&mut has);
                let mut others = sections.filter(|((_, section), has)| section.version != **has);
                let ((name, section), has) = others.next()?;
                *has = section.version;
                Some(Event::default().event(*name).data(&*section.json).retry(RETRY))
            });
            if let Some(news) = news {
                return Some((Ok(news), (viewer, has)));
            }
            viewer.changed().await.ok()?;
        }
    });
    Sse::new(events).keep_alive(KeepAlive::new().interval(KEEP_ALIVE))
}

fn no_such(what: &str) -> Response {
    (StatusCode::NOT_FOUND, format!("There is no such {what}.\n")).into_response()
}

fn parse_group(text: &str) -> Option<GroupHash> {
    u64::from_str_radix(text, 16).ok().map(GroupHash)
}

async fn links(State(desk): State<Arc<Desk>>, Path(group): Path<String>) -> Response {
    let found = async {
        let mut viewer = desk.viewer();
        let snapshot = viewer.wait_for(Option::is_some).await.ok()?.clone()?;
        snapshot.groups.get(&parse_group(&group)?).map(|group| group.json.clone())
    };
    match found.await {
        Some(json) => ([(CONTENT_TYPE, JSON)], json.to_string()).into_response(),
        None => no_such("group"),
    }
}

async fn link_past(
    State(desk): State<Arc<Desk>>,
    Path((group, from, to)): Path<(String, String, String)>,
) -> Response {
    let found = async { desk.link_past(parse_group(&group)?, [&from, &to]).await };
    match found.await {
        Some(json) => ([(CONTENT_TYPE, JSON)], json).into_response(),
        None => no_such("link"),
    }
}

fn parse_target(group: &str, root: u16, class: u8) -> Option<Target> {
    let class = SizeClass::try_from(class).ok()?;
    Some(Target { group: parse_group(group)?, root, class })
}

async fn target(
    State(desk): State<Arc<Desk>>,
    Path((group, root, class)): Path<(String, u16, u8)>,
) -> Response {
    let found = async { desk.detail(parse_target(&group, root, class)?).await };
    match found.await {
        Some(json) => ([(CONTENT_TYPE, JSON)], json.to_string()).into_response(),
        None => no_such("target"),
    }
}

async fn earlier_trees(
    State(desk): State<Arc<Desk>>,
    Path((group, root, class, plan)): Path<(String, u16, u8, u32)>,
) -> Response {
    let found = async { desk.earlier_trees(parse_target(&group, root, class)?, plan).await };
    match found.await {
        Some(json) => ([(CONTENT_TYPE, JSON)], json).into_response(),
        None => no_such("plan"),
    }
}

async fn metrics(State(desk): State<Arc<Desk>>) -> Response {
    match desk.metrics().await {
        Some(text) => ([(CONTENT_TYPE, METRICS)], text).into_response(),
        None => StatusCode::SERVICE_UNAVAILABLE.into_response(),
    }
}
