//! A Nack arrives from upstream.

use lock_api::RawMutex;
use namely_wire::{InterestView, NackReason};

use crate::ask::Ask;
use crate::counters::DropReason;
use crate::faces::{FaceHold, LinkType};
use crate::forwarder::Forwarder;
use crate::packet::{Output, PacketBuf, Received};
use crate::pit::PitEntry;
use crate::strategy::{NackVerdict, Strategy};

impl<B: PacketBuf, R: RawMutex> Forwarder<B, R> {
    pub(crate) fn receive_nack(
        &self,
        ingress: &FaceHold,
        received: Received<B>,
        reason: NackReason,
        now_ns: u64,
        out: &mut impl Output<B>,
    ) -> Result<(), DropReason> {
        ingress.cell.counters.in_nacks.add(1);
        if ingress.cell.link_type != LinkType::PointToPoint {
            return Err(DropReason::NackLinkType);
        }
        let view = InterestView::parse(received.packet.as_ref()).map_err(|_| DropReason::Malformed)?;
        let nonce = view.nonce.ok_or(DropReason::NackUnmatched)?;
        let hashes = self.hasher.prefixes(view.name);
        let ask = Ask::new(&view, &hashes);
        let strategy = self.strategies.lock().find(ask.key());

        let mut pit = self.pit.lock();
        let id = pit.find_sent(&ask, ingress.cell.key, nonce).ok_or(DropReason::NackUnmatched)?;
        let Some(entry) = pit.get_mut(id) else { return Ok(()) };
        entry
            .out_records
            .iter_mut()
            .filter(|record| record.face == ingress.cell.key)
            .for_each(|record| record.nack = Some(reason));
        let in_records = &entry.in_records;
        let is_downstream = |face| in_records.iter().any(|record| record.face == face);
        match strategy.receive_nack(&entry.out_records, &is_downstream) {
            NackVerdict::Wait => {}
            NackVerdict::TellOne(face, reason) => {
                let kept = entry.packet.clone();
                let record = pit.take_downstream(id, face);
                drop(pit);
                if let Some(record) = record {
                    self.nack_downstream(&kept, &record, reason, out);
                }
            }
            NackVerdict::TellAll(reason) => {
                let entry = pit.take(id);
                drop(pit);
                if let Some(entry) = entry {
                    self.nack_all(&entry, reason, now_ns, out);
                }
            }
        }
        Ok(())
    }
    /// Tells every downstream that still waits.
    fn nack_all(&self, entry: &PitEntry<B>, reason: NackReason, now_ns: u64, out: &mut impl Output<B>) {
        self.counters.unsatisfied.add(1);
        self.bury_nonces(entry, now_ns);
        let waiting = entry.in_records.iter().filter(|record| record.expires_at_ns > now_ns);
        waiting.for_each(|record| self.nack_downstream(&entry.packet, record, reason, out));
    }
}
