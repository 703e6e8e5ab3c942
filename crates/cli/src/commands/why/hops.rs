//! A name, followed hop by hop through the routers that say where it goes from them.

use std::time::{SystemTime, UNIX_EPOCH};

use namely_client::{Client, ClientError, HopOutcome};
use namely_wire::mgmt::{HOP_LIMIT_MAX, HopAnswer, HopNext};
use namely_wire::text::Plain;
use namely_wire::{NackReason, Name};
use serde_json::{Value, json};

use super::{Step, Verdict};

/// Routers in a row that may say nothing: behind more of them nobody is looked for.
const SILENT_MAX: usize = 2;

/// A router on the way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Hop {
    number: u8,
    /// What the router before it calls it; none if that said nothing.
    uri: Option<String>,
    /// What it says.
    said: Option<HopAnswer>,
}

/// The way that a name goes, and how it ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Way {
    pub(super) hops: Vec<Hop>,
    pub(super) verdict: Verdict,
}

impl Way {
    /// Follows `name` from a router that sends it to `first`.
    pub(super) fn follow(router: &mut Client, name: &Name, first: &str) -> Result<Self, ClientError> {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos());
        // Far enough from one another for a question that is asked twice.
        let number = |hop: u8| (now as u64).wrapping_add(u64::from(hop) << 8);
        Way::of(name, first, |hop| router.ask_hop(name, hop, number(hop)))
    }

    fn of(
        name: &Name,
        first: &str,
        mut ask: impl FnMut(u8) -> Result<HopOutcome, ClientError>,
    ) -> Result<Self, ClientError> {
        let (mut hops, mut uri) = (Vec::new(), Some(first.to_owned()));
        for number in 1..=HOP_LIMIT_MAX {
            let said = match ask(number)? {
                HopOutcome::Refused(reason) => {
                    let verdict = refused(name, number, uri.as_deref(), reason);
                    return Ok(Way { hops: without_silent_end(hops), verdict });
                }
                HopOutcome::Silence => None,
                HopOutcome::Answer(answer) => Some(answer),
            };
            let next = said.as_ref().and_then(|said| said.first());
            let is_last = said.is_some() && next.is_none_or(|next| next.uri.is_empty());
            let next_uri = next.map(|next| next.uri.clone());
            hops.push(Hop { number, uri: std::mem::replace(&mut uri, next_uri), said });
            if let Some(verdict) = hops.last().filter(|_| is_last).map(|hop| hop.end(name)) {
                return Ok(Way { hops, verdict });
            }
            if hops.iter().rev().take_while(|hop| hop.said.is_none()).count() >= SILENT_MAX {
                let hops = without_silent_end(hops);
                let verdict = silent(name, hops.last().map(|hop| hop.place()).unwrap_or_default());
                return Ok(Way { hops, verdict });
            }
        }
        let verdict = Verdict::new("too_far", format!("{HOP_LIMIT_MAX} routers and no end"));
        Ok(Way { hops, verdict })
    }

    pub(super) fn steps(&self) -> Vec<Step> {
        self.hops.iter().map(|hop| Step { at: "hop", found: hop.text() }).collect()
    }

    pub(super) fn json(&self) -> Value {
        self.hops.iter().map(Hop::json).collect()
    }
}

/// Of routers at the end that say nothing only the first is sure to be there.
fn without_silent_end(mut hops: Vec<Hop>) -> Vec<Hop> {
    let heard = hops.iter().rposition(|hop| hop.said.is_some()).map_or(0, |last| last + 1);
    hops.truncate(heard + 1);
    hops
}

impl Hop {
    fn place(&self) -> String {
        match &self.uri {
            // The routers say it, and nobody has checked which routers these are.
            Some(uri) => format!("hop {}, {}", self.number, Plain::new(uri)),
            None => format!("hop {}", self.number),
        }
    }

    fn text(&self) -> String {
        let at = self.uri.as_ref().map(|uri| format!(", {}", Plain::new(uri))).unwrap_or_default();
        let Some(said) = &self.said else { return format!("{}{at}: says nothing", self.number) };
        let route = match &said.prefix {
            Some(prefix) => format!("route {prefix}"),
            None => "no route".into(),
        };
        let short = said.strategy.as_name().component(3);
        let strategy = short.map_or_else(|| said.strategy.to_string(), |c| c.to_string());
        let next: Vec<String> = said.next.iter().map(next_text).collect();
        let to = if next.is_empty() { String::new() } else { format!(", to {}", next.join(" or ")) };
        format!("{}{at}: {route}, {strategy}{to}", self.number)
    }

    fn json(&self) -> Value {
        let said = self.said.as_ref();
        let next = |next: &HopNext| json!({"uri": next.uri, "cost": next.cost, "failing": next.is_failing});
        json!({
            "hop": self.number, "uri": self.uri, "answers": said.is_some(),
            "prefix": said.and_then(|said| said.prefix.as_ref()).map(Name::to_string),
            "strategy": said.map(|said| said.strategy.to_string()),
            "next": said.map(|said| said.next.iter().map(next).collect::<Vec<_>>()),
        })
    }

    /// What comes of a name at the last router.
    fn end(&self, name: &Name) -> Verdict {
        let place = self.place();
        let said = self.said.as_ref();
        match said.map(|said| (&said.prefix, said.next.is_empty())) {
            Some((None, _)) => {
                Verdict::new("no_route", format!("it comes to {place}, where no route leads to it"))
                    .hint(format!("there, `namely route add {name} FACE`, or start its producer"))
            }
            Some((Some(prefix), true)) => Verdict::new(
                "nobody",
                format!("it comes to {place}, where {prefix} leads to nobody, or back"),
            )
            .hint(format!("there, `namely why {name}` tells more")),
            _ => Verdict::new("ok", format!("it comes to an application at {place}")),
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
            format!("routers send it in a circle: at hop {number}{at} it came to one that had it before"),
        )
        .hint("of the routers above, one has a route back that it should not have"),
        NackReason::NoRoute => {
            Verdict::new("no_route", format!("hop {number}{at} or one behind it has no route for it"))
                .hint(format!("there, `namely why {name}` tells more"))
        }
        reason => Verdict::new("nack", format!("hop {number}{at} refuses it: Nack {reason}"))
            .hint("try again later"),
    }
}

fn silent(name: &Name, place: String) -> Verdict {
    let text = format!("{place} says nothing: it may not, or nothing comes back from there");
    Verdict::new("no_answer", text).hint(format!(
        "there, authorization.explain_to_network lets a router of namely's say it; or run `namely why {name}` on it"
    ))
}

/// Where it goes first.
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

    fn way(outcomes: &[HopOutcome]) -> Way {
        let name = "/a/b".parse().unwrap();
        let at = |hop: u8| outcomes.get(usize::from(hop) - 1).cloned().unwrap_or(HopOutcome::Silence);
        Way::of(&name, "udp4://first", |hop| Ok(at(hop))).unwrap()
    }

    #[test]
    fn a_way_ends_where_an_application_is_or_nothing_leads_on_or_in_a_circle_or_in_silence() {
        let on = || answer(Some("/a"), &["udp4://next"]);
        for (outcomes, cause, hops) in [
            (vec![answer(Some("/a"), &[""])], "ok", 1),
            (vec![on(), answer(Some("/a"), &["", "udp4://x"])], "ok", 2),
            (vec![on(), answer(None, &[])], "no_route", 2),
            (vec![answer(Some("/"), &[])], "nobody", 1),
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
    fn a_hop_is_one_line_whatever_its_router_says() {
        let way = way(&[answer(Some("/a"), &["x\n\u{1b}[2J"]), HopOutcome::Silence, answer(None, &[])]);
        let lines: Vec<String> = way.steps().into_iter().map(|step| step.found).collect();
        assert_eq!(lines[0], "1, udp4://first: route /a, best-route, to x\\n\\u{1b}[2J");
        assert_eq!(lines[1], "2, x\\n\\u{1b}[2J: says nothing");
        assert_eq!(lines[2], "3: no route, best-route");
    }
}
