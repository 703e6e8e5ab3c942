//! The dataset `name/explain`, which only namely has: what the router would do with an Interest for
//! a name now, table by table, in the order of NFD's pipelines.

use alloc::string::String;
use alloc::vec::Vec;

use super::block::Block;
use super::numbers::*;
use super::parameters::ControlParameters;
use super::request::{Dataset, Scope};
use super::tables::Route;
use crate::error::DecodeError;
use crate::fields::{Fields, put_nni, put_text};
use crate::name::Name;
use crate::tlv::Writer;

/// The name of the dataset that explains `name`.
pub fn explain_name(scope: Scope, name: &Name) -> Name {
    let parameters = ControlParameters { name: Some(name.clone()), ..ControlParameters::default() };
    Dataset::NameExplain.prefix(scope).join_generic(parameters.to_vec())
}

/// The one entry of `name/explain`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Explained {
    /// A Data that the content store has in memory at or below the name.
    pub cached: Option<ExplainedData>,
    /// Pending Interests for the very name.
    pub pending: Vec<ExplainedInterest>,
    /// The FIB's longest match; `None` if no prefix of the name has next hops.
    pub prefix: Option<Name>,
    /// Its next hops, cheapest first.
    pub next_hops: Vec<ExplainedHop>,
    /// The routes that the FIB's prefix has in the RIB; those it inherits are at shorter names.
    pub routes: Vec<ExplainedRoute>,
    /// The face of the application that bound the name or a prefix of it.
    pub bound: Option<u64>,
    /// The strategy's name.
    pub strategy: Name,
    /// For which prefix it was chosen.
    pub strategy_prefix: Name,
    /// Faces that self-learning asks where no route leads on.
    pub discovery: Vec<u64>,
    /// How many Interests are pending in all, and how many may be.
    pub pit: (u64, u64),
    /// Why who asks may not register the name, in the router's words; empty if they may.
    pub refusal: String,
    /// Who asks is not told what is cached and pending.
    pub is_partial: bool,
    /// The face of who asks: Interests are not sent back there.
    pub asker: u64,
    /// The uid of who asks, if it is a user of the router's machine.
    pub uid: Option<u64>,
    /// What that user may do with the name without a key.
    pub rights: Vec<ExplainedRight>,
}

/// Whether a command would be let through.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ExplainedRight {
    /// Module and verb, as `rib/register`.
    pub command: String,
    /// Whether it would.
    pub is_allowed: bool,
    /// The rule that lets it through, or why none does.
    pub why: String,
    /// The kind of fault, for programs, where a signature was looked at; else empty.
    pub cause: String,
}

/// A cached Data.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ExplainedData {
    /// Its name.
    pub name: Name,
    /// Its octets.
    pub octets: u64,
    /// For how long it is fresh, ms.
    pub fresh_ms: u64,
}

/// A pending Interest.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ExplainedInterest {
    /// What it has left, ms.
    pub left_ms: u64,
    /// Faces that wait.
    pub downstreams: Vec<u64>,
    /// Where it was sent.
    pub upstreams: Vec<ExplainedSending>,
}

/// Where a pending Interest was sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ExplainedSending {
    /// FaceId.
    pub face_id: u64,
    /// How long ago, ms.
    pub since_ms: u64,
    /// The reason of the Nack that came back, as its number.
    pub nack: Option<u64>,
}

/// A next hop.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ExplainedHop {
    /// FaceId.
    pub face_id: u64,
    /// Cost.
    pub cost: u64,
    /// The round trip that the strategy has measured, us.
    pub srtt_us: Option<u64>,
    /// The strategy has given it up for the time being.
    pub is_failing: bool,
}

/// A route of the RIB and the prefix that has it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ExplainedRoute {
    /// Name.
    pub prefix: Name,
    /// The route.
    pub route: Route,
}

fn numbers(fields: &Fields<'_>, typ: u32) -> Result<Vec<u64>, DecodeError> {
    fields.all(typ).map(|tlv| tlv.nni()).collect()
}

fn parts<T: Block>(fields: &Fields<'_>) -> Result<Vec<T>, DecodeError> {
    fields.all(T::TYPE).map(|tlv| T::decode_value(tlv.value)).collect()
}

impl Block for Explained {
    const TYPE: u32 = ENTRY;

    fn decode_value(value: &[u8]) -> Result<Self, DecodeError> {
        let fields = Fields::lenient(value)?;
        Ok(Explained {
            cached: parts(&fields)?.into_iter().next(),
            pending: parts(&fields)?,
            prefix: fields.wrapped_name_opt(EXPLAIN_PREFIX)?,
            next_hops: parts(&fields)?,
            routes: parts(&fields)?,
            bound: fields.nni_opt(EXPLAIN_BOUND)?,
            strategy: fields.wrapped_name_opt(STRATEGY)?.ok_or(DecodeError::Missing(STRATEGY))?,
            strategy_prefix: fields.wrapped_name_opt(EXPLAIN_CHOICE)?.unwrap_or_default(),
            discovery: numbers(&fields, EXPLAIN_DISCOVERY)?,
            pit: (fields.nni(N_PIT_ENTRIES)?, fields.nni(CAPACITY)?),
            refusal: fields.text_opt(EXPLAIN_REFUSAL)?.unwrap_or_default(),
            is_partial: fields.find(EXPLAIN_PARTIAL).is_some(),
            asker: fields.nni(FACE_ID)?,
            uid: fields.nni_opt(EXPLAIN_UID)?,
            rights: parts(&fields)?,
        })
    }

    fn encode_value(&self, w: &mut Writer) {
        self.cached.iter().for_each(|data| data.encode(w));
        self.pending.iter().for_each(|interest| interest.encode(w));
        if let Some(prefix) = &self.prefix {
            w.nested(EXPLAIN_PREFIX, |w| prefix.as_name().encode(w));
        }
        self.next_hops.iter().for_each(|hop| hop.encode(w));
        self.routes.iter().for_each(|route| route.encode(w));
        put_nni(w, EXPLAIN_BOUND, self.bound);
        w.nested(STRATEGY, |w| self.strategy.as_name().encode(w));
        w.nested(EXPLAIN_CHOICE, |w| self.strategy_prefix.as_name().encode(w));
        self.discovery.iter().for_each(|face_id| _ = w.nni(EXPLAIN_DISCOVERY, *face_id));
        w.nni(N_PIT_ENTRIES, self.pit.0).nni(CAPACITY, self.pit.1);
        put_text(w, EXPLAIN_REFUSAL, (!self.refusal.is_empty()).then_some(&*self.refusal));
        if self.is_partial {
            w.tlv(EXPLAIN_PARTIAL, &[]);
        }
        w.nni(FACE_ID, self.asker);
        put_nni(w, EXPLAIN_UID, self.uid);
        self.rights.iter().for_each(|right| right.encode(w));
    }
}

impl Block for ExplainedRight {
    const TYPE: u32 = EXPLAIN_RIGHT;

    fn decode_value(value: &[u8]) -> Result<Self, DecodeError> {
        let fields = Fields::lenient(value)?;
        Ok(ExplainedRight {
            command: fields.text_opt(COUNTER_LABEL)?.unwrap_or_default(),
            is_allowed: fields.nni(FLAGS)? != 0,
            why: fields.text_opt(EXPLAIN_REFUSAL)?.unwrap_or_default(),
            cause: fields.text_opt(EXPLAIN_CAUSE)?.unwrap_or_default(),
        })
    }

    fn encode_value(&self, w: &mut Writer) {
        put_text(w, COUNTER_LABEL, Some(&self.command));
        w.nni(FLAGS, self.is_allowed.into());
        put_text(w, EXPLAIN_REFUSAL, Some(&self.why));
        put_text(w, EXPLAIN_CAUSE, (!self.cause.is_empty()).then_some(&*self.cause));
    }
}

impl Block for ExplainedData {
    const TYPE: u32 = EXPLAIN_CACHED;

    fn decode_value(value: &[u8]) -> Result<Self, DecodeError> {
        let fields = Fields::lenient(value)?;
        Ok(ExplainedData {
            name: fields.name()?,
            octets: fields.nni(CS_DISK_OCTETS)?,
            fresh_ms: fields.nni(CS_LIST_FRESH)?,
        })
    }

    fn encode_value(&self, w: &mut Writer) {
        self.name.as_name().encode(w);
        w.nni(CS_DISK_OCTETS, self.octets).nni(CS_LIST_FRESH, self.fresh_ms);
    }
}

impl Block for ExplainedInterest {
    const TYPE: u32 = EXPLAIN_PENDING;

    fn decode_value(value: &[u8]) -> Result<Self, DecodeError> {
        let fields = Fields::lenient(value)?;
        Ok(ExplainedInterest {
            left_ms: fields.nni(EXPIRATION_PERIOD)?,
            downstreams: numbers(&fields, FACE_ID)?,
            upstreams: parts(&fields)?,
        })
    }

    fn encode_value(&self, w: &mut Writer) {
        w.nni(EXPIRATION_PERIOD, self.left_ms);
        self.downstreams.iter().for_each(|face_id| _ = w.nni(FACE_ID, *face_id));
        self.upstreams.iter().for_each(|sending| sending.encode(w));
    }
}

impl Block for ExplainedSending {
    const TYPE: u32 = EXPLAIN_SENDING;

    fn decode_value(value: &[u8]) -> Result<Self, DecodeError> {
        let fields = Fields::lenient(value)?;
        Ok(ExplainedSending {
            face_id: fields.nni(FACE_ID)?,
            since_ms: fields.nni(EXPLAIN_SINCE)?,
            nack: fields.nni_opt(EXPLAIN_NACK)?,
        })
    }

    fn encode_value(&self, w: &mut Writer) {
        w.nni(FACE_ID, self.face_id).nni(EXPLAIN_SINCE, self.since_ms);
        put_nni(w, EXPLAIN_NACK, self.nack);
    }
}

impl Block for ExplainedHop {
    const TYPE: u32 = NEXT_HOP_RECORD;

    fn decode_value(value: &[u8]) -> Result<Self, DecodeError> {
        let fields = Fields::lenient(value)?;
        Ok(ExplainedHop {
            face_id: fields.nni(FACE_ID)?,
            cost: fields.nni(COST)?,
            srtt_us: fields.nni_opt(EXPLAIN_RTT)?,
            is_failing: fields.nni_opt(FLAGS)?.unwrap_or_default() != 0,
        })
    }

    fn encode_value(&self, w: &mut Writer) {
        w.nni(FACE_ID, self.face_id).nni(COST, self.cost).nni(FLAGS, self.is_failing.into());
        put_nni(w, EXPLAIN_RTT, self.srtt_us);
    }
}

impl Block for ExplainedRoute {
    const TYPE: u32 = EXPLAIN_ROUTE;

    fn decode_value(value: &[u8]) -> Result<Self, DecodeError> {
        let fields = Fields::lenient(value)?;
        Ok(ExplainedRoute { prefix: fields.name()?, route: Route::decode_value(value)? })
    }

    fn encode_value(&self, w: &mut Writer) {
        self.prefix.as_name().encode(w);
        self.route.encode_value(w);
    }
}

#[cfg(test)]
mod tests {
    use super::super::values::RouteOrigin;
    use super::*;

    fn whole() -> Explained {
        let name: Name = "/a/b".parse().unwrap();
        let route = Route { face_id: 7, origin: RouteOrigin::APP, ..Route::default() };
        Explained {
            cached: Some(ExplainedData { name: name.clone(), octets: 900, fresh_ms: 10 }),
            pending: alloc::vec![
                ExplainedInterest {
                    left_ms: 4000,
                    downstreams: alloc::vec![300, 301],
                    upstreams: alloc::vec![
                        ExplainedSending { face_id: 7, since_ms: 12, nack: None },
                        ExplainedSending { face_id: 8, since_ms: 9, nack: Some(150) },
                    ],
                },
                ExplainedInterest::default(),
            ],
            prefix: Some("/a".parse().unwrap()),
            next_hops: alloc::vec![
                ExplainedHop { face_id: 7, cost: 10, srtt_us: Some(1500), is_failing: true },
                ExplainedHop { face_id: 8, ..ExplainedHop::default() },
            ],
            routes: alloc::vec![ExplainedRoute { prefix: "/a".parse().unwrap(), route }],
            bound: Some(300),
            strategy: "/localhost/nfd/strategy/asf/v=5".parse().unwrap(),
            strategy_prefix: Name::new(),
            discovery: alloc::vec![9, 10],
            pit: (3, 65536),
            refusal: "user 7 may not".into(),
            is_partial: true,
            asker: 301,
            uid: Some(7),
            rights: alloc::vec![ExplainedRight {
                command: "rib/register".into(),
                is_allowed: true,
                why: "a rule".into(),
                cause: "expired".into(),
            }],
        }
    }

    #[test]
    fn an_explanation_is_read_back_as_it_was_written_and_in_each_of_its_parts_may_lack() {
        let whole = whole();
        assert_eq!(Explained::decode(&whole.to_vec()), Ok(whole.clone()));
        let least = Explained { strategy: whole.strategy, ..Explained::default() };
        assert_eq!(Explained::decode(&least.to_vec()), Ok(least));
    }

    #[test]
    fn an_explanation_that_is_cut_or_changed_anywhere_is_refused_or_read_and_nothing_else() {
        let octets = whole().to_vec();
        for i in 0..octets.len() {
            assert!(Explained::decode(&octets[..i]).is_err());
            for bit in 0..8 {
                let mut changed = octets.clone();
                changed[i] ^= 1 << bit;
                let _ = Explained::decode(&changed);
            }
        }
    }
}
