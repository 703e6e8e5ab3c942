//! Consumer sockets: they ask for what is named below their prefix, and hand out what was verified.

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
use self::replies::{Outcome, To};
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

/// A socket that fetches. It may be used by several threads at once; dropping it closes it. Its
/// descriptor is readable when [`Consumer::recv`] would not wait.
pub struct Consumer {
    shared: Arc<Shared>,
    router: String,
}

impl std::fmt::Debug for Consumer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Consumer({}, {})", self.shared.prefix, self.shared.router)
    }
}

/// What is known of an object before its content is fetched.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObjectInfo {
    /// The name under which its segments are; versioned, as a rule.
    pub name: Name,
    /// Octets of its content, if its producer says.
    pub octets: Option<u64>,
    /// How many segments it has, if its producer says.
    pub segments: Option<u64>,
    /// What vouches for its segments.
    pub signature_mode: SignatureMode,
    /// The key that signed its description, if there is one.
    pub signer: Option<Name>,
    /// Whether it is a directory, whose listing is an object below it (docs/files.md).
    pub is_directory: bool,
    /// When it was changed last, ns since the Unix epoch, if its producer says.
    pub mtime_ns: Option<u64>,
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
        }
    }
}

impl Consumer {
    /// A socket that may ask for what is named below `prefix` (at most [`crate::PREFIX_OCTETS_MAX`]
    /// octets and [`crate::PREFIX_COMPONENTS_MAX`] components; HT-05, IS-23). Its face at the
    /// router is its own until it is closed (IS-20).
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

    /// [`Consumer::bind`] over a connection that is there already, such as one end of a socket
    /// pair.
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
        let shared = Shared::new(prefix, router, options, (policy, signer), engine, counts)?;
        let router = shared.router.to_string();
        Ok(Consumer { shared: Arc::new(shared), router })
    }

    /// Fetches the object `name`, its newest version if it names none: verified, whole, at most
    /// `object_octets_max`. Waits as long as option `timeout_ms` says.
    ///
    /// # Errors
    /// [`FetchError::Name`] outside the prefix; [`FetchError::Object`] if it is not found, does not
    /// come, or is not believed; [`FetchError::Revoked`]; [`FetchError::Call`] if the call ends
    /// before.
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

    /// [`Consumer::fetch`] as a future, which is also a call that can be tried and waited for
    /// again. Dropping it ends the fetch. `ENOBUFS` when [`FETCHES_MAX`] are under way.
    ///
    /// # Errors
    /// The call cannot begin; what ends it later is the result's error.
    pub fn fetch_async(&self, name: &Name) -> Result<Pending<Result<Vec<u8>, FetchError>>, FetchError> {
        let octets_max = self.shared.options().object_octets_max;
        self.start(name, move |job, name| {
            let object = job.find(&name)?;
            let mut whole = Whole { object: object.name.clone(), octets: Vec::new(), octets_max };
            whole.check(object.octets().unwrap_or(0))?;
            let expected = object.octets().unwrap_or(0).min(SET_ASIDE_OCTETS_MAX);
            whole.octets.reserve_exact(expected as usize);
            job.transfer(&object, &[Part::from(0)], &mut whole)?;
            Ok(whole.octets)
        })
    }

    /// Finds the object `name`: its newest version if it names none. On the calling thread, which
    /// drives the socket meanwhile unless others use it too.
    ///
    /// # Errors
    /// As [`Consumer::fetch`].
    pub fn find(&self, name: &Name) -> Result<Object, FetchError> {
        let params = self.params(name)?;
        let stopped = into::stop_after(self.shared.options().timeout);
        Job::here(&self.shared, params, &stopped).find(name)
    }

    /// Fetches `part` of `object` into `sink`, verified and in order, however large it is: a fetch
    /// that was interrupted goes on where the sink's content ends. `watch` is called about ten
    /// times a second, and when all is there; it may end the fetch. On the calling thread, which
    /// drives the socket meanwhile unless others use it too; the threads that option
    /// `verify_threads` allows help it.
    ///
    /// # Errors
    /// [`ObjectError::Sink`] and [`ObjectError::Stopped`] as `sink` and `watch` say; otherwise as
    /// [`Consumer::fetch`].
    pub fn fetch_into(
        &self,
        object: &Object,
        part: Part,
        sink: &mut dyn Sink,
        watch: &mut dyn FnMut(&Progress) -> Flow,
    ) -> Result<Progress, FetchError> {
        self.params(&object.name)?;
        into::fetch(&self.shared, (object, part), sink, watch)
    }

    /// What is known of the object `name`: its newest version, size, and what vouches for it. Of
    /// its content nothing is fetched.
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

    /// The object `name` as a stream of verified octets that begins before all of it is there
    /// (SOCK_STREAM). At most `read_ahead_octets` wait verified and as many are asked for ahead of
    /// them, however slowly it is read.
    ///
    /// # Errors
    /// As [`Consumer::fetch`]; what goes wrong later is an error of `read`.
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

    /// The object `name`, found: [`Consumer::stream`], but that nothing of its content is asked for
    /// before it is read. For who reads only parts of it, by [`ObjectStream::read_range`] or after
    /// a seek.
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

    /// Sends one Interest and does not wait for its answer, which [`Consumer::recv`] brings
    /// (HT-07).
    ///
    /// # Errors
    /// The name, the length, or [`DATAGRAMS_MAX`] answers that are awaited already.
    pub fn send(&self, datagram: &Datagram) -> Result<(), SendError> {
        datagram::send(&self.shared, datagram, To::Inbox)
    }

    /// The next answer to what was sent, verified; also when it is that there is none. Waits as
    /// long as option `timeout_ms` says.
    ///
    /// # Errors
    /// [`RecvError::Failed`] if nothing came that is believed; [`RecvError::Call`] if the call ends
    /// before.
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

    /// [`Consumer::recv`] without waiting: `EAGAIN` if nothing is there.
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
    pub fn request_async(&self, datagram: &Datagram) -> Result<Pending<Outcome>, SendError> {
        let (promise, pending) = call();
        datagram::send(&self.shared, datagram, To::Caller(promise))?;
        Ok(pending)
    }

    /// The prefix that it is bound to.
    pub fn local_prefix(&self) -> &Name {
        &self.shared.prefix
    }

    /// The router's address.
    pub fn router(&self) -> &str {
        &self.router
    }

    /// What went through so far.
    pub fn stats(&self) -> ConsumerStats {
        self.shared.counts.read()
    }

    /// Sets option `name` of [`options::OPTIONS`]; calls that were made before keep the value that
    /// they had.
    ///
    /// # Errors
    /// There is no such option, it does not take `value`, or only before bind.
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

    /// Closes the socket: whoever waits on it gets `ECANCELED`.
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

    fn taken(&self, outcome: Outcome) -> Result<Received, RecvError> {
        self.shared.datagrams.taken();
        outcome
    }

    /// The options for fetching `name`, if it may be fetched here.
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
struct Whole {
    object: Name,
    octets: Vec<u8>,
    octets_max: u64,
}

impl Whole {
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

impl ContentSink for Whole {
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
