//! The responses to requests.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::header::{self, HeaderValue};
use http::{Method, Request, Response, StatusCode};
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt, Full, Limited, StreamBody};
use hyper::body::{Frame, Incoming};
use namely_host::web::PageRefusal;
use namely_wire::text;
use serde_json::{Value, json};
use tokio::sync::{Semaphore, mpsc};

use crate::act::{ACTIONS_MAX, Action, BODY_OCTETS_MAX};
use crate::connection_slots::ConnectionSlot;
use crate::explore::{self, EXPLORATIONS_MAX};
use crate::feed::{Feed, Stream};
use crate::guard::{Guard, Refusal, harden};
use crate::history::{self, HISTORIES_MAX, History};
use crate::page;
use crate::reach::{RouterError, RouterLink};
use crate::server::REQUEST_TIMEOUT;
use crate::{Counters, Options, meanings};

/// Without a change for this long, a page receives an event that shows the connection is alive.
const BEAT: Duration = Duration::from_secs(5);

type Body = BoxBody<Bytes, Infallible>;

/// The state that responses need.
#[derive(Debug)]
pub(crate) struct Site {
    pub(crate) feed: Arc<Feed>,
    pub(crate) reach: Vec<RouterLink>,
    pub(crate) interval: Duration,
    pub(crate) counters: Arc<Counters>,
    guard: Arc<Guard>,
    words: String,
    history: Option<History>,
    explorations: Semaphore,
    actions: Semaphore,
    histories: Semaphore,
}

impl Site {
    pub(crate) fn new(options: Options, guard: Arc<Guard>, feed: Arc<Feed>, counters: Arc<Counters>) -> Self {
        let reach = options.routers.into_iter().map(|router| RouterLink {
            router,
            trust_router_of: options.trust_router_of.clone(),
            trust: options.trust.clone(),
        });
        let meanings: serde_json::Map<String, Value> = meanings()
            .into_iter()
            .map(|(name, meaning)| (name, json!([meaning.words, meaning.is_drop])))
            .collect();
        let words = json!({
            "meanings": meanings, "interval_ms": options.interval.as_millis() as u64,
            "reading_needs_token": guard.reading_needs_token(), "history": options.prometheus.is_some(),
        });
        Site {
            feed,
            reach: reach.collect(),
            interval: options.interval,
            counters,
            guard,
            words: words.to_string(),
            history: options.prometheus.map(History::new),
            explorations: Semaphore::new(EXPLORATIONS_MAX),
            actions: Semaphore::new(ACTIONS_MAX),
            histories: Semaphore::new(HISTORIES_MAX),
        }
    }
}

pub(crate) async fn answer(
    site: &Arc<Site>,
    slot: &ConnectionSlot,
    request: Request<Incoming>,
) -> Response<Body> {
    Counters::count(&site.counters.requests);
    let is_passing = slot.is_kept() && !has_token(site, &request);
    if slot.is_kept() && !is_passing {
        slot.show_token();
    }
    let mut response = match site.guard.check_host(&request) {
        // A browser requests the page's files without the token.
        Ok(()) if is_passing && page::file(request.uri().path()).is_none() => full(site),
        Ok(()) => admitted(site, request).await,
        Err(refusal) => refused(site, refusal),
    };
    if is_passing {
        response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
    }
    harden(response.headers_mut());
    response
}

fn has_token(site: &Site, request: &Request<Incoming>) -> bool {
    site.guard.check_token(request.headers()).is_ok()
}

async fn admitted(site: &Arc<Site>, request: Request<Incoming>) -> Response<Body> {
    let is_reading = matches!(*request.method(), Method::GET | Method::HEAD);
    let path = request.uri().path().to_owned();
    match (is_reading, path.as_str()) {
        (true, "/api/events") => match site.guard.check_reading(request.headers()) {
            Ok(()) => events(site, has_token(site, &request)),
            Err(refusal) => refused(site, refusal),
        },
        (true, "/api/history") => match site.guard.check_reading(request.headers()) {
            Ok(()) => {
                // Copied, because the request itself must not be borrowed while this waits.
                let query = request.uri().query().map(str::to_owned);
                past(site, query.as_deref()).await
            }
            Err(refusal) => refused(site, refusal),
        },
        // The names of current requests are only for holders of the token.
        (true, "/api/names") => match site.guard.check_token(request.headers()) {
            Ok(()) => names(site, request.uri().query()),
            Err(refusal) => refused(site, refusal),
        },
        (true, "/api/words") => said(StatusCode::OK, "application/json", site.words.clone()),
        (true, "/api/token") => match site.guard.check_token(request.headers()) {
            Ok(()) => respond(StatusCode::OK, &json!({"token": true})),
            Err(refusal) => refused(site, refusal),
        },
        (false, "/api/act" | "/api/explore") if request.method() == Method::POST => {
            match site.guard.check_token(request.headers()) {
                Ok(()) => serve_post(site, &path, request).await,
                Err(refusal) => refused(site, refusal),
            }
        }
        (true, path) => match page::file(path) {
            Some((_, kind, text)) => said(StatusCode::OK, kind, *text),
            None => fault(site, StatusCode::NOT_FOUND, "there is no such page"),
        },
        _ => fault(site, StatusCode::METHOD_NOT_ALLOWED, "use GET to read, POST to /api/act for commands"),
    }
}

fn refused(site: &Site, refusal: Refusal) -> Response<Body> {
    let (counter, status, why) = match refusal {
        Refusal::Page(PageRefusal::NoHost) => {
            (&site.counters.refused_host, StatusCode::BAD_REQUEST, "a request names one host")
        }
        Refusal::Page(PageRefusal::Host) => (
            &site.counters.refused_host,
            StatusCode::MISDIRECTED_REQUEST,
            "unknown host name: use an address, localhost, or a name that was given with --host",
        ),
        Refusal::Page(PageRefusal::Site) => {
            (&site.counters.refused_host, StatusCode::FORBIDDEN, "the request is of a page of another site")
        }
        Refusal::Token => (
            &site.counters.refused_token,
            StatusCode::UNAUTHORIZED,
            "open the address that the command printed, with its token",
        ),
    };
    Counters::count(counter);
    respond(status, &json!({"error": why}))
}

fn fault(site: &Site, status: StatusCode, why: &str) -> Response<Body> {
    Counters::count(&site.counters.refused);
    respond(status, &json!({"error": why}))
}

fn busy(site: &Site, what: &str) -> Response<Body> {
    Counters::count(&site.counters.refused_busy);
    later(what)
}

/// The remaining slots are reserved for holders of the token.
fn full(site: &Site) -> Response<Body> {
    Counters::count(&site.counters.refused_full);
    later("connections")
}

fn later(what: &str) -> Response<Body> {
    let mut response =
        respond(StatusCode::SERVICE_UNAVAILABLE, &json!({"error": format!("too many {what} are active")}));
    response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
    response
}

fn respond(status: StatusCode, value: &Value) -> Response<Body> {
    said(status, "application/json", text::json_of_page(value.to_string()))
}

fn said(status: StatusCode, kind: &'static str, text: impl Into<Bytes>) -> Response<Body> {
    let mut response = Response::new(Full::new(text.into()).boxed());
    *response.status_mut() = status;
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
    response
}

/// Serves a command or an exploration, as its path and body request.
async fn serve_post(site: &Arc<Site>, path: &str, request: Request<Incoming>) -> Response<Body> {
    let body = Limited::new(request.into_body(), BODY_OCTETS_MAX).collect();
    let octets = match tokio::time::timeout(REQUEST_TIMEOUT, body).await {
        Ok(Ok(body)) => body.to_bytes(),
        Ok(Err(error)) if error.is::<http_body_util::LengthLimitError>() => {
            return fault(site, StatusCode::PAYLOAD_TOO_LARGE, "the body is too long");
        }
        Ok(Err(_)) => return fault(site, StatusCode::BAD_REQUEST, "the body ended early"),
        Err(_) => {
            Counters::count(&site.counters.slow);
            return fault(site, StatusCode::REQUEST_TIMEOUT, "the body did not come in time");
        }
    };
    let Ok(body) = serde_json::from_slice::<Value>(&octets) else {
        return fault(site, StatusCode::BAD_REQUEST, "the body is not JSON");
    };
    if path == "/api/act" { acted(site, body).await } else { explored(site, &body).await }
}

async fn acted(site: &Arc<Site>, body: Value) -> Response<Body> {
    let (router, action) = match Action::parse(body) {
        Ok(parsed) => parsed,
        Err(why) => return fault(site, StatusCode::BAD_REQUEST, &why),
    };
    let Ok(_permit) = site.actions.try_acquire() else { return busy(site, "commands") };
    let done = on_router(site, router, move |reach| action.carry_out(reach)).await;
    site.feed.ring();
    match done {
        Some(Ok(done)) => {
            Counters::count(&site.counters.actions);
            respond(StatusCode::OK, &json!({"done": done}))
        }
        Some(Err(trouble)) => troubled(&trouble),
        None => fault(site, StatusCode::BAD_REQUEST, "there is no such router"),
    }
}

async fn explored(site: &Arc<Site>, body: &Value) -> Response<Body> {
    let router = body.get("router").and_then(Value::as_u64).and_then(|router| usize::try_from(router).ok());
    let name = body.get("name").and_then(Value::as_str).map(str::to_owned);
    let (Some(router), Some(name)) = (router, name) else {
        return fault(site, StatusCode::BAD_REQUEST, "the body needs a router and a name");
    };
    let Ok(_permit) = site.explorations.try_acquire() else { return busy(site, "explorations") };
    match on_router(site, router, move |reach| explore::explore(reach, &name)).await {
        Some(Ok(found)) => respond(StatusCode::OK, &found),
        Some(Err(trouble)) => troubled(&trouble),
        None => fault(site, StatusCode::BAD_REQUEST, "there is no such router"),
    }
}

/// Runs `work` on a thread that may block. Returns `None` if there is no such router.
async fn on_router<T: Send + 'static>(
    site: &Arc<Site>,
    router: usize,
    work: impl FnOnce(&RouterLink) -> Result<T, RouterError> + Send + 'static,
) -> Option<Result<T, RouterError>> {
    site.reach.get(router)?;
    let site = site.clone();
    let done = tokio::task::spawn_blocking(move || site.reach.get(router).map(work)).await;
    done.unwrap_or_else(|_| Some(Err(RouterError { what: "a fault of the page's own".into(), hint: None })))
}

/// Responds to an error of a router or the network.
fn troubled(trouble: &RouterError) -> Response<Body> {
    respond(StatusCode::BAD_GATEWAY, &json!({"error": trouble.what, "hint": trouble.hint}))
}

/// Responds with the history of the router `router=N` over the last `span=S` seconds, from the
/// Prometheus server.
async fn past(site: &Site, query: Option<&str>) -> Response<Body> {
    let Some(history) = &site.history else {
        return fault(site, StatusCode::NOT_FOUND, "start the dashboard with --prometheus URL");
    };
    let chosen = query.and_then(|query| {
        let (router, span) = query.strip_prefix("router=")?.split_once("&span=")?;
        let router: usize = router.parse().ok()?;
        Some((router, history::span(span)?)).filter(|_| router < site.reach.len())
    });
    let Some((router, span_s)) = chosen else {
        return fault(site, StatusCode::BAD_REQUEST, "there is no such router, or no such span");
    };
    let Some(start_ms) = site.feed.start_ms(router) else {
        return respond(StatusCode::SERVICE_UNAVAILABLE, &json!({"error": "the router is not known yet"}));
    };
    let Ok(_permit) = site.histories.try_acquire() else { return busy(site, "requests for a history") };
    let now_s = namely_host::clock::unix_ns() / 1_000_000_000;
    match history.points(start_ms, span_s, now_s).await {
        Ok(points) => respond(StatusCode::OK, &json!({"points": points})),
        Err(error) => troubled(&RouterError { what: error.to_string(), hint: error.hint() }),
    }
}

fn events(site: &Site, has_token: bool) -> Response<Body> {
    match site.feed.watch(has_token) {
        Some(stream) => streamed(stream),
        None => busy(site, "pages"),
    }
}

/// Streams the names that the router `router=N` receives Interests for, as long as the stream is
/// read.
fn names(site: &Site, query: Option<&str>) -> Response<Body> {
    let router = query.and_then(|query| query.strip_prefix("router=")?.parse().ok());
    match router.filter(|router| *router < site.reach.len()) {
        Some(router) => site.feed.watch_names(router).map_or_else(|| busy(site, "pages"), streamed),
        None => fault(site, StatusCode::BAD_REQUEST, "there is no such router"),
    }
}

fn streamed(stream: Stream) -> Response<Body> {
    // The channel holds one event, so that a page that reads nothing is noticed by the events that
    // it misses.
    let (pieces, queue) = mpsc::channel(1);
    tokio::spawn(pump(stream, pieces));
    let mut response = Response::new(StreamBody::new(BodyStream(queue)).boxed());
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    response
}

async fn pump(mut stream: Stream, pieces: mpsc::Sender<Bytes>) {
    loop {
        let event = tokio::select! {
            event = tokio::time::timeout(BEAT, stream.next()) => event,
            () = pieces.closed() => return,
        };
        let event = match event {
            Ok(Some(event)) => Bytes::copy_from_slice(event.as_bytes()),
            Ok(None) => return,
            Err(_) => Bytes::from_static(b"event: beat\ndata: {}\n\n"),
        };
        if pieces.send(event).await.is_err() {
            return;
        }
    }
}

struct BodyStream(mpsc::Receiver<Bytes>);

impl futures_core::Stream for BodyStream {
    type Item = Result<Frame<Bytes>, Infallible>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.0.poll_recv(context).map(|piece| piece.map(|piece| Ok(Frame::data(piece))))
    }
}
