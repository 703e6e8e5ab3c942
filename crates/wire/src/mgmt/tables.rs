//! Datasets about tables: `fib/list`, `rib/list`, `strategy-choice/list`, `cs/info`, `bpt/list`.

use alloc::string::String;
use alloc::vec::Vec;

use super::block::Block;
use super::numbers::*;
use super::values::RouteOrigin;
use crate::error::DecodeError;
use crate::fields::{Fields, put_nni, put_text};
use crate::name::Name;
use crate::tlv::Writer;

/// FibEntry: one prefix of `fib/list`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FibEntry {
    /// Name.
    pub prefix: Name,
    /// The prefix's NextHopRecords.
    pub next_hops: Vec<NextHop>,
}

/// NextHopRecord.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NextHop {
    /// FaceId.
    pub face_id: u64,
    /// Cost.
    pub cost: u64,
}

impl Block for FibEntry {
    const TYPE: u32 = ENTRY;

    fn decode_value(value: &[u8]) -> Result<Self, DecodeError> {
        let fields = Fields::lenient(value)?;
        let next_hop = |value| {
            let fields = Fields::lenient(value)?;
            Ok(NextHop { face_id: fields.nni(FACE_ID)?, cost: fields.nni(COST)? })
        };
        Ok(FibEntry {
            prefix: fields.name()?,
            next_hops: fields
                .all(NEXT_HOP_RECORD)
                .map(|tlv| next_hop(tlv.value))
                .collect::<Result<_, _>>()?,
        })
    }

    fn encode_value(&self, w: &mut Writer) {
        self.prefix.as_name().encode(w);
        for next_hop in &self.next_hops {
            w.nested(NEXT_HOP_RECORD, |w| {
                w.nni(FACE_ID, next_hop.face_id).nni(COST, next_hop.cost);
            });
        }
    }
}

/// RibEntry: one prefix of `rib/list`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RibEntry {
    /// Name.
    pub prefix: Name,
    /// The prefix's Routes.
    pub routes: Vec<Route>,
}

/// Route.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Route {
    /// FaceId.
    pub face_id: u64,
    /// Origin.
    pub origin: RouteOrigin,
    /// Cost.
    pub cost: u64,
    /// Flags: see [`super::route_flags`].
    pub flags: u64,
    /// ExpirationPeriod: what is left, ms; `None` for a route that stays.
    pub expiration_period_ms: Option<u64>,
}

impl Route {
    pub(super) fn decode_value(value: &[u8]) -> Result<Self, DecodeError> {
        let fields = Fields::lenient(value)?;
        Ok(Route {
            face_id: fields.nni(FACE_ID)?,
            origin: RouteOrigin(fields.nni(ORIGIN)?),
            cost: fields.nni(COST)?,
            flags: fields.nni(FLAGS)?,
            expiration_period_ms: fields.nni_opt(EXPIRATION_PERIOD)?,
        })
    }

    pub(super) fn encode_value(&self, w: &mut Writer) {
        w.nni(FACE_ID, self.face_id).nni(ORIGIN, self.origin.0).nni(COST, self.cost).nni(FLAGS, self.flags);
        put_nni(w, EXPIRATION_PERIOD, self.expiration_period_ms);
    }
}

impl Block for RibEntry {
    const TYPE: u32 = ENTRY;

    fn decode_value(value: &[u8]) -> Result<Self, DecodeError> {
        let fields = Fields::lenient(value)?;
        Ok(RibEntry {
            prefix: fields.name()?,
            routes: fields.all(ROUTE).map(|tlv| Route::decode_value(tlv.value)).collect::<Result<_, _>>()?,
        })
    }

    fn encode_value(&self, w: &mut Writer) {
        self.prefix.as_name().encode(w);
        for route in &self.routes {
            w.nested(ROUTE, |w| route.encode_value(w));
        }
    }
}

/// One prefix of `bpt/list`, and whose it is. Only namely has such a table.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Binding {
    /// Name.
    pub prefix: Name,
    /// FaceId: the application's.
    pub face_id: u64,
    /// Flags: see [`super::bind_flags`].
    pub flags: u64,
}

impl Block for Binding {
    const TYPE: u32 = ENTRY;

    fn decode_value(value: &[u8]) -> Result<Self, DecodeError> {
        let fields = Fields::lenient(value)?;
        Ok(Binding { prefix: fields.name()?, face_id: fields.nni(FACE_ID)?, flags: fields.nni(FLAGS)? })
    }

    fn encode_value(&self, w: &mut Writer) {
        self.prefix.as_name().encode(w);
        w.nni(FACE_ID, self.face_id).nni(FLAGS, self.flags);
    }
}

/// What the full name of every strategy begins with.
pub const STRATEGY_PREFIX: [&str; 3] = ["localhost", "nfd", "strategy"];

/// The name of a strategy that people call by its full name or by its last component, as
/// `multicast`; `None` if the text is no name.
///
/// ```
/// use namely_wire::mgmt::strategy_name;
/// let full = strategy_name("multicast").unwrap();
/// assert_eq!(full.to_string(), "/localhost/nfd/strategy/multicast");
/// assert_eq!(strategy_name("/localhost/nfd/strategy/multicast"), Some(full));
/// assert_eq!(strategy_name("%"), None);
/// ```
pub fn strategy_name(text: &str) -> Option<Name> {
    if text.starts_with('/') {
        return text.parse().ok();
    }
    let last: Name = alloc::format!("/{text}").parse().ok()?;
    Some(
        STRATEGY_PREFIX
            .iter()
            .fold(Name::new(), |name, word| name.join_generic(word))
            .join_name(last.as_name()),
    )
}

/// StrategyChoice: one prefix of `strategy-choice/list`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StrategyChoice {
    /// Name: the prefix.
    pub prefix: Name,
    /// Strategy: the name of the strategy in force below the prefix.
    pub strategy: Name,
}

impl Block for StrategyChoice {
    const TYPE: u32 = ENTRY;

    fn decode_value(value: &[u8]) -> Result<Self, DecodeError> {
        let fields = Fields::lenient(value)?;
        Ok(StrategyChoice {
            prefix: fields.name()?,
            strategy: fields.wrapped_name_opt(STRATEGY)?.ok_or(DecodeError::Missing(STRATEGY))?,
        })
    }

    fn encode_value(&self, w: &mut Writer) {
        self.prefix.as_name().encode(w);
        w.nested(STRATEGY, |w| self.strategy.as_name().encode(w));
    }
}

/// CsInfo: the one entry of `cs/info`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CsInfo {
    /// Capacity, packets.
    pub capacity: u64,
    /// Flags: see [`super::cs_flags`].
    pub flags: u64,
    /// NCsEntries: packets stored.
    pub entries: u64,
    /// NHits.
    pub hits: u64,
    /// NMisses.
    pub misses: u64,
    /// CsPolicy: what leaves first. Only namely says so.
    pub policy: Option<String>,
}

impl Block for CsInfo {
    const TYPE: u32 = ENTRY;

    fn decode_value(value: &[u8]) -> Result<Self, DecodeError> {
        let fields = Fields::lenient(value)?;
        Ok(CsInfo {
            capacity: fields.nni(CAPACITY)?,
            flags: fields.nni(FLAGS)?,
            entries: fields.nni(N_CS_ENTRIES)?,
            hits: fields.nni(N_HITS)?,
            misses: fields.nni(N_MISSES)?,
            policy: fields.text_opt(CS_POLICY)?,
        })
    }

    fn encode_value(&self, w: &mut Writer) {
        w.nni(CAPACITY, self.capacity)
            .nni(FLAGS, self.flags)
            .nni(N_CS_ENTRIES, self.entries)
            .nni(N_HITS, self.hits)
            .nni(N_MISSES, self.misses);
        put_text(w, CS_POLICY, self.policy.as_deref());
    }
}
