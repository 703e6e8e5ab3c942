//! Reverse pull (HT-08). A client that has an object for a server publishes it below its own
//! prefix. It then sends the server an Interest with the object's signed metadata. The server pulls
//! the object like any other, and answers with a receipt.
//!
//! ```text
//! client                                                       server
//!   publish /client/upload/v=1 …
//!   Interest /server/32=push/<parameters digest> ────────────▶ accept_push: name, size, segments
//!     (ApplicationParameters: the metadata's Data)
//!   ◀──────────────── Interests for /client/upload/v=1/seg=… ─ pull
//!   ◀─────────────────────────── Data: receipt (length, SHA-256) of what was pulled and verified
//! ```

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

/// InterestLifetime of a push. The Interest is retransmitted until the receipt arrives.
const LIFETIME: Duration = Duration::from_secs(2);

// TYPE numbers from the range for applications.
const TLV_OCTETS: u32 = 0xf701;
const TLV_DIGEST: u32 = 0xf703;

/// Options of a push.
#[derive(Clone, Debug)]
pub struct PushOptions {
    /// Options of the publication.
    pub publish: PublishOptions,
    /// The trust policy that verifies the server's receipt.
    pub trust: Trust,
    /// The time that the server may take to pull the object.
    pub timeout: Duration,
}

impl Default for PushOptions {
    /// Trusts the user's keys and anchors, and waits ten minutes.
    fn default() -> Self {
        PushOptions {
            publish: PublishOptions::default(),
            trust: Trust::default(),
            timeout: Duration::from_secs(600),
        }
    }
}

/// A server's signed statement that it has the pushed object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Receipt {
    /// The object, with its version.
    pub name: Name,
    /// Its size, octets.
    pub octets: u64,
    /// The signer of the receipt.
    pub signer: Option<Name>,
}

impl Producer {
    /// Publishes `content` as `name`, below this socket's prefix, and requests that the server
    /// bound to `server` pulls it. Waits for the verified receipt.
    ///
    /// # Errors
    /// The object cannot be published, no server accepts it, or the receipt fails verification: see
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

    /// Returns the next push of a client to this socket's prefix. Waits at most as long as option
    /// `timeout_ms`.
    ///
    /// # Errors
    /// The call ended before a push arrived.
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

    /// [`Producer::accept_push`] without waiting: `EAGAIN` if there is none.
    ///
    /// # Errors
    /// As [`Producer::accept_push`].
    pub fn try_accept_push(&self) -> Result<Pushed, CallError> {
        self.accept_until(|| self.try_request(Queue::Pushes))
    }

    /// Returns the first push with valid metadata, and refuses the pushes before it.
    fn accept_until(&self, next: impl Fn() -> Result<Request, CallError>) -> Result<Pushed, CallError> {
        loop {
            match Pushed::of(next()?) {
                Ok(pushed) => return Ok(pushed),
                Err(request) => request.refuse(NackReason::NoRoute),
            }
        }
    }
}

/// Returns the receipt if `answer` is one; none if the push must be sent again.
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

/// A client's push. If it is dropped without a receipt, the client receives no answer.
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
            // The metadata names an object with its version. The name of the metadata's Data must
            // begin with the object's name without the version.
            let object = metadata.name.as_name().without_last(1);
            object.is_prefix_of(data.name).then_some(metadata)
        });
        match metadata {
            Some(metadata) => Ok(Pushed { request, metadata }),
            None => Err(request),
        }
    }

    /// The object, with its version. Its origin is not verified yet; [`Pushed::pull`] verifies it.
    pub fn name(&self) -> &Name {
        &self.metadata.name
    }

    /// The size in the client's metadata, octets.
    pub fn octets(&self) -> Option<u64> {
        self.metadata.size_octets
    }

    /// Fetches the object with `consumer`, and sends the client a receipt. The prefix and the trust
    /// policy of `consumer` decide which objects may be pulled.
    ///
    /// # Errors
    /// As [`Consumer::fetch`].
    pub fn pull(self, consumer: &Consumer, producer: &Producer) -> Result<Vec<u8>, FetchError> {
        let content = consumer.fetch(&self.metadata.name)?;
        let receipt = encode_receipt(content.len() as u64, sha256(&content));
        if let Err(error) = producer.reply(&self.request, &receipt, &PublishOptions::default()) {
            tracing::warn!(name = %self.name(), %error, "cannot send a receipt for a push");
        }
        Ok(content)
    }

    /// Refuses the push with a Nack to the client.
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

/// The reason for which a push failed.
#[derive(Debug, thiserror::Error)]
pub enum PushError {
    /// Caller or environment: the object could not be published.
    #[error(transparent)]
    Publish(#[from] PublishError),
    /// Caller: the trust policy cannot be used.
    #[error(transparent)]
    Trust(BindError),
    /// Environment: no router answers.
    #[error(transparent)]
    Connection(ConnectionError),
    /// Caller: the server's name is not allowed, or the metadata does not fit an Interest.
    #[error(transparent)]
    Send(SendError),
    /// The call ended before the receipt arrived.
    #[error(transparent)]
    Call(#[from] CallError),
    /// Peer or network: the server refused the push, or no server received it.
    #[error("no server takes it: {0}")]
    Refused(NackReason),
    /// Peer: the receipt cannot be verified, or its key was revoked.
    #[error("the server's receipt is not to be believed: {0}")]
    Receipt(#[source] FetchError),
    /// Peer: the receipt is for other content.
    #[error("the server's receipt is for other content than was pushed")]
    Differs,
    /// Peer: the receipt is malformed.
    #[error("the server's receipt is malformed: {0}")]
    Encoding(#[source] DecodeError),
}

impl PushError {
    /// The matching `errno` of a system call.
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

    /// Advice for the caller, if there is any.
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
