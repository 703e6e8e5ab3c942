//! The router's handling of an Interest for a name, in the order of its lookups.

use std::time::{SystemTime, UNIX_EPOCH};

use namely_client::{Client, ClientError, FACE_LOCAL};
use namely_messages::{
    Counter, CsInfo, Explained, ExplainedHop, ExplainedInterest, ExplainedSending, FaceScope, FaceStatus,
    cs_flags,
};
use namely_wire::rdr::discovery_name;
use namely_wire::{Component, NackReason, Name};

use super::face::{Trouble, trouble_of};
use super::{Step, Verdict, count, time_text};

/// Difference of two clocks, ms, above which the difference is reported. A router refuses commands
/// that were signed a minute ago.
const SKEW_MS_MAX: u64 = 60_000;

/// Time without an answer, ms, from which on a pending Interest is reported.
const SILENT_MS: u64 = 1_000;

/// The router's data about a name.
#[derive(Clone, Debug, Default)]
pub(super) struct NameFacts {
    pub(super) name: Name,
    pub(super) explained: Explained,
    /// The same for the Interest that `namely get` sends first: for the newest version, with
    /// MustBeFresh. `None` if the name is that of a version, a segment, or a router's own.
    pub(super) newest: Option<Explained>,
    pub(super) faces: Vec<FaceStatus>,
    pub(super) cs: CsInfo,
    pub(super) counters: Vec<Counter>,
    /// Difference between the router's clock and that of this machine, ms.
    pub(super) skew_ms: u64,
}

impl NameFacts {
    pub(super) fn query(router: &mut Client, name: &Name) -> Result<Self, ClientError> {
        let explained = router.explain(name)?;
        let newest = is_versionless(name).then(|| router.explain(&discovery_name(name.as_name())));
        let newest = newest.transpose()?;
        let own_ms = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis());
        let router_ms = router.status()?.current_ms;
        Ok(NameFacts {
            name: name.clone(),
            explained,
            newest,
            faces: router.faces()?,
            cs: router.cs_info()?,
            counters: router.counters()?,
            skew_ms: u64::try_from(own_ms).unwrap_or(u64::MAX).abs_diff(router_ms),
        })
    }

    pub(super) fn steps(&self) -> Vec<Step> {
        let mut steps = vec![
            Step { at: "name", found: self.name.to_string() },
            Step { at: "scope", found: self.scope().into() },
            Step { at: "cache", found: self.cache() },
            Step { at: "pending", found: self.pending() },
        ];
        steps
            .extend(self.newest.as_ref().map(|newest| Step { at: "get", found: self.first_request(newest) }));
        steps.push(Step { at: "route", found: self.route() });
        steps
            .extend(self.explained.next_hops.iter().map(|hop| Step { at: "next hop", found: self.hop(hop) }));
        let Explained { strategy, strategy_prefix, refusal, .. } = &self.explained;
        let short = strategy.as_name().component(3).map_or_else(|| strategy.to_string(), |c| c.to_string());
        steps.push(Step { at: "strategy", found: format!("{short}, chosen for {strategy_prefix}") });
        if !refusal.is_empty() {
            steps.push(Step { at: "rights", found: refusal.clone() });
        }
        if self.skew_ms > SKEW_MS_MAX {
            let found = format!("the router's differs from this one by {}", time_text(self.skew_ms));
            steps.push(Step { at: "clock", found });
        }
        let dropped = self.dropped();
        if !dropped.is_empty() {
            steps.push(Step { at: "dropped", found: format!("since the start: {dropped}") });
        }
        steps
    }

    fn is_below(&self, first: &str) -> bool {
        self.name.as_name().component(0) == Some(Component::generic(first.as_bytes()))
    }

    fn scope(&self) -> &'static str {
        if self.is_below("localhost") {
            "never leaves this host (/localhost)"
        } else if self.is_below("localhop") {
            "goes one hop, from applications of this host (/localhop)"
        } else {
            "any"
        }
    }

    fn serves(&self) -> bool {
        self.cs.flags & cs_flags::ENABLE_SERVE != 0
    }

    fn cache(&self) -> String {
        let state = match (self.serves(), self.cs.flags & cs_flags::ENABLE_ADMIT != 0, self.cs.capacity) {
            (_, _, 0) => "; it holds nothing at all (capacity 0)",
            (false, ..) => "; it does not answer (serve off)",
            (_, false, _) => "; it takes nothing in (admit off)",
            _ => "",
        };
        let found = match &self.explained.cached {
            _ if self.explained.is_partial => "reported to managers of the router only".to_owned(),
            None => format!("nothing at or below it among {}", count(self.cs.entries, "packet")),
            Some(data) if data.fresh_ms > 0 => {
                format!("{}, {} octets, fresh for {}", data.name, data.octets, time_text(data.fresh_ms))
            }
            Some(data) => format!("{}, {} octets, no longer fresh", data.name, data.octets),
        };
        found + state
    }

    /// Describes the first Interest of `namely get`, and its answer from the content store.
    fn first_request(&self, newest: &Explained) -> String {
        let answer = match &newest.cached {
            _ if newest.is_partial => "reported to managers of the router only".to_owned(),
            None => "not in the content store".to_owned(),
            Some(_) if !self.serves() => "in the content store, which does not answer (serve off)".to_owned(),
            Some(data) if data.fresh_ms > 0 => {
                format!("in the content store, fresh for {}", time_text(data.fresh_ms))
            }
            Some(_) => "in the content store, but no longer fresh".to_owned(),
        };
        let sent = match newest.pending.is_empty() {
            true => String::new(),
            false => format!("; {}", sent_text(&newest.pending)),
        };
        format!("requests the newest version (32=metadata, MustBeFresh): {answer}{sent}")
    }

    /// The explanation of the Interest that decides: that of `namely get`, or that for the name.
    fn decisive(&self) -> &Explained {
        self.newest.as_ref().unwrap_or(&self.explained)
    }

    fn pending(&self) -> String {
        let Explained { pending, pit_entries: entries, pit_capacity: most, is_partial, .. } = &self.explained;
        if *is_partial {
            return format!("reported to managers of the router only; {entries} of {most} in all");
        }
        let waiting: usize = pending.iter().map(|interest| interest.downstreams.len()).sum();
        if pending.is_empty() {
            return format!("no face waits for it; {entries} of {most} in all");
        }
        format!(
            "{} for it, {}; {entries} of {most} in all",
            verb(waiting as u64, "face waits", "faces wait"),
            sent_text(pending)
        )
    }

    fn route(&self) -> String {
        let Some(prefix) = &self.explained.prefix else {
            let discovery = self.explained.discovery.len() as u64;
            let discovery_note = if self.learns() && discovery > 0 {
                format!("; self-learning asks {}", count(discovery, "link"))
            } else {
                String::new()
            };
            return format!("none leads to it{discovery_note}");
        };
        let routes = self.explained.routes.iter().map(|of| {
            let left = of.route.expiration_period_ms.map(|ms| format!(", ends in {}", time_text(ms)));
            let at = if of.prefix == *prefix { String::new() } else { format!(" by {}", of.prefix) };
            format!("to face {}{at} from {}{}", of.route.face_id, of.route.origin, left.unwrap_or_default())
        });
        let routes: Vec<String> = routes.collect();
        let from = if routes.is_empty() { "set by hand in the FIB".to_owned() } else { routes.join("; ") };
        format!("{prefix}: {from}")
    }

    fn hop(&self, hop: &ExplainedHop) -> String {
        let where_to = match (hop.face_id, self.explained.bound) {
            (FACE_LOCAL, None) => "the applications of this host: none has bound it".to_owned(),
            (FACE_LOCAL, Some(id)) => {
                let process = self.face(id).and_then(FaceStatus::process);
                let process = process.map(|process| format!(", {process}")).unwrap_or_default();
                format!("the application that bound it, face {id}{process}")
            }
            (id, _) => match self.face(id) {
                Some(face) => format!("face {id}, {}", face.remote_text()),
                None => format!("face {id}, which is gone"),
            },
        };
        let rtt = hop.srtt_us.map(|us| format!(", round trip {:.1} ms", us as f64 / 1e3));
        let failing = if hop.is_failing { ", avoided by the strategy for now" } else { "" };
        let back = if hop.face_id == self.explained.asker { ", the face of this query" } else { "" };
        let trouble = self.face(hop.face_id).and_then(|face| trouble_of(face, &self.counters));
        let trouble = trouble.map(|trouble| format!(", {}", trouble.text)).unwrap_or_default();
        format!("{where_to}, cost {}{}{failing}{back}{trouble}", hop.cost, rtt.unwrap_or_default())
    }

    fn face(&self, id: u64) -> Option<&FaceStatus> {
        self.faces.iter().find(|face| face.face_id == id)
    }

    fn learns(&self) -> bool {
        self.explained.strategy.as_name().component(3) == Some(Component::generic(b"self-learning"))
    }

    fn dropped(&self) -> String {
        let drops = [
            ("forwarder.loop", "looped"),
            ("forwarder.hop_limit", "at the hop limit"),
            ("forwarder.scope", "out of scope"),
            ("forwarder.no_route", "without a route"),
            ("forwarder.not_bound", "not bound"),
        ];
        let of = |label: &str| self.counters.iter().find(|c| c.face_id.is_none() && c.label == label);
        let parts: Vec<String> = drops
            .iter()
            .filter_map(|(label, words)| {
                of(label).filter(|c| c.value > 0).map(|c| format!("{} {words}", c.value))
            })
            .collect();
        parts.join(", ")
    }

    pub(super) fn verdict(&self) -> Verdict {
        self.local_answer()
            .or_else(|| self.local_refusal())
            .or_else(|| self.nowhere())
            .or_else(|| self.pending_results())
            .unwrap_or_else(|| self.sent())
    }

    fn local_answer(&self) -> Option<Verdict> {
        let data = self.decisive().cached.as_ref().filter(|_| self.serves())?;
        let text = format!("the content store answers with {}", data.name);
        match (data.fresh_ms > 0, &self.newest) {
            (true, _) => Some(Verdict::new("ok", text)),
            (false, None) => Some(
                Verdict::new("ok", text + ", but not to Interests with MustBeFresh")
                    .hint("`namely peek --fresh` bypasses it"),
            ),
            // An old answer does not count, so the Interest is sent on.
            (false, Some(_)) => None,
        }
    }

    fn local_refusal(&self) -> Option<Verdict> {
        let (entries, most) = (self.explained.pit_entries, self.explained.pit_capacity);
        (entries >= most).then(|| {
            Verdict::new(
                "pit_full",
                format!("{entries} Interests are pending, which is the limit: new ones are refused"),
            )
            .hint("raise tables.pit_entries_max; `namely status --counters` shows which faces fill it")
        })
    }

    /// Returns the reason why no next hop takes the Interest.
    fn nowhere(&self) -> Option<Verdict> {
        let Explained { next_hops, bound, asker, discovery, .. } = &self.explained;
        if next_hops.is_empty() {
            return Some(self.no_route(discovery.len() as u64));
        }
        if next_hops.iter().all(|hop| hop.face_id == FACE_LOCAL) && bound.is_none() {
            let prefix = self.prefix();
            return Some(
                Verdict::new(
                    "not_bound",
                    format!(
                        "{prefix} leads to the applications of this host, and none has bound {}",
                        self.name
                    ),
                )
                .hint("start its producer; `namely bind list` shows what is bound"),
            );
        }
        let is_gone = |hop: &ExplainedHop| hop.face_id != FACE_LOCAL && self.face(hop.face_id).is_none();
        if next_hops.iter().all(is_gone) {
            return Some(
                Verdict::new("face_gone", format!("the faces that {} leads to are gone", self.prefix()))
                    .hint(format!("`namely route add {} FACE` adds another route", self.prefix())),
            );
        }
        if next_hops.iter().all(|hop| hop.face_id == *asker) {
            return Some(
                Verdict::new(
                    "only_back",
                    format!(
                        "{} leads only back to the requesting face: Interests are not sent back",
                        self.prefix()
                    ),
                )
                .hint("a producer answers its own names itself: request it from another program"),
            );
        }
        let is_remote = |hop: &ExplainedHop| {
            self.face(hop.face_id).is_some_and(|face| face.face_scope == FaceScope::NonLocal)
        };
        if self.is_below("localhost") && next_hops.iter().all(is_remote) {
            return Some(
                Verdict::new("scope", "names below /localhost are not sent to other hosts")
                    .hint("serve it under another name, or query that host's own router"),
            );
        }
        None
    }

    fn no_route(&self, links: u64) -> Verdict {
        if self.learns() && links > 0 {
            let text = format!(
                "no route is known: {} asked, and an answer teaches the route",
                verb(links, "link is", "links are")
            );
            return Verdict::new("ok", text).hint("`namely neighbors` lists the neighbors");
        }
        let text = if self.learns() {
            "no route leads to it, and self-learning has no link to ask"
        } else {
            "no route leads to it: Interests are refused (Nack NoRoute)"
        };
        let hint = if self.explained.refusal.is_empty() {
            "start its producer here (`namely serve DIR --prefix …`), or `namely route add PREFIX udp://HOST`"
        } else {
            "`namely route add PREFIX udp://HOST`, as a user who may manage the router"
        };
        Verdict::new("no_route", text).hint(hint)
    }

    fn prefix(&self) -> String {
        self.explained.prefix.as_ref().map_or_else(String::new, Name::to_string)
    }

    /// Reports the results of Interests that are pending now.
    fn pending_results(&self) -> Option<Verdict> {
        let all = || self.newest.iter().chain([&self.explained]).flat_map(|of| &of.pending);
        let sent = || all().flat_map(|interest| &interest.upstreams);
        if let Some((sent, reason)) = sent().find_map(|sent| Some((sent, sent.nack?))) {
            let (face, uri) = (sent.face_id, self.uri(sent.face_id));
            let cause = match NackReason::from_number(reason) {
                NackReason::NoRoute => "nack_no_route",
                NackReason::Duplicate => "nack_loop",
                NackReason::Congestion => "nack_congestion",
                _ => "nack",
            };
            let text = format!("face {face} refused it: Nack {}", nack(reason));
            let hint = match cause {
                "nack_no_route" => format!("the way ends at {uri}: `namely why {}` there", self.name),
                "nack_loop" => {
                    format!("routers forward it in a loop: check the routes for it here and at {uri}")
                }
                _ => format!("try again later; `namely why --face {face}` shows more"),
            };
            return Some(Verdict::new(cause, text).hint(hint));
        }
        let oldest = sent().filter(|sent| sent.since_ms >= SILENT_MS).max_by_key(|sent| sent.since_ms)?;
        let (face, since) = (oldest.face_id, time_text(oldest.since_ms));
        let trouble = self.face(face).and_then(|face| trouble_of(face, &self.counters));
        let text = format!("face {face} got it {since} ago and has not answered");
        Some(match trouble {
            Some(Trouble { cause, text: why, hint }) => {
                Verdict::new(cause, format!("{text}: {why}")).hint(hint)
            }
            None => Verdict::new("no_answer", text).hint(format!(
                "`namely why {}` at {} shows whether it arrived there",
                self.name,
                self.uri(face)
            )),
        })
    }

    fn uri(&self, id: u64) -> String {
        self.face(id).map_or_else(|| format!("face {id}"), FaceStatus::remote_text)
    }

    /// Returns the verdict that the Interest is sent to the first next hop, with a fault that may
    /// follow.
    fn sent(&self) -> Verdict {
        let usable = |hop: &&ExplainedHop| hop.face_id != self.explained.asker;
        let hops: Vec<&ExplainedHop> = self.explained.next_hops.iter().filter(usable).collect();
        if !hops.is_empty() && hops.iter().all(|hop| hop.is_failing) {
            return Verdict::new(
                "failing",
                "no next hop has answered lately: the strategy tries them in turn",
            )
            .hint("`namely face list` shows whether packets arrive from there");
        }
        let first = hops.iter().find(|hop| !hop.is_failing).or(hops.first());
        let Some(first) = first else { return Verdict::new("ok", "it is sent on") };
        let id = if first.face_id == FACE_LOCAL {
            self.explained.bound.unwrap_or(FACE_LOCAL)
        } else {
            first.face_id
        };
        let text = format!("{} face {id}, {}", self.subject(), self.uri(id));
        let trouble = self.face(id).and_then(|face| trouble_of(face, &self.counters));
        if let Some(Trouble { cause, text: why, hint }) = trouble {
            return Verdict::new(cause, format!("{text}, which {why}")).hint(hint);
        }
        if self.skew_ms > SKEW_MS_MAX && self.has_refused() {
            let text = format!(
                "{text}; the router has refused commands, and its clock differs by {}",
                time_text(self.skew_ms)
            );
            return Verdict::new("clock", text)
                .hint("set both clocks: signed commands must be of the last minute");
        }
        if !self.serves() || self.cs.capacity == 0 {
            return Verdict::new("cache_off", format!("{text}; nothing is answered from the content store"))
                .hint("`namely cs config --serve on --capacity 65536` turns it on");
        }
        let verdict = Verdict::new("ok", text);
        if self.face(id).is_some_and(|face| face.face_scope == FaceScope::NonLocal) {
            return verdict.hint(format!("`namely why {} --trace` follows it from there", self.name));
        }
        verdict
    }

    /// Begins the sentence about the next hop. Data in the content store may answer an Interest for
    /// exactly its name, but not the one that `namely get` sends first.
    fn subject(&self) -> String {
        match &self.explained.cached {
            Some(data) if self.newest.is_some() && self.serves() => format!(
                "the content store has {}; `namely get` first requests the newest version, and that Interest goes to",
                data.name
            ),
            _ => "it goes to".to_owned(),
        }
    }

    /// Returns the URI of the first other router that Interests for the name are sent to, if any.
    pub(super) fn first_remote(&self) -> Option<String> {
        let hops = &self.explained.next_hops;
        let remote = |hop: &&ExplainedHop| {
            let face = self.face(hop.face_id).filter(|_| hop.face_id != self.explained.asker)?;
            (face.face_scope == FaceScope::NonLocal).then(|| (hop.is_failing, face.uri.clone()))
        };
        let mut all = hops.iter().filter_map(|hop| remote(&hop));
        let first = all.next()?;
        Some(if first.0 { all.find(|(is_failing, _)| !is_failing).unwrap_or(first) } else { first }.1)
    }

    fn has_refused(&self) -> bool {
        self.counters.iter().any(|c| c.label == "management.commands_refused" && c.value > 0)
    }
}

/// Returns true if `namely get` requests the newest version of the name before the name itself.
fn is_versionless(name: &Name) -> bool {
    let own = ["localhost", "localhop"].map(|first| Some(Component::generic(first.as_bytes())));
    let last = name.as_name().last();
    last.is_some_and(|last| last.version().is_none() && last.segment().is_none())
        && !own.contains(&name.as_name().component(0))
}

/// Lists the upstreams of pending Interests.
fn sent_text(pending: &[ExplainedInterest]) -> String {
    let sent = |sent: &ExplainedSending| {
        let nack = sent.nack.map(|n| format!(", Nack {}", nack(n))).unwrap_or_default();
        format!("face {} {} ago{nack}", sent.face_id, time_text(sent.since_ms))
    };
    let to: Vec<String> = pending.iter().flat_map(|interest| interest.upstreams.iter().map(sent)).collect();
    if to.is_empty() { "sent nowhere".to_owned() } else { format!("sent to {}", to.join("; ")) }
}

fn nack(reason: u64) -> String {
    NackReason::from_number(reason).to_string()
}

fn verb(n: u64, one: &str, many: &str) -> String {
    format!("{n} {}", if n == 1 { one } else { many })
}

#[cfg(test)]
mod tests;
