//! Reverse pull (HT-08): a client that has something for a server publishes it below its own prefix
//! and sends the server an Interest with the object's signed metadata; the server pulls the object
//! like any other, and answers with a receipt.
//!
//! ```text
//! client                                                       server
//!   publish /client/upload/v=1 …
//!   Interest /server/32=push/<parameters digest> ────────────▶ accept_push: name, size, segments
//!     (ApplicationParameters: the metadata's Data)
//!   ◀──────────────── Interests for /client/upload/v=1/seg=… ─ pull
//!   ◀─────────────────────────── Data: receipt (length, SHA-256) of what was pulled and verified
//! ```

use std::fmt;
use std::time::{Duration, Instant};

use namely_security::sha256;
use namely_transport::connection::ConnectionError;
use namely_transport::object::ObjectError;
use namely_wire::rdr::Metadata;
use namely_wire::tlv::{Reader, Writer};
use namely_wire::{DataView, DecodeError, NackReason, Name};

use super::push_interest::PUSH;
use super::shared::Queue;
use super::{Producer, PublishOptions, Request};
use crate::consumer::{Consumer, Datagram, Received, RecvError, SendError};
use crate::error::{BindError, CallError, FetchError, PublishError};
use crate::options::{ConsumerOptions, Trust};

/// InterestLifetime of a push; it is sent again until the receipt comes.
const LIFETIME: Duration = Duration::from_secs(2);

// TYPE numbers from the range for applications.
const TLV_OCTETS: u32 = 0xf701;
const TLV_DIGEST: u32 = 0xf703;

/// How something is pushed.
#[derive(Clone, Debug)]
pub struct PushOptions {
    /// How it is published.
    pub publish: PublishOptions,
    /// Whom to believe that the server is the server.
    pub trust: Trust,
    /// How long the server may take to pull it.
    pub timeout: Duration,
}

impl Default for PushOptions {
    /// The user's keys and anchors; ten minutes.
    fn default() -> Self {
        PushOptions {
            publish: PublishOptions::default(),
            trust: Trust::default(),
            timeout: Duration::from_secs(600),
        }
    }
}

/// A server's signed word that it has what was pushed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Receipt {
    /// The object, with its version.
    pub name: Name,
    /// Its octets.
    pub octets: u64,
    /// Who signed the receipt.
    pub signer: Option<Name>,
}

impl Producer {
    /// Publishes `content` as `name`, below this socket's prefix, and has the server bound to
    /// `server` pull it. Waits for the receipt, which is verified.
    ///
    /// # Errors
    /// It cannot be published, no server takes it, or the receipt is not to be believed: see
    /// [`PushError`].
    pub fn push(
        &self,
        server: &Name,
        name: &Name,
        content: &[u8],
        options: &PushOptions,
    ) -> Result<Receipt, PushError> {
        let until = Instant::now() + options.timeout;
        let (published, metadata) = self.publish_packets(name, &mut &*content, &options.publish)?;
        let consumer = Consumer::bind(
            server.clone(),
            ConsumerOptions {
                router: Some(self.router.clone()),
                keychain: self.options().keychain.clone(),
                trust: options.trust.clone(),
                ..ConsumerOptions::default()
            },
        )
        .map_err(|error| match error {
            BindError::Connection(error) => PushError::Connection(error),
            error => PushError::Trust(error),
        })?;
        let datagram = Datagram {
            parameters: Some(metadata.to_vec()),
            lifetime: Some(LIFETIME),
            must_be_fresh: Some(true),
            ..Datagram::new(server.join(PUSH))
        };
        let receipt = loop {
            if let Some(receipt) = receipt(consumer.request(&datagram))? {
                break receipt;
            }
            self.shared.check_open()?;
            if Instant::now() >= until {
                return Err(CallError::TimedOut.into());
            }
        };
        let (octets, digest) = decode_receipt(&receipt.content).map_err(PushError::Encoding)?;
        if octets != content.len() as u64 || digest != sha256(content) {
            return Err(PushError::Differs);
        }
        Ok(Receipt { name: published.name, octets, signer: receipt.signer })
    }

    /// The next thing that a client wants to push to this socket's prefix; waits as long as
    /// `timeout_ms` says.
    ///
    /// # Errors
    /// The call ended before there was one.
    pub fn accept_push(&self) -> Result<Pushed, CallError> {
        let timeout = self.options().timeout;
        self.accept_until(|| self.next_request(Queue::Pushes, timeout))
    }

    /// [`Producer::accept_push`], waiting for `timeout` at most.
    ///
    /// # Errors
    /// As [`Producer::accept_push`].
    pub fn accept_push_timeout(&self, timeout: Duration) -> Result<Pushed, CallError> {
        self.accept_until(|| self.next_request(Queue::Pushes, Some(timeout)))
    }

    /// [`Producer::accept_push`] without waiting: `EAGAIN` if there is nothing.
    ///
    /// # Errors
    /// As [`Producer::accept_push`].
    pub fn try_accept_push(&self) -> Result<Pushed, CallError> {
        self.accept_until(|| self.try_request(Queue::Pushes))
    }

    /// The first request that carries metadata: without, it is nobody's object.
    fn accept_until(&self, next: impl Fn() -> Result<Request, CallError>) -> Result<Pushed, CallError> {
        loop {
            match Pushed::of(next()?) {
                Ok(pushed) => return Ok(pushed),
                Err(request) => request.refuse(NackReason::NoRoute),
            }
        }
    }
}

/// The receipt, if `answer` is one; none where the push is to be sent again.
fn receipt(answer: Result<Received, RecvError>) -> Result<Option<Received>, PushError> {
    let error = match answer {
        Ok(received) => return Ok(Some(received)),
        Err(RecvError::Call(CallError::Interrupted)) => return Ok(None),
        Err(RecvError::Call(error)) => return Err(error.into()),
        Err(RecvError::Send(SendError::Call(error))) => return Err(error.into()),
        Err(RecvError::Send(error)) => return Err(PushError::Send(error)),
        Err(RecvError::Failed { error, .. }) => *error,
    };
    match error {
        FetchError::Object(ObjectError::NoAnswer { .. }) => Ok(None),
        FetchError::Object(ObjectError::Refused { reason, .. }) => match reason {
            NackReason::Congestion | NackReason::Duplicate => Ok(None),
            reason => Err(PushError::Refused(reason)),
        },
        error => Err(PushError::Receipt(error)),
    }
}

/// Something that a client wants to push. Dropped without a receipt, the client hears nothing.
#[derive(Debug)]
pub struct Pushed {
    request: Request,
    metadata: Metadata,
}

impl Pushed {
    fn of(request: Request) -> Result<Self, Request> {
        let metadata = request.parameters().and_then(|packet| {
            let data = DataView::parse(packet).ok()?;
            let metadata = Metadata::decode(data.content).ok()?;
            // It speaks of the object that it is named after.
            let object = metadata.name.as_name().without_last(1);
            object.is_prefix_of(data.name).then_some(metadata)
        });
        match metadata {
            Some(metadata) => Ok(Pushed { request, metadata }),
            None => Err(request),
        }
    }

    /// The object, with its version. Nobody has verified yet whose it is: [`Pushed::pull`] does.
    pub fn name(&self) -> &Name {
        &self.metadata.name
    }

    /// How large the client says that it is, octets.
    pub fn octets(&self) -> Option<u64> {
        self.metadata.size_octets
    }

    /// Fetches it by `consumer`, whose prefix and trust decide what may be pulled, and gives the
    /// client its receipt.
    ///
    /// # Errors
    /// As [`Consumer::fetch`].
    pub fn pull(self, consumer: &Consumer, producer: &Producer) -> Result<Vec<u8>, FetchError> {
        let content = consumer.fetch(&self.metadata.name)?;
        let receipt = encode_receipt(content.len() as u64, sha256(&content));
        if let Err(error) = producer.reply(&self.request, &receipt, &PublishOptions::default()) {
            tracing::warn!(name = %self.name(), %error, "no receipt for what was pushed");
        }
        Ok(content)
    }

    /// Refuses it: the client hears that there is no taker.
    pub fn refuse(self) {
        self.request.refuse(NackReason::NoRoute);
    }
}

fn encode_receipt(octets: u64, digest: [u8; 32]) -> Vec<u8> {
    let mut receipt = Writer::new();
    receipt.nni(TLV_OCTETS, octets).tlv(TLV_DIGEST, &digest);
    receipt.into_vec()
}

fn decode_receipt(content: &[u8]) -> Result<(u64, [u8; 32]), DecodeError> {
    let mut reader = Reader::new(content);
    let octets = reader.require(TLV_OCTETS)?.nni()?;
    let digest = reader.require(TLV_DIGEST)?.value;
    Ok((octets, digest.try_into().map_err(|_| DecodeError::BadDigestLength)?))
}

/// Why something was not pushed.
#[derive(Debug)]
pub enum PushError {
    /// Caller or environment: it could not be published.
    Publish(PublishError),
    /// Caller: whom to believe.
    Trust(BindError),
    /// Environment: no router.
    Connection(ConnectionError),
    /// Caller: the server's name, or there is too much metadata for an Interest.
    Send(SendError),
    /// The call ended before the receipt was there.
    Call(CallError),
    /// Peer or network: the server refuses, or there is none.
    Refused(NackReason),
    /// Peer: the receipt cannot be verified, or its key was revoked.
    Receipt(FetchError),
    /// Peer: the receipt is for something else.
    Differs,
    /// Peer: the receipt is malformed.
    Encoding(DecodeError),
}

impl PushError {
    /// As a system call would say it.
    pub fn errno(&self) -> i32 {
        match self {
            PushError::Publish(error) => error.errno(),
            PushError::Trust(error) => error.errno(),
            PushError::Connection(_) => crate::errno::NOTCONN,
            PushError::Call(error) => error.errno(),
            PushError::Refused(_) => crate::errno::NETUNREACH,
            PushError::Send(error) => error.errno(),
            PushError::Receipt(FetchError::Revoked { .. }) => crate::errno::KEYREVOKED,
            PushError::Receipt(_) => crate::errno::KEYREJECTED,
            PushError::Differs | PushError::Encoding(_) => crate::errno::BADMSG,
        }
    }

    /// What the caller can do about it, if there is something to say.
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            PushError::Publish(error) => error.hint(),
            PushError::Trust(error) => error.hint(),
            PushError::Connection(error) => error.hint(),
            PushError::Send(error) => error.hint(),
            PushError::Call(error) => error.hint(),
            PushError::Receipt(error) => error.hint(),
            PushError::Refused(_) | PushError::Differs | PushError::Encoding(_) => None,
        }
    }
}

impl fmt::Display for PushError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PushError::Publish(error) => error.fmt(f),
            PushError::Trust(error) => error.fmt(f),
            PushError::Connection(error) => error.fmt(f),
            PushError::Send(error) => error.fmt(f),
            PushError::Call(error) => error.fmt(f),
            PushError::Refused(reason) => write!(f, "no server takes it: {reason}"),
            PushError::Receipt(error) => write!(f, "the server's receipt is not to be believed: {error}"),
            PushError::Differs => f.write_str("the server's receipt is for other content than was pushed"),
            PushError::Encoding(error) => write!(f, "the server's receipt is malformed: {error}"),
        }
    }
}

impl std::error::Error for PushError {}

impl From<PublishError> for PushError {
    fn from(error: PublishError) -> Self {
        PushError::Publish(error)
    }
}

impl From<CallError> for PushError {
    fn from(error: CallError) -> Self {
        PushError::Call(error)
    }
}
