//! Verified data, as a type that only a verifier can create.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use namely_wire::{Component, ContentType, DataView, Name, NameRef};

/// Buffers that can hold a verified packet, because no other owner can change their octets. Sealed.
pub trait PacketOctets: AsRef<[u8]> + sealed::Sealed {}

impl PacketOctets for Vec<u8> {}
impl PacketOctets for Box<[u8]> {}
impl PacketOctets for Arc<[u8]> {}
impl PacketOctets for &[u8] {}

mod sealed {
    pub trait Sealed {}
    impl Sealed for Vec<u8> {}
    impl Sealed for Box<[u8]> {}
    impl Sealed for std::sync::Arc<[u8]> {}
    impl Sealed for &[u8] {}
}

/// A Data that passed a [`Verifier`](crate::Verifier) or a verified manifest, with the reason for
/// trust.
///
/// No other code can create a `Verified`:
///
/// ```compile_fail,E0451
/// use namely_security::{TrustReason, Verified};
/// let reason = TrustReason::Digest;
/// let forged = Verified { octets: vec![6, 0], name: 0..0, content: 0..0, reason };
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct Verified<B = Vec<u8>> {
    octets: B,
    name: Range<usize>,
    content: Range<usize>,
    reason: TrustReason,
}

impl<B: PacketOctets> Verified<B> {
    /// Creates a verified packet. `spans` must be those of `octets`. Only verifiers may call this
    /// function, so it is private to the crate.
    pub(crate) fn new(octets: B, spans: Spans, reason: TrustReason) -> Self {
        Verified { octets, name: spans.name, content: spans.content, reason }
    }

    /// The Data's name.
    pub fn name(&self) -> NameRef<'_> {
        NameRef::parse_value(&self.octets.as_ref()[self.name.clone()]).expect("parsed when it was verified")
    }

    /// The Content's octets.
    pub fn content(&self) -> &[u8] {
        &self.octets.as_ref()[self.content.clone()]
    }

    /// The ContentType.
    pub fn content_type(&self) -> ContentType {
        self.view().content_type
    }

    /// The FinalBlockId.
    pub fn final_block_id(&self) -> Option<Component<'_>> {
        self.view().final_block_id
    }

    /// The whole packet, parsed.
    pub(crate) fn view(&self) -> DataView<'_> {
        DataView::parse(self.octets.as_ref()).expect("parsed when it was verified")
    }

    /// The whole packet's octets.
    pub fn octets(&self) -> &[u8] {
        self.octets.as_ref()
    }

    /// Returns the buffer.
    pub fn into_octets(self) -> B {
        self.octets
    }

    /// Returns the buffer, and the range of the Content in it.
    pub fn into_content(self) -> (B, Range<usize>) {
        (self.octets, self.content)
    }

    /// Borrows the packet, which stays verified.
    pub fn as_ref(&self) -> Verified<&[u8]> {
        Verified {
            octets: self.octets.as_ref(),
            name: self.name.clone(),
            content: self.content.clone(),
            reason: self.reason.clone(),
        }
    }

    /// The reason for trusting the packet.
    pub fn reason(&self) -> &TrustReason {
        &self.reason
    }
}

impl<B: PacketOctets> fmt::Debug for Verified<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Verified({}, {})", self.name(), self.reason)
    }
}

/// Ranges of name and content in a packet.
pub(crate) struct Spans {
    name: Range<usize>,
    content: Range<usize>,
}

impl Spans {
    pub(crate) fn of(view: &DataView<'_>) -> Self {
        Spans { name: span(view.wire, view.name.as_bytes()), content: span(view.wire, view.content) }
    }
}

/// Returns the range of `part`, a slice of `whole`. The slice of an absent element is empty and
/// need not lie in `whole`.
fn span(whole: &[u8], part: &[u8]) -> Range<usize> {
    if part.is_empty() {
        return 0..0;
    }
    let start = part.as_ptr() as usize - whole.as_ptr() as usize;
    start..start + part.len()
}

/// The reason for trusting a packet, from the strongest to the weakest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TrustReason {
    /// Signed by a key whose certificate leads to a trust anchor.
    Chain(Arc<Chain>),
    /// Signed by a key shared with the signer; the key's name is given.
    SharedKey(Name),
    /// A verified manifest lists the packet's digest.
    Manifest(Arc<ManifestTrust>),
    /// The packet's own digest matches: the packet is intact, but of unknown origin. Occurs only
    /// under a digest-only policy.
    Digest,
    /// The packet was not checked. Occurs only under a policy that accepts all packets.
    Unchecked,
}

impl TrustReason {
    /// Returns true if the reason proves the packet's origin, not only that the packet is intact.
    pub fn is_authentic(&self) -> bool {
        match self {
            TrustReason::Chain(_) | TrustReason::SharedKey(_) => true,
            TrustReason::Manifest(trust) => trust.because.is_authentic(),
            TrustReason::Digest | TrustReason::Unchecked => false,
        }
    }

    /// Returns the chain of the key that vouches for the packet, if that key has certificates.
    pub fn chain(&self) -> Option<&Arc<Chain>> {
        match self {
            TrustReason::Chain(chain) => Some(chain),
            TrustReason::Manifest(trust) => trust.because.chain(),
            TrustReason::SharedKey(_) | TrustReason::Digest | TrustReason::Unchecked => None,
        }
    }

    /// Returns the key that vouches for the packet, if there is one.
    pub fn key_name(&self) -> Option<&Name> {
        match self {
            TrustReason::Chain(chain) => Some(&chain.key),
            TrustReason::SharedKey(key) => Some(key),
            TrustReason::Manifest(trust) => trust.because.key_name(),
            TrustReason::Digest | TrustReason::Unchecked => None,
        }
    }
}

impl fmt::Display for TrustReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TrustReason::Chain(chain) => {
                write!(f, "signed by {}, trusted through anchor {}", chain.key, chain.anchor())
            }
            TrustReason::SharedKey(key) => write!(f, "signed with the shared key {key}"),
            TrustReason::Manifest(trust) => write!(f, "listed in {}, {}", trust.manifest, trust.because),
            TrustReason::Digest => f.write_str("intact, of unknown origin (digest only)"),
            TrustReason::Unchecked => f.write_str("not checked"),
        }
    }
}

/// The manifest that vouches for a segment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ManifestTrust {
    /// The manifest's name.
    pub manifest: Name,
    /// The reason for trusting the manifest.
    pub because: TrustReason,
}

/// The certificates from the signing key up to the trust anchor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chain {
    /// The key that signed the packet.
    pub key: Name,
    /// Names of the certificates: first that of `key`, last the anchor.
    pub certificates: Vec<Name>,
}

impl Chain {
    /// The trust anchor's name.
    pub(crate) fn anchor(&self) -> &Name {
        self.certificates.last().unwrap_or(&self.key)
    }
}
