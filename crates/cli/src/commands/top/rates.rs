//! Rates of a router as text and as JSON.

use namely_client::rates::{Event, FaceRates, Rates};
use serde_json::{Value, json};

use super::Sort;
use super::prefixes::Hot;
use crate::output::{Cell, count_text, octets_text};

/// The rates and, if they were sampled, the prefixes of Interests.
pub(super) struct TopSnapshot {
    pub(super) rates: Rates,
    pub(super) prefixes: Vec<Hot>,
}

/// The titles of the columns of faces, on the screen and with `--once`. All rates are of a second.
pub(super) const FACE_COLUMNS: [&str; 8] =
    ["face", "bits in", "out", "Ints in", "out", "Data in", "out", "remote"];
pub(super) const EVENT_COLUMNS: [&str; 4] = ["counter", "face", "a second", "in all"];

pub(super) fn face_cells(face: &FaceRates) -> Vec<Cell> {
    let rate = |value: f64| Cell::Amount(short(value));
    let [octets_in, octets_out] = face.octets.map(|octets| octets * 8.0);
    let [interests_in, interests_out] = face.interests;
    let [data_in, data_out] = face.data;
    let rates = [octets_in, octets_out, interests_in, interests_out, data_in, data_out].map(rate);
    [face.id.into()].into_iter().chain(rates).chain([peer(face).into()]).collect()
}

/// The program at the other end of a local face, otherwise the remote URI.
pub(super) fn peer(face: &FaceRates) -> &str {
    face.process.as_deref().unwrap_or(&face.remote)
}

fn face_json(face: &FaceRates) -> Value {
    json!({
        "face_id": face.id, "remote": face.remote, "process": face.process,
        "in": {"octets": face.octets[0], "interests": face.interests[0], "data": face.data[0], "nacks": face.nacks[0]},
        "out": {"octets": face.octets[1], "interests": face.interests[1], "data": face.data[1], "nacks": face.nacks[1]},
    })
}

pub(super) fn event_cells(event: &Event) -> Vec<Cell> {
    vec![event.name.as_str().into(), event.face.into(), Cell::Real(event.rate, 1), event.total.into()]
}

/// Returns the faces with `filter` in their remote URIs or programs, sorted.
pub(super) fn faces(rates: &Rates, sort: Sort, filter: &str) -> Vec<FaceRates> {
    let sum = |both: [f64; 2]| both.iter().sum::<f64>();
    let key = |face: &FaceRates| match sort {
        Sort::Octets => -sum(face.octets),
        Sort::Interests => -sum(face.interests),
        Sort::Data => -sum(face.data),
        Sort::Face => face.id as f64,
    };
    let is_shown = |face: &FaceRates| face.remote.contains(filter) || peer(face).contains(filter);
    let mut faces: Vec<FaceRates> = rates.faces.iter().filter(|face| is_shown(face)).cloned().collect();
    faces.sort_by(|a, b| key(a).total_cmp(&key(b)).then(a.id.cmp(&b.id)));
    faces
}

/// Formats the router's totals in lines of at most 80 columns.
pub(super) fn heading(rates: &Rates) -> Vec<String> {
    let h = &rates.heading;
    let routes = h.routes.map(|n| format!(", {}", count_text(n, "route"))).unwrap_or_default();
    let both = |[inward, outward]: [f64; 2]| format!("{} in, {} out", short(inward), short(outward));
    let satisfied = h.satisfied.map_or("-".into(), |part| format!("{:.0} %", part * 100.0));
    let turns = h.turns_us.iter().map(|(worker, us)| format!("{worker} {:.1} ms", *us as f64 / 1e3));
    let mut lines = vec![
        format!(
            "{}, up {}: {}{routes}",
            h.version,
            super::super::status::duration_text(h.up_s),
            count_text(h.faces as u64, "face")
        ),
        format!("Interests {}; Data {}; Nacks {} (a second)", both(h.interests), both(h.data), both(h.nacks)),
        format!(
            "{} bit/s; PIT {}, FIB {}, satisfied {satisfied}",
            both(h.octets.map(|octets| octets * 8.0)),
            h.pit_entries,
            h.fib_entries
        ),
    ];
    lines.extend(h.tiers.iter().map(|tier| {
        let lookups = tier.hits + tier.misses;
        let ratio = if lookups > 0.0 { format!("{:.0} %", tier.hits / lookups * 100.0) } else { "-".into() };
        let held = octets_text(tier.octets);
        format!(
            "content store, {}: {} Data, {held}, hits {ratio} of {} a second",
            tier.name,
            tier.entries,
            short(lookups)
        )
    }));
    let turns: Vec<String> = turns.collect();
    if !turns.is_empty() {
        lines.push(format!("longest turns so far: {}", turns.join(", ")));
    }
    lines
}

pub(super) fn json(TopSnapshot { rates, prefixes }: &TopSnapshot, sort: Sort, filter: &str) -> Value {
    let h = &rates.heading;
    let tiers = h.tiers.iter().map(|tier| {
        json!({"tier": tier.name, "entries": tier.entries, "octets": tier.octets, "hits": tier.hits, "misses": tier.misses})
    });
    let events = rates.events.iter().map(|event| {
        json!({"counter": event.name, "face_id": event.face, "rate": event.rate, "total": event.total})
    });
    json!({
        "version": h.version, "up_s": h.up_s, "routes": h.routes, "pit_entries": h.pit_entries,
        "fib_entries": h.fib_entries, "satisfied": h.satisfied,
        "in": {"interests": h.interests[0], "data": h.data[0], "nacks": h.nacks[0], "octets": h.octets[0]},
        "out": {"interests": h.interests[1], "data": h.data[1], "nacks": h.nacks[1], "octets": h.octets[1]},
        "cs": tiers.collect::<Vec<_>>(),
        "workers": h.turns_us.iter().map(|(worker, us)| json!({"worker": worker, "longest_turn_us": us})).collect::<Vec<_>>(),
        "faces": faces(rates, sort, filter).iter().map(face_json).collect::<Vec<_>>(),
        "counters": events.collect::<Vec<_>>(),
        "prefixes": prefixes.iter().map(Hot::json).collect::<Vec<_>>(),
    })
}

/// Formats a rate in a second for people: 950, 12.3k, 4.56M.
pub(super) fn short(value: f64) -> String {
    match value {
        value if value >= 1e9 => format!("{:.2}G", value / 1e9),
        value if value >= 1e6 => format!("{:.2}M", value / 1e6),
        value if value >= 1e4 => format!("{:.1}k", value / 1e3),
        value => format!("{value:.0}"),
    }
}

#[cfg(test)]
pub(super) mod tests {
    use std::time::{Duration, Instant};

    use namely_client::rates::Sample;
    use namely_messages::{Counter, CsInfo, FaceStatus, GeneralStatus, RouterDetails};

    use super::*;

    /// Returns the rates of a router between 0 and 2 s. In between, a face 300 was destroyed and
    /// another face 300 was created.
    pub(in super::super) fn rates() -> Rates {
        let face = |id, uri: &str, octets| FaceStatus {
            face_id: id,
            uri: uri.into(),
            in_octets: octets,
            in_interests: octets / 100,
            out_data: octets / 1000,
            ..FaceStatus::default()
        };
        let at = Instant::now();
        let before = Sample {
            at,
            status: GeneralStatus {
                version: "namely-0".into(),
                details: Some(RouterDetails { in_octets: 9_001_000, ..RouterDetails::default() }),
                ..GeneralStatus::default()
            },
            faces: vec![face(256, "udp4://192.0.2.1:6363", 1000), face(300, "unix://9", 9_000_000)],
            counters: vec![
                Counter::new("forwarder.no_route", 4),
                Counter::new("worker0.longest_turn_us", 900),
            ],
            cs: CsInfo::default(),
            disk: None,
        };
        let now = Sample {
            at: at + Duration::from_secs(2),
            status: GeneralStatus {
                in_interests: 200,
                satisfied_interests: 30,
                unsatisfied_interests: 10,
                version: "namely-0".into(),
                details: Some(RouterDetails {
                    uptime_ms: 61_000,
                    in_octets: 17_001_000,
                    out_octets: 20,
                    ..RouterDetails::default()
                }),
                ..GeneralStatus::default()
            },
            faces: vec![face(256, "udp4://192.0.2.1:6363", 3_001_000), face(300, "tcp4://192.0.2.9:1", 4000)],
            counters: vec![
                Counter::new("forwarder.loop", 7),
                Counter::new("forwarder.no_route", 104),
                Counter::new("worker0.longest_turn_us", 1500),
            ],
            cs: CsInfo { entries: 5, hits: 30, misses: 10, ..CsInfo::default() },
            disk: None,
        };
        Rates::between(&before, &now)
    }

    #[test]
    fn rates_are_counter_differences_over_time() {
        let rates = rates();
        let busiest = faces(&rates, Sort::Octets, "");
        let of: Vec<_> = busiest.iter().map(|face| (face.id, face.octets[0], face.interests[0])).collect();
        assert_eq!(of, [(256, 1_500_000.0, 15_000.0), (300, 2000.0, 20.0)]);
        // More than the present faces carried: others closed in between.
        assert_eq!(rates.heading.octets, [4_000_000.0, 10.0]);
        assert_eq!(faces(&rates, Sort::Face, "tcp4").len(), 1);
        let json = json(&TopSnapshot { rates: rates.clone(), prefixes: Vec::new() }, Sort::Face, "");
        assert_eq!(json["in"]["interests"], 100.0);
        assert_eq!(json["satisfied"], 0.75);
        assert_eq!(json["cs"][0]["hits"], 15.0);
        let counters: Vec<_> = rates.events.iter().map(|event| (event.name.as_str(), event.rate)).collect();
        assert_eq!(counters, [("forwarder.no_route", 50.0), ("forwarder.loop", 3.5)], "and no turns");
        assert_eq!(json["workers"][0]["longest_turn_us"], 1500);
    }

    /// Computed by hand: the widest row of a busy router with an IPv4 neighbor.
    #[test]
    fn a_row_of_a_face_fits_80_columns() {
        let face = FaceRates {
            id: 65_535,
            remote: "udp4://192.0.2.1:6363".into(),
            process: None,
            octets: [12.5e9 / 8.0, 999.99e6 / 8.0],
            interests: [123_456.0, 9_999.0],
            data: [1e6, 12_340.0],
            nacks: [0.0; 2],
        };
        let texts = face_cells(&face).into_iter().map(|cell| match cell {
            Cell::Amount(text) | Cell::Text(text) => text,
            Cell::Number(n) => n.to_string(),
            other => panic!("{other:?}"),
        });
        let texts: Vec<String> = texts.collect();
        let expected =
            ["65535", "12.50G", "999.99M", "123.5k", "9999", "1.00M", "12.3k", "udp4://192.0.2.1:6363"];
        assert_eq!(texts, expected);
        let widths = texts.iter().zip(FACE_COLUMNS).map(|(text, title)| text.len().max(title.len()));
        let widths: Vec<usize> = widths.collect();
        assert_eq!(widths, [5, 7, 7, 7, 4, 7, 5, 21]);
        assert_eq!(widths.iter().sum::<usize>() + 2 * (FACE_COLUMNS.len() - 1), 77);
    }

    #[test]
    fn large_numbers_are_abbreviated() {
        for (value, text) in
            [(0.0, "0"), (9999.0, "9999"), (12_340.0, "12.3k"), (4_560_000.0, "4.56M"), (2e9, "2.00G")]
        {
            assert_eq!(short(value), text);
        }
    }
}
