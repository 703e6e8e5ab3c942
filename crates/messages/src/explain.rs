//! The dataset `name/explain`, namely's own: the treatment of an Interest for a name, table by
//! table, in the order of NFD's pipelines.

use alloc::string::String;
use alloc::vec::Vec;

use super::block::Block;
use super::field::block;
use super::numbers::*;
use super::parameters::ControlParameters;
use super::request::{Dataset, Scope};
use super::tables::Route;
use namely_wire::DecodeError;
use namely_wire::Name;
use namely_wire::fields::Fields;
use namely_wire::tlv::Writer;
use namely_wire::types::NAME;

/// The name of the dataset that explains `name`.
pub fn explain_name(scope: Scope, name: &Name) -> Name {
    let parameters = ControlParameters { name: Some(name.clone()), ..ControlParameters::default() };
    Dataset::NameExplain.prefix(scope).join_generic(parameters.to_vec())
}

block! {
    /// The one entry of `name/explain`.
    #[derive(Clone, Debug, Default, PartialEq, Eq)]
    pub struct Explained: ENTRY {
        /// A Data that the content store has in memory at or below the name.
        pub cached: Option<ExplainedData> = EXPLAIN_CACHED;
        /// Pending Interests for exactly this name.
        pub pending: Vec<ExplainedInterest> = EXPLAIN_PENDING;
        /// The FIB's longest match; `None` if no prefix of the name has next hops.
        pub prefix: Option<Name> = EXPLAIN_PREFIX;
        /// Its next hops, cheapest first.
        pub next_hops: Vec<ExplainedHop> = NEXT_HOP_RECORD;
        /// Routes of that prefix in the RIB. An inherited route has a shorter prefix.
        pub routes: Vec<ExplainedRoute> = EXPLAIN_ROUTE;
        /// The face of the application that bound the name or a prefix of it.
        pub bound: Option<u64> = EXPLAIN_BOUND;
        /// The strategy's name.
        pub strategy: Name = STRATEGY;
        /// The prefix for which the strategy was chosen.
        pub strategy_prefix: Name = EXPLAIN_CHOICE, default;
        /// Faces to which self-learning sends the Interest if no route leads on.
        pub discovery: Vec<u64> = EXPLAIN_DISCOVERY;
        /// Number of all pending Interests.
        pub pit_entries: u64 = N_PIT_ENTRIES;
        /// Maximum number of pending Interests.
        pub pit_capacity: u64 = CAPACITY;
        /// The reason why the client may not register the name; empty if it may.
        pub refusal: String = EXPLAIN_REFUSAL, default;
        /// Whether cached Data and pending Interests are omitted, because the client has no right
        /// to them.
        pub is_partial: bool = EXPLAIN_PARTIAL;
        /// The client's face: no Interest is sent back to it.
        pub asker: u64 = FACE_ID;
        /// The client's uid, if it is a user of the router's machine.
        pub uid: Option<u64> = EXPLAIN_UID;
        /// The rights of that user on the name, for commands that no key signs.
        pub rights: Vec<ExplainedRight> = EXPLAIN_RIGHT;
    }
}

block! {
    /// The decision of the router on a command.
    #[derive(Clone, Debug, Default, PartialEq, Eq)]
    pub struct ExplainedRight: EXPLAIN_RIGHT {
        /// Module and verb, as `rib/register`.
        pub command: String = COUNTER_LABEL, default;
        /// Whether the command would be accepted.
        pub is_allowed: bool = FLAGS, number;
        /// The rule that accepts the command, or the reason for its refusal.
        pub why: String = EXPLAIN_REFUSAL, default;
        /// The kind of fault, for programs, if the router checked a signature; otherwise empty.
        pub cause: String = EXPLAIN_CAUSE, default;
    }
}

block! {
    /// A cached Data.
    #[derive(Clone, Debug, Default, PartialEq, Eq)]
    pub struct ExplainedData: EXPLAIN_CACHED {
        /// Its name.
        pub name: Name = NAME;
        /// Its octets.
        pub octets: u64 = CS_DISK_OCTETS;
        /// The remaining time for which the packet is fresh, ms.
        pub fresh_ms: u64 = CS_LIST_FRESH;
    }
}

block! {
    /// A pending Interest.
    #[derive(Clone, Debug, Default, PartialEq, Eq)]
    pub struct ExplainedInterest: EXPLAIN_PENDING {
        /// Its remaining lifetime, ms.
        pub left_ms: u64 = EXPIRATION_PERIOD;
        /// Faces that wait for Data.
        pub downstreams: Vec<u64> = FACE_ID;
        /// The upstreams to which the Interest was sent.
        pub upstreams: Vec<ExplainedSending> = EXPLAIN_SENDING;
    }
}

block! {
    /// An upstream to which a pending Interest was sent.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct ExplainedSending: EXPLAIN_SENDING {
        /// FaceId.
        pub face_id: u64 = FACE_ID;
        /// The time since the Interest was sent, ms.
        pub since_ms: u64 = EXPLAIN_SINCE;
        /// The reason of the received Nack, as its number.
        pub nack: Option<u64> = EXPLAIN_NACK;
    }
}

block! {
    /// A next hop.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct ExplainedHop: NEXT_HOP_RECORD {
        /// FaceId.
        pub face_id: u64 = FACE_ID;
        /// Cost.
        pub cost: u64 = COST;
        /// The round trip that the strategy has measured, us.
        pub srtt_us: Option<u64> = EXPLAIN_RTT;
        /// Whether the strategy avoids it for the time being, because it failed.
        pub is_failing: bool = FLAGS, number;
    }
}

/// A route of the RIB and the prefix that has it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ExplainedRoute {
    /// Name.
    pub prefix: Name,
    /// The route.
    pub route: Route,
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
            pit_entries: 3,
            pit_capacity: 65536,
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
    fn an_explanation_survives_a_round_trip() {
        let whole = whole();
        assert_eq!(Explained::decode(&whole.to_vec()), Ok(whole.clone()));
        let least = Explained { strategy: whole.strategy, ..Explained::default() };
        assert_eq!(Explained::decode(&least.to_vec()), Ok(least));
    }

    #[test]
    fn a_damaged_explanation_never_panics() {
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
