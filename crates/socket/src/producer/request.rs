//! A miss in the application's hands (HT-22).

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Weak};
use std::task::{Context, Poll};

use namely_security::PublicKey;
use namely_wire::rdr::METADATA_COMPONENT;
use namely_wire::{InterestView, NackReason, Name, NameRef};

use super::misses::Ticket;
use super::shared::{Queue, Shared};
use crate::error::CallError;

/// An Interest that nothing published answers. Dropping it lets those who wait for it go on waiting
/// in vain.
pub struct Request {
    ticket: Ticket,
    interest: Arc<[u8]>,
    shared: Weak<Shared>,
}

impl Request {
    /// The Interest.
    pub fn interest(&self) -> InterestView<'_> {
        InterestView::parse(&self.interest).expect("parsed when it came")
    }

    /// What is asked for, as it was asked.
    pub fn name(&self) -> NameRef<'_> {
        self.interest().name
    }

    /// ApplicationParameters.
    pub fn parameters(&self) -> Option<&[u8]> {
        self.interest().application_parameters
    }

    /// The name of the key or certificate that it says it is signed by, if it is signed: to be
    /// believed once [`Request::is_signed_by`] is true.
    pub fn signer(&self) -> Option<NameRef<'_>> {
        self.interest().signature_info().ok().flatten()?.key_name()
    }

    /// Returns true if `key` signed it. An Interest that came before comes again as it was: whoever
    /// must not obey it twice remembers its SignatureNonce or SignatureTime.
    pub fn is_signed_by(&self, key: &PublicKey) -> bool {
        let interest = self.interest();
        let parts = [interest.signed_name(), interest.signed_parameters];
        interest.signature_value.is_some_and(|value| key.verify(&parts, value))
    }

    /// Returns true if it asks which version of an object is the newest: a reply publishes the
    /// object then.
    pub fn is_discovery(&self) -> bool {
        let interest = self.interest();
        interest.can_be_prefix && interest.name.last() == Some(METADATA_COMPONENT)
    }

    /// The name to publish under: that of the object whose newest version is asked for, or what was
    /// asked for.
    pub fn object(&self) -> Name {
        self.name().without_last(self.is_discovery().into()).to_name()
    }

    /// Refuses: whoever waits hears `reason`.
    pub(super) fn refuse(self, reason: NackReason) {
        if let Some(shared) = self.shared.upgrade() {
            shared.release(&self.ticket, &self.interest, Some(reason));
        }
    }
}

impl Drop for Request {
    fn drop(&mut self) {
        if let Some(shared) = self.shared.upgrade() {
            shared.release(&self.ticket, &self.interest, None);
        }
    }
}

impl fmt::Debug for Request {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Request({})", self.name())
    }
}

/// A request that is waited for. A future that needs no particular runtime.
#[derive(Debug)]
pub struct Requests<'a> {
    pub(super) shared: &'a Arc<Shared>,
    pub(super) queue: Queue,
    /// By what number the socket knows it, once it waited.
    pub(super) call: Option<u64>,
}

impl Requests<'_> {
    /// The next request, if one is there.
    pub(super) fn next(&mut self, context: Option<&Context<'_>>) -> Poll<Result<Request, CallError>> {
        let found = self.shared.poll_miss(self.queue, &mut self.call, context);
        let shared = Arc::downgrade(self.shared);
        found.map_ok(|(ticket, interest)| Request { ticket, interest, shared })
    }
}

impl Future for Requests<'_> {
    type Output = Result<Request, CallError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        self.next(Some(context))
    }
}

impl Drop for Requests<'_> {
    fn drop(&mut self) {
        if let Some(call) = self.call {
            self.shared.forget(call);
        }
    }
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Shared({})", self.prefix)
    }
}
