//! Consumer sockets: they ask for what is named below their prefix, and hand out what was verified.

mod role;

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use namely_security::Verifier;
use namely_transport::connection::{self, Connection};
use namely_wire::Name;

use self::role::{ConsumerRole, Order};
use crate::engine::Engine;
use crate::error::{BindError, FetchError};
use crate::fence;
use crate::options::{self, ConsumerOptions, For, OptionError};
use crate::pending::{Pending, call};

/// A socket that fetches. It may be used by several threads at once; dropping it closes it.
pub struct Consumer {
    prefix: Name,
    router: String,
    options: Mutex<ConsumerOptions>,
    engine: Engine<Order>,
}

impl Consumer {
    /// A socket that may ask for what is named below `prefix` (at most [`fence::PREFIX_OCTETS_MAX`] octets and
    /// [`fence::PREFIX_COMPONENTS_MAX`] components; HT-05, IS-23). Its face at the router is its own until it is closed
    /// (IS-20).
    pub fn bind(prefix: Name, options: ConsumerOptions) -> Result<Self, BindError> {
        fence::check_prefix(&prefix)?;
        let policy = options.trust.policy(options.keychain.as_ref())?;
        let connection = Connection::find(options.router.as_deref(), connection::Options::default())?;
        let router = connection.uri().to_string();
        let role = ConsumerRole::new(Verifier::new(policy));
        let engine = Engine::start("namely-consumer", connection, role)?;
        Ok(Consumer { prefix, router, options: Mutex::new(options), engine })
    }

    /// Fetches the object `name`, its newest version if it names none: verified, whole, at most `object_octets_max`.
    /// Waits as long as option `timeout_ms` says.
    pub fn fetch(&self, name: &Name) -> Result<Vec<u8>, FetchError> {
        let timeout = self.options().timeout;
        self.fetch_async(name)?.wait(timeout)
    }

    /// [`Consumer::fetch`], waiting for `timeout` at most.
    pub fn fetch_timeout(&self, name: &Name, timeout: Duration) -> Result<Vec<u8>, FetchError> {
        self.fetch_async(name)?.wait(Some(timeout))
    }

    /// [`Consumer::fetch`] as a future, which is also a call that can be tried and waited for again.
    pub fn fetch_async(&self, name: &Name) -> Result<Pending<Result<Vec<u8>, FetchError>>, FetchError> {
        self.engine.check_process()?;
        fence::check_name(&self.prefix, name.as_name())?;
        let options = self.options();
        let (promise, pending) = call();
        let (read, octets_max) = (options.read, options.object_octets_max);
        drop(options);
        self.engine.order(Order::Fetch { name: name.clone(), read, octets_max, promise })?;
        Ok(pending)
    }

    /// The prefix that it is bound to.
    pub fn local_prefix(&self) -> &Name {
        &self.prefix
    }

    /// The router's address.
    pub fn router(&self) -> &str {
        &self.router
    }

    /// Sets option `name` of [`options::OPTIONS`]; calls that were made before keep the value that they had.
    pub fn set_option(&self, name: &str, value: &str) -> Result<(), OptionError> {
        let spec = options::find(name, For::Consumer)?;
        if spec.before_bind {
            return Err(OptionError::Bound(spec.name));
        }
        self.options().set(name, value)
    }

    /// The value of option `name`, as text.
    pub fn option(&self, name: &str) -> Result<String, OptionError> {
        self.options().get(name)
    }

    /// Closes the socket: whoever waits on it gets `ECANCELED`.
    pub fn close(&self) {
        self.engine.close();
    }

    fn options(&self) -> MutexGuard<'_, ConsumerOptions> {
        self.options.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Consumer {
    fn drop(&mut self) {
        self.close();
    }
}
