//! Prefix announcements of a producer (option `announce`). A self-learning router learns a route to
//! the whole prefix from them (docs/strategies.md).

use std::sync::{Mutex, PoisonError};

use namely_security::Signer;
use namely_transport::announce::Announcer;
use namely_transport::connection::Outbox;
use namely_wire::{DataView, LpHeaders, Name};

/// The announcement of a producer. None if the option is off or the identity has no key.
#[derive(Debug, Default)]
pub(super) struct Announcing(Mutex<Option<Announcer>>);

impl Announcing {
    /// Announces `prefix` from now on, signed by `identity`.
    pub(super) fn start(&self, prefix: &Name, identity: Signer) {
        *self.announcer() = Some(Announcer::new(prefix.clone(), identity));
    }

    /// Replaces the signer by `identity`, whose key or certificate changed. Does nothing without an
    /// announcement.
    pub(super) fn follow(&self, prefix: &Name, identity: &Signer) {
        if self.announcer().is_some() {
            self.start(prefix, identity.clone());
        }
    }

    /// Sends an answer. Attaches the announcement to packets that consumers request first: all
    /// packets except segments after the first.
    pub(super) fn send(&self, outbox: &mut Outbox, headers: &LpHeaders, packet: &[u8]) {
        let mut announcer = self.announcer();
        let Some(own) = announcer.as_mut().filter(|_| headers.nack.is_none() && is_first(packet)) else {
            drop(announcer);
            return outbox.send(headers, packet);
        };
        match own.announcement() {
            Ok(announcement) => outbox.send_announced(headers, packet, announcement),
            Err(error) => {
                tracing::warn!(%error, "the prefix is announced no longer");
                *announcer = None;
                outbox.send(headers, packet);
            }
        }
    }

    fn announcer(&self) -> std::sync::MutexGuard<'_, Option<Announcer>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns true if the Data `packet` is not a segment, or is the first segment of its object.
fn is_first(packet: &[u8]) -> bool {
    let last = DataView::parse(packet).ok().and_then(|data| data.name.last());
    last.is_some_and(|last| last.segment().is_none_or(|segment| segment == 0))
}
