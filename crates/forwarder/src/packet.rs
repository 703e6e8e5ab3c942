//! What goes into the core and what comes out: packets in buffers that the home supplies.

use alloc::sync::Arc;
use alloc::vec::Vec;

use namely_wire::types::GENERIC_COMPONENT;
use namely_wire::{Component, LpHeaders, NameRef};

use crate::face_id::FaceId;
use crate::tier::Tier;
use crate::trace::Tracer;

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

/// Takes the packets that the core sends.
///
/// A home may also bring a [`Tier`] below the content store in memory, and a [`Tracer`] that
/// records the decisions on packets. A home without one names `()` and keeps the default method;
/// the compiler then removes the calls.
pub trait Output<B> {
    /// The tier of this home.
    type Tier: Tier<B>;
    /// The tracer of this home.
    type Tracer: Tracer<B>;

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

    /// The tier, if there is one now.
    #[inline(always)]
    fn tier(&mut self) -> Option<&mut Self::Tier> {
        None
    }

    /// The tracer, if packets are traced now.
    #[inline(always)]
    fn tracer(&mut self) -> Option<&mut Self::Tracer> {
        None
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
    type Tier = ();
    type Tracer = ();

    fn send(&mut self, face: FaceId, packet: Outgoing<B>) {
        self.push((face, packet));
    }
}
