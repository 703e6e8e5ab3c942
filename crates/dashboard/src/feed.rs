//! The last known state of the routers, and the streams that receive its changes.
//!
//! A page receives the whole state first and then only changes: the sections whose value differs,
//! and the faces that differ. A page that does not keep up receives the whole state again in place
//! of the changes it missed. This bounds the events that wait for it.

use std::collections::BTreeMap;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use namely_wire::text;
use serde_json::{Map, Value, json};
use tokio::sync::broadcast;

use crate::Counters;

/// Pages of a dashboard that receive a stream at once.
///
/// # Limit
/// A further stream is refused with 503.
/// - Counter: `refused_busy`
/// - Tests: `an_excess_page_gets_503`, `page_streams_have_a_limit`
pub const STREAMS_MAX: usize = 16;

/// Streams of a dashboard that are reserved for holders of the token.
///
/// # Limit
/// A further stream without the token is refused with 503.
/// - Counter: `refused_busy`
/// - Tests: `some_streams_are_reserved_for_the_token`,
///   `tokenless_programs_do_not_block_operators`
pub const STREAMS_FOR_TOKEN: usize = 4;

const _: () = assert!(STREAMS_FOR_TOKEN < STREAMS_MAX);

/// Events of names that wait for a page that does not read.
///
/// # Limit
/// The oldest event is dropped.
/// - Tests: `late_listeners_receive_the_newest_names`
const NAMES_WAITING_MAX: usize = 2;

/// Changes that wait for a page of a dashboard.
///
/// # Limit
/// The page receives the whole state instead.
/// - Counter: `lagged`
/// - Tests: `a_lagging_page_receives_full_state`
pub const CHANGES_WAITING_MAX: usize = 16;

/// The last known state of a router.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct RouterSnapshot {
    /// The sections by name, which the page knows.
    pub(crate) sections: BTreeMap<&'static str, Value>,
    pub(crate) faces: BTreeMap<u64, Value>,
}

#[derive(Debug)]
pub(crate) struct Feed {
    inner: Mutex<Inner>,
    /// Notified when the first page begins to watch, when a router was changed, and at the end.
    bell: Condvar,
    changes: broadcast::Sender<Arc<str>>,
    /// For each router, the names of its current requests. A receiver exists while a page requests
    /// them.
    names: Vec<broadcast::Sender<Arc<str>>>,
    counters: Arc<Counters>,
}

#[derive(Debug)]
struct Inner {
    routers: Vec<RouterSnapshot>,
    streams: usize,
    /// Those among them without the token.
    streams_without_token: usize,
    /// Counts the events that make a poll due before its time.
    rings: u64,
    is_stopped: bool,
}

/// A page's subscription to changes. Dropping it frees its slot.
#[derive(Debug)]
pub(crate) struct Stream {
    feed: Arc<Feed>,
    changes: broadcast::Receiver<Arc<str>>,
    /// The whole state, if that is the next event.
    whole: Option<Arc<str>>,
    /// Whether it is a stream of names, each event of which is complete.
    is_of_names: bool,
    has_token: bool,
}

impl Feed {
    pub(crate) fn new(routers: usize, counters: Arc<Counters>) -> Arc<Self> {
        let (names, routers) = (routers, vec![RouterSnapshot::default(); routers]);
        Arc::new(Feed {
            inner: Mutex::new(Inner {
                routers,
                streams: 0,
                streams_without_token: 0,
                rings: 0,
                is_stopped: false,
            }),
            bell: Condvar::new(),
            changes: broadcast::Sender::new(CHANGES_WAITING_MAX),
            names: (0..names).map(|_| broadcast::Sender::new(NAMES_WAITING_MAX)).collect(),
            counters,
        })
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Subscribes to changes, with or without the token. Returns `None` if no stream is free.
    pub(crate) fn watch(self: &Arc<Self>, has_token: bool) -> Option<Stream> {
        let inner = self.enter(has_token)?;
        let (changes, whole) = (self.changes.subscribe(), Some(inner.whole()));
        Some(Stream { feed: self.clone(), changes, whole, is_of_names: false, has_token })
    }

    /// Subscribes to the names that a router receives Interests for; the router is polled for them
    /// while such a stream exists. Returns `None` if no stream is free or the router does not
    /// exist. The stream is for a holder of the token.
    pub(crate) fn watch_names(self: &Arc<Self>, router: usize) -> Option<Stream> {
        let names = self.names.get(router)?;
        let _inner = self.enter(true)?;
        Some(Stream {
            feed: self.clone(),
            changes: names.subscribe(),
            whole: None,
            is_of_names: true,
            has_token: true,
        })
    }

    /// Reserves a slot for one more stream.
    fn enter(&self, has_token: bool) -> Option<MutexGuard<'_, Inner>> {
        let mut inner = self.inner();
        let is_open = has_token || inner.streams_without_token < STREAMS_MAX - STREAMS_FOR_TOKEN;
        if inner.streams >= STREAMS_MAX || !is_open {
            return None;
        }
        inner.streams += 1;
        inner.streams_without_token += usize::from(!has_token);
        inner.rings += 1;
        self.bell.notify_all();
        Some(inner)
    }

    /// Returns true if a stream of the names of a router exists.
    pub(crate) fn wants_names(&self, router: usize) -> bool {
        self.names.get(router).is_some_and(|names| names.receiver_count() > 0)
    }

    /// Publishes the names that a router receives Interests for, or the reason why they are
    /// unknown.
    pub(crate) fn publish_names(&self, router: usize, names: &Value) {
        // The last receiver may be gone.
        let _ = self.names.get(router).map(|to| to.send(event("names", names)));
    }

    /// Makes the routers due for a poll at once.
    pub(crate) fn ring(&self) {
        self.inner().rings += 1;
        self.bell.notify_all();
    }

    pub(crate) fn stop(&self) {
        self.inner().is_stopped = true;
        self.bell.notify_all();
    }

    /// The start time of a router, ms since the Unix epoch, if it is known.
    pub(crate) fn start_ms(&self, router: usize) -> Option<u64> {
        let inner = self.inner();
        inner.routers.get(router)?.sections.get("router")?.get("start_ms")?.as_u64()
    }

    pub(crate) fn looked(&self) {
        Counters::count(&self.counters.looks);
    }

    /// Waits for `interval` or until notified, and in any case until a page watches. Returns `None`
    /// when the feed ends. Otherwise returns true if there was no page meanwhile: then the known
    /// state is old.
    pub(crate) fn pause(&self, interval: Duration) -> Option<bool> {
        let mut inner = self.inner();
        let (rings, due) = (inner.rings, Instant::now() + interval);
        let mut was_alone = false;
        loop {
            if inner.is_stopped {
                return None;
            }
            was_alone |= inner.streams == 0;
            let left = due.saturating_duration_since(Instant::now());
            if inner.streams > 0 && (was_alone || left.is_zero() || inner.rings != rings) {
                return Some(was_alone);
            }
            inner = if inner.streams == 0 {
                self.bell.wait(inner).unwrap_or_else(PoisonError::into_inner)
            } else {
                self.bell.wait_timeout(inner, left).unwrap_or_else(PoisonError::into_inner).0
            };
        }
    }

    /// Stores the state of a router and publishes the changes.
    pub(crate) fn found(&self, router: usize, look: RouterSnapshot) {
        let mut inner = self.inner();
        let Some(known) = inner.routers.get_mut(router) else { return };
        let change = known.change_to(&look);
        *known = look;
        self.publish_change(router, change);
    }

    /// Stores one section of a router and leaves the rest unchanged.
    pub(crate) fn store_section(&self, router: usize, name: &'static str, section: Value) {
        let mut inner = self.inner();
        let Some(known) = inner.routers.get_mut(router) else { return };
        let mut look = known.clone();
        look.sections.insert(name, section);
        let change = known.change_to(&look);
        *known = look;
        self.publish_change(router, change);
    }

    /// Called under the lock, so that no change is lost between a stream's whole state and its
    /// first event.
    fn publish_change(&self, router: usize, change: Option<Value>) {
        let Some(Value::Object(mut change)) = change else { return };
        change.insert("router".into(), router.into());
        // The last receiver may be gone.
        _ = self.changes.send(event("change", &Value::Object(change)));
    }
}

impl Inner {
    fn whole(&self) -> Arc<str> {
        let routers: Vec<Value> =
            self.routers.iter().map(|look| json!({"sections": look.sections, "faces": look.faces})).collect();
        event("state", &json!({"routers": routers}))
    }
}

impl RouterSnapshot {
    /// The difference from this one to `next`; `None` if they are equal.
    fn change_to(&self, next: &RouterSnapshot) -> Option<Value> {
        let is_new = |(name, section): &(&&'static str, &Value)| self.sections.get(*name) != Some(section);
        let sections: Map<String, Value> = next
            .sections
            .iter()
            .filter(is_new)
            .map(|(name, section)| ((*name).to_owned(), section.clone()))
            .collect();
        let faces: Map<String, Value> = next
            .faces
            .iter()
            .filter(|(id, face)| self.faces.get(id) != Some(face))
            .map(|(id, face)| (id.to_string(), face.clone()))
            .collect();
        let gone: Vec<u64> = self.faces.keys().filter(|id| !next.faces.contains_key(id)).copied().collect();
        if sections.is_empty() && faces.is_empty() && gone.is_empty() {
            return None;
        }
        Some(json!({"sections": sections, "faces": faces, "gone": gone}))
    }
}

/// An event as the page reads it (HTML, 9.2.5). JSON has no line ends of its own.
fn event(name: &str, data: &Value) -> Arc<str> {
    let data = text::json_of_page(data.to_string());
    format!("event: {name}\ndata: {data}\n\n").into()
}

impl Stream {
    /// The next event, when there is one.
    pub(crate) async fn next(&mut self) -> Option<Arc<str>> {
        if let Some(whole) = self.whole.take() {
            return Some(whole);
        }
        let mut change = self.changes.recv().await;
        while self.is_of_names && matches!(change, Err(broadcast::error::RecvError::Lagged(_))) {
            change = self.changes.recv().await;
        }
        match change {
            Ok(change) => Some(change),
            Err(broadcast::error::RecvError::Lagged(_)) => {
                Counters::count(&self.feed.counters.lagged);
                let inner = self.feed.inner();
                self.changes = self.feed.changes.subscribe();
                Some(inner.whole())
            }
            Err(broadcast::error::RecvError::Closed) => None,
        }
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        let mut inner = self.feed.inner();
        inner.streams -= 1;
        inner.streams_without_token -= usize::from(!self.has_token);
        // A page that connects later must not see an old state.
        if inner.streams == 0 {
            inner.routers.iter_mut().for_each(|look| *look = RouterSnapshot::default());
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::Ordering;

    use super::*;

    fn feed() -> Arc<Feed> {
        Feed::new(1, Arc::default())
    }

    fn look(section: u64, faces: &[(u64, u64)]) -> RouterSnapshot {
        RouterSnapshot {
            sections: [("a", section.into()), ("b", 0.into())].into(),
            faces: faces.iter().map(|&(id, n)| (id, n.into())).collect(),
        }
    }

    fn next(stream: &mut Stream) -> (String, Value) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let event = runtime.block_on(stream.next()).unwrap();
        let (name, data) = event.trim_end().split_once('\n').unwrap();
        let data = serde_json::from_str(data.strip_prefix("data: ").unwrap()).unwrap();
        (name.strip_prefix("event: ").unwrap().to_owned(), data)
    }

    #[test]
    fn pages_receive_escaped_text() {
        let feed = feed();
        let mut names = feed.watch_names(0).unwrap();
        feed.publish_names(0, &json!({ "said": "a\u{202e}b\u{9b}c\\u{1}" }));
        let (_, data) = next(&mut names);
        assert_eq!(data["said"], "a\\u{202e}b\\u{9b}c\\u{1}");
    }

    #[test]
    fn a_page_receives_state_then_changes() {
        let feed = feed();
        let mut stream = feed.watch(true).unwrap();
        feed.found(0, look(1, &[(1, 1), (2, 1)]));
        feed.found(0, look(1, &[(1, 1), (2, 1)]));
        feed.found(0, look(2, &[(1, 5), (3, 1)]));
        assert_eq!(next(&mut stream), ("state".into(), json!({"routers": [{"sections": {}, "faces": {}}]})));
        let all = json!({"router": 0, "sections": {"a": 1, "b": 0}, "faces": {"1": 1, "2": 1}, "gone": []});
        assert_eq!(next(&mut stream), ("change".into(), all));
        let some = json!({"router": 0, "sections": {"a": 2}, "faces": {"1": 5, "3": 1}, "gone": [2]});
        assert_eq!(next(&mut stream), ("change".into(), some), "and nothing of what was the same");
        let mut later = feed.watch(true).unwrap();
        let (name, data) = next(&mut later);
        assert_eq!((name.as_str(), &data["routers"][0]["faces"]), ("state", &json!({"1": 5, "3": 1})));
    }

    #[test]
    fn a_lagging_page_receives_full_state() {
        for (changes, lagged) in [(CHANGES_WAITING_MAX, 0), (CHANGES_WAITING_MAX + 1, 1)] {
            let feed = feed();
            let mut stream = feed.watch(true).unwrap();
            next(&mut stream);
            (1..=changes as u64).for_each(|n| feed.found(0, look(n, &[])));
            let (name, data) = next(&mut stream);
            assert_eq!(name, if lagged == 0 { "change" } else { "state" });
            if lagged > 0 {
                assert_eq!(data["routers"][0]["sections"]["a"], changes as u64);
            }
            assert_eq!(feed.counters.lagged.load(Ordering::Relaxed), lagged);
        }
    }

    #[test]
    fn some_streams_are_reserved_for_the_token() {
        let feed = feed();
        let others = STREAMS_MAX - STREAMS_FOR_TOKEN;
        let mut without: Vec<_> = (0..others).map(|_| feed.watch(false).unwrap()).collect();
        assert!(feed.watch(false).is_none());
        let _with: Vec<_> = (0..STREAMS_FOR_TOKEN).map(|_| feed.watch(true).unwrap()).collect();
        assert!(feed.watch(true).is_none());
        without.pop();
        assert!(feed.watch(false).is_some());
    }

    #[test]
    fn page_streams_have_a_limit() {
        let feed = feed();
        let mut all: Vec<_> = (0..STREAMS_MAX).map(|_| feed.watch(true).unwrap()).collect();
        assert!(feed.watch(true).is_none());
        all.pop();
        assert!(feed.watch(true).is_some());
    }

    #[test]
    fn late_listeners_receive_the_newest_names() {
        let feed = feed();
        let page = feed.watch(true).unwrap();
        assert!(!feed.wants_names(0) && feed.watch_names(1).is_none());
        let mut names = feed.watch_names(0).unwrap();
        assert!(feed.wants_names(0) && !feed.wants_names(1));
        let sent = NAMES_WAITING_MAX as u64 + 1;
        (1..=sent).for_each(|n| feed.publish_names(0, &json!({ "n": n })));
        assert_eq!(next(&mut names), ("names".into(), json!({"n": sent + 1 - NAMES_WAITING_MAX as u64})));
        drop(names);
        assert!(!feed.wants_names(0));
        // Each occupies a slot of a stream.
        let all: Vec<_> = (1..STREAMS_MAX).map(|_| feed.watch_names(0).unwrap()).collect();
        assert!(feed.watch_names(0).is_none() && feed.watch(true).is_none());
        drop((all, page));
        assert!(feed.watch(true).is_some());
    }

    #[test]
    fn unwatched_routers_are_not_polled() {
        let feed = feed();
        let looker = feed.clone();
        let waits = std::thread::spawn(move || looker.pause(Duration::ZERO));
        let stream = feed.watch(true).unwrap();
        assert!(waits.join().unwrap().is_some());
        feed.found(0, look(1, &[]));
        drop(stream);
        assert_eq!(next(&mut feed.watch(true).unwrap()).1["routers"][0]["sections"], json!({}), "it is old");
        feed.stop();
        assert_eq!(feed.pause(Duration::ZERO), None);
    }
}
