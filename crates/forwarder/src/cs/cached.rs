//! A Data on its way into the content store, and in it.

use alloc::boxed::Box;

use namely_wire::DataView;

use crate::packet::PacketBuf;
use crate::pit::entry::Span;
use crate::pool::boxed;
use crate::prefix_table::Key;

/// A Data in the store.
pub(super) struct Cached<B> {
    pub(super) packet: B,
    pub(super) name: Span,
    pub(super) fresh_until_ns: u64,
    /// The implicit digest, once somebody needed it.
    pub(super) digest: Option<KeptDigest>,
    /// It answered an Interest. Kept only for a home with a tier.
    pub(super) was_asked_for: bool,
    /// The tier has it.
    pub(super) from_tier: bool,
}

/// A digest in memory of its own: few Data need one, and it would make each entry half as large
/// again.
pub(super) type KeptDigest = Box<[[u8; 32]; 1]>;

/// `None` if there is no memory for it: then it is computed again.
pub(super) fn kept_digest(digest: [u8; 32]) -> Option<KeptDigest> {
    boxed(1, || digest).ok()?.try_into().ok()
}

/// A Data that comes in.
pub(crate) struct Arriving<'a, B> {
    pub(crate) packet: &'a B,
    pub(crate) view: &'a DataView<'a>,
    /// Its name.
    pub(crate) key: Key<'a>,
    /// Its implicit digest, if that is known.
    pub(crate) digest: Option<[u8; 32]>,
    pub(crate) fresh_until_ns: u64,
    /// It comes from the tier, which need not be given it again.
    pub(crate) from_tier: bool,
}

impl<'a, B> Arriving<'a, B> {
    /// One that comes from upstream now.
    pub(crate) fn new(
        packet: &'a B,
        view: &'a DataView<'a>,
        key: Key<'a>,
        digest: Option<[u8; 32]>,
        now_ns: u64,
    ) -> Self {
        let fresh_until_ns = now_ns.saturating_add(view.freshness_ms.saturating_mul(1_000_000));
        Arriving { packet, view, key, digest, fresh_until_ns, from_tier: false }
    }
}

impl<B: PacketBuf> Arriving<'_, B> {
    /// Octets that it is charged for.
    #[inline]
    pub(super) fn octets(&self) -> usize {
        self.packet.octets_held().max(self.view.wire.len())
    }
}

impl<B: PacketBuf> Cached<B> {
    #[inline]
    pub(super) fn new(arriving: &Arriving<'_, B>) -> Self {
        Cached {
            packet: arriving.packet.clone(),
            name: Span::of(arriving.view.wire, arriving.view.name.as_bytes()),
            fresh_until_ns: arriving.fresh_until_ns,
            digest: arriving.digest.and_then(kept_digest),
            was_asked_for: false,
            from_tier: arriving.from_tier,
        }
    }
}

impl<B: AsRef<[u8]>> Cached<B> {
    pub(super) fn name(&self) -> &[u8] {
        self.name.slice(self.packet.as_ref())
    }
}
