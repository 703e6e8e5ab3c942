//! The namespaces of the producers of this process, and the memory reserved for each (HT-10).
//! Packets of one namespace never use memory of another.

use std::sync::{Mutex, MutexGuard, PoisonError};

use namely_wire::{FaceUri, Name};
use rustix::process::{Pid, getpid};

use crate::error::BindError;

/// Producers of a process.
///
/// # Limit
/// `bind` is refused with `EMFILE`.
/// - Tests: `namespaces_never_overlap`
pub const PRODUCERS_MAX: usize = 1024;

/// Octets of memory for the output buffers of all producers.
///
/// The producers are those of one process.
///
/// # Limit
/// `bind` is refused with `ENOBUFS`.
/// - Tests: `namespaces_never_overlap`
pub const BUFFERS_OCTETS_MAX: usize = 64 << 30;

static POOL: Mutex<Pool> = Mutex::new(Pool { process: None, leases: Vec::new() });

#[derive(Debug)]
struct Pool {
    /// The process that owns the leases. A forked process has none of its parent's.
    process: Option<Pid>,
    leases: Vec<Namespace>,
}

#[derive(Debug)]
struct Namespace {
    router: String,
    prefix: Name,
    buffer_octets: usize,
}

/// A namespace and the memory of its buffer, until it is dropped.
#[derive(Debug)]
pub(crate) struct Lease {
    router: String,
    prefix: Name,
}

impl Lease {
    /// Leases `prefix` at `router`. It must not overlap the prefix of another producer there.
    pub(crate) fn take(router: &FaceUri, prefix: &Name, buffer_octets: usize) -> Result<Self, BindError> {
        let router = network(router);
        let mut pool = pool();
        let overlaps = |taken: &&Namespace| {
            taken.router == router
                && (taken.prefix.is_prefix_of(prefix.as_name())
                    || prefix.is_prefix_of(taken.prefix.as_name()))
        };
        if let Some(taken) = pool.leases.iter().find(overlaps) {
            return Err(BindError::InUse { by: taken.prefix.clone() });
        }
        let taken: usize = pool.leases.iter().map(|lease| lease.buffer_octets).sum();
        if pool.leases.len() == PRODUCERS_MAX {
            return Err(BindError::TooManyProducers);
        }
        if buffer_octets > BUFFERS_OCTETS_MAX - taken {
            return Err(BindError::BufferTooLarge { octets_max: BUFFERS_OCTETS_MAX - taken });
        }
        pool.leases.push(Namespace { router: router.clone(), prefix: prefix.clone(), buffer_octets });
        Ok(Lease { router, prefix: prefix.clone() })
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        pool().leases.retain(|lease| lease.prefix != self.prefix || lease.router != self.router);
    }
}

/// Returns an identifier of the router at `uri`. It is the same for the router's Unix socket and
/// its memif socket, whose paths differ only in the extension.
fn network(uri: &FaceUri) -> String {
    match uri {
        FaceUri::Unix(path) | FaceUri::Memif { path, .. } => {
            std::path::Path::new(path).with_extension("").display().to_string()
        }
        _ => uri.to_string(),
    }
}

fn pool() -> MutexGuard<'static, Pool> {
    let mut pool = POOL.lock().unwrap_or_else(PoisonError::into_inner);
    if pool.process != Some(getpid()) {
        *pool = Pool { process: Some(getpid()), leases: Vec::new() };
    }
    pool
}

#[cfg(test)]
mod tests {
    use super::*;

    fn take(uri: &str, octets: usize) -> Result<Lease, BindError> {
        take_at("unix:///run/pool.sock", uri, octets)
    }

    fn take_at(router: &str, uri: &str, octets: usize) -> Result<Lease, BindError> {
        Lease::take(&router.parse().unwrap(), &uri.parse().unwrap(), octets)
    }

    /// One test only, because the pool is global to the process.
    #[test]
    fn namespaces_never_overlap() {
        let first = take("/pool/a", 10).unwrap();
        for uri in ["/pool/a", "/pool/a/b", "/pool", "/"] {
            let refused = take(uri, 10).unwrap_err();
            assert!(matches!(&refused, BindError::InUse { by } if by.to_string() == "/pool/a"), "{refused}");
            assert_eq!(refused.errno(), crate::errno::ADDRINUSE);
        }
        assert!(take_at("memif:///run/pool.memif", "/pool/a", 10).is_err(), "the same router");
        drop(take_at("unix:///run/other.sock", "/pool/a", 10).unwrap());
        let beside = take("/pool/ab", 10).unwrap();
        drop(first);
        take("/pool/a/b", 10).unwrap();

        let rest = BUFFERS_OCTETS_MAX - 10;
        assert_eq!(take("/pool/c", rest + 1).unwrap_err().errno(), crate::errno::NOBUFS);
        let all = take("/pool/c", rest).unwrap();
        assert_eq!(take("/pool/d", 1).unwrap_err().errno(), crate::errno::NOBUFS);
        drop((beside, all));

        let many: Vec<_> = (0..PRODUCERS_MAX).map(|i| take(&format!("/pool/{i}"), 0).unwrap()).collect();
        assert_eq!(take("/pool/more", 0).unwrap_err().errno(), crate::errno::MFILE);
        drop(many);
        take("/pool/more", 0).unwrap();
    }
}
