//! Listings of tables and counters, row by row.

use namely_forwarder::DropReason;

use crate::home::Embedder;
use crate::instance::{Answer, Instance, Refused};
use crate::packets::Link;

/// Tables that can be listed, by their numbers in nnet.h.
pub(crate) const FIB: u64 = 0;
pub(crate) const STRATEGIES: u64 = 1;
pub(crate) const BINDINGS: u64 = 2;
const COUNTERS: u64 = 3;
const DROPS: u64 = 4;
const CS: u64 = 5;

/// The position at which a listing continues. The upper half is a position in the table, the lower
/// half is the number of its rows that were listed already.
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

/// Maximum number of a table's slots that one call visits, under the table's lock.
const PLACES_PER_CALL: u32 = 128;

/// Maximum octets of rows that one call passes to the module, which formats each octet of a name.
const OCTETS_PER_CALL: usize = 16 << 10;

/// The cost of a row beside its names.
const ROW_OCTETS: usize = 128;

/// The remaining octets. The first row is listed in any case.
struct Budget(usize);

impl Budget {
    fn new() -> Self {
        Budget(OCTETS_PER_CALL)
    }

    /// Passes a row to the home. Returns false if it accepts no more, or if this call's budget is
    /// used up.
    fn row(&mut self, home: Embedder, name: &[u8], more: &[u8], face: u64, value: u64) -> bool {
        let is_given = self.0 > 0 && home.row(name, more, face, value);
        if is_given {
            self.0 = self.0.saturating_sub(ROW_OCTETS + name.len() + more.len());
        }
        is_given
    }
}

impl Instance {
    /// Passes the rows of a table from a cursor on (0: the first) to the home, until it accepts no
    /// more or a bounded part of the table is done. Returns the next cursor, [`END`] at the end.
    #[inline(never)]
    pub(crate) fn rows(&self, home: Embedder, table: u64, cursor: u64) -> Answer {
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

    fn fib_rows(&self, home: Embedder, cursor: &Cursor) -> u64 {
        let (mut taken, mut given, mut budget) = (cursor.taken(), 0, Budget::new());
        let next = self.core.fib().show(Some(cursor.place().max(1)), PLACES_PER_CALL, |prefix, hops| {
            given = core::mem::take(&mut taken);
            for (face, cost) in hops.skip(given) {
                if !budget.row(home, prefix.as_bytes(), &[], face.0, cost) {
                    return false;
                }
                given += 1;
            }
            given = 0;
            true
        });
        next.map_or(END, |place| Cursor::at(place, given))
    }

    fn strategy_rows(&self, home: Embedder, cursor: &Cursor) -> u64 {
        let mut budget = Budget::new();
        let next = self.core.strategies().show(Some(cursor.place()), PLACES_PER_CALL, |prefix, chosen| {
            budget.row(home, prefix.as_bytes(), chosen.octets().as_name().as_bytes(), 0, 0)
        });
        next.map_or(END, |place| Cursor::at(place, 0))
    }

    fn binding_rows(&self, home: Embedder, cursor: &Cursor) -> u64 {
        let mut budget = Budget::new();
        let next = self.core.bindings().show(Some(cursor.place().max(1)), PLACES_PER_CALL, |prefix, face| {
            budget.row(home, prefix.as_bytes(), &[], face.0, 0)
        });
        next.map_or(END, |place| Cursor::at(place, 0))
    }

    #[inline(never)]
    fn counter_rows(&self, home: Embedder) -> u64 {
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

    #[inline(never)]
    fn drop_rows(&self, home: Embedder) -> u64 {
        let counters = self.core.counters();
        rows_of(home, DropReason::ALL.iter().map(|reason| (reason.label(), counters.dropped(*reason))))
    }

    #[inline(never)]
    fn cs_rows(&self, home: Embedder) -> u64 {
        let status = self.core.cs().status();
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
        rows_of(home, rows);
        self.tier_rows(home)
    }

    #[inline(never)]
    fn tier_rows(&self, home: Embedder) -> u64 {
        rows_of(home, self.core.counters().tier.labelled())
    }
}

/// The counters of a link service, of packets and of drops.
#[inline(never)]
pub(crate) fn link_rows(home: Embedder, link: &Link) -> Answer {
    let counters = link.lock().counters();
    let rows = [("fragmented", counters.fragmented), ("reassembled", counters.reassembled)];
    let drops = counters.drops.iter();
    rows_of(home, rows.into_iter().chain(drops).filter(|(_, n)| *n > 0));
    Ok(0)
}

/// Counters by name; the home has room for all of them.
fn rows_of(home: Embedder, rows: impl IntoIterator<Item = (&'static str, u64)>) -> u64 {
    for (label, value) in rows {
        home.row(label.as_bytes(), &[], 0, value);
    }
    END
}
