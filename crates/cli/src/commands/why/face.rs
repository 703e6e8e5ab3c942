//! Diagnosis of a face from its counters.

use namely_client::{Client, ClientError, FACE_LOCAL};
use namely_messages::{Counter, FaceScope, FaceStatus};

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

/// Labels of counters, with the cause that they indicate, its explanation and the remedy.
const SIGNS: [(&[&str], &str, &str, &str); 8] = [
    (
        &["link.mtu_too_small", "link.datagram_too_large"],
        "mtu",
        "has dropped frames that were too long for its MTU",
        "`namely face update {} --mtu 1400`, or the MTU of the path",
    ),
    (
        &["link.down"],
        "face_down",
        "is down: its peer or device is gone",
        "look at the other end and at the device; a permanent face comes back by itself",
    ),
    (
        &["link.refused", "link.unreachable"],
        "unreachable",
        "finds no listener at its far end",
        "start the router at its far end, or route elsewhere",
    ),
    (
        &["link.not_permitted"],
        "not_permitted",
        "may not send: the system forbids it",
        "look at the firewall (`nft list ruleset`) and at the rights of the router",
    ),
    (
        &["link.no_buffers"],
        "device_full",
        "has lost frames that its device did not take",
        "make the device's queue longer (`ip link set DEVICE txqueuelen 1000`) or send less",
    ),
    (
        &["link.queue_full", "link.codel", "link.queues_full", "link.stalled"],
        "congested",
        "has dropped packets from a full queue: its peer takes less than is sent",
        "consumers that obey congestion marks help: `namely face update {} --congestion-marking on`",
    ),
    (
        &["link.reassembly_timeout", "link.retransmissions_exhausted"],
        "lossy",
        "loses frames on its way",
        "`namely face update {} --reliability on` at both ends sends lost frames again",
    ),
    (
        &["link.ether_vlan"],
        "vlan",
        "receives frames with a VLAN tag that was added on the path",
        "listen on the VLAN's own device, or tunnel by VXLAN (docs/discovery.md)",
    ),
];

/// Returns the fault of a face, if there is one. A cause from a counter precedes missing answers.
pub(super) fn trouble_of(face: &FaceStatus, counters: &[Counter]) -> Option<Trouble> {
    let value = |label: &str| {
        let of_face = |c: &&Counter| c.face_id == Some(face.face_id) && c.label == label;
        counters.iter().find(of_face).map_or(0, |c| c.value)
    };
    let sign = SIGNS.iter().find_map(|(labels, cause, text, hint)| {
        let n: u64 = labels.iter().map(|label| value(label)).sum();
        (n > 0).then(|| Trouble {
            cause,
            text: format!("{text} ({})", count(n, "time")),
            hint: hint.replace("{}", &face.face_id.to_string()),
        })
    });
    sign.or_else(|| silence_of(face))
}

fn silence_of(face: &FaceStatus) -> Option<Trouble> {
    let is_remote = face.face_scope == FaceScope::NonLocal;
    let is_silent = face.in_data + face.in_nacks == 0 && face.out_interests >= ASKED_MIN;
    if !is_silent {
        return None;
    }
    let (cause, text) = match (face.in_octets, is_remote) {
        (0, true) => ("silent", "has sent nothing at all"),
        (_, true) => ("no_answers", "has answered no Interest yet"),
        (_, false) => ("no_answers", "is an application that has answered no Interest yet"),
    };
    let hint = if is_remote {
        format!("is a router at {}? `namely face show {}`", face.uri, face.face_id)
    } else {
        "look at that program's own messages".to_owned()
    };
    Some(Trouble {
        cause,
        text: format!("{text}, of {} sent there", count(face.out_interests, "Interest")),
        hint,
    })
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

fn moved([interests, data, nacks, octets]: [u64; 4]) -> String {
    format!("{interests} Interests, {data} Data, {nacks} Nacks, {}", octets_text(octets))
}
