//! Packets as linear sk_buffs, held by reference.

use core::ffi::c_void;

use namely_forwarder::PacketBuf;

unsafe extern "C" {
    fn nk_skb_get(skb: *mut c_void);
    /// Takes one more reference. From now on the octets before the packet may be written.
    fn nk_skb_keep(skb: *mut c_void);
    fn nk_skb_put(skb: *mut c_void);
    /// A new linear sk_buff with `len` octets of zero and headroom for any device; null if there is
    /// no memory.
    fn nk_skb_make(len: usize) -> *mut c_void;
    fn nk_skb_data(skb: *mut c_void) -> *const u8;
    fn nk_skb_held(skb: *mut c_void) -> u32;
}

/// A part of a linear sk_buff; a clone is a reference. Invariant: `data` is the first of `len`
/// octets of the sk_buff's linear data. This value holds one reference to it, and the octets are
/// not written.
pub struct Skb {
    skb: *mut c_void,
    data: *const u8,
    len: u32,
}

// SAFETY: references of an sk_buff are counted atomically, and any processor may put one.
unsafe impl Send for Skb {}
// SAFETY: memory that is reached through a shared `Skb` is only read.
unsafe impl Sync for Skb {}

impl Skb {
    /// # Safety
    ///
    /// `skb` is linear, and `len` octets from its data on are its packet. They are not written from
    /// now on, and one reference passes to this value.
    pub(crate) unsafe fn from_raw(skb: *mut c_void, len: u32) -> Self {
        // SAFETY: `skb` is good.
        Skb { skb, data: unsafe { nk_skb_data(skb) }, len }
    }

    /// Returns the sk_buff with this value's reference. The packet must be the whole sk_buff.
    pub(crate) fn into_raw(self) -> *mut c_void {
        let skb = self.skb;
        core::mem::forget(self);
        skb
    }

    /// Returns a range of the packet, which keeps the whole sk_buff. From now on another owner may
    /// overwrite the octets before the range. Returns `None` if the range exceeds the packet.
    pub(crate) fn part(&self, offset: usize, len: usize) -> Option<Self> {
        let part = self.as_ref().get(offset..offset.checked_add(len)?)?;
        let (data, len) = (part.as_ptr(), part.len() as u32);
        // SAFETY: this holds a reference, so there is one to add to; the part is of its octets.
        unsafe { nk_skb_keep(self.skb) };
        Some(Skb { skb: self.skb, data, len })
    }

    /// The sk_buff, and the offset of this packet in its data.
    pub(crate) fn place(&self) -> (*mut c_void, u32) {
        // SAFETY: the reference that this holds keeps the sk_buff.
        let start = unsafe { nk_skb_data(self.skb) };
        (self.skb, self.data.addr().wrapping_sub(start.addr()) as u32)
    }
}

impl Clone for Skb {
    fn clone(&self) -> Self {
        // SAFETY: this holds a reference, so there is one to add to.
        unsafe { nk_skb_get(self.skb) };
        Skb { skb: self.skb, data: self.data, len: self.len }
    }
}

impl Drop for Skb {
    fn drop(&mut self) {
        // SAFETY: this holds a reference and gives it back once.
        unsafe { nk_skb_put(self.skb) };
    }
}

impl AsRef<[u8]> for Skb {
    #[inline]
    fn as_ref(&self) -> &[u8] {
        // SAFETY: the invariant: the reference keeps `len` octets from `data` on, and they are not
        // written.
        unsafe { core::slice::from_raw_parts(self.data, self.len as usize) }
    }
}

impl PacketBuf for Skb {
    fn build(len: usize, write: impl FnOnce(&mut [u8])) -> Option<Self> {
        let packet_octets = u32::try_from(len).ok()?;
        // SAFETY: the only argument is a length.
        let skb = unsafe { nk_skb_make(len) };
        if skb.is_null() {
            return None;
        }
        // SAFETY: a new linear sk_buff, whose `len` octets are set and which is not shared yet.
        write(unsafe { core::slice::from_raw_parts_mut(nk_skb_data(skb).cast_mut(), len) });
        // SAFETY: its only reference passes on here, and it is not written from now on.
        Some(unsafe { Skb::from_raw(skb, packet_octets) })
    }

    fn memory_octets(&self) -> usize {
        // SAFETY: the reference that this holds keeps the sk_buff.
        unsafe { nk_skb_held(self.skb) as usize }
    }
}
