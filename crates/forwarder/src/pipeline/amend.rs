//! Copies of Interests whose Nonce must differ from the received one.

use namely_wire::tlv::{Reader, read_tlv};
use namely_wire::types;

use crate::packet::PacketBuf;

/// The Interest in `packet` with `nonce` as its Nonce. It shares the buffer if the Nonce is the
/// same.
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
            let end = header + reader.position();
            // Packet format, Interest, Nonce: four octets. With any other number the copy would
            // need another length.
            let value = octets.get(end - element.value.len()..end).filter(|it| it.len() == nonce.len())?;
            let start = end - value.len();
            return B::build(octets.len(), |copy| {
                copy.copy_from_slice(octets);
                copy[start..end].copy_from_slice(&nonce);
            });
        }
    }
    None
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
    fn amending_changes_only_the_nonce() {
        let packet: Arc<[u8]> = interest().build().into();
        let same = with_nonce_of(&packet, [1, 2, 3, 4]).unwrap();
        assert!(Arc::ptr_eq(&packet, &same));
        let other = with_nonce_of(&packet, [9, 8, 7, 6]).unwrap();
        assert_eq!(&*other, interest().nonce([9, 8, 7, 6]).build());
    }
}
