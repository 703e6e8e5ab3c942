//! Polls a router repeatedly, as long as a page watches.

use std::time::Duration;

use namely_client::rates::{Event, FaceRates, Heading, Rates, Sample};
use namely_client::{Client, HotPrefix};
use namely_messages::{
    CsDiskStatus, CsInfo, FaceState, FaceStatus, NeighborStatus, RibEntry, Route, StrategyChoice,
    VipNeighbour, VipObject, VipStatus, cs_flags, face_flags, route_flags,
};
use namely_wire::Name;
use serde_json::{Value, json};

use crate::feed::{Feed, RouterSnapshot};
use crate::reach::{RouterError, RouterLink};

/// Faces of a router that a dashboard lists.
///
/// # Limit
/// The faces with the most traffic are listed, and the number of all.
/// - Tests: `shown_faces_and_routes_are_limited`
pub const FACES_MAX: usize = 2000;

/// Routes, and choices of a strategy, that a dashboard lists.
///
/// # Limit
/// The first ones are listed, and the number of all.
/// - Tests: `shown_faces_and_routes_are_limited`
pub const ROUTES_MAX: usize = 1000;

/// Counters of a router that a dashboard lists.
///
/// # Limit
/// The most frequent counters are listed, and the number of all.
/// - Tests: `shown_faces_and_routes_are_limited`
pub const COUNTERS_MAX: usize = 1000;

/// VIP objects of a router that a dashboard lists.
///
/// # Limit
/// The objects that received the most VIPs are listed, and the number of all.
/// - Tests: `shown_faces_and_routes_are_limited`
pub const OBJECTS_MAX: usize = 500;

/// Characters of a name or address that a dashboard prints.
///
/// # Limit
/// A longer text is cut and ends with `…`.
/// - Tests: `long_texts_are_cut`
pub const TEXT_CHARS_MAX: usize = 400;

/// The first word of the version of namely's routers. Only they report the client's face.
const OURS: &str = "namely-";

/// Data that seldom changes is requested at every `SELDOM`th poll.
const SELDOM: u64 = 5;

/// Delay of the second poll after the first, which has no rates.
const SOON: Duration = Duration::from_millis(250);

/// Polls a router until the feed ends.
pub(crate) fn poll_router(feed: &Feed, index: usize, reach: &RouterLink, interval: Duration) {
    let mut eye = RouterPoller::new(reach);
    let mut wait = interval;
    while let Some(was_alone) = feed.pause(wait) {
        if was_alone {
            // Rates over the time without a page would not be current.
            eye.before = None;
        }
        feed.looked();
        match eye.look() {
            Ok((look, is_first)) => {
                wait = if is_first { SOON.min(interval) } else { interval };
                feed.found(index, look);
                if feed.wants_names(index) {
                    feed.publish_names(index, &eye.names());
                }
            }
            Err(trouble) => {
                wait = interval;
                eye = RouterPoller::new(reach);
                let address = reach.router.as_deref().unwrap_or("the usual places");
                let trouble = json!({"what": trouble.what, "hint": trouble.hint, "address": text(address)});
                feed.publish_names(index, &json!({ "trouble": trouble }));
                feed.store_section(index, "trouble", trouble);
            }
        }
    }
}

struct RouterPoller<'a> {
    reach: &'a RouterLink,
    client: Option<Client>,
    /// The face of that client at the router, if the router reports it.
    own_face: Option<u64>,
    before: Option<Sample>,
    looks: u64,
    seldom: Vec<(&'static str, Value)>,
}

impl<'a> RouterPoller<'a> {
    fn new(reach: &'a RouterLink) -> Self {
        RouterPoller { reach, client: None, own_face: None, before: None, looks: 0, seldom: Vec::new() }
    }

    /// Reads the router's state. Also returns true if there is no earlier sample of this run of the
    /// router.
    fn look(&mut self) -> Result<(RouterSnapshot, bool), RouterError> {
        let client = match &mut self.client {
            Some(client) => client,
            none => none.insert(self.reach.client()?),
        };
        let now = Sample::take(client)?;
        let before = self.before.take().filter(|before| before.is_same_run(&now));
        let mut rates = Rates::between(before.as_ref().unwrap_or(&now), &now);
        if self.looks == 0 && now.status.version.starts_with(OURS) {
            self.own_face = client.explain(&Name::new().join_generic(b"localhost")).ok().map(|of| of.asker);
        }
        if let Some(own) = self.own_face {
            rates.exclude_client(own);
        }
        if before.is_none() || self.looks.is_multiple_of(SELDOM) {
            self.seldom = seldom(client, now.status.routes)?;
        }
        self.looks += 1;
        let mut look = RouterSnapshot {
            faces: faces(&now.faces, &rates.faces, self.own_face),
            ..RouterSnapshot::default()
        };
        look.sections.extend(self.seldom.iter().cloned());
        look.sections.insert("trouble", Value::Null);
        look.sections.insert("router", router(client, &now, &rates.heading));
        look.sections.insert("workers", workers(&rates.heading));
        look.sections.insert("store", store(&now.cs, now.disk.as_ref(), &rates.heading));
        look.sections.insert("counters", counters(&rates.events));
        self.before = Some(now);
        Ok((look, before.is_none()))
    }

    /// The names that the router receives Interests for. Without permission to manage the router,
    /// the result contains only that error.
    fn names(&mut self) -> Value {
        let Some(client) = &mut self.client else { return json!({"names": []}) };
        match client.hot_prefixes() {
            Ok(hot) => json!({"names": hot.iter().map(hot_prefix).collect::<Vec<_>>()}),
            Err(error) => {
                let trouble = RouterError::from(error);
                json!({"trouble": {"what": text(&trouble.what), "hint": trouble.hint}})
            }
        }
    }
}

/// Cuts text to a length that a page can show. People may have written it.
pub(crate) fn text(text: &str) -> String {
    match text.char_indices().nth(TEXT_CHARS_MAX) {
        Some((at, _)) => format!("{}…", text.get(..at).unwrap_or_default()),
        None => text.to_owned(),
    }
}

fn name(name: &Name) -> String {
    text(&name.to_string())
}

/// A number per second, rounded as the page shows it. A smaller change then causes no event.
fn rate(value: f64) -> Value {
    let rounded = if value < 100.0 { (value * 10.0).round() / 10.0 } else { value.round() };
    json!(rounded)
}

fn both(rates: [f64; 2]) -> Value {
    json!([rate(rates[0]), rate(rates[1])])
}

fn router(client: &Client, now: &Sample, heading: &Heading) -> Value {
    json!({
        "address": text(&client.router().to_string()), "version": text(&heading.version),
        "start_ms": now.status.start_ms, "up_s": heading.up_s, "faces": heading.faces, "faces_shown": FACES_MAX,
        "routes": heading.routes, "fib": heading.fib_entries, "pit": heading.pit_entries,
        "interests": both(heading.interests), "data": both(heading.data), "nacks": both(heading.nacks),
        "octets": both(heading.octets),
        "satisfied": heading.satisfied.map(|part| (part * 1000.0).round() / 1000.0),
    })
}

fn workers(heading: &Heading) -> Value {
    let turn = |(worker, us): &(String, u64)| json!({"worker": text(worker), "longest_turn_us": us});
    heading.turns_us.iter().map(turn).collect()
}

fn faces(
    statuses: &[FaceStatus],
    rates: &[FaceRates],
    own: Option<u64>,
) -> std::collections::BTreeMap<u64, Value> {
    let mut all: Vec<(&FaceStatus, &FaceRates)> = statuses.iter().zip(rates).collect();
    if all.len() > FACES_MAX {
        all.sort_by(|a, b| b.1.octets.iter().sum::<f64>().total_cmp(&a.1.octets.iter().sum()));
        all.truncate(FACES_MAX);
    }
    let is_own = |status: &FaceStatus| own == Some(status.face_id);
    all.into_iter().map(|(status, rates)| (status.face_id, face(status, rates, is_own(status)))).collect()
}

/// A face. The page excludes its own from all sums, as the totals do.
fn face(status: &FaceStatus, rates: &FaceRates, is_own: bool) -> Value {
    let flags = [
        (face_flags::LOCAL_FIELDS, "local fields"),
        (face_flags::LINK_RELIABILITY, "reliability"),
        (face_flags::CONGESTION_MARKING, "marking"),
    ];
    let flags: Vec<&str> =
        flags.iter().filter(|(bit, _)| status.flags & bit != 0).map(|(_, word)| *word).collect();
    json!({
        "uri": text(&status.uri), "process": status.process().map(|process| text(&process)),
        "state": status.state().map(FaceState::as_str), "local": text(&status.local_uri), "scope": status.face_scope.as_str(),
        "persistency": status.face_persistency.as_str(), "link": status.link_type.as_str(), "mtu": status.mtu,
        "flags": flags, "octets": both(rates.octets), "interests": both(rates.interests), "data": both(rates.data),
        "nacks": both(rates.nacks), "total": [status.in_octets, status.out_octets], "own": is_own,
    })
}

fn store(cs: &CsInfo, disk: Option<&CsDiskStatus>, heading: &Heading) -> Value {
    let tiers = heading.tiers.iter().map(|tier| {
        json!({
            "tier": tier.name, "entries": tier.entries, "octets": tier.octets, "hits": rate(tier.hits),
            "misses": rate(tier.misses),
        })
    });
    let is = |flag: u64| cs.flags & flag != 0;
    let disk = disk.map(|disk| {
        json!({
            "folder": text(&disk.folder), "engine": text(&disk.engine), "trouble": disk.trouble.as_deref().map(text),
            "admission": text(&disk.admission), "octets_max": disk.octets_max, "pending": disk.pending,
            "threshold": disk.threshold, "memory_octets": disk.memory_octets,
            "pinned": disk.pinned.iter().take(ROUTES_MAX).map(name).collect::<Vec<_>>(),
        })
    });
    json!({
        "tiers": tiers.collect::<Vec<_>>(), "capacity": cs.capacity, "policy": cs.policy.as_deref().map(text),
        "admit": is(cs_flags::ENABLE_ADMIT), "serve": is(cs_flags::ENABLE_SERVE), "hits": cs.hits, "misses": cs.misses,
        "disk": disk,
    })
}

fn counters(events: &[Event]) -> Value {
    let shown = events.iter().filter(|event| event.total > 0).take(COUNTERS_MAX);
    let counter = |event: &Event| json!({"name": text(&event.name), "face": event.face, "rate": rate(event.rate), "total": event.total});
    shown.map(counter).collect()
}

/// The sections that seldom change. A router with more routes than are shown must send all of them,
/// so these sections are also read less often.
fn seldom(client: &mut Client, routes: Option<u64>) -> Result<Vec<(&'static str, Value)>, RouterError> {
    let rib = client.rib()?;
    let total = routes.unwrap_or(rib.iter().map(|entry| entry.routes.len() as u64).sum());
    let strategies = client.strategies()?;
    // Only namely's router has these datasets.
    let neighbours = client.neighbors().unwrap_or_default();
    let vip = client.vip_status().unwrap_or_default();
    let vip = match vip {
        Some(status) => vip_section(
            &status,
            client.vip_objects().unwrap_or_default(),
            &client.vip_neighbours().unwrap_or_default(),
        ),
        None => Value::Null,
    };
    Ok(vec![
        ("routes", json!({"total": total, "shown": self::routes(&rib)})),
        ("strategies", self::strategies(&strategies)),
        ("neighbours", neighbours.iter().take(ROUTES_MAX).map(neighbour).collect()),
        ("vip", vip),
    ])
}

fn hot_prefix(hot: &HotPrefix) -> Value {
    json!({"prefix": name(&hot.prefix), "part": (hot.part * 1000.0).round() / 1000.0})
}

fn routes(rib: &[RibEntry]) -> Value {
    let all = rib.iter().flat_map(|entry| entry.routes.iter().map(move |route| (&entry.prefix, route)));
    all.take(ROUTES_MAX).map(|(prefix, route)| self::route(prefix, route)).collect()
}

fn route(prefix: &Name, route: &Route) -> Value {
    json!({
        "prefix": name(prefix), "face": route.face_id, "origin": route.origin.to_string(), "cost": route.cost,
        "inherit": route.flags & route_flags::CHILD_INHERIT != 0, "capture": route.flags & route_flags::CAPTURE != 0,
        "expires_s": route.expiration_period_ms.map(|ms| ms / 1000),
    })
}

fn strategies(choices: &[StrategyChoice]) -> Value {
    let choice =
        |choice: &StrategyChoice| json!({"prefix": name(&choice.prefix), "strategy": name(&choice.strategy)});
    choices.iter().take(ROUTES_MAX).map(choice).collect()
}

fn neighbour(status: &NeighborStatus) -> Value {
    let key: String = status.key.iter().take(8).map(|octet| format!("{octet:02x}")).collect();
    let names = |names: &[Name]| names.iter().map(name).collect::<Vec<_>>();
    json!({
        "link": text(&status.local_uri), "station": text(&status.station), "state": status.state.as_str(),
        "face": status.face_id, "mtu": status.mtu, "key": key, "silent_s": status.silent_ms.map(|ms| ms / 1000),
        "accepted": names(&status.accepted), "refused": names(&status.refused),
    })
}

/// Units of one VIP in a router's reports.
const VIP_UNIT: f64 = (1 << 20) as f64;

fn vip_section(status: &VipStatus, mut objects: Vec<VipObject>, neighbours: &[VipNeighbour]) -> Value {
    objects.sort_by_key(|object| std::cmp::Reverse((object.score, object.asked)));
    let vips = |count: u64| (count as f64 / VIP_UNIT * 100.0).round() / 100.0;
    let object = |object: &VipObject| {
        json!({
            "name": text(&object.name), "octets": object.octets, "count": vips(object.count), "score": vips(object.score),
            "asked": vips(object.asked), "held": object.held, "tier": object.tier, "source": object.is_source,
            "face": object.face_id,
        })
    };
    let neighbour = |n: &VipNeighbour| {
        json!({
            "remote": text(&n.remote), "router": text(&n.router), "face": n.face_id, "fresh_ms": n.fresh_ms,
            "under_way": vips(n.under_way),
        })
    };
    json!({
        "router": text(&status.router), "open": status.is_open, "slot": status.slot, "period_ms": status.period_ms,
        "objects_total": status.objects, "octets": status.octets, "room": status.room,
        "objects": objects.iter().take(OBJECTS_MAX).map(object).collect::<Vec<_>>(),
        "neighbours": neighbours.iter().take(ROUTES_MAX).map(neighbour).collect::<Vec<_>>(),
    })
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use namely_messages::GeneralStatus;

    use super::*;

    #[test]
    fn long_texts_are_cut() {
        assert_eq!(text(&"ä".repeat(TEXT_CHARS_MAX)), "ä".repeat(TEXT_CHARS_MAX));
        assert_eq!(text(&"ä".repeat(TEXT_CHARS_MAX + 1)), format!("{}…", "ä".repeat(TEXT_CHARS_MAX)));
    }

    #[test]
    fn shown_faces_and_routes_are_limited() {
        let face = |id| FaceStatus { face_id: id, uri: format!("unix://{id}"), ..FaceStatus::default() };
        for (n, shown) in [(FACES_MAX, FACES_MAX), (FACES_MAX + 1, FACES_MAX)] {
            let mut now = Sample {
                at: Instant::now(),
                status: GeneralStatus::default(),
                faces: (1..=n as u64).map(face).collect(),
                counters: Vec::new(),
                cs: CsInfo::default(),
                disk: None,
            };
            let before = now.clone();
            now.at += Duration::from_secs(1);
            now.faces[n - 1].in_octets = 1;
            let found = faces(&now.faces, &Rates::between(&before, &now).faces, None);
            assert_eq!(found.len(), shown);
            assert!(found.contains_key(&(n as u64)), "the busiest is there");
        }
        let event = Event { name: "a".into(), face: None, rate: 0.0, total: 1 };
        for (n, shown) in [(COUNTERS_MAX, COUNTERS_MAX), (COUNTERS_MAX + 1, COUNTERS_MAX)] {
            assert_eq!(counters(&vec![event.clone(); n]).as_array().unwrap().len(), shown);
        }
        let route =
            Route { face_id: 1, origin: Default::default(), cost: 0, flags: 0, expiration_period_ms: None };
        for (n, shown) in [(ROUTES_MAX, ROUTES_MAX), (ROUTES_MAX + 1, ROUTES_MAX)] {
            let entry = RibEntry { prefix: Name::new(), routes: vec![route; n] };
            assert_eq!(routes(&[entry]).as_array().unwrap().len(), shown);
        }
        for (n, shown) in [(OBJECTS_MAX, OBJECTS_MAX), (OBJECTS_MAX + 1, OBJECTS_MAX)] {
            let section = vip_section(&VipStatus::default(), vec![VipObject::default(); n], &[]);
            assert_eq!(section["objects"].as_array().unwrap().len(), shown);
        }
    }
}
