//! Diagnosis of a face from its counters.

use namely_client::{Client, ClientError, FACE_LOCAL};
use namely_messages::{Counter, FaceScope, FaceState, FaceStatus, FaceUnanswered};

use super::{Step, Verdict, count, time_text};
use crate::failure::Failure;
use crate::output::octets_text;

/// Number of sent Interests from which on missing answers count as a fault.
const ASKED_MIN: u64 = 3;

/// The router's data about a face.
#[derive(Clone, Debug, Default)]
pub(super) struct FaceFacts {
    pub(super) face: FaceStatus,
    pub(super) counters: Vec<Counter>,
    /// Prefixes with routes to the face.
    pub(super) routes: Vec<String>,
}

/// A fault of a face.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Trouble {
    pub(super) cause: &'static str,
    /// The explanation as a relative clause: 'which has …'.
    pub(super) text: String,
    pub(super) hint: String,
}

/// Time without any frame, ms, from which on unanswered Interests count as a fault.
const SILENT_MS: u64 = 2_000;

/// A part of the packets, as one of this number, from which on losses count as a fault. A router
/// that has run for months has lost some packets for each reason.
const LOST_ONE_OF: u64 = 100;

/// A fault that counters indicate.
struct Sign {
    /// The labels of the counters.
    labels: &'static [&'static str],
    cause: &'static str,
    /// The explanation as a relative clause.
    text: &'static str,
    hint: &'static str,
}

/// Faults of a face whose frames do not reach its peer. They count from the last frame that arrived
/// on: before it, the peer was reached.
static UNREACHED: [Sign; 2] = [
    Sign {
        labels: &["link.refused", "link.unreachable"],
        cause: "unreachable",
        text: "finds no listener at its far end",
        hint: "start the router at its far end, or route elsewhere",
    },
    Sign {
        labels: &["link.not_permitted"],
        cause: "not_permitted",
        text: "may not send: the system forbids it",
        hint: "look at the firewall (`nft list ruleset`) and at the rights of the router",
    },
];

/// Faults of a face that loses packets.
static LOSSES: [Sign; 5] = [
    Sign {
        labels: &["link.mtu_too_small", "link.datagram_too_large"],
        cause: "mtu",
        text: "has dropped frames that were too long for its MTU",
        hint: "`namely face update {} --mtu 1400`, or the MTU of the path",
    },
    Sign {
        labels: &["link.no_buffers"],
        cause: "device_full",
        text: "has lost frames that its device did not take",
        hint: "make the device's queue longer (`ip link set DEVICE txqueuelen 1000`) or send less",
    },
    Sign {
        labels: &["link.queue_full", "link.codel", "link.queues_full", "link.stalled"],
        cause: "congested",
        text: "has dropped packets from a full queue: its peer takes less than is sent",
        hint: "consumers that obey congestion marks help: `namely face update {} --congestion-marking on`",
    },
    Sign {
        labels: &["link.reassembly_timeout", "link.retransmissions_exhausted"],
        cause: "lossy",
        text: "loses frames on its way",
        hint: "`namely face update {} --reliability on` at both ends sends lost frames again",
    },
    Sign {
        labels: &["link.ether_vlan"],
        cause: "vlan",
        text: "receives frames with a VLAN tag that was added on the path",
        hint: "listen on the VLAN's own device, or tunnel by VXLAN (docs/discovery.md)",
    },
];

impl Sign {
    fn count(&self, face: &FaceStatus, counters: &[Counter]) -> u64 {
        let is_own =
            |c: &&Counter| c.face_id == Some(face.face_id) && self.labels.contains(&c.label.as_str());
        counters.iter().filter(is_own).map(|c| c.value).sum()
    }

    fn trouble(&self, face: &FaceStatus, how_often: &str) -> Trouble {
        Trouble {
            cause: self.cause,
            text: format!("{} ({how_often})", self.text),
            hint: self.hint.replace("{}", &face.face_id.to_string()),
        }
    }
}

/// Returns the fault of a face, if there is one. A cause from a counter precedes missing answers.
pub(super) fn trouble_of(face: &FaceStatus, counters: &[Counter]) -> Option<Trouble> {
    down(face)
        .or_else(|| unreached(face, counters))
        .or_else(|| loss_of(face, counters))
        .or_else(|| silence_of(face))
}

/// Frames that did not reach the peer since the last one arrived.
fn failures_of(face: &FaceStatus) -> u64 {
    face.unanswered().map_or(0, |unanswered| unanswered.failures)
}

/// The counter of frames that found the face down is a total, so it does not show the present.
fn down(face: &FaceStatus) -> Option<Trouble> {
    let is_down = match face.state()? {
        FaceState::Down => true,
        // The first connection may take a moment.
        FaceState::Connecting => failures_of(face) > 0,
        FaceState::Up => false,
    };
    is_down.then(|| Trouble {
        cause: "face_down",
        text: "is down: its peer or device is gone".into(),
        hint: "look at the other end and at the device; a permanent face comes back by itself".into(),
    })
}

fn unreached(face: &FaceStatus, counters: &[Counter]) -> Option<Trouble> {
    let failures = failures_of(face);
    let sign = UNREACHED.iter().filter(|_| failures > 0).find(|sign| sign.count(face, counters) > 0)?;
    let since = if face.in_octets > 0 { " since the last frame from there" } else { "" };
    Some(sign.trouble(face, &format!("{}{since}", count(failures, "time"))))
}

fn loss_of(face: &FaceStatus, counters: &[Counter]) -> Option<Trouble> {
    let packets =
        [face.in_interests, face.in_data, face.in_nacks, face.out_interests, face.out_data, face.out_nacks];
    let packets = packets.into_iter().fold(0, u64::saturating_add);
    LOSSES.iter().find_map(|sign| {
        let lost = sign.count(face, counters);
        let is_fault = lost > 0 && lost.saturating_mul(LOST_ONE_OF) >= packets;
        is_fault.then(|| sign.trouble(face, &count(lost, "time")))
    })
}

fn silence_of(face: &FaceStatus) -> Option<Trouble> {
    // The faces of applications receive the answers to Interests for `local`.
    if face.face_id == FACE_LOCAL {
        return None;
    }
    let is_remote = face.face_scope == FaceScope::NonLocal;
    let has_answered = face.in_data + face.in_nacks > 0;
    let text = if !has_answered && face.out_interests >= ASKED_MIN {
        let text = match (face.in_octets, is_remote) {
            (0, true) => "has sent nothing at all",
            (_, true) => "has answered no Interest yet",
            (_, false) => "is an application that has answered no Interest yet",
        };
        format!("{text}, of {} sent there", count(face.out_interests, "Interest"))
    } else {
        let unanswered = face.unanswered().filter(|of| of.interests >= ASKED_MIN)?;
        let waiting_ms = unanswered.waiting_ms.filter(|ms| *ms >= SILENT_MS)?;
        format!(
            "has sent nothing for {}, while {} went there",
            time_text(waiting_ms),
            count(unanswered.interests, "Interest")
        )
    };
    let is_silent = is_remote && (has_answered || face.in_octets == 0);
    let hint = if is_remote {
        format!("is a router at {}? `namely face show {}`", face.uri, face.face_id)
    } else {
        "look at that program's own messages".to_owned()
    };
    Some(Trouble { cause: if is_silent { "silent" } else { "no_answers" }, text, hint })
}

impl FaceFacts {
    pub(super) fn query(router: &mut Client, face: &str) -> Result<Self, Failure> {
        let id = router.find_face(face)?;
        let found = router.faces()?.into_iter().find(|face| face.face_id == id);
        let Some(found) = found else { return Err(ClientError::NoSuchFace(face.to_owned()).into()) };
        let has = |entry: &namely_messages::RibEntry| entry.routes.iter().any(|route| route.face_id == id);
        let routes = router.rib()?.into_iter().filter(has).map(|entry| entry.prefix.to_string()).collect();
        Ok(FaceFacts { face: found, counters: router.counters()?, routes })
    }

    pub(super) fn steps(&self) -> Vec<Step> {
        let FaceFacts { face, routes, .. } = self;
        let ends = face.expiration_period_ms.map(|ms| format!(", ends in {} if idle", time_text(ms)));
        let mtu = face.mtu.map_or("none".into(), |mtu| format!("{mtu} octets"));
        let mut steps = vec![
            Step {
                at: "face",
                found: format!("{}, {} from {}", face.face_id, face.remote_text(), face.local_uri),
            },
            Step {
                at: "kind",
                found: format!("{}, {}{}", face.face_scope, face.face_persistency, ends.unwrap_or_default()),
            },
            Step { at: "MTU", found: mtu },
            Step { at: "in", found: moved([face.in_interests, face.in_data, face.in_nacks, face.in_octets]) },
            Step {
                at: "out",
                found: moved([face.out_interests, face.out_data, face.out_nacks, face.out_octets]),
            },
            Step { at: "routes", found: if routes.is_empty() { "none".into() } else { routes.join(" ") } },
        ];
        if let Some(unanswered) = face.unanswered() {
            steps.push(Step { at: "unanswered", found: unanswered_text(&unanswered) });
        }
        let own = |c: &&Counter| c.face_id == Some(face.face_id) && c.value > 0;
        let dropped: Vec<String> =
            self.counters.iter().filter(own).map(|c| format!("{} {}", c.value, c.label)).collect();
        if !dropped.is_empty() {
            steps.push(Step { at: "counted", found: dropped.join(", ") });
        }
        steps
    }

    pub(super) fn verdict(&self) -> Verdict {
        let FaceFacts { face, counters, routes } = self;
        if let Some(Trouble { cause, text, hint }) = trouble_of(face, counters) {
            return Verdict::new(cause, format!("it {text}")).hint(hint);
        }
        let is_remote = face.face_scope == FaceScope::NonLocal;
        if is_remote && routes.is_empty() && face.out_interests == 0 {
            return Verdict::new("no_routes", "no route leads to it, so it gets no Interests")
                .hint(format!("`namely route add PREFIX {}`", face.uri));
        }
        if face.face_id == FACE_LOCAL {
            return Verdict::new("ok", "it leads to the applications that have bound a prefix")
                .hint("`namely bind list` shows them");
        }
        Verdict::new("ok", "no fault was found")
    }
}

fn unanswered_text(unanswered: &FaceUnanswered) -> String {
    let FaceUnanswered { idle_ms, interests, failures, .. } = unanswered;
    let failed = if *failures > 0 { format!(", {failures} frames not received") } else { String::new() };
    format!("{}{failed}; nothing came for {}", count(*interests, "Interest"), time_text(*idle_ms))
}

fn moved([interests, data, nacks, octets]: [u64; 4]) -> String {
    format!("{interests} Interests, {data} Data, {nacks} Nacks, {}", octets_text(octets))
}
