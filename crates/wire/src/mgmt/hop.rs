//! What routers say of a name to who follows it hop by hop, which only namely's do, and only where
//! the operator lets them.
//!
//! The question is an Interest for the name itself, with two components more: a keyword, and a
//! number that nobody has used. So it goes the way that Interests for the name go. The router at
//! which its HopLimit ends answers it, as in RFC 9507; no other looks at it.

use alloc::string::String;
use alloc::vec::Vec;

use super::block::Block;
use super::numbers::*;
use crate::error::DecodeError;
use crate::fields::{Fields, put_text};
use crate::name::{Component, Name, NameRef};
use crate::tlv::Writer;

/// Hops that a name is followed at most.
pub const HOP_LIMIT_MAX: u8 = 32;

/// The keyword of the question.
const KEYWORD: &[u8] = b"namely-why";

/// The name of a question about `name`; `number` is to be new for each.
pub fn hop_name(name: &Name, number: u64) -> Name {
    name.join(Component::keyword(KEYWORD)).join_generic(number.to_be_bytes())
}

/// The name that a question with this name is about; `None` if it is no question.
pub fn asked_of_hop(name: NameRef<'_>) -> Option<NameRef<'_>> {
    let about = name.len().checked_sub(2)?;
    (name.component(about) == Some(Component::keyword(KEYWORD))).then(|| name.prefix(about))
}

/// What a router says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HopAnswer {
    /// The remote URI of the face by which the question came.
    pub from: String,
    /// The FIB's longest match; `None` if no route leads on.
    pub prefix: Option<Name>,
    /// The strategy's name.
    pub strategy: Name,
    /// Where the name goes from here, cheapest first, without the face that the question came by.
    pub next: Vec<HopNext>,
}

/// A next hop.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HopNext {
    /// Its remote URI; empty for an application of the router's host.
    pub uri: String,
    /// Its cost.
    pub cost: u64,
    /// The strategy has given it up for the time being.
    pub is_failing: bool,
}

impl Block for HopAnswer {
    const TYPE: u32 = HOP_ANSWER;

    fn decode_value(value: &[u8]) -> Result<Self, DecodeError> {
        let fields = Fields::lenient(value)?;
        let next = fields.all(HOP_NEXT).map(|tlv| HopNext::decode_value(tlv.value));
        Ok(HopAnswer {
            from: fields.text_opt(URI)?.unwrap_or_default(),
            prefix: fields.wrapped_name_opt(EXPLAIN_PREFIX)?,
            strategy: fields.wrapped_name_opt(STRATEGY)?.ok_or(DecodeError::Missing(STRATEGY))?,
            next: next.collect::<Result<_, _>>()?,
        })
    }

    fn encode_value(&self, w: &mut Writer) {
        put_text(w, URI, Some(&self.from));
        if let Some(prefix) = &self.prefix {
            w.nested(EXPLAIN_PREFIX, |w| prefix.as_name().encode(w));
        }
        w.nested(STRATEGY, |w| self.strategy.as_name().encode(w));
        self.next.iter().for_each(|next| next.encode(w));
    }
}

impl Block for HopNext {
    const TYPE: u32 = HOP_NEXT;

    fn decode_value(value: &[u8]) -> Result<Self, DecodeError> {
        let fields = Fields::lenient(value)?;
        Ok(HopNext {
            uri: fields.text(URI)?,
            cost: fields.nni(COST)?,
            is_failing: fields.nni_opt(FLAGS)?.unwrap_or_default() != 0,
        })
    }

    fn encode_value(&self, w: &mut Writer) {
        put_text(w, URI, Some(&self.uri));
        w.nni(COST, self.cost).nni(FLAGS, self.is_failing.into());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn whole() -> HopAnswer {
        let next = HopNext { uri: "udp4://192.0.2.7:6363".into(), cost: 10, is_failing: true };
        HopAnswer {
            from: "udp4://192.0.2.1:6363".into(),
            prefix: Some("/a".parse().unwrap()),
            strategy: "/localhost/nfd/strategy/best-route/v=5".parse().unwrap(),
            next: alloc::vec![next, HopNext::default()],
        }
    }

    #[test]
    fn a_question_is_told_by_its_name_and_is_about_what_is_before() {
        let name: Name = "/a/b".parse().unwrap();
        let asked = hop_name(&name, 7);
        assert_eq!(asked_of_hop(asked.as_name()), Some(name.as_name()));
        assert_eq!(asked_of_hop(hop_name(&Name::new(), 0).as_name()), Some(NameRef::default()));
        for other in ["/", "/a", "/a/namely-why/x", "/a/32=namely-why", "/a/32=namely-why/x/y"] {
            assert_eq!(asked_of_hop(other.parse::<Name>().unwrap().as_name()), None, "{other}");
        }
    }

    #[test]
    fn an_answer_is_read_back_as_it_was_written_and_one_that_is_damaged_is_refused_or_read() {
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
