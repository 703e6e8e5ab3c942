//! A Data arrives: PIT, content store, and the faces that asked.

use lock_api::RawMutex;
use namely_wire::lp::CACHE_POLICY_NO_CACHE;
use namely_wire::{DataView, PitToken};

use super::{DataOut, is_localhost};
use crate::config::UnsolicitedPolicy;
use crate::counters::DropReason;
use crate::faces::{FaceHold, FaceKey, LinkType};
use crate::few::Few;
use crate::forwarder::Forwarder;
use crate::hash::NameHashes;
use crate::packet::{Output, PacketBuf, Received};
use crate::pit::{DataMatch, PitEntry};
use crate::prefix_table::Key;

/// Who gets the Data, each with its own token.
type Downstreams = Few<(FaceKey, Option<PitToken>), 4>;

impl<B: PacketBuf, R: RawMutex> Forwarder<B, R> {
    pub(crate) fn receive_data(
        &self,
        ingress: &FaceHold,
        received: Received<B>,
        now_ns: u64,
        out: &mut impl Output<B>,
    ) -> Result<(), DropReason> {
        ingress.cell.counters.in_data.add(1);
        let Received { packet, headers } = &received;
        let view = DataView::parse(packet.as_ref()).map_err(|_| DropReason::Malformed)?;
        if is_localhost(view.name) && !ingress.cell.is_local() {
            return Err(DropReason::Scope);
        }
        let hashes = self.hasher.prefixes(view.name);
        let mut digest = None;
        let satisfied = self.take_satisfied(&view, &hashes, &mut digest);
        let no_cache = headers.cache_policy == Some(CACHE_POLICY_NO_CACHE);
        if satisfied.is_empty() && !self.admits_unsolicited(ingress) {
            return Err(DropReason::Unsolicited);
        }
        if no_cache {
            self.cs.lock().refuse();
        } else {
            self.cs.lock().insert(packet, &view, Key::new(view.name, &hashes), digest, now_ns);
        }
        let mut downstreams = Downstreams::new();
        for entry in satisfied.iter() {
            self.finish_satisfied(entry, &view, now_ns);
            add_downstreams(&mut downstreams, entry, ingress, now_ns);
        }
        let from = ingress.id();
        let data = DataOut { packet, from, congestion_mark: headers.congestion_mark };
        for (face, token) in downstreams {
            match self.faces.hold_key(face) {
                Some(face) => self.send_data(&face, token, &data, out),
                None => self.counters.dropped(DropReason::FaceGone),
            }
        }
        Ok(())
    }

    /// Takes every PIT entry that the Data satisfies. The name decides, and the digest where one is asked
    /// for; a PIT token plays no part.
    fn take_satisfied(
        &self,
        view: &DataView<'_>,
        hashes: &NameHashes,
        digest: &mut Option<[u8; 32]>,
    ) -> Few<PitEntry<B>, 1> {
        let mut satisfied = Few::new();
        loop {
            let mut pit = self.pit.lock();
            loop {
                match pit.take_match(view.name, hashes, digest.as_ref()) {
                    DataMatch::Entry(entry) => satisfied.push(entry),
                    DataMatch::DigestNeeded => break,
                    DataMatch::None => return satisfied,
                }
            }
            drop(pit);
            *digest = Some((self.config.sha256)(view.wire));
        }
    }

    fn admits_unsolicited(&self, ingress: &FaceHold) -> bool {
        match self.config.unsolicited {
            UnsolicitedPolicy::DropAll => false,
            UnsolicitedPolicy::AdmitLocal => ingress.cell.is_local(),
            UnsolicitedPolicy::AdmitNetwork => !ingress.cell.is_local(),
            UnsolicitedPolicy::AdmitAll => true,
        }
    }

    /// Counts a satisfied entry. Its Nonces need remembering only if the Data may turn stale while the
    /// Interest still loops: otherwise the cache would answer it.
    fn finish_satisfied(&self, entry: &PitEntry<B>, view: &DataView<'_>, now_ns: u64) {
        self.counters.satisfied.add(1);
        let fresh_ns = view.freshness_ms.saturating_mul(1_000_000);
        if entry.must_be_fresh() && fresh_ns < self.config.dead_nonce_lifetime_ns {
            self.bury_nonces(entry, now_ns);
        }
    }
}

/// Adds those of `entry` who still wait, but not the face that the Data came from unless its link is ad hoc.
fn add_downstreams<B>(to: &mut Downstreams, entry: &PitEntry<B>, ingress: &FaceHold, now_ns: u64) {
    for record in entry.in_records.iter().filter(|record| record.expires_at_ns > now_ns) {
        let is_back = record.face == ingress.cell.key && ingress.cell.link_type != LinkType::AdHoc;
        let downstream = (record.face, record.token);
        if !is_back && !to.iter().any(|known| *known == downstream) {
            to.push(downstream);
        }
    }
}
