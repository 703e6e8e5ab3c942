//! A site: what its producer is asked for and does not have is fetched from the origin and
//! published.

use std::collections::{HashMap, VecDeque};
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderValue, Response, StatusCode, Uri};
use namely_socket::{Producer, PublishOptions, Request};
use namely_wire::rdr::METADATA_COMPONENT;
use namely_wire::{NackReason, Name, NameRef};
use tokio::runtime::Handle;
use tokio::sync::Semaphore;

use super::origin::Origin;
use super::{Counters, EgressOptions, RESOURCES_MAX};
use crate::freshness::{self, Freshness};
use crate::head::Head;
use crate::names;

/// Interests that wait for one resource; the oldest is answered no more.
const WAITING_MAX: usize = 16;

/// What a site works with.
pub(super) struct Parts {
    pub(super) producer: Arc<Producer>,
    pub(super) base: Uri,
    /// The site's own host, as clients know it.
    pub(super) host: HeaderValue,
    pub(super) origin: Origin,
    pub(super) options: EgressOptions,
    pub(super) counters: Arc<Counters>,
    pub(super) places: Arc<Semaphore>,
}

/// A site that is served. Dropping it ends it.
pub(super) struct Site {
    producer: Arc<Producer>,
    thread: Option<JoinHandle<()>>,
}

/// A request, and the version that it is for if it names one.
type Waiting = (Request, Option<u64>);

/// What is known of a site's resources.
#[derive(Default)]
struct Resources(Mutex<ResourceTable>);

#[derive(Default)]
struct ResourceTable {
    versions: Versions,
    /// Who waits for a resource that the origin is being asked for.
    waiting: HashMap<Name, Vec<Waiting>>,
}

/// The versions that resources have: the same content keeps its version, so that caches stay right.
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
            // Ends when the producer is closed.
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

/// What a request is for: a resource's newest version, or a version that was published and has left
/// the buffer.
fn resource(asked: NameRef<'_>) -> (Name, Option<u64>) {
    let mut name = Name::new();
    for component in asked.components() {
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
    // Who asks again while the origin is still being asked gets the same answer.
    let Some(request) = resources.join(&name, (request, version)) else { return };
    let Ok(place) = parts.places.clone().try_acquire_owned() else {
        return refuse(parts, request.0, NackReason::Congestion);
    };
    resources.wait(&name, request);
    let (parts, resources) = (parts.clone(), resources.clone());
    runtime.spawn(async move {
        count(&parts.counters.requests, 1);
        let answered = parts.origin.get(&parts.base, &parts.host, &path).await;
        // Cutting and signing takes a processor for a while.
        let _ = tokio::task::spawn_blocking(move || {
            let (content, freshness) = match answered {
                Ok(response) => object(&parts, response),
                Err(error) => apology(&parts, StatusCode::BAD_GATEWAY, &error.to_string()),
            };
            let current = resources.version_of(&name, &content);
            let published = publish(&parts, &name, current, &content, freshness);
            for (request, version) in resources.waiting(&name) {
                if !published || version.is_some_and(|wanted| wanted != current) {
                    refuse(&parts, request, NackReason::NoRoute);
                }
            }
            drop(place);
        })
        .await;
    });
}

/// The content of the object for an origin's response.
fn object(parts: &Parts, response: Response<Bytes>) -> (Vec<u8>, Duration) {
    count(&parts.counters.octets, response.body().len() as u64);
    let Freshness::For(freshness) = freshness::of(&response, parts.options.unless_said) else {
        return apology(parts, StatusCode::BAD_GATEWAY, "the origin says that this is for one client only");
    };
    match Head::of(&response).encode() {
        Ok(mut content) => {
            content.extend_from_slice(response.body());
            (content, freshness)
        }
        Err(error) => apology(parts, StatusCode::BAD_GATEWAY, &error.to_string()),
    }
}

/// What is published in place of a response that there is not: it answers those who wait, and
/// nobody later.
fn apology(parts: &Parts, status: StatusCode, why: &str) -> (Vec<u8>, Duration) {
    count(&parts.counters.unusable, 1);
    let mut content = Head::text(status).encode().unwrap_or_default();
    content.extend_from_slice(why.as_bytes());
    content.push(b'\n');
    (content, Duration::ZERO)
}

/// Returns true if it was published.
fn publish(parts: &Parts, name: &Name, version: u64, content: &[u8], freshness: Duration) -> bool {
    let how =
        PublishOptions { version: Some(version), expires: Some(freshness), ..PublishOptions::default() };
    match parts.producer.publish(name, content, &how) {
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

    /// Lets `request` wait with others for `name`; if there are none, it is given back.
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

    /// `request` is the first that waits for `name`.
    fn wait(&self, name: &Name, request: Waiting) {
        self.state().waiting.insert(name.clone(), vec![request]);
    }

    /// Those who wait for `name`; from now on nobody does.
    fn waiting(&self, name: &Name) -> Vec<Waiting> {
        self.state().waiting.remove(name).unwrap_or_default()
    }

    /// The version of `content`: the one it had when it was seen last, or a new one, later than all
    /// before.
    fn version_of(&self, name: &Name, content: &[u8]) -> u64 {
        let digest = blake3::hash(content);
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
    use super::*;

    fn name(text: &str) -> Name {
        text.parse().unwrap()
    }

    #[test]
    fn what_is_asked_for_is_a_resource_or_one_of_its_versions() {
        for (asked, resource_name, version) in [
            ("/http/h/a/32=metadata", "/http/h/a", None),
            ("/http/h/a/v=7/seg=3", "/http/h/a", Some(7)),
            ("/http/h/a/v=7/32=manifest/seg=0", "/http/h/a", Some(7)),
            ("/http/h/a", "/http/h/a", None),
        ] {
            assert_eq!(resource(name(asked).as_name()), (name(resource_name), version), "{asked}");
        }
    }

    #[test]
    fn the_same_content_keeps_its_version_and_another_gets_a_later_one() {
        let resources = Resources::default();
        let version_of = |content| resources.version_of(&name("/a"), content);
        let first = version_of(b"one");
        assert_eq!(version_of(b"one"), first);
        let second = version_of(b"two");
        assert!(second > first);
        assert_eq!(version_of(b"two"), second);
    }

    #[test]
    fn versions_are_remembered_up_to_the_limit_and_the_oldest_goes() {
        let resources = Resources::default();
        for number in 0..=RESOURCES_MAX {
            resources.version_of(&name("/a").join_segment(number as u64), b"");
        }
        let versions = resources.0.into_inner().unwrap().versions;
        assert_eq!((versions.known.len(), versions.order.len()), (RESOURCES_MAX, RESOURCES_MAX));
        assert!(!versions.known.contains_key(&name("/a").join_segment(0)));
        assert!(versions.known.contains_key(&name("/a").join_segment(1)));
    }
}
