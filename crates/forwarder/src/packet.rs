//! Input and output of the core: packets in buffers that the embedder supplies.

use alloc::sync::Arc;
use alloc::vec::Vec;

use namely_wire::types::GENERIC_COMPONENT;
use namely_wire::{Component, LpHeaders, NameRef};

use crate::face_id::FaceId;
use crate::tier::Tier;
use crate::trace::Tracer;

/// An immutable packet whose clones share the octets: a clone costs a reference count.
pub trait PacketBuf: Clone + AsRef<[u8]> {
    /// A new buffer of `len` octets. `write` must write all of them. `None` if the embedder has no
    /// free buffer. Used only where the core must change an Interest (to add or replace its Nonce,
    /// or to remove a forwarding hint), and for the announcements of a congested tier.
    fn build(len: usize, write: impl FnOnce(&mut [u8])) -> Option<Self>;

    /// Octets of memory that the packet occupies, at least its length. The content store is charged
    /// for them.
    fn memory_octets(&self) -> usize {
        self.as_ref().len()
    }
}

/// For embedders whose allocation never fails: the standard library aborts the program instead.
impl PacketBuf for Arc<[u8]> {
    fn build(len: usize, write: impl FnOnce(&mut [u8])) -> Option<Self> {
        // Zeroed first, so that `write` receives initialized memory without unsafe code.
        let mut packet: Arc<[u8]> = core::iter::repeat_n(0, len).collect();
        // Never `None`: there is no other reference yet.
        write(Arc::get_mut(&mut packet)?);
        Some(packet)
    }
}

/// A network packet as the link layer delivers it.
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
    /// The offset of HopLimit's octet in `packet` and the octet to send in its place. HopLimit is
    /// thus decremented without a copy of the packet.
    pub hop_limit: Option<(usize, u8)>,
}

/// Takes the packets that the core sends.
///
/// An embedder may also supply a [`Tier`] below the content store in memory, and a [`Tracer`] that
/// records the decisions on packets. Without one it uses `()` and the default method; the compiler
/// then removes the calls.
pub trait Output<B> {
    /// The tier of this embedder.
    type Tier: Tier<B>;
    /// The tracer of this embedder.
    type Tracer: Tracer<B>;

    /// Sends `packet` through `face`. Called with no lock held. If the face has been released
    /// since, the packet must be dropped.
    fn send(&mut self, face: FaceId, packet: Outgoing<B>);

    /// Reports Data that revealed a path to a prefix. Called with no lock held. An embedder with
    /// routes may add one ([`crate::Router::learn`]); the default does nothing.
    fn learned(&mut self, learned: Learned<'_>) {
        let _ = learned;
    }

    /// Reports that Data of an application answers a discovery of another host. The Data is sent
    /// after this call. An embedder that has the announcement of its prefix may attach it to this
    /// very packet; the default does nothing. Called with no lock held.
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

/// Data that answered a discovery (strategy self-learning): its prefix can be reached through this
/// face.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Learned<'a> {
    /// The face that it came from.
    pub face: FaceId,
    /// Its name.
    pub data: NameRef<'a>,
    /// The whole Data, in the buffer of the received packet. An embedder may identify the packet by
    /// this address, for example to find the announcement that arrived with it.
    pub wire: &'a [u8],
}

impl<'a> Learned<'a> {
    /// The object that the Data belongs to: the prefix of a route that is learned without an
    /// announcement. It ends before the first component that is not generic, such as a segment, a
    /// version, a timestamp or a keyword of the naming conventions; without such a component it is
    /// the whole name. A shorter prefix would be wrong, because a face that answered for `/a/b`
    /// need not be a path to the rest of `/a`. `None` if no component is left, and for names that
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
