//! Follows a name hop by hop through the routers that answer.

use std::time::{SystemTime, UNIX_EPOCH};

use namely_client::{Client, ClientError, HopOutcome};
use namely_messages::{HOP_LIMIT_MAX, HopAnswer, HopNext};
use namely_wire::text::Plain;
use namely_wire::{NackReason, Name};
use serde_json::{Value, json};

use super::{Step, Verdict};

/// Consecutive routers without an answer in `namely why --trace`.
///
/// # Limit
/// The trace ends and reports the silence.
/// - Tests: `each_hop_outcome_has_its_cause`
const SILENT_MAX: usize = 2;

/// A router on the path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Hop {
    number: u8,
    /// The URI that the router before this one reported; `None` if that router did not answer.
    uri: Option<String>,
    /// The router's answer.
    answer: Option<HopAnswer>,
}

/// The path of a name, and its end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct NamePath {
    pub(super) hops: Vec<Hop>,
    pub(super) verdict: Verdict,
}

impl NamePath {
    /// Follows `name` from a router that forwards it to `first`.
    pub(super) fn follow(router: &mut Client, name: &Name, first: &str) -> Result<Self, ClientError> {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos());
        // The numbers of hops are far apart, so that no repeated query uses that of another hop.
        let number = |hop: u8| (now as u64).wrapping_add(u64::from(hop) << 8);
        NamePath::of(name, first, |hop| router.ask_hop(name, hop, number(hop)))
    }

    fn of(
        name: &Name,
        first: &str,
        mut query: impl FnMut(u8) -> Result<HopOutcome, ClientError>,
    ) -> Result<Self, ClientError> {
        let (mut hops, mut uri) = (Vec::new(), Some(first.to_owned()));
        for number in 1..=HOP_LIMIT_MAX {
            let answer = match query(number)? {
                HopOutcome::Refused(reason) => {
                    let verdict = refused(name, number, uri.as_deref(), reason);
                    return Ok(NamePath { hops: without_silent_end(hops), verdict });
                }
                HopOutcome::Silence => None,
                HopOutcome::Answer(answer) => Some(answer),
            };
            let next = answer.as_ref().and_then(|answer| answer.first());
            let is_last = answer.is_some() && next.is_none_or(|next| next.uri.is_empty());
            let next_uri = next.map(|next| next.uri.clone());
            hops.push(Hop { number, uri: std::mem::replace(&mut uri, next_uri), answer });
            if let Some(verdict) = hops.last().filter(|_| is_last).map(|hop| hop.end(name)) {
                return Ok(NamePath { hops, verdict });
            }
            if hops.iter().rev().take_while(|hop| hop.answer.is_none()).count() >= SILENT_MAX {
                let hops = without_silent_end(hops);
                let verdict = silent(name, hops.last().map(|hop| hop.label()).unwrap_or_default());
                return Ok(NamePath { hops, verdict });
            }
        }
        let verdict = Verdict::new("too_far", format!("no end after {HOP_LIMIT_MAX} routers"));
        Ok(NamePath { hops, verdict })
    }

    pub(super) fn steps(&self) -> Vec<Step> {
        self.hops.iter().map(|hop| Step { at: "hop", found: hop.text() }).collect()
    }

    pub(super) fn json(&self) -> Value {
        self.hops.iter().map(Hop::json).collect()
    }
}

/// Retains only the first of the last routers without an answer, because only that one is certain
/// to exist.
fn without_silent_end(mut hops: Vec<Hop>) -> Vec<Hop> {
    let answered = hops.iter().rposition(|hop| hop.answer.is_some()).map_or(0, |last| last + 1);
    hops.truncate(answered + 1);
    hops
}

impl Hop {
    fn label(&self) -> String {
        match &self.uri {
            // The text is escaped, because it is from a router whose identity is not verified.
            Some(uri) => format!("hop {}, {}", self.number, Plain::new(uri)),
            None => format!("hop {}", self.number),
        }
    }

    fn text(&self) -> String {
        let at = self.uri.as_ref().map(|uri| format!(", {}", Plain::new(uri))).unwrap_or_default();
        let Some(answer) = &self.answer else { return format!("{}{at}: no answer", self.number) };
        let route = match &answer.prefix {
            Some(prefix) => format!("route {prefix}"),
            None => "no route".into(),
        };
        let short = answer.strategy.as_name().component(3);
        let strategy = short.map_or_else(|| answer.strategy.to_string(), |c| c.to_string());
        let next: Vec<String> = answer.next.iter().map(next_text).collect();
        let to = if next.is_empty() { String::new() } else { format!(", to {}", next.join(" or ")) };
        format!("{}{at}: {route}, {strategy}{to}", self.number)
    }

    fn json(&self) -> Value {
        let answer = self.answer.as_ref();
        let next = |next: &HopNext| json!({"uri": next.uri, "cost": next.cost, "failing": next.is_failing});
        json!({
            "hop": self.number, "uri": self.uri, "answers": answer.is_some(),
            "prefix": answer.and_then(|answer| answer.prefix.as_ref()).map(Name::to_string),
            "strategy": answer.map(|answer| answer.strategy.to_string()),
            "next": answer.map(|answer| answer.next.iter().map(next).collect::<Vec<_>>()),
        })
    }

    /// Returns the verdict at the last router.
    fn end(&self, name: &Name) -> Verdict {
        let label = self.label();
        let answer = self.answer.as_ref();
        let leads_back = answer.is_some_and(|answer| answer.leads_back);
        match answer.map(|answer| (&answer.prefix, answer.next.is_empty())) {
            Some((None, _)) => Verdict::new(
                "no_route",
                format!("it reaches {label}, where no route leads to it"),
            )
            .hint(format!(
                "there, `namely route add {name} FACE`, or start its producer; or the name is mistyped: \
                     `namely ls {}`",
                name.as_name().without_last(1)
            )),
            Some((Some(prefix), true)) if leads_back => Verdict::new(
                "loop",
                format!("routers forward it in a loop: it reaches {label}, where {prefix} leads only back"),
            )
            .hint(format!("one of the two routes for {prefix} is wrong; or the name is mistyped")),
            Some((Some(prefix), true)) => {
                Verdict::new("nobody", format!("it reaches {label}, where {prefix} has no next hop but back"))
                    .hint(format!("there, `namely why {name}` shows more"))
            }
            _ => Verdict::new("ok", format!("it reaches an application at {label}")),
        }
    }
}

fn next_text(next: &HopNext) -> String {
    let uri = if next.uri.is_empty() { "an application".into() } else { Plain::new(&next.uri).to_string() };
    format!("{uri}{}", if next.is_failing { " (failing)" } else { "" })
}

fn refused(name: &Name, number: u8, uri: Option<&str>, reason: NackReason) -> Verdict {
    let at = uri.map(|uri| format!(", {},", Plain::new(uri))).unwrap_or_default();
    match reason {
        NackReason::Duplicate => Verdict::new(
            "loop",
            format!("routers forward it in a loop: hop {number}{at} had received it before"),
        )
        .hint("one of the routers above has a wrong route back"),
        NackReason::NoRoute => {
            Verdict::new("no_route", format!("hop {number}{at} or one behind it has no route for it"))
                .hint(format!("there, `namely why {name}` shows more"))
        }
        reason => Verdict::new("nack", format!("hop {number}{at} refuses it: Nack {reason}"))
            .hint("try again later"),
    }
}

fn silent(name: &Name, label: String) -> Verdict {
    let text = format!("{label} does not answer: it may not, or its answers do not arrive");
    Verdict::new("no_answer", text).hint(format!(
        "set authorization.explain_to_network there, if it is namely's router; or run `namely why {name}` on it"
    ))
}

/// The next hop that an Interest takes first.
trait First {
    fn first(&self) -> Option<&HopNext>;
}

impl First for HopAnswer {
    fn first(&self) -> Option<&HopNext> {
        self.next.iter().find(|next| !next.is_failing).or(self.next.first())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(prefix: Option<&str>, next: &[&str]) -> HopOutcome {
        let hop = |uri: &&str| HopNext { uri: (*uri).to_owned(), ..HopNext::default() };
        HopOutcome::Answer(HopAnswer {
            prefix: prefix.map(|uri| uri.parse().unwrap()),
            strategy: "/localhost/nfd/strategy/best-route/v=5".parse().unwrap(),
            next: next.iter().map(hop).collect(),
            ..HopAnswer::default()
        })
    }

    /// A router whose only next hop is the router before it.
    fn back(prefix: &str) -> HopOutcome {
        let HopOutcome::Answer(answer) = answer(Some(prefix), &[]) else { panic!("it answers") };
        HopOutcome::Answer(HopAnswer { leads_back: true, ..answer })
    }

    fn way(outcomes: &[HopOutcome]) -> NamePath {
        let name = "/a/b".parse().unwrap();
        let at = |hop: u8| outcomes.get(usize::from(hop) - 1).cloned().unwrap_or(HopOutcome::Silence);
        NamePath::of(&name, "udp4://first", |hop| Ok(at(hop))).unwrap()
    }

    #[test]
    fn each_hop_outcome_has_its_cause() {
        let on = || answer(Some("/a"), &["udp4://next"]);
        for (outcomes, cause, hops) in [
            (vec![answer(Some("/a"), &[""])], "ok", 1),
            (vec![on(), answer(Some("/a"), &["", "udp4://x"])], "ok", 2),
            (vec![on(), answer(None, &[])], "no_route", 2),
            (vec![answer(Some("/"), &[])], "nobody", 1),
            (vec![back("/a")], "loop", 1),
            (vec![on(), back("/")], "loop", 2),
            (vec![on(), HopOutcome::Refused(NackReason::Duplicate)], "loop", 1),
            (vec![on(), HopOutcome::Refused(NackReason::NoRoute)], "no_route", 1),
            (vec![HopOutcome::Refused(NackReason::Congestion)], "nack", 0),
            (vec![], "no_answer", 1),
            (vec![on()], "no_answer", 2),
            (vec![HopOutcome::Silence, answer(Some("/a"), &[""])], "ok", 2),
            (vec![on(); 32], "too_far", 32),
        ] {
            let way = way(&outcomes);
            assert_eq!((way.verdict.cause, way.hops.len()), (cause, hops), "{way:#?}");
        }
    }

    #[test]
    fn a_hop_prints_as_one_line() {
        let way = way(&[answer(Some("/a"), &["x\n\u{1b}[2J"]), HopOutcome::Silence, answer(None, &[])]);
        let lines: Vec<String> = way.steps().into_iter().map(|step| step.found).collect();
        assert_eq!(lines[0], "1, udp4://first: route /a, best-route, to x\\n\\u{1b}[2J");
        assert_eq!(lines[1], "2, x\\n\\u{1b}[2J: no answer");
        assert_eq!(lines[2], "3: no route, best-route");
    }
}
