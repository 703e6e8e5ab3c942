//! Adds packets to the buffer in batches: first to the store, then visible to Interests.

use std::time::Duration;

use namely_wire::{DataView, Name};

use super::shared::Shared;
use crate::buffer::Packet;
use namely_host::clock::unix_ms;
use namely_store::{Location, Record, Store, StoreError, record_octets};

/// Octets of packets that become visible at once.
const BATCH_OCTETS: usize = 512 << 10;

/// Writes the packets of one publication.
pub(super) struct Writer<'a> {
    shared: &'a Shared,
    /// Whether packets are stored on disk, if there is a store.
    durable: bool,
    batch: Vec<(Name, Packet)>,
    batch_octets: usize,
    /// The name of the last packet.
    last: Name,
    /// The number of the publication in the store, to undo it if it fails.
    publication: Option<u64>,
    stored_octets: u64,
    stored_packets: usize,
    names: Vec<Name>,
}

impl<'a> Writer<'a> {
    pub(super) fn new(shared: &'a Shared, durable: bool) -> Self {
        let publication = if durable { shared.store().as_mut().map(Store::begin) } else { None };
        Writer {
            shared,
            durable: publication.is_some(),
            batch: Vec::new(),
            batch_octets: 0,
            last: Name::new(),
            publication,
            stored_octets: 0,
            stored_packets: 0,
            names: Vec::new(),
        }
    }

    /// Adds the next packet.
    pub(super) fn take(&mut self, name: Name, packet: Packet) -> Result<(), StoreError> {
        // The last packet stays in the batch, because `finish` may set its expiry.
        if self.batch_octets >= BATCH_OCTETS {
            self.flush(0)?;
        }
        self.batch_octets += packet.len();
        self.last = name.clone();
        self.batch.push((name, packet));
        Ok(())
    }

    /// Writes the remaining packets. All packets then answer Interests, and are on disk if they are
    /// durable. The last packet answers Interests with MustBeFresh for `expires` only.
    pub(super) fn finish(&mut self, expires: Option<Duration>) -> Result<(), StoreError> {
        let at_ns = expires.map(|expires| self.shared.now_ns().saturating_add(expires.as_nanos() as u64));
        self.flush(expires.map_or(0, |expires| unix_ms().saturating_add(expires.as_millis() as u64)))?;
        self.shared.state().buffer.expire_at(self.last.as_name(), at_ns);
        match (self.shared.store().as_mut(), self.publication) {
            (Some(store), Some(publication)) => store.commit(publication),
            _ => Ok(()),
        }
    }

    /// Stores the batch and makes it visible. The last packet expires at `expires_ms`, ms since the
    /// Unix epoch; 0: never.
    fn flush(&mut self, expires_ms: u64) -> Result<(), StoreError> {
        let batch = std::mem::take(&mut self.batch);
        self.batch_octets = 0;
        let locations = if self.durable { self.store(&batch, expires_ms)? } else { Vec::new() };
        let locations = locations.into_iter().map(Some).chain(std::iter::repeat(None));
        let packets = batch.iter().zip(locations);
        self.shared.insert(packets.map(|((name, packet), disk)| (name.as_name(), packet.clone(), disk)));
        if self.durable {
            self.names.extend(batch.into_iter().map(|(name, _)| name));
        }
        Ok(())
    }

    fn store(&mut self, batch: &[(Name, Packet)], expires_ms: u64) -> Result<Vec<Location>, StoreError> {
        let mut guard = self.shared.store();
        let Some(store) = guard.as_mut() else { return Err(StoreError::Closed) };
        let mut records = Vec::with_capacity(batch.len());
        for (name, packet) in batch {
            records.push(Record { name: name.as_bytes(), packet, expires_ms: 0 });
        }
        if let Some(last) = records.last_mut() {
            last.expires_ms = expires_ms;
        }
        loop {
            match store.append(&records) {
                Ok(locations) => {
                    self.stored_octets += batch.iter().map(|(_, packet)| record_octets(packet)).sum::<u64>();
                    self.stored_packets += batch.len();
                    return Ok(locations);
                }
                Err(StoreError::Full { .. }) if self.shared.evicts => {
                    let Some(file) = store.drop_oldest() else {
                        return Err(StoreError::Full { octets_max: store.octets_max() });
                    };
                    let mut state = self.shared.state();
                    let gone = state.buffer.remove_file(file);
                    store.forget_packets(gone);
                    drop(state);
                    self.shared.count(|stats| stats.evicted_disk += gone as u64);
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// Removes the packets written so far, so that a failed publication leaves none.
    pub(super) fn undo(self) {
        let mut state = self.shared.state();
        self.names.iter().for_each(|name| state.buffer.remove(name.as_bytes()));
        drop(state);
        if let (Some(publication), Some(store)) = (self.publication, self.shared.store().as_mut()) {
            store.undo(publication, self.stored_packets, self.stored_octets);
        }
    }
}

impl Shared {
    /// Adds a single packet to memory, and to the disk if `durable`, and answers the waiting
    /// Interests.
    pub(super) fn put(
        &self,
        packet: Vec<u8>,
        durable: bool,
        expires: Option<Duration>,
    ) -> Result<(), StoreError> {
        let name = DataView::parse(&packet).map(|data| data.name.to_name()).unwrap_or_default();
        let mut writer = Writer::new(self, durable);
        let taken = writer.take(name, Packet::new(packet)).and_then(|()| writer.finish(expires));
        if taken.is_err() {
            writer.undo();
        }
        taken
    }
}
