//! The pipelines of a Nack from an upstream.
//!
//! Section numbers are those of NFD's developer guide, where the pipelines of a Nack are 4.4.

use lock_api::RawMutex;
use namely_messages::LinkType;
use namely_wire::{InterestView, NackReason};

use super::egress::nack_downstream;
use super::hooks::Hooks;
use super::learning::await_groups;
use super::{Pipeline, decided};
use crate::counters::{DropReason, Packets};
use crate::faces::FaceHold;
use crate::hash::NameHashes;
use crate::interest_key::InterestKey;
use crate::packet::{Output, PacketBuf, Received};
use crate::pit::entry::PitEntry;
use crate::strategy::memory_id::MemoryId;
use crate::strategy::{NackVerdict, StrategyKind};
use crate::trace::Step;

impl<'t, B: PacketBuf, R: RawMutex> Pipeline<'t, '_, B, R> {
    /// The Incoming Nack pipeline (guide 4.4.1). A Nack counts only if the Interest was last sent
    /// to the face with the Nack's Nonce. On links with several peers a Nack never counts, because
    /// only one of the peers refuses.
    #[inline(never)]
    pub(crate) fn receive_nack(
        self,
        ingress: &FaceHold<'_>,
        received: &Received<B>,
        hashes: &NameHashes,
        reason: NackReason,
        out: &mut impl Output<B>,
    ) -> Result<(), DropReason> {
        ingress.count(Packets::InNacks);
        if ingress.link_type() != LinkType::PointToPoint {
            return Err(DropReason::NackLinkType);
        }
        let parsed = InterestView::parse(received.packet.as_ref());
        let Ok(view) = &parsed else { return Err(DropReason::Malformed) };
        let nonce = view.nonce.ok_or(DropReason::NackUnmatched)?;
        let interest = InterestKey::new(view, hashes);
        let strategy = self.tables.strategies.find(interest.key());

        let upstream = ingress.key();
        // The Nonce must be that of the latest transmission. A Nack that was under way when the
        // Interest was sent again does not refuse the later transmission.
        let mut locked =
            self.tables.pit.find_sent(&interest, upstream, nonce).ok_or(DropReason::NackUnmatched)?;
        let key = locked.key();
        let Some(entry) = locked.entry() else { return Ok(()) };
        entry
            .out_records
            .iter_mut()
            .filter(|record| record.face == upstream)
            .for_each(|record| record.nack = Some(reason));
        if entry.memory != MemoryId::NONE {
            Hooks::of(self.tables).after_nack(entry.memory, upstream, interest.hash(), self.context.now_ns);
        }
        match verdict(strategy, entry) {
            NackVerdict::Wait => {
                await_groups(&self.tables.discovery, &self.tables.pit, &mut locked, self.context.now_ns);
                decided(out, Step::NackWaits);
            }
            NackVerdict::ReturnToOne(face, reason) => {
                // Cloned under the lock, because the Nack is sent with no lock held.
                let kept = entry.packet.clone();
                let record = self.tables.pit.take_downstream(entry, face, self.context.reserve);
                drop(locked);
                if let Some(record) = record {
                    nack_downstream(&self.tables.faces, &self.tables.counters, &kept, &record, reason, out);
                }
            }
            NackVerdict::ReturnToAll(reason) => {
                decided(out, Step::NackForwarded);
                drop(locked);
                // Checked again, because a retransmission may have been sent to another upstream
                // meanwhile.
                let refused =
                    |entry: &PitEntry<B>| matches!(verdict(strategy, entry), NackVerdict::ReturnToAll(_));
                if let Some(mut entry) = self.tables.pit.take_if(key, refused, self.context.reserve) {
                    self.nack_all(&entry, reason, self.context.now_ns, out);
                    self.tables.pit.recycle(&mut entry);
                }
            }
        }
        Ok(())
    }

    /// Sends a Nack to every downstream that still waits (guide 4.4.2, Outgoing Nack) and ends the
    /// entry (4.2.6).
    pub(super) fn nack_all(
        self,
        entry: &PitEntry<B>,
        reason: NackReason,
        now_ns: u64,
        out: &mut impl Output<B>,
    ) {
        self.tables.counters.unsatisfied.add(1);
        self.tables.dead_nonces.add_sent(entry, &self.tables.names.hasher, now_ns);
        let waiting = entry.in_records.iter().filter(|record| record.expires_at_ns > now_ns);
        waiting.for_each(|record| {
            nack_downstream(&self.tables.faces, &self.tables.counters, &entry.packet, record, reason, out)
        });
    }
}

fn verdict<B>(strategy: StrategyKind, entry: &PitEntry<B>) -> NackVerdict {
    let is_downstream = |face| entry.in_records.iter().any(|record| record.face == face);
    strategy.judge_nacks(&entry.out_records, &is_downstream)
}
