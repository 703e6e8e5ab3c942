//! A Nack arrives from upstream.
//!
//! Sections are those of NFD's developer guide, where the pipelines of a Nack are 4.4.

use lock_api::RawMutex;
use namely_wire::mgmt::LinkType;
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
    /// The Incoming Nack pipeline (guide 4.4.1): a Nack counts only where the Interest was sent
    /// with that Nonce, and not on links with several peers, of which one alone refuses.
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
        // The Nonce must be that of the latest sending: a Nack that was on its way when the
        // Interest was sent again says nothing of that.
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
            NackVerdict::TellOne(face, reason) => {
                // For after the lock: the Nack is sent with none held.
                let kept = entry.packet.clone();
                let record = self.tables.pit.take_downstream(entry, face, self.context.reserve);
                drop(locked);
                if let Some(record) = record {
                    nack_downstream(&self.tables.faces, &self.tables.counters, &kept, &record, reason, out);
                }
            }
            NackVerdict::TellAll(reason) => {
                decided(out, Step::NackGoesOn);
                drop(locked);
                // Unless a retransmission has gone to somebody else in between.
                let refused =
                    |entry: &PitEntry<B>| matches!(verdict(strategy, entry), NackVerdict::TellAll(_));
                if let Some(mut entry) = self.tables.pit.take_if(key, refused, self.context.reserve) {
                    self.nack_all(&entry, reason, self.context.now_ns, out);
                    self.tables.pit.recycle(&mut entry);
                }
            }
        }
        Ok(())
    }

    /// Tells every downstream that still waits (guide 4.4.2, Outgoing Nack) and ends the entry
    /// (4.2.6).
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
