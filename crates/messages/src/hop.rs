//! Traces of a name hop by hop, namely's own. A router answers only if its operator permits it.
//!
//! A trace is an Interest for the name with two more components: a keyword and a fresh number. It
//! therefore takes the path of Interests for the name. The router at which its HopLimit ends
//! answers it, as in RFC 9507; other routers forward it.

use alloc::string::String;
use alloc::vec::Vec;

use super::field::block;
use super::numbers::*;
use namely_wire::{Component, Name, NameRef};

/// Hops that `namely why --trace` follows.
///
/// # Limit
/// The trace ends and reports that the name is too far.
/// - Tests: `each_hop_outcome_has_its_cause`
pub const HOP_LIMIT_MAX: u8 = 32;

/// The keyword of a trace.
const KEYWORD: &[u8] = b"namely-why";

/// Returns the name of a trace of `name`. Each trace needs a new `number`.
pub fn hop_name(name: &Name, number: u64) -> Name {
    name.join(Component::keyword(KEYWORD)).join_generic(number.to_be_bytes())
}

/// Returns the name that a trace is about; `None` if `name` is not the name of a trace.
pub fn hop_query_name(name: NameRef<'_>) -> Option<NameRef<'_>> {
    let about = name.len().checked_sub(2)?;
    (name.component(about) == Some(Component::keyword(KEYWORD))).then(|| name.prefix(about))
}

block! {
    /// A router's answer.
    #[derive(Clone, Debug, Default, PartialEq, Eq)]
    pub struct HopAnswer: HOP_ANSWER {
        /// The remote URI of the face from which the trace arrived.
        pub from: String = URI, default;
        /// The FIB's longest match; `None` if no route leads on.
        pub prefix: Option<Name> = EXPLAIN_PREFIX;
        /// The strategy's name.
        pub strategy: Name = STRATEGY;
        /// The next hops of the name, cheapest first, without the face from which the trace
        /// arrived.
        pub next: Vec<HopNext> = HOP_NEXT;
        /// Whether that face is a next hop, too. Interests are not sent back to it.
        pub leads_back: bool = HOP_LEADS_BACK;
    }
}

block! {
    /// A next hop.
    #[derive(Clone, Debug, Default, PartialEq, Eq)]
    pub struct HopNext: HOP_NEXT {
        /// Its remote URI; empty for an application of the router's host.
        pub uri: String = URI;
        /// Its cost.
        pub cost: u64 = COST;
        /// Whether the strategy avoids it for the time being, because it failed.
        pub is_failing: bool = FLAGS, number;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Block;

    fn whole() -> HopAnswer {
        let next = HopNext { uri: "udp4://192.0.2.7:6363".into(), cost: 10, is_failing: true };
        HopAnswer {
            from: "udp4://192.0.2.1:6363".into(),
            prefix: Some("/a".parse().unwrap()),
            strategy: "/localhost/nfd/strategy/best-route/v=5".parse().unwrap(),
            next: alloc::vec![next, HopNext::default()],
            leads_back: true,
        }
    }

    #[test]
    fn a_hop_name_carries_its_subject() {
        let name: Name = "/a/b".parse().unwrap();
        let asked = hop_name(&name, 7);
        assert_eq!(hop_query_name(asked.as_name()), Some(name.as_name()));
        assert_eq!(hop_query_name(hop_name(&Name::new(), 0).as_name()), Some(NameRef::default()));
        for other in ["/", "/a", "/a/namely-why/x", "/a/32=namely-why", "/a/32=namely-why/x/y"] {
            assert_eq!(hop_query_name(other.parse::<Name>().unwrap().as_name()), None, "{other}");
        }
    }

    #[test]
    fn a_damaged_hop_answer_never_panics() {
        let octets = whole().to_vec();
        assert_eq!(HopAnswer::decode(&octets), Ok(whole()));
        let least = HopAnswer { strategy: whole().strategy, ..HopAnswer::default() };
        assert_eq!(HopAnswer::decode(&least.to_vec()), Ok(least));
        for i in 0..octets.len() {
            assert!(HopAnswer::decode(&octets[..i]).is_err());
            for bit in 0..8 {
                let mut changed = octets.clone();
                changed[i] ^= 1 << bit;
                let _ = HopAnswer::decode(&changed);
            }
        }
    }
}
