//! The output buffer: what was published, by name.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use namely_transport::matching::answers;
use namely_transport::publish::Publication;
use namely_wire::{DataView, InterestView, LpHeaders, Name};

use namely_transport::connection::Outbox;

/// Packets that answer Interests.
#[derive(Debug, Default)]
pub(super) struct Buffer {
    packets: Mutex<BTreeMap<Name, Vec<u8>>>,
}

impl Buffer {
    /// Takes in every packet of an object.
    pub(super) fn insert(&self, publication: Publication) {
        self.packets.lock().unwrap_or_else(PoisonError::into_inner).extend(publication.into_packets());
    }

    /// Answers `interest` with the first packet in the order of names that matches. Whether there was one.
    pub(super) fn answer(
        &self,
        interest: &InterestView<'_>,
        headers: &LpHeaders,
        outbox: &mut Outbox,
    ) -> bool {
        let components = interest.name.len() - usize::from(interest.implicit_digest().is_some());
        let prefix = interest.name.prefix(components).to_name();
        let packets = self.packets.lock().unwrap_or_else(PoisonError::into_inner);
        let within =
            packets.range(prefix.clone()..).take_while(|(name, _)| prefix.is_prefix_of(name.as_name()));
        let mut wires = within.map(|(_, wire)| wire);
        let found = wires.find(|wire| DataView::parse(wire).is_ok_and(|data| answers(interest, &data)));
        if let Some(wire) = found {
            outbox.send(headers, wire);
        }
        found.is_some()
    }
}
