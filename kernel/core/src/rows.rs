//! What can be listed: tables and counters, row by row.

use alloc::vec::Vec;

use namely_forwarder::DropReason;

use crate::home::Home;
use crate::instance::{Answer, Instance, Refused};
use crate::packets::Link;

/// Tables that can be listed, by their numbers in nnet.h.
const FIB: u64 = 0;
const STRATEGIES: u64 = 1;
const BINDINGS: u64 = 2;
const COUNTERS: u64 = 3;
const DROPS: u64 = 4;
const CS: u64 = 5;

/// Where a listing goes on: a place of the table in the upper half, rows of it that were taken
/// already in the lower.
struct Cursor(u64);

impl Cursor {
    fn place(&self) -> u32 {
        (self.0 >> 32) as u32
    }

    fn taken(&self) -> usize {
        self.0 as u32 as usize
    }

    fn at(place: u32, taken: usize) -> u64 {
        u64::from(place) << 32 | taken as u64
    }
}

/// A cursor behind the last row.
const END: u64 = u64::MAX;

impl Instance {
    /// Gives the rows of a table from a cursor on (0: the first) to the home, until that takes no
    /// more or a bounded part of the table is done; answers the next cursor, [`END`] at the end.
    #[inline(never)]
    pub(crate) fn rows(&self, home: Home, table: u64, cursor: u64) -> Answer {
        let cursor = Cursor(cursor);
        match table {
            FIB => Ok(self.fib_rows(home, &cursor)),
            STRATEGIES => Ok(self.strategy_rows(home, &cursor)),
            BINDINGS => Ok(self.binding_rows(home, &cursor)),
            COUNTERS => Ok(self.counter_rows(home)),
            DROPS => Ok(self.drop_rows(home)),
            CS => Ok(self.cs_rows(home)),
            _ => Err(Refused::Invalid),
        }
    }

    fn fib_rows(&self, home: Home, cursor: &Cursor) -> u64 {
        let mut entries = Vec::new();
        let from = Some(cursor.place()).filter(|place| *place > 0);
        let next = self.core.fib_walk(from, &mut entries);
        let hops = entries.iter().flat_map(|entry| entry.next_hops.iter().map(move |hop| (entry, hop)));
        for (n, (entry, hop)) in hops.enumerate().skip(cursor.taken()) {
            if !home.row(entry.prefix.as_name().as_bytes(), &[], hop.face_id, hop.cost) {
                return Cursor::at(cursor.place(), n);
            }
        }
        next.map_or(END, |place| Cursor::at(place, 0))
    }

    fn strategy_rows(&self, home: Home, cursor: &Cursor) -> u64 {
        let choices = self.core.strategy_snapshot();
        for (n, choice) in choices.iter().enumerate().skip(cursor.taken()) {
            let (prefix, strategy) = (choice.prefix.as_name(), choice.strategy.as_name());
            if !home.row(prefix.as_bytes(), strategy.as_bytes(), 0, 0) {
                return Cursor::at(0, n);
            }
        }
        END
    }

    fn binding_rows(&self, home: Home, cursor: &Cursor) -> u64 {
        let mut bindings = Vec::new();
        let from = Some(cursor.place()).filter(|place| *place > 0);
        let next = self.core.bpt_walk(from, &mut bindings);
        for (n, (prefix, face)) in bindings.iter().enumerate().skip(cursor.taken()) {
            if !home.row(prefix.as_name().as_bytes(), &[], face.0, 0) {
                return Cursor::at(cursor.place(), n);
            }
        }
        next.map_or(END, |place| Cursor::at(place, 0))
    }

    fn counter_rows(&self, home: Home) -> u64 {
        let (sizes, counters) = (self.core.table_sizes(), self.core.counters());
        let packets = counters.packets;
        let rows = [
            ("in_interests", packets.in_interests),
            ("in_data", packets.in_data),
            ("in_nacks", packets.in_nacks),
            ("out_interests", packets.out_interests),
            ("out_data", packets.out_data),
            ("out_nacks", packets.out_nacks),
            ("satisfied_interests", counters.satisfied),
            ("unsatisfied_interests", counters.unsatisfied),
            ("suppressed_interests", counters.suppressed),
            ("to_network", counters.to_network),
            ("to_local", counters.to_local),
            ("faces_freed", counters.faces_freed),
            ("faces_orphaned", counters.faces_orphaned),
            ("orphans", counters.orphans),
            ("strategy_memory_full", counters.strategy_memory_full),
            ("pit_entries", sizes.pit as u64),
            ("fib_entries", sizes.fib as u64),
            ("bindings", sizes.bindings as u64),
            ("dead_nonces", sizes.dead_nonces as u64),
        ];
        rows_of(home, rows)
    }

    fn drop_rows(&self, home: Home) -> u64 {
        let counters = self.core.counters();
        rows_of(home, DropReason::ALL.map(|reason| (reason.label(), counters.dropped(reason))))
    }

    fn cs_rows(&self, home: Home) -> u64 {
        let status = self.core.cs_status();
        let rows = [
            ("packets_max", status.packets_max as u64),
            ("packets", status.packets as u64),
            ("entries", status.entries as u64),
            ("octets", status.octets),
            ("hits", status.hits),
            ("misses", status.misses),
            ("refused", status.refused),
            ("evicted", status.evicted),
        ];
        rows_of(home, rows.into_iter().chain(self.core.counters().tier.labelled()))
    }
}

/// What a link service has done, and what it has dropped.
#[inline(never)]
pub(crate) fn link_rows(home: Home, link: &Link) -> Answer {
    let counters = link.lock().counters();
    let rows = [("fragmented", counters.fragmented), ("reassembled", counters.reassembled)];
    let drops = counters.drops.iter();
    rows_of(home, rows.into_iter().chain(drops).filter(|(_, n)| *n > 0));
    Ok(0)
}

/// Counters by name; the home has room for all of them.
fn rows_of(home: Home, rows: impl IntoIterator<Item = (&'static str, u64)>) -> u64 {
    for (label, value) in rows {
        home.row(label.as_bytes(), &[], 0, value);
    }
    END
}
