//! Producer sockets: they publish below their prefix, and answer Interests from published packets
//! (HT-21, HT-25). Other Interests reach the application, which replies (HT-22).

mod announcing;
mod fetcher;
mod jobs;
mod misses;
mod push;
mod push_interest;
mod request;
mod role;
mod shared;
mod writer;

use std::io::Read;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Poll;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use namely_security::{Certificate, Signer, sign_data};
use namely_transport::connection::{self, Connection};
use namely_transport::publish;
use namely_wire::rdr::discovery_name;
use namely_wire::{
    ContentType, DataBuilder, DataView, InterestBuilder, InterestView, NackReason, Name, PACKET_OCTETS_MAX,
};

pub use self::push::{PushError, PushOptions, Pushed, Receipt};
pub use self::request::{Request, Requests};
use self::role::ProducerRole;
pub use self::shared::ProducerStats;
use self::shared::{Queue, Shared};
use self::writer::Writer;
use crate::buffer::{Buffer, BufferedPacket, Packet};
use crate::engine::Engine;
use crate::error::{BindError, CallError, PublishError};
use crate::namespace;
use crate::options::{self, For, OptionError, ProducerOptions, PublishOptions};
use crate::session::{self, Lease, Session};
use crate::sleep;
use namely_host::clock::{since_epoch, unix_ms};
use namely_store::Store;

/// FreshnessPeriod of the signed statement that a name does not exist, ms.
const DENIAL_FRESHNESS_MS: u64 = 1_000;

/// A socket that publishes. Several threads may use it at once; dropping it closes it.
pub struct Producer {
    prefix: Name,
    router: String,
    options: Mutex<ProducerOptions>,
    session: Arc<Session>,
    shared: Arc<Shared>,
    last_version: AtomicU64,
    engine: Engine<role::ProducerRole>,
    fetcher: Mutex<Option<JoinHandle<()>>>,
    /// The namespace, until the socket is closed.
    lease: Mutex<Option<Lease>>,
}

/// A published object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Published {
    /// Its name with the version.
    pub name: Name,
    /// Number of its segments.
    pub segments: u64,
}

impl Producer {
    /// Creates a socket that may publish below `prefix`. The prefix is registered with the router
    /// until the socket is closed (HT-06, IS-22), and must not overlap that of another producer of
    /// this process. With option `store` the socket also serves the publications that are in the
    /// store.
    ///
    /// # Errors
    /// The prefix is not allowed, the key or the store cannot be used, or the router refuses: see
    /// [`BindError`].
    pub fn bind(prefix: Name, options: ProducerOptions) -> Result<Self, BindError> {
        namespace::check_prefix(&prefix)?;
        let signer = session::command_signer(&prefix, &options);
        let trust_router_of = options.trust_router_of.clone();
        let how = connection::Options { signer, trust_router_of, ..connection::Options::for_server() };
        let mut connection = Connection::find(options.router.as_deref(), how)?;
        let lease = Lease::take(connection.uri(), &prefix, options.buffer_octets)?;
        let mut buffer = Buffer::new(options.buffer_octets, options.buffer_policy);
        let store = match (&options.store, options.reliable) {
            (Some(folder), _) => {
                let now_ms = unix_ms();
                let ns = |expires_ms: u64| expires_ms.saturating_sub(now_ms).saturating_mul(1_000_000);
                Some(Store::open(folder, options.store_octets, &mut |name, at, expires_ms| {
                    // The buffer's clock starts at 0 now, so this is the time left.
                    buffer.insert_stored(name, at, (expires_ms > 0).then(|| ns(expires_ms)));
                })?)
            }
            (None, true) => return Err(BindError::NoStore),
            (None, false) => None,
        };
        let kept = options.store.as_deref().filter(|_| options.reliable);
        let session = Arc::new(Session::open(&prefix, &options, kept)?);
        let router = connection.uri().to_string();
        let (jobs, receiver) = jobs::Jobs::new();
        let shared = Shared::new(prefix.clone(), &options, buffer, store, connection.waker(), jobs)?;
        let shared = Arc::new(shared);
        shared.fix(&session.certificates());
        if options.announce {
            match session.identity_signer() {
                Some(identity) => shared.announcing.start(&prefix, identity),
                None => tracing::warn!(%prefix, "no identity signs: no router would trust an announcement"),
            }
        }
        shared.follow_path(&connection);
        let registered = role::register(&mut connection, &prefix, &shared)?;
        let role = ProducerRole::new(registered, shared.clone());
        let engine = Engine::start("namely-producer", connection, role)?;
        let (its_shared, its_session) = (shared.clone(), session.clone());
        let fetcher = std::thread::Builder::new()
            .name("namely-fetcher".into())
            .spawn(move || fetcher::run(&receiver, &its_shared, &its_session))
            .inspect_err(|_| engine.close())?;
        Ok(Producer {
            prefix,
            router,
            options: Mutex::new(options),
            session,
            shared,
            last_version: AtomicU64::new(0),
            engine,
            fetcher: Mutex::new(Some(fetcher)),
            lease: Mutex::new(Some(lease)),
        })
    }

    /// Publishes `content` as `name`: segments, hashes and signs it on the caller's thread, and
    /// answers waiting Interests. The packets are then served without the application. A published
    /// version never changes: publishing it again is refused if the content differs, and renews it
    /// if the content is the same.
    ///
    /// # Errors
    /// The name is not allowed, the key or the store cannot be used, or the version exists already:
    /// see [`PublishError`].
    pub fn publish(
        &self,
        name: &Name,
        content: &[u8],
        how: &PublishOptions,
    ) -> Result<Published, PublishError> {
        self.publish_packets(name, &mut &*content, how).map(|(published, _)| published)
    }

    /// [`Producer::publish`], with the `octets` octets of `reader` as content. Memory for a few
    /// hundred thousand octets is used besides the output buffer.
    ///
    /// # Errors
    /// As [`Producer::publish`]; also if `reader` fails or ends early.
    pub fn publish_from(
        &self,
        name: &Name,
        reader: impl Read,
        octets: u64,
        how: &PublishOptions,
    ) -> Result<Published, PublishError> {
        let mut content = publish::ReadContent::new(reader, octets);
        self.publish_packets(name, &mut content, how).map(|(published, _)| published)
    }

    /// [`Producer::publish`] that also returns the object's metadata packet.
    fn publish_packets(
        &self,
        name: &Name,
        content: &mut dyn publish::Content,
        how: &PublishOptions,
    ) -> Result<(Published, Packet), PublishError> {
        self.check_usable()?;
        namespace::check_name(&self.prefix, name.as_name())?;
        let (made, signer) = self.packaging(how)?;
        let version = how.version.unwrap_or_else(|| self.next_version());
        let object = name.join_version(version);
        let renews = how.version.is_some() && self.shared.state().buffer.has_below(object.as_name());
        let mut writer = Writer::new(&self.shared, true);
        let mut metadata = Packet::default();
        let sink = &mut |name: Name, wire: Vec<u8>| {
            if renews && self.is_there(&object, &name, &wire)? {
                return Ok(());
            }
            let packet = Packet::new(wire);
            metadata = packet.clone();
            writer.take(name, packet).map_err(PublishError::from)
        };
        let published = publish::publish(name.as_name(), version, content, &made, &signer, sink);
        match published
            .and_then(|published| writer.finish(how.expires).map(|()| published).map_err(Into::into))
        {
            Ok(published) => {
                // An earlier denial of this object is outdated.
                self.shared.state().buffer.remove(discovery_name(name.as_name()).as_bytes());
                Ok((Published { name: published.object, segments: published.segments }, metadata))
            }
            Err(error) => {
                writer.undo();
                Err(error)
            }
        }
    }

    /// Returns true if the segment `name` of a version that is published again exists with the same
    /// content. Returns an error if it differs.
    fn is_there(&self, object: &Name, name: &Name, wire: &[u8]) -> Result<bool, PublishError> {
        if name.len() != object.len() + 1 || !object.is_prefix_of(name.as_name()) {
            return Ok(false);
        }
        let interest = InterestBuilder::new(name.clone()).build();
        let found = InterestView::parse(&interest)
            .ok()
            .and_then(|interest| self.shared.state().buffer.find(&interest, 0));
        let old = match found {
            Some(BufferedPacket::Memory(old)) => old,
            Some(BufferedPacket::Disk(location)) => {
                let stored = self.shared.store().as_ref().and_then(|store| store.reader(location));
                match stored.and_then(|stored| stored.read().ok().flatten()) {
                    Some(old) => Packet::new(old),
                    None => return Ok(false),
                }
            }
            None => return Ok(false),
        };
        let content = |wire: &[u8]| DataView::parse(wire).map(|data| data.content.to_vec());
        if content(&old) == content(wire) { Ok(true) } else { Err(PublishError::Exists(object.clone())) }
    }

    /// Returns the options and the signer of packets. Fields of `how` that are `None` have the
    /// values of the socket's options.
    fn packaging(&self, how: &PublishOptions) -> Result<(publish::Options, Signer), PublishError> {
        let (made, suite) = {
            let options = self.options();
            let mut made = how.over(&options);
            if options.follows_path {
                made.packet_octets_max = made.packet_octets_max.min(self.path_octets());
                made.manifest_octets_max = self.path_octets();
            }
            (made, how.suite.unwrap_or(options.suite))
        };
        let signer = self.session.signer(suite).map_err(|error| PublishError::Key(Box::new(error)))?;
        self.shared.fix(&self.session.certificates());
        Ok((made, signer))
    }

    /// Returns the next Interest without a published answer. Waits at most as long as option
    /// `timeout_ms` (HT-22).
    ///
    /// # Errors
    /// The call ended before an Interest arrived.
    pub fn recv(&self) -> Result<Request, CallError> {
        let timeout = self.options().timeout;
        self.next_request(Queue::Requests, timeout)
    }

    /// [`Producer::recv`], waiting for `timeout` at most.
    ///
    /// # Errors
    /// As [`Producer::recv`].
    pub fn recv_timeout(&self, timeout: Duration) -> Result<Request, CallError> {
        self.next_request(Queue::Requests, Some(timeout))
    }

    /// [`Producer::recv`] without waiting: `EAGAIN` if there is none.
    ///
    /// # Errors
    /// As [`Producer::recv`].
    pub fn try_recv(&self) -> Result<Request, CallError> {
        self.try_request(Queue::Requests)
    }

    fn try_request(&self, queue: Queue) -> Result<Request, CallError> {
        self.engine.check_process()?;
        match self.requests(queue).next(None) {
            Poll::Ready(request) => request,
            Poll::Pending => Err(CallError::WouldBlock),
        }
    }

    /// [`Producer::recv`] as a future.
    ///
    /// # Errors
    /// As [`Producer::recv`].
    pub fn recv_async(&self) -> Result<Requests<'_>, CallError> {
        self.engine.check_process()?;
        Ok(self.requests(Queue::Requests))
    }

    fn requests(&self, queue: Queue) -> Requests<'_> {
        Requests { shared: &self.shared, queue, call: None }
    }

    fn next_request(&self, queue: Queue, timeout: Option<Duration>) -> Result<Request, CallError> {
        self.engine.check_process()?;
        let until = timeout.and_then(|timeout| Instant::now().checked_add(timeout));
        sleep::wait(&mut self.requests(queue), until)?
    }

    /// Answers `request` with `content`. A request for the newest version of an object is answered
    /// by publishing a new version, any other request by one packet of the requested name.
    ///
    /// # Errors
    /// As [`Producer::publish`].
    pub fn reply(&self, request: &Request, content: &[u8], how: &PublishOptions) -> Result<(), PublishError> {
        if request.is_discovery() {
            return self.publish(&request.object(), content, how).map(drop);
        }
        self.reply_packet(request, content, ContentType::Blob, how)
    }

    /// Answers `request` with a signed statement that the name does not exist. The consumer's call
    /// returns `ENOENT`.
    ///
    /// # Errors
    /// As [`Producer::publish`].
    pub fn deny(&self, request: &Request) -> Result<(), PublishError> {
        let how = PublishOptions { freshness_ms: Some(DENIAL_FRESHNESS_MS), ..PublishOptions::default() };
        self.reply_packet(request, &[], ContentType::Nack, &how)
    }

    /// Refuses `request` with a Nack, which is not signed.
    ///
    /// # Errors
    /// The socket was closed, or the process forked.
    pub fn refuse(&self, request: Request, reason: NackReason) -> Result<(), CallError> {
        self.engine.check_process()?;
        request.refuse(reason);
        Ok(())
    }

    fn reply_packet(
        &self,
        request: &Request,
        content: &[u8],
        content_type: ContentType,
        how: &PublishOptions,
    ) -> Result<(), PublishError> {
        self.check_usable()?;
        let (made, signer) = self.packaging(how)?;
        let builder =
            DataBuilder::new(request.name()).freshness_ms(made.freshness_ms).content_type(content_type);
        let wire = sign_data(&builder, content, &signer).map_err(publish::PublishError::from)?;
        if wire.len() > PACKET_OCTETS_MAX {
            return Err(PublishError::TooLong { octets: wire.len() });
        }
        // A reply is not stored on disk. It expires with its freshness, so that a later request
        // with MustBeFresh reaches the application.
        let expires = Duration::from_millis(made.freshness_ms);
        Ok(self.shared.put(wire, false, Some(expires))?)
    }

    /// The prefix that the socket is bound to.
    pub fn local_prefix(&self) -> &Name {
        &self.prefix
    }

    /// The router's address.
    pub fn router(&self) -> &str {
        &self.router
    }

    /// The largest packet that reaches the router in one piece, octets. Longer ones are fragmented.
    /// Over UDP it follows the path MTU (HT-13), over Ethernet it follows from the interface's MTU;
    /// elsewhere it is the maximum packet size.
    pub fn path_octets(&self) -> usize {
        self.shared.path_octets.load(Ordering::Relaxed)
    }

    /// The newest certificate of this session's key (HT-10, HT-11); none if no key signs. While the
    /// socket is bound, the certificate is renewed as soon as two thirds of its lifetime have
    /// passed and the key chain has a certificate of the identity that ends later. Without a
    /// renewal, publishing ends with the certificate ([`BindError::Ended`]).
    pub fn certificate(&self) -> Option<Certificate> {
        self.session.certificate()
    }

    /// The last second of [`Producer::certificate`], s since the Unix epoch; none if no key signs.
    pub fn certificate_ends_s(&self) -> Option<u64> {
        self.certificate().map(|certificate| certificate.validity().not_after_s)
    }

    /// The counters of the socket.
    pub fn stats(&self) -> ProducerStats {
        self.shared.stats()
    }

    /// Sets option `name` of [`options::OPTIONS`]. Earlier publications do not change.
    ///
    /// # Errors
    /// There is no such option, `value` is invalid, or the option can be set only before bind.
    pub fn set_option(&self, name: &str, value: &str) -> Result<(), OptionError> {
        let spec = options::find(name, For::Producer)?;
        if spec.before_bind {
            return Err(OptionError::Bound(spec.name));
        }
        self.options().set(name, value)
    }

    /// The value of option `name`, as text.
    ///
    /// # Errors
    /// There is no such option.
    pub fn option(&self, name: &str) -> Result<String, OptionError> {
        match name {
            "path_octets" => Ok(self.path_octets().to_string()),
            "certificate_ends_s" => Ok(self.certificate_ends_s().unwrap_or(0).to_string()),
            _ => self.options().get(name),
        }
    }

    /// Closes the socket: the router removes the prefix, the namespace is released, and waiting
    /// calls return `ECANCELED`. The session ends, and its certificates are revoked. The session of
    /// a reliable producer is not revoked; it continues at the next bind with the same store.
    pub fn close(&self) {
        let is_reliable = self.options().reliable;
        self.end(!is_reliable);
    }

    /// Closes the socket and revokes the session's certificates (HT-10), also those of a reliable
    /// producer. Consumers that check revocation then reject the packets of the session.
    pub fn revoke(&self) {
        self.end(true);
    }

    fn end(&self, revoke: bool) {
        if self.engine.check_process().is_err() {
            return;
        }
        let lease = self.lease.lock().unwrap_or_else(PoisonError::into_inner).take();
        if lease.is_none() {
            return;
        }
        let records = if revoke { self.session.revoke() } else { Vec::new() };
        for record in &records {
            if self.options().reliable
                && let Err(error) = self.shared.put(record.clone(), true, None)
            {
                tracing::warn!(%error, "a revocation record is not in the store");
            }
        }
        self.engine.close();
        self.shared.end(CallError::Closed);
        let fetcher = self.fetcher.lock().unwrap_or_else(PoisonError::into_inner).take();
        if fetcher.is_some_and(|thread| thread.join().is_err()) {
            tracing::error!("a socket's thread ended by a panic");
        }
        drop(lease);
        // The lock is taken once, because two locks in one expression would deadlock.
        let options = self.options().clone();
        let commands = connection::Options {
            signer: session::command_signer(&self.prefix, &options),
            trust_router_of: options.trust_router_of,
            ..connection::Options::default()
        };
        for record in records {
            if let Err(error) = session::announce(&self.router, &self.prefix, record, commands.clone()) {
                tracing::warn!(%error, "nobody answers for a revocation record");
            }
        }
    }

    fn check_usable(&self) -> Result<(), CallError> {
        self.engine.check_process()?;
        self.shared.check_open()
    }

    fn options(&self) -> MutexGuard<'_, ProducerOptions> {
        self.options.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns microseconds since the Unix epoch, always larger than any earlier version of this
    /// socket.
    fn next_version(&self) -> u64 {
        let now = since_epoch().as_micros() as u64;
        let next = |last: u64| Some(now.max(last + 1));
        let last = self.last_version.fetch_update(Ordering::Relaxed, Ordering::Relaxed, next).unwrap_or(0);
        now.max(last + 1)
    }
}

impl std::fmt::Debug for Producer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Producer({}, {})", self.prefix, self.router)
    }
}

impl Drop for Producer {
    fn drop(&mut self) {
        self.close();
    }
}

impl AsFd for Producer {
    /// Readable while [`Producer::recv`] or [`Producer::accept_push`] would not block.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.shared.ready_fd()
    }
}
