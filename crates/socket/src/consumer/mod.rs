//! Consumer sockets: they request data below their prefix and return verified data. Option
//! `on_bad_segment` can make an exception for segments.

mod datagram;
mod error;
mod helpers;
mod into;
mod job;
mod queue;
mod range;
mod ranges;
mod replies;
mod revocation;
mod role;
mod shared;
mod stats;
mod stream;

use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

use namely_security::{TrustPolicy, Verified};
use namely_transport::connection::{self, Connection};
use namely_transport::object::{Object, ObjectError, Part, Progress, SignatureMode};
use namely_wire::Name;
use namely_wire::rdr::Metadata;

pub use self::datagram::{DATAGRAMS_MAX, Datagram};
pub use self::error::{RecvError, SendError};
pub use self::into::{Flow, Sink};
use self::job::{Content, ContentSink, FetchParams, Job, SET_ASIDE_OCTETS_MAX};
pub use self::ranges::{RANGES_WINDOW, Ranges};
pub use self::replies::Received;
use self::replies::{AnswerResult, ReplyTarget};
pub use self::revocation::REVOCATIONS_MAX;
use self::role::ConsumerRole;
pub use self::shared::FETCHES_MAX;
use self::shared::Shared;
pub use self::stats::ConsumerStats;
use self::stats::Counts;
pub use self::stream::ObjectStream;
use crate::engine::Engine;
use crate::error::{BindError, CallError, FetchError};
use crate::namespace;
use crate::options::{self, ConsumerOptions, For, OptionError};
use crate::pending::{Pending, Promise, call};
use crate::sleep;
use crate::trust;

/// A socket that fetches. Several threads may use it at once; dropping it closes it. Its descriptor
/// is readable when [`Consumer::recv`] would not block.
pub struct Consumer {
    shared: Arc<Shared>,
    router: String,
}

impl std::fmt::Debug for Consumer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Consumer({}, {})", self.shared.prefix, self.shared.router)
    }
}

/// Properties of an object that are known before its content is fetched.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObjectInfo {
    /// The prefix of its segments' names; usually versioned.
    pub name: Name,
    /// Octets of its content, if the metadata contains the size.
    pub octets: Option<u64>,
    /// Number of its segments, if the metadata contains it.
    pub segments: Option<u64>,
    /// The way its segments are authenticated.
    pub signature_mode: SignatureMode,
    /// The key that signed its description, if there is one.
    pub signer: Option<Name>,
    /// Whether it is a directory. Its listing is an object below it (docs/files.md).
    pub is_directory: bool,
    /// Time of the last change, ns since the Unix epoch, if the metadata contains it.
    pub mtime_ns: Option<u64>,
    /// Type and permissions as in `st_mode` of Unix, if the metadata contains them.
    pub mode: Option<u64>,
}

impl ObjectInfo {
    fn of(object: &Object) -> Self {
        let reason = object.reason.as_ref().or_else(|| object.whole.as_ref().map(|whole| whole.reason()));
        ObjectInfo {
            name: object.name.clone(),
            octets: object.octets(),
            segments: object.segments,
            signature_mode: object.signature_mode,
            signer: reason.and_then(|reason| reason.key_name().cloned()),
            is_directory: object.metadata.as_ref().is_some_and(Metadata::is_directory),
            mtime_ns: object.metadata.as_ref().and_then(|metadata| metadata.mtime_ns),
            mode: object.metadata.as_ref().and_then(|metadata| metadata.mode),
        }
    }
}

impl Consumer {
    /// Creates a socket that may request data below `prefix` (at most [`crate::PREFIX_OCTETS_MAX`]
    /// octets and [`crate::PREFIX_COMPONENTS_MAX`] components; HT-05, IS-23). The socket has its
    /// own face at the router until it is closed (IS-20).
    ///
    /// # Errors
    /// The prefix is too long, trust or key chain cannot be used, or no router answers.
    pub fn bind(prefix: Name, options: ConsumerOptions) -> Result<Self, BindError> {
        namespace::check_prefix(&prefix)?;
        let policy = trust::policy(&options.trust, options.keychain.as_ref())?;
        let trust_router_of = options.trust_router_of.clone();
        let how = connection::Options { trust_router_of, ..connection::Options::default() };
        let connection = Connection::find(options.router.as_deref(), how)?;
        Self::with(prefix, options, policy, connection)
    }

    /// [`Consumer::bind`] over an existing connection, such as one end of a socket pair.
    ///
    /// # Errors
    /// As [`Consumer::bind`].
    pub fn over(connection: Connection, prefix: Name, options: ConsumerOptions) -> Result<Self, BindError> {
        namespace::check_prefix(&prefix)?;
        let policy = trust::policy(&options.trust, options.keychain.as_ref())?;
        Self::with(prefix, options, policy, connection)
    }

    fn with(
        prefix: Name,
        options: ConsumerOptions,
        policy: TrustPolicy,
        connection: Connection,
    ) -> Result<Self, BindError> {
        let router = connection.uri().clone();
        let counts = Arc::new(Counts::default());
        let engine = Engine::idle("namely-consumer", connection, ConsumerRole::new(counts.clone()));
        let signer = match &options.identity {
            Some(identity) => {
                Some(trust::key_chain(options.keychain.as_ref())?.signer(Some(identity.as_name()), None)?)
            }
            None => None,
        };
        let shared = Shared::new(prefix, router, options, policy, signer, engine, counts)?;
        let router = shared.router.to_string();
        Ok(Consumer { shared: Arc::new(shared), router })
    }

    /// Fetches the object `name`, or its newest version if the name has none. Returns the whole
    /// verified content, at most option `object_octets_max` octets. Waits at most as long as option
    /// `timeout_ms`.
    ///
    /// # Errors
    /// [`FetchError::Name`] outside the prefix; [`FetchError::Object`] if it is not found, does not
    /// arrive, or fails verification; [`FetchError::Revoked`]; [`FetchError::Call`] if the call
    /// ends without a result.
    pub fn fetch(&self, name: &Name) -> Result<Vec<u8>, FetchError> {
        let timeout = self.shared.options().timeout;
        self.fetch_async(name)?.wait(timeout)
    }

    /// [`Consumer::fetch`], waiting for `timeout` at most.
    ///
    /// # Errors
    /// As [`Consumer::fetch`].
    pub fn fetch_timeout(&self, name: &Name, timeout: Duration) -> Result<Vec<u8>, FetchError> {
        self.fetch_async(name)?.wait(Some(timeout))
    }

    /// [`Consumer::fetch`] as a future, which the caller can also poll without waiting, or wait for
    /// more than once. Dropping it ends the fetch. `ENOBUFS` when [`FETCHES_MAX`] are in progress.
    ///
    /// # Errors
    /// The call cannot begin. A later failure is the error of the result.
    pub fn fetch_async(&self, name: &Name) -> Result<Pending<Result<Vec<u8>, FetchError>>, FetchError> {
        let octets_max = self.shared.options().object_octets_max;
        self.start(name, move |job, name| {
            let object = job.find_content(&name)?;
            let mut whole = MemorySink { object: object.name.clone(), octets: Vec::new(), octets_max };
            whole.check(object.octets().unwrap_or(0))?;
            let expected = object.octets().unwrap_or(0).min(SET_ASIDE_OCTETS_MAX);
            whole.octets.reserve_exact(expected as usize);
            job.transfer(&object, &[Part::from(0)], &mut whole)?;
            Ok(whole.octets)
        })
    }

    /// Finds the object `name`, or its newest version if the name has none. Runs on the calling
    /// thread, which drives the socket unless other threads use it, too.
    ///
    /// # Errors
    /// As [`Consumer::fetch`].
    pub fn find(&self, name: &Name) -> Result<Object, FetchError> {
        let params = self.params(name)?;
        let stopped = into::stop_after(self.shared.options().timeout);
        Job::here(&self.shared, params, &stopped).find(name)
    }

    /// Fetches `part` of `object` into `sink`, verified and in order, without a limit of size. An
    /// interrupted fetch can be resumed at the end of the sink's content. `watch` is called about
    /// ten times a second and at the end; it may stop the fetch. Runs on the calling thread, which
    /// drives the socket unless other threads use it, too. Up to `verify_threads` threads verify,
    /// including the calling one.
    ///
    /// # Errors
    /// [`ObjectError::Sink`] and [`ObjectError::Stopped`] on request of `sink` and `watch`;
    /// otherwise as [`Consumer::fetch`].
    pub fn fetch_into(
        &self,
        object: &Object,
        part: Part,
        sink: &mut dyn Sink,
        watch: &mut dyn FnMut(&Progress) -> Flow,
    ) -> Result<Progress, FetchError> {
        self.params(&object.name)?;
        into::fetch(&self.shared, object, part, sink, watch)
    }

    /// Requests from the router that it marks Data of its content store, for
    /// [`Progress::cache_share`]. [`Consumer::fetch_into`] does so itself, but not while other
    /// threads use the socket.
    ///
    /// # Errors
    /// The router is gone.
    pub fn request_origins(&self) -> Result<(), FetchError> {
        let params = FetchParams::of(&self.shared.options());
        Job::here(&self.shared, params, &|| None).request_origins()
    }

    /// Returns the newest version, the size and the authentication of the object `name`. Fetches
    /// none of its content.
    ///
    /// # Errors
    /// As [`Consumer::fetch`].
    pub fn stat(&self, name: &Name) -> Result<ObjectInfo, FetchError> {
        let timeout = self.shared.options().timeout;
        self.stat_async(name)?.wait(timeout)
    }

    /// [`Consumer::stat`], waiting for `timeout` at most.
    ///
    /// # Errors
    /// As [`Consumer::fetch`].
    pub fn stat_timeout(&self, name: &Name, timeout: Duration) -> Result<ObjectInfo, FetchError> {
        self.stat_async(name)?.wait(Some(timeout))
    }

    /// [`Consumer::stat`] as a future.
    ///
    /// # Errors
    /// As [`Consumer::fetch_async`].
    pub fn stat_async(&self, name: &Name) -> Result<Pending<Result<ObjectInfo, FetchError>>, FetchError> {
        self.start(name, |job, name| job.find(&name).map(|object| ObjectInfo::of(&object)))
    }

    /// Opens the object `name` as a stream of verified octets that can be read before the whole
    /// object has arrived (SOCK_STREAM). About `read_ahead_octets` are buffered after verification,
    /// and as many are requested ahead of them. When the reader is slow, requests pause at this
    /// limit.
    ///
    /// # Errors
    /// As [`Consumer::fetch`]; a later failure is an error of `read`.
    pub fn stream(&self, name: &Name) -> Result<ObjectStream, FetchError> {
        let timeout = self.shared.options().timeout;
        self.stream_async(name)?.wait(timeout)
    }

    /// [`Consumer::stream`] as a future.
    ///
    /// # Errors
    /// As [`Consumer::fetch_async`].
    pub fn stream_async(&self, name: &Name) -> Result<Pending<Result<ObjectStream, FetchError>>, FetchError> {
        self.opened(name, true)
    }

    /// [`Consumer::stream`], except that no content is requested before it is read. Use it to read
    /// parts only, by [`ObjectStream::read_range`] or after a seek.
    ///
    /// # Errors
    /// As [`Consumer::stream`].
    pub fn open(&self, name: &Name) -> Result<ObjectStream, FetchError> {
        let timeout = self.shared.options().timeout;
        self.open_async(name)?.wait(timeout)
    }

    /// [`Consumer::open`] as a future.
    ///
    /// # Errors
    /// As [`Consumer::fetch_async`].
    pub fn open_async(&self, name: &Name) -> Result<Pending<Result<ObjectStream, FetchError>>, FetchError> {
        self.opened(name, false)
    }

    fn opened(
        &self,
        name: &Name,
        begin: bool,
    ) -> Result<Pending<Result<ObjectStream, FetchError>>, FetchError> {
        let params = self.params(name)?;
        let timeout = self.shared.options().timeout;
        let (promise, pending) = call();
        stream::open(&self.shared, name.clone(), params, timeout, begin, promise)?;
        Ok(pending)
    }

    /// Sends one Interest without waiting for its answer, which [`Consumer::recv`] returns (HT-07).
    ///
    /// # Errors
    /// The name is not allowed, the packet is too long, it cannot be signed, or [`DATAGRAMS_MAX`]
    /// answers are outstanding.
    pub fn send(&self, datagram: &Datagram) -> Result<(), SendError> {
        datagram::send(&self.shared, datagram, ReplyTarget::Inbox)
    }

    /// Returns the next result of a datagram: the verified answer, or the error if there is none.
    /// Waits at most as long as option `timeout_ms`.
    ///
    /// # Errors
    /// [`RecvError::Failed`] if no valid answer arrived; [`RecvError::Call`] if the call ends
    /// without a result.
    pub fn recv(&self) -> Result<Received, RecvError> {
        let timeout = self.shared.options().timeout;
        self.recv_until(timeout.and_then(|timeout| Instant::now().checked_add(timeout)))
    }

    /// [`Consumer::recv`], waiting for `timeout` at most.
    ///
    /// # Errors
    /// As [`Consumer::recv`].
    pub fn recv_timeout(&self, timeout: Duration) -> Result<Received, RecvError> {
        self.recv_until(Instant::now().checked_add(timeout))
    }

    /// [`Consumer::recv`] without waiting: `EAGAIN` if no result is available.
    ///
    /// # Errors
    /// As [`Consumer::recv`].
    pub fn try_recv(&self) -> Result<Received, RecvError> {
        self.shared.engine.check_process()?;
        self.taken(self.shared.datagrams.inbox.try_take()?)
    }

    /// [`Consumer::recv`] as a future.
    ///
    /// # Errors
    /// As [`Consumer::recv`].
    pub async fn recv_async(&self) -> Result<Received, RecvError> {
        self.shared.engine.check_process()?;
        self.taken(self.shared.datagrams.inbox.take().await?)
    }

    /// Sends one Interest and waits for its answer.
    ///
    /// # Errors
    /// As [`Consumer::send`] and [`Consumer::recv`].
    pub fn request(&self, datagram: &Datagram) -> Result<Received, RecvError> {
        let timeout = self.shared.options().timeout;
        self.request_async(datagram)?.wait(timeout)
    }

    /// [`Consumer::request`] as a future.
    ///
    /// # Errors
    /// As [`Consumer::send`].
    pub fn request_async(&self, datagram: &Datagram) -> Result<Pending<AnswerResult>, SendError> {
        let (promise, pending) = call();
        datagram::send(&self.shared, datagram, ReplyTarget::Caller(promise))?;
        Ok(pending)
    }

    /// The prefix that the socket is bound to.
    pub fn local_prefix(&self) -> &Name {
        &self.shared.prefix
    }

    /// The router's address.
    pub fn router(&self) -> &str {
        &self.router
    }

    /// The counters of the socket.
    pub fn stats(&self) -> ConsumerStats {
        self.shared.counts.read()
    }

    /// Sets option `name` of [`options::OPTIONS`]. Calls in progress continue with the earlier
    /// value.
    ///
    /// # Errors
    /// There is no such option, `value` is invalid, or the option can be set only before bind.
    pub fn set_option(&self, name: &str, value: &str) -> Result<(), OptionError> {
        let spec = options::find(name, For::Consumer)?;
        if spec.before_bind {
            return Err(OptionError::Bound(spec.name));
        }
        self.shared.options().set(name, value)
    }

    /// The value of option `name`, as text.
    ///
    /// # Errors
    /// There is no such option.
    pub fn option(&self, name: &str) -> Result<String, OptionError> {
        self.shared.options().get(name)
    }

    /// Closes the socket. Waiting calls return `ECANCELED`.
    pub fn close(&self) {
        if self.shared.engine.check_process().is_ok() {
            self.shared.engine.close();
            self.shared.datagrams.close();
        }
    }

    fn recv_until(&self, until: Option<Instant>) -> Result<Received, RecvError> {
        self.shared.engine.check_process()?;
        let taken = sleep::wait(&mut self.shared.datagrams.inbox.take(), until)??;
        self.taken(taken)
    }

    fn taken(&self, outcome: AnswerResult) -> Result<Received, RecvError> {
        self.shared.datagrams.taken();
        outcome
    }

    /// Returns the options for fetching `name`, if the socket may fetch it.
    fn params(&self, name: &Name) -> Result<FetchParams, FetchError> {
        self.shared.engine.check_process()?;
        namespace::check_name(&self.shared.prefix, name.as_name())?;
        Ok(FetchParams::of(&self.shared.options()))
    }

    /// Runs `work` on a thread of its own.
    fn start<T: Send + 'static>(
        &self,
        name: &Name,
        work: impl FnOnce(&mut Job<'_>, Name) -> Result<T, FetchError> + Send + 'static,
    ) -> Result<Pending<Result<T, FetchError>>, FetchError> {
        let (params, name) = (self.params(name)?, name.clone());
        let (promise, pending): (Promise<Result<T, FetchError>>, _) = call();
        self.shared.spawn(move |shared| {
            let stopped = || promise.is_abandoned().then_some(CallError::Closed);
            let done = work(&mut Job::new(&shared, params, &stopped), name);
            drop(shared);
            promise.complete(done);
        })?;
        Ok(pending)
    }
}

impl AsFd for Consumer {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.shared.datagrams.as_fd()
    }
}

impl Drop for Consumer {
    fn drop(&mut self) {
        self.close();
    }
}

/// A whole object in memory.
struct MemorySink {
    object: Name,
    octets: Vec<u8>,
    octets_max: u64,
}

impl MemorySink {
    fn check(&self, octets: u64) -> Result<(), FetchError> {
        if octets <= self.octets_max {
            return Ok(());
        }
        let (object, octets_max) = (self.object.clone(), self.octets_max);
        Err(ObjectError::TooLarge { object, octets_max }.into())
    }

    fn add(&mut self, content: &[u8]) -> Result<(), FetchError> {
        self.check((self.octets.len() + content.len()) as u64)?;
        self.octets.extend_from_slice(content);
        Ok(())
    }
}

impl ContentSink for MemorySink {
    fn write(&mut self, content: Content) -> Result<(), FetchError> {
        self.add(content.as_ref())
    }

    fn segment(
        &mut self,
        _: u64,
        data: Verified<Vec<u8>>,
        used: &mut Vec<Vec<u8>>,
    ) -> Result<(), FetchError> {
        self.add(data.content())?;
        used.push(data.into_octets());
        Ok(())
    }
}
