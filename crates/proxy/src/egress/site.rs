//! A site: its producer fetches a missing resource from the origin and publishes it.

use std::collections::{HashMap, VecDeque};
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use http::{HeaderValue, StatusCode, Uri};
use namely_host::shares::{Owner, Share, SharePool};
use namely_socket::{Producer, PublishError, PublishOptions, Published, Request};
use namely_wire::rdr::METADATA_COMPONENT;
use namely_wire::{NackReason, Name, NameRef};
use tokio::runtime::Handle;

use super::bodies::{Bodies, Spool};
use super::origin::{self, Origin, OriginError};
use super::{Counters, EgressOptions, RESOURCES_MAX};
use crate::ACCESS;
use crate::freshness::{self, Freshness};
use crate::head::Head;
use crate::names;

/// Maximum number of Interests that wait for one resource. The oldest is dropped unanswered.
const WAITING_MAX: usize = 16;

/// The parts that a site works with.
pub(super) struct Parts {
    pub(super) producer: Arc<Producer>,
    pub(super) base: Uri,
    /// The site's host in URLs of clients.
    pub(super) host: HeaderValue,
    pub(super) origin: Origin,
    pub(super) options: EgressOptions,
    pub(super) counters: Arc<Counters>,
    /// The site as an owner in the shared budgets.
    pub(super) holder: Owner,
    pub(super) requests: SharePool,
    pub(super) bodies: Bodies,
}

/// A site that is served. Dropping it stops it.
pub(super) struct Site {
    producer: Arc<Producer>,
    thread: Option<JoinHandle<()>>,
}

/// A request, and the version in its name, if any.
type Waiting = (Request, Option<u64>);

/// State of a site's resources.
#[derive(Default)]
struct Resources(Mutex<ResourceTable>);

#[derive(Default)]
struct ResourceTable {
    versions: Versions,
    /// Requests that wait for a resource, while the origin is being queried for it.
    waiting: HashMap<Name, Vec<Waiting>>,
}

/// Versions of resources. Unchanged content retains its version, so that caches stay valid.
#[derive(Default)]
struct Versions {
    known: HashMap<Name, (u64, blake3::Hash)>,
    order: VecDeque<Name>,
}

impl Site {
    pub(super) fn start(parts: Parts, runtime: Handle) -> io::Result<Self> {
        let producer = parts.producer.clone();
        let parts = Arc::new(parts);
        let resources = Arc::new(Resources::default());
        let thread = std::thread::Builder::new().name("namely-site".into()).spawn(move || {
            // The loop ends when the producer is closed.
            while let Ok(request) = parts.producer.recv() {
                count(&parts.counters.asked, 1);
                take(&parts, &resources, &runtime, request);
            }
        })?;
        Ok(Site { producer, thread: Some(thread) })
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        self.producer.close();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Parses the name of a request: a resource's newest version, or a version that was published and
/// has left the buffer.
fn resource(requested: NameRef<'_>) -> (Name, Option<u64>) {
    let mut name = Name::new();
    for component in requested.components() {
        if component == METADATA_COMPONENT {
            return (name, None);
        }
        if let Some(version) = component.version() {
            return (name, Some(version));
        }
        name.push(component);
    }
    (name, None)
}

fn take(parts: &Arc<Parts>, resources: &Arc<Resources>, runtime: &Handle, request: Request) {
    let (name, version) = resource(request.name());
    let site = parts.producer.local_prefix().len();
    let Some(path) = names::path_and_query(name.components().skip(site)) else {
        return refuse(parts, request, NackReason::NoRoute);
    };
    // A repeated request, while the origin is being queried, waits for the same answer.
    let Some(request) = resources.join(&name, (request, version)) else { return };
    let Ok(share) = parts.requests.take(parts.holder, 1) else {
        return refuse(parts, request.0, NackReason::Congestion);
    };
    resources.wait(&name, request);
    let (parts, resources) = (parts.clone(), resources.clone());
    runtime.spawn(async move {
        count(&parts.counters.requests, 1);
        let begun = Instant::now();
        let fetched = tokio::time::timeout(parts.options.timeout, fetch(&parts, &path)).await;
        let fetched = fetched.unwrap_or(Err(OriginError::TooSlow));
        // Segmenting and signing keep a processor busy, so they run on a blocking thread.
        let _ = tokio::task::spawn_blocking(move || {
            log(&name, &fetched, begun);
            answer(&parts, &resources, &name, fetched);
            drop::<Share>(share);
        })
        .await;
    });
}

/// The content of an object, made from an origin's response.
struct Object {
    status: StatusCode,
    content: Spool,
    body_octets: u64,
    freshness: Duration,
}

/// Queries the origin, and reads its response.
async fn fetch(parts: &Parts, path: &str) -> Result<Object, OriginError> {
    let response = parts.origin.get(&parts.base, &parts.host, path).await?;
    let Freshness::For(freshness) = freshness::of(&response, parts.options.unless_said) else {
        return Err(OriginError::Private);
    };
    let (status, head) = (response.status(), Head::of(&response).encode().map_err(OriginError::Head)?);
    let mut content = parts.bodies.begin(parts.holder)?;
    content.reserve(head.len() as u64)?;
    content.write(&head).map_err(|error| OriginError::Spool(error.kind()))?;
    origin::read(response.into_body(), parts.options.body_octets_max, &mut content).await?;
    let body_octets = content.octets() - head.len() as u64;
    count(&parts.counters.octets, body_octets);
    Ok(Object { status, content, body_octets, freshness })
}

/// Publishes the origin's response or an error page, and refuses waiting requests for another
/// version.
fn answer(parts: &Parts, resources: &Resources, name: &Name, fetched: Result<Object, OriginError>) {
    let mut full = false;
    let current = match fetched {
        Ok(mut object) => {
            let version = resources.version_of(name, object.content.digest());
            publish(parts, name, version, &mut object.content, object.freshness).then_some(version)
        }
        // There may be room soon. Nothing is published, so that a later request is served.
        Err(OriginError::Full) => {
            count(&parts.counters.bodies_full, 1);
            full = true;
            None
        }
        Err(error) => apologise(parts, resources, name, &error),
    };
    let reason = if full { NackReason::Congestion } else { NackReason::NoRoute };
    for (request, version) in resources.waiting(name) {
        if current.is_none() || version.is_some_and(|wanted| Some(wanted) != current) {
            refuse(parts, request, reason);
        }
    }
}

/// Publishes `content`, and returns true on success.
fn publish(parts: &Parts, name: &Name, version: u64, content: &mut Spool, freshness: Duration) -> bool {
    let octets = content.octets();
    let published = match content.reader() {
        Ok(reader) => parts.producer.publish_from(name, reader, octets, &how(version, freshness)),
        Err(error) => {
            tracing::warn!(%name, %error, "a response that was kept cannot be read");
            return false;
        }
    };
    published_as(parts, name, published)
}

/// Publishes an error page in place of a response. It answers the waiting requests and no later
/// ones. Returns its version.
fn apologise(parts: &Parts, resources: &Resources, name: &Name, why: &OriginError) -> Option<u64> {
    count(&parts.counters.unusable, 1);
    let mut content = Head::text(StatusCode::BAD_GATEWAY).encode().unwrap_or_default();
    content.extend_from_slice(format!("{why}\n").as_bytes());
    let version = resources.version_of(name, blake3::hash(&content));
    let published = parts.producer.publish(name, &content, &how(version, Duration::ZERO));
    published_as(parts, name, published).then_some(version)
}

fn how(version: u64, freshness: Duration) -> PublishOptions {
    PublishOptions { version: Some(version), expires: Some(freshness), ..PublishOptions::default() }
}

fn published_as(parts: &Parts, name: &Name, published: Result<Published, PublishError>) -> bool {
    match published {
        Ok(_) => {
            count(&parts.counters.published, 1);
            true
        }
        Err(error) => {
            tracing::warn!(%name, %error, "cannot publish a response");
            false
        }
    }
}

/// Logs the outcome of a request to an origin, on one line.
fn log(name: &Name, fetched: &Result<Object, OriginError>, begun: Instant) {
    let ms = begun.elapsed().as_millis();
    match fetched {
        Ok(Object { status, body_octets, freshness, .. }) => {
            let fresh_s = freshness.as_secs();
            tracing::info!(target: ACCESS, "{name} {} {body_octets} octets, {ms} ms, fresh for {fresh_s} s", status.as_u16());
        }
        Err(error) => tracing::info!(target: ACCESS, "{name} - {error}, {ms} ms"),
    }
}

fn refuse(parts: &Parts, request: Request, reason: NackReason) {
    count(&parts.counters.refused, 1);
    if let Err(error) = parts.producer.refuse(request, reason) {
        tracing::debug!(%error, "cannot refuse a request");
    }
}

impl Resources {
    fn state(&self) -> MutexGuard<'_, ResourceTable> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Appends `request` to those that wait for `name`; if there are none, returns it.
    fn join(&self, name: &Name, request: Waiting) -> Option<Waiting> {
        match self.state().waiting.get_mut(name) {
            Some(waiting) => {
                if waiting.len() == WAITING_MAX {
                    waiting.remove(0);
                }
                waiting.push(request);
                None
            }
            None => Some(request),
        }
    }

    /// Registers `request` as the first that waits for `name`.
    fn wait(&self, name: &Name, request: Waiting) {
        self.state().waiting.insert(name.clone(), vec![request]);
    }

    /// Removes and returns the requests that wait for `name`.
    fn waiting(&self, name: &Name) -> Vec<Waiting> {
        self.state().waiting.remove(name).unwrap_or_default()
    }

    /// Returns the version of the content with this digest: its last one if the content is
    /// unchanged, otherwise a new one that is later than all before.
    fn version_of(&self, name: &Name, digest: blake3::Hash) -> u64 {
        let versions = &mut self.state().versions;
        let last = match versions.known.get(name) {
            Some((version, seen)) if *seen == digest => return *version,
            Some((version, _)) => *version,
            None => 0,
        };
        let now = namely_host::clock::unix_ns() / 1_000;
        let version = now.max(last + 1);
        if versions.known.insert(name.clone(), (version, digest)).is_none() {
            versions.order.push_back(name.clone());
        }
        if versions.order.len() > RESOURCES_MAX
            && let Some(oldest) = versions.order.pop_front()
        {
            versions.known.remove(&oldest);
        }
        version
    }
}

fn count(counter: &AtomicU64, n: u64) {
    counter.fetch_add(n, Ordering::Relaxed);
}

#[cfg(test)]
mod tests {
    use namely_testkit::name;

    use super::*;

    #[test]
    fn a_request_names_a_resource_or_version() {
        for (requested, resource_name, version) in [
            ("/http/h/a/32=metadata", "/http/h/a", None),
            ("/http/h/a/v=7/seg=3", "/http/h/a", Some(7)),
            ("/http/h/a/v=7/32=manifest/seg=0", "/http/h/a", Some(7)),
            ("/http/h/a", "/http/h/a", None),
        ] {
            assert_eq!(resource(name(requested).as_name()), (name(resource_name), version), "{requested}");
        }
    }

    #[test]
    fn unchanged_content_keeps_its_version() {
        let resources = Resources::default();
        let version_of = |content: &[u8]| resources.version_of(&name("/a"), blake3::hash(content));
        let first = version_of(b"one");
        assert_eq!(version_of(b"one"), first);
        let second = version_of(b"two");
        assert!(second > first);
        assert_eq!(version_of(b"two"), second);
    }

    #[test]
    fn the_oldest_site_version_is_forgotten() {
        let resources = Resources::default();
        for number in 0..=RESOURCES_MAX {
            resources.version_of(&name("/a").join_segment(number as u64), blake3::hash(b""));
        }
        let versions = resources.0.into_inner().unwrap().versions;
        assert_eq!((versions.known.len(), versions.order.len()), (RESOURCES_MAX, RESOURCES_MAX));
        assert!(!versions.known.contains_key(&name("/a").join_segment(0)));
        assert!(versions.known.contains_key(&name("/a").join_segment(1)));
    }
}
