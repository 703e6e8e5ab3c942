//! A Nack arrives from upstream.
//!
//! Sections are those of NFD's developer guide, where the pipelines of a Nack are 4.4.

use lock_api::RawMutex;
use namely_wire::mgmt::LinkType;
use namely_wire::{InterestView, NackReason};

use crate::counters::{DropReason, Packets};
use crate::faces::{BatchContext, FaceHold};
use crate::forwarder::Forwarder;
use crate::hash::NameHashes;
use crate::interest_key::InterestKey;
use crate::packet::{Output, PacketBuf, Received};
use crate::pit::PitEntry;
use crate::strategy::{MemoryId, NackVerdict, StrategyKind};
use crate::trace::{Step, decided};

impl<B: PacketBuf, R: RawMutex> Forwarder<B, R> {
    /// The Incoming Nack pipeline (guide 4.4.1): a Nack counts only where the Interest was sent
    /// with that Nonce, and not on links with several peers, of which one alone refuses.
    #[inline(never)]
    pub(crate) fn receive_nack(
        &self,
        context: &BatchContext<'_, R>,
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
        let strategy = self.strategies.find(interest.key());

        let upstream = ingress.key();
        let mut locked = self.pit.find_sent(&interest, upstream, nonce).ok_or(DropReason::NackUnmatched)?;
        let key = locked.key();
        let Some(entry) = locked.entry() else { return Ok(()) };
        entry
            .out_records
            .iter_mut()
            .filter(|record| record.face == upstream)
            .for_each(|record| record.nack = Some(reason));
        if entry.memory != MemoryId::NONE {
            self.after_nack(entry.memory, upstream, interest.hash(), context.now_ns);
        }
        match verdict(strategy, entry) {
            NackVerdict::Wait => {
                self.await_groups(&mut locked, context.now_ns);
                decided(out, Step::NackWaits);
            }
            NackVerdict::TellOne(face, reason) => {
                let kept = entry.packet.clone();
                let record = self.pit.take_downstream(entry, face, context.reserve);
                drop(locked);
                if let Some(record) = record {
                    self.nack_downstream(&kept, &record, reason, out);
                }
            }
            NackVerdict::TellAll(reason) => {
                decided(out, Step::NackGoesOn);
                drop(locked);
                // Unless a retransmission has gone to somebody else in between.
                let refused =
                    |entry: &PitEntry<B>| matches!(verdict(strategy, entry), NackVerdict::TellAll(_));
                if let Some(mut entry) = self.pit.take_if(key, refused, context.reserve) {
                    self.nack_all(&entry, reason, context.now_ns, out);
                    self.pit.recycle(&mut entry);
                }
            }
        }
        Ok(())
    }

    /// Tells every downstream that still waits (guide 4.4.2, Outgoing Nack) and ends the entry
    /// (4.2.6).
    pub(super) fn nack_all(
        &self,
        entry: &PitEntry<B>,
        reason: NackReason,
        now_ns: u64,
        out: &mut impl Output<B>,
    ) {
        self.counters.unsatisfied.add(1);
        self.record_dead_nonces(entry, now_ns);
        let waiting = entry.in_records.iter().filter(|record| record.expires_at_ns > now_ns);
        waiting.for_each(|record| self.nack_downstream(&entry.packet, record, reason, out));
    }
}

fn verdict<B>(strategy: StrategyKind, entry: &PitEntry<B>) -> NackVerdict {
    let is_downstream = |face| entry.in_records.iter().any(|record| record.face == face);
    strategy.judge_nacks(&entry.out_records, &is_downstream)
}
