//! Copies of Interests in which something must differ from what was received.

use alloc::vec::Vec;

use namely_wire::tlv::{Reader, Writer, read_tlv};
use namely_wire::{InterestView, types};

use crate::packet::PacketBuf;

/// The Interest in `packet` with `nonce` as its Nonce: the same buffer if it has that one already.
pub(super) fn with_nonce_of<B: PacketBuf>(packet: &B, nonce: [u8; 4]) -> Option<B> {
    let octets = packet.as_ref();
    let value = read_tlv(octets).ok()?.value;
    let header = octets.len() - value.len();
    let mut reader = Reader::new(value);
    while let Ok(Some(element)) = reader.next_tlv() {
        if element.typ == types::NONCE {
            if element.value == nonce {
                return Some(packet.clone());
            }
            let mut copy = Vec::from(octets);
            let end = header + reader.position();
            copy.get_mut(end - nonce.len()..end)?.copy_from_slice(&nonce);
            return B::copy_from(&copy);
        }
    }
    None
}

/// The octets of `interest` without its ForwardingHint.
pub(super) fn without_hint(interest: &InterestView<'_>) -> Vec<u8> {
    let value = read_tlv(interest.wire).map_or(&[][..], |outer| outer.value);
    let mut kept = Writer::with_capacity(value.len());
    let mut reader = Reader::new(value);
    while let Ok(Some(element)) = reader.next_tlv() {
        if element.typ != types::FORWARDING_HINT {
            kept.raw(element.raw);
        }
    }
    let mut w = Writer::with_capacity(interest.wire.len());
    w.tlv(types::INTEREST, kept.as_bytes());
    w.into_vec()
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::sync::Arc;
    use namely_wire::{InterestBuilder, Name};

    fn interest() -> InterestBuilder {
        let name: Name = "/a/b".parse().unwrap();
        InterestBuilder::new(name).can_be_prefix().nonce([1, 2, 3, 4]).lifetime_ms(70_000).hop_limit(9)
    }

    #[test]
    fn only_the_nonce_differs_and_an_equal_one_shares_the_buffer() {
        let packet: Arc<[u8]> = interest().build().into();
        let same = with_nonce_of(&packet, [1, 2, 3, 4]).unwrap();
        assert!(Arc::ptr_eq(&packet, &same));
        let other = with_nonce_of(&packet, [9, 8, 7, 6]).unwrap();
        assert_eq!(&*other, interest().nonce([9, 8, 7, 6]).build());
    }

    #[test]
    fn only_the_hint_is_taken_out() {
        let hinted = interest().forwarding_hint("/region".parse().unwrap()).build();
        let stripped = without_hint(&InterestView::parse(&hinted).unwrap());
        assert_eq!(stripped, interest().build());
    }
}
