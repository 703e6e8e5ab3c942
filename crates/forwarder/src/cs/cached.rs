//! A Data that is being inserted into the content store, or is in it.

use alloc::boxed::Box;

use namely_wire::DataView;

use crate::packet::PacketBuf;
use crate::pit::entry::Span;
use crate::pool::boxed;
use crate::prefix_table::Key;

/// A Data in the store.
pub(super) struct CsEntry<B> {
    pub(super) packet: B,
    pub(super) name: Span,
    pub(super) fresh_until_ns: u64,
    /// The implicit digest, once it was computed.
    pub(super) digest: Option<BoxedDigest>,
    /// It answered an Interest. Recorded only with a tier.
    pub(super) was_requested: bool,
    /// The tier stores it.
    pub(super) from_tier: bool,
}

/// A digest in memory of its own: few Data need one, and inline it would enlarge each entry by
/// half.
pub(super) type BoxedDigest = Box<[[u8; 32]; 1]>;

/// `None` if there is no memory for it: then it is computed again.
pub(super) fn boxed_digest(digest: [u8; 32]) -> Option<BoxedDigest> {
    boxed(1, || digest).ok()?.try_into().ok()
}

/// A Data to be inserted.
pub(crate) struct IncomingData<'a, B> {
    pub(crate) packet: &'a B,
    pub(crate) view: &'a DataView<'a>,
    /// Its name.
    pub(crate) key: Key<'a>,
    /// Its implicit digest, if that is known.
    pub(crate) digest: Option<[u8; 32]>,
    pub(crate) fresh_until_ns: u64,
    /// It comes from the tier, so it need not be written there again.
    pub(crate) from_tier: bool,
}

impl<'a, B> IncomingData<'a, B> {
    /// A Data that comes from upstream now.
    pub(crate) fn new(
        packet: &'a B,
        view: &'a DataView<'a>,
        key: Key<'a>,
        digest: Option<[u8; 32]>,
        now_ns: u64,
    ) -> Self {
        // Saturating: a producer may choose any FreshnessPeriod.
        let fresh_until_ns = now_ns.saturating_add(view.freshness_ms.saturating_mul(1_000_000));
        IncomingData { packet, view, key, digest, fresh_until_ns, from_tier: false }
    }
}

impl<B: PacketBuf> IncomingData<'_, B> {
    /// Octets that it is charged for.
    #[inline]
    pub(super) fn octets(&self) -> usize {
        self.packet.memory_octets().max(self.view.wire.len())
    }
}

impl<B: PacketBuf> CsEntry<B> {
    #[inline]
    pub(super) fn new(arriving: &IncomingData<'_, B>) -> Self {
        CsEntry {
            // A clone of the reference: the octets are shared with the packet under way.
            packet: arriving.packet.clone(),
            name: Span::of(arriving.view.wire, arriving.view.name.as_bytes()),
            fresh_until_ns: arriving.fresh_until_ns,
            digest: arriving.digest.and_then(boxed_digest),
            was_requested: false,
            from_tier: arriving.from_tier,
        }
    }
}

impl<B: AsRef<[u8]>> CsEntry<B> {
    pub(super) fn name(&self) -> &[u8] {
        self.name.slice(self.packet.as_ref())
    }
}
