//! A miss that the application has taken (HT-22).

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

/// An Interest without a published answer. If it is dropped, its consumers receive no answer.
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

    /// The requested name.
    pub fn name(&self) -> NameRef<'_> {
        self.interest().name
    }

    /// ApplicationParameters.
    pub fn parameters(&self) -> Option<&[u8]> {
        self.interest().application_parameters
    }

    /// The KeyLocator's name of the key or certificate, if the Interest is signed. Trust it only if
    /// [`Request::is_signed_by`] is true.
    pub fn signer(&self) -> Option<NameRef<'_>> {
        self.interest().signature_info().ok().flatten()?.key_name()
    }

    /// Returns true if `key` signed the Interest. An attacker can replay an old Interest. A caller
    /// that must not execute a command twice has to remember its SignatureNonce or SignatureTime.
    pub fn is_signed_by(&self, key: &PublicKey) -> bool {
        let interest = self.interest();
        let parts = [interest.signed_name(), interest.signed_parameters];
        interest.signature_value.is_some_and(|value| key.verify(&parts, value))
    }

    /// Returns true if the Interest requests the newest version of an object. In this case a reply
    /// publishes a new version.
    pub fn is_discovery(&self) -> bool {
        let interest = self.interest();
        interest.can_be_prefix && interest.name.last() == Some(METADATA_COMPONENT)
    }

    /// The name to publish under: that of the object if its newest version is requested, otherwise
    /// the requested name.
    pub fn object(&self) -> Name {
        self.name().without_last(self.is_discovery().into()).to_name()
    }

    /// Refuses the request: the waiting consumers receive a Nack with `reason`.
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

/// A future for the next request. It needs no particular runtime.
#[derive(Debug)]
pub struct Requests<'a> {
    pub(super) shared: &'a Arc<Shared>,
    pub(super) queue: Queue,
    /// The number under which the call waits, once it has been polled without a result.
    pub(super) call: Option<u64>,
}

impl Requests<'_> {
    /// Returns the next request, if there is one.
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
