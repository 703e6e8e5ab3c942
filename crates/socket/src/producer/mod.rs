//! Producer sockets: they publish below their prefix, and answer what is asked for from what was published (HT-21, HT-25).

mod buffer;
mod role;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use namely_security::Signer;
use namely_transport::connection::{self, Connection};
use namely_transport::publish::Publication;
use namely_wire::Name;

use self::buffer::Buffer;
use self::role::ProducerRole;
use crate::engine::Engine;
use crate::error::{BindError, PublishError};
use crate::fence;
use crate::options::{self, For, OptionError, ProducerOptions, PublishOptions};

/// A socket that publishes. It may be used by several threads at once; dropping it closes it.
pub struct Producer {
    prefix: Name,
    router: String,
    options: Mutex<ProducerOptions>,
    signer: Signer,
    buffer: Arc<Buffer>,
    last_version: AtomicU64,
    engine: Engine<role::Order>,
}

/// What was published.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Published {
    /// Its name with the version.
    pub name: Name,
    /// How many segments it has.
    pub segments: u64,
}

impl Producer {
    /// A socket that may publish below `prefix`, which is registered with the router until it is closed (HT-06, IS-22).
    pub fn bind(prefix: Name, options: ProducerOptions) -> Result<Self, BindError> {
        fence::check_prefix(&prefix)?;
        let signer = signer(&prefix, &options)?;
        let mut connection = Connection::find(options.router.as_deref(), connection::Options::for_server())?;
        connection.register(&prefix, &mut |_, _| {})?;
        let router = connection.uri().to_string();
        let buffer = Arc::new(Buffer::default());
        let role = ProducerRole::new(prefix.clone(), buffer.clone());
        let engine = Engine::start("namely-producer", connection, role)?;
        let options = Mutex::new(options);
        Ok(Producer { prefix, router, options, signer, buffer, last_version: AtomicU64::new(0), engine })
    }

    /// Publishes `content` as `name`: cuts, hashes and signs it on the caller's thread. From then on it is served without
    /// the application.
    pub fn publish(
        &self,
        name: &Name,
        content: &[u8],
        how: &PublishOptions,
    ) -> Result<Published, PublishError> {
        self.engine.check_process()?;
        fence::check_name(&self.prefix, name.as_name())?;
        let made = how.over(&self.options());
        let version = how.version.unwrap_or_else(|| self.next_version());
        let publication = Publication::new(name.as_name(), version, content, &made, &self.signer)?;
        let published = Published { name: publication.object().to_name(), segments: publication.segments() };
        self.buffer.insert(publication);
        Ok(published)
    }

    /// The prefix that it is bound to.
    pub fn local_prefix(&self) -> &Name {
        &self.prefix
    }

    /// The router's address.
    pub fn router(&self) -> &str {
        &self.router
    }

    /// Sets option `name` of [`options::OPTIONS`]; what was published before stays as it is.
    pub fn set_option(&self, name: &str, value: &str) -> Result<(), OptionError> {
        let spec = options::find(name, For::Producer)?;
        if spec.before_bind {
            return Err(OptionError::Bound(spec.name));
        }
        self.options().set(name, value)
    }

    /// The value of option `name`, as text.
    pub fn option(&self, name: &str) -> Result<String, OptionError> {
        self.options().get(name)
    }

    /// Closes the socket: the router forgets the prefix, and whoever waits on it gets `ECANCELED`.
    pub fn close(&self) {
        self.engine.close();
    }

    fn options(&self) -> MutexGuard<'_, ProducerOptions> {
        self.options.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Microseconds since the Unix epoch, and more than ever before on this socket.
    fn next_version(&self) -> u64 {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_micros() as u64;
        let next = |last: u64| Some(now.max(last + 1));
        let last = self.last_version.fetch_update(Ordering::Relaxed, Ordering::Relaxed, next).unwrap_or(0);
        now.max(last + 1)
    }
}

impl Drop for Producer {
    fn drop(&mut self) {
        self.close();
    }
}

/// Who signs: the identity that was named, or the longest one above the prefix.
fn signer(prefix: &Name, options: &ProducerOptions) -> Result<Signer, BindError> {
    let chain = options::key_chain(options.keychain.as_ref())?;
    if let Some(identity) = &options.identity {
        return Ok(chain.signer(Some(identity.as_name()), None)?);
    }
    let entry = chain.key_above(prefix.as_name())?.ok_or(BindError::NoKey { prefix: prefix.clone() })?;
    Ok(chain.signer(Some(entry.name.as_name()), None)?)
}
