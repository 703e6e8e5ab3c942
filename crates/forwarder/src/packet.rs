//! What goes into the core and what comes out: packets in buffers that the home supplies.

use alloc::sync::Arc;
use alloc::vec::Vec;

use namely_wire::types::GENERIC_COMPONENT;
use namely_wire::{Component, LpHeaders, NameRef};

use crate::face_id::FaceId;
use crate::tier::{Leaving, TierAnswer, TierWrite, Wanted};
use crate::trace::Step;

/// An immutable packet whose clones share the octets: a clone costs a reference count.
pub trait PacketBuf: Clone + AsRef<[u8]> {
    /// A new buffer of `len` octets, all of which `write` writes; `None` when the home has no
    /// buffer to give. Used only where the core must change a packet: a missing Nonce, a forwarding
    /// hint that has done its work, the Nonce of a Nack.
    fn build(len: usize, write: impl FnOnce(&mut [u8])) -> Option<Self>;

    /// Octets of memory that it keeps from other uses, at least its length: what the content store
    /// is charged for it.
    fn octets_held(&self) -> usize {
        self.as_ref().len()
    }
}

/// For homes where memory does not end; the standard library makes it or ends the program.
impl PacketBuf for Arc<[u8]> {
    fn build(len: usize, write: impl FnOnce(&mut [u8])) -> Option<Self> {
        let mut packet: Arc<[u8]> = core::iter::repeat_n(0, len).collect();
        write(Arc::get_mut(&mut packet)?);
        Some(packet)
    }
}

/// A network packet as the link layer yields it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Received<B> {
    /// One bare Interest or Data TLV; with [`LpHeaders::nack`] set, the Interest that is refused.
    pub packet: B,
    /// Its NDNLPv2 headers.
    pub headers: LpHeaders,
}

impl<B> Received<B> {
    /// A packet without headers.
    pub fn bare(packet: B) -> Self {
        Received { packet, headers: LpHeaders::default() }
    }
}

/// A network packet that a face should send.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outgoing<B> {
    /// One bare Interest or Data TLV.
    pub packet: B,
    /// The headers to send it with.
    pub headers: LpHeaders,
    /// The offset of HopLimit's octet in `packet` and the octet to send in its place: it is
    /// decremented without copying the packet.
    pub hop_limit: Option<(usize, u8)>,
}

/// Takes the packets that the core sends, and has what the home brings below it.
pub trait Output<B> {
    /// Sends `packet` through `face`. Called with no lock held. The face may have been released
    /// since; the packet is then to be dropped.
    fn send(&mut self, face: FaceId, packet: Outgoing<B>);

    /// Data showed where a prefix can be reached. Called with no lock held. Who keeps routes may
    /// make one of it ([`crate::Router::learn`]); by default nobody does.
    fn learned(&mut self, learned: Learned<'_>) {
        let _ = learned;
    }

    /// Data of an application answers a discovery of another host, and is sent after this. Whoever
    /// has announced its prefix may have it said along with this very packet; by default nothing
    /// is. Called with no lock held.
    fn offered(&mut self, face: FaceId, data: NameRef<'_>, packet: &B) {
        let _ = (face, data, packet);
    }

    /// True if the home traces packets, and is told what is decided of each. For any other the
    /// compiler leaves out all that leads to the two calls that follow.
    const TRACES: bool = false;

    /// Something was decided of the packet that is being processed. It may be called under a lock,
    /// and so must neither wait nor call back.
    #[inline]
    fn decided(&mut self, step: Step) {
        let _ = step;
    }

    /// A pending Interest has ended without an answer, for which so many faces waited and so many
    /// were asked. As [`Output::decided`].
    #[inline]
    fn ended(&mut self, interest: &B, waiting: usize, asked: usize) {
        let _ = (interest, waiting, asked);
    }

    /// True if the home may have a tier below the content store in memory. Without one, nothing of
    /// what follows is called, and the compiler leaves out what leads there.
    const HAS_TIER: bool = false;

    /// True if the home has a tier now: for one that may come to have it later.
    #[inline]
    fn has_tier(&self) -> bool {
        Self::HAS_TIER
    }

    /// A packet is about to be processed: what is sent and asked from now on is its doing. For who
    /// times it.
    fn packet_begins(&mut self) {}

    /// The memory answers an Interest, by what is sent next. For who times it.
    fn answers_from_memory(&mut self) {}

    /// An Interest asks for what the memory does not hold; see [`crate::Wanted`]. Called with no
    /// lock held; must not wait.
    fn tier_read(&mut self, wanted: &Wanted<'_>) -> TierAnswer {
        let _ = wanted;
        TierAnswer::NoTier
    }

    /// Returns true while the tier has as many requests pending as its threshold says.
    fn tier_is_busy(&self) -> bool {
        false
    }

    /// A Data leaves the memory to make room, and did not come from the tier. Called with no lock
    /// held; must not wait.
    fn tier_write(&mut self, leaving: Leaving<B>) -> TierWrite {
        let _ = leaving;
        TierWrite::NoTier
    }
}

/// Data that answered a discovery (strategy self-learning): by this face its prefix can be reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Learned<'a> {
    /// Where it came from.
    pub face: FaceId,
    /// Its name.
    pub data: NameRef<'a>,
    /// The whole of it, by which a home finds what came with it.
    pub wire: &'a [u8],
}

impl<'a> Learned<'a> {
    /// What a route may be made of without anybody's word for it: the object that the Data belongs
    /// to. These are the components before the first that naming conventions give a meaning
    /// (segment, version, timestamp, keyword), or the whole name where there is none: who answered
    /// for `/a/b` is no way to the rest of `/a`. `None` where nothing is left, and for names that
    /// do not leave their host or link.
    pub fn object(&self) -> Option<NameRef<'a>> {
        let first = self.data.component(0)?;
        if [b"localhost".as_slice(), b"localhop"].contains(&first.value) {
            return None;
        }
        let is_plain = |component: &Component<'_>| component.typ == GENERIC_COMPONENT;
        let plain = self.data.components().take_while(is_plain).count();
        (plain > 0).then(|| self.data.prefix(plain))
    }
}

impl<B> Output<B> for Vec<(FaceId, Outgoing<B>)> {
    fn send(&mut self, face: FaceId, packet: Outgoing<B>) {
        self.push((face, packet));
    }
}
