//! `namely face`: list, create, change, destroy and watch faces.

use std::time::Duration;

use clap::{Args, Subcommand, ValueEnum};
use namely_client::{ClientError, FACE_LOCAL, FaceProperties};
use namely_messages::{
    Binding, Counter, FaceEventNotification, FacePersistency, FaceQueryFilter, FaceState, FaceStatus,
    face_flags,
};
use serde_json::json;

use crate::context::Context;
use crate::failure::Failure;
use crate::output::{Cell, octets_text};
use crate::router::connect;

/// List, create, change and destroy faces.
#[derive(Debug, Subcommand)]
pub enum Face {
    /// List faces
    List(List),
    /// Show one face: its properties, traffic and drops, its routes and bindings
    Show(Show),
    /// Create a face to another router or a multicast group
    #[command(visible_alias = "add")]
    Create(Create),
    /// Change a face's properties
    Update(Update),
    /// Destroy a face
    Destroy(Destroy),
    /// Print face events as they happen
    Events(Events),
}

impl Face {
    /// Runs the subcommand.
    pub fn run(&self, ctx: &Context<'_>) -> Result<(), Failure> {
        match self {
            Face::List(c) => c.run(ctx),
            Face::Show(c) => c.run(ctx),
            Face::Create(c) => c.run(ctx),
            Face::Update(c) => c.run(ctx),
            Face::Destroy(c) => c.run(ctx),
            Face::Events(c) => c.run(ctx),
        }
    }
}

/// List faces.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  namely face list --scheme udp4")]
pub struct List {
    /// Only faces whose URI has this scheme: unix, tcp4, udp6 and so on.
    #[arg(long)]
    scheme: Option<String>,
    /// Only the face with this remote URI.
    #[arg(long, value_name = "URI")]
    remote: Option<String>,
}

/// The columns of a list: 80 columns hold a face with an IPv4 neighbor. The remote end is last, so
/// that a long one moves no other column.
const COLUMNS: [&str; 7] = ["face", "kind", "Ints in", "Data in", "in", "out", "remote"];

impl List {
    fn run(&self, ctx: &Context<'_>) -> Result<(), Failure> {
        let filter = FaceQueryFilter {
            uri_scheme: self.scheme.clone(),
            uri: self.remote.clone(),
            ..FaceQueryFilter::default()
        };
        let mut router = connect(ctx)?;
        let faces: Vec<FaceStatus> = if filter == FaceQueryFilter::default() {
            router.faces()?
        } else {
            router.query_faces(&filter)?
        };
        if ctx.out.is_json() {
            for face in &faces {
                ctx.out.answer(String::new, || face_json(face));
            }
            return Ok(());
        }
        let rows: Vec<Vec<Cell>> = faces.iter().map(row).collect();
        ctx.out.table(&COLUMNS, &rows);
        if filter == FaceQueryFilter::default() && faces.iter().any(|face| face.face_id == FACE_LOCAL) {
            self.remark_on_orphans(ctx, &router.counters()?);
        }
        Ok(())
    }

    /// Remarks on faces that were destroyed but are still referenced. No list contains such faces,
    /// and usually there are none.
    fn remark_on_orphans(&self, ctx: &Context<'_>, counters: &[Counter]) {
        let whole = |counter: &&Counter| counter.face_id.is_none() && counter.label == "forwarder.orphans";
        if let Some(remark) = counters.iter().find(whole).and_then(|counter| orphans_text(counter.value)) {
            ctx.out.remark(remark);
        }
    }
}

fn orphans_text(count: u64) -> Option<String> {
    let (faces, are) = if count == 1 { ("face", "is") } else { ("faces", "are") };
    let text = || {
        format!("{count} {faces} that {are} closed {are} not listed: packets in the router still use them")
    };
    (count > 0).then(text)
}

/// Show one face.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  namely face show 262\n  namely face show local --json")]
pub struct Show {
    /// The face: its number, its remote URI, or `local`.
    face: String,
}

impl Show {
    fn run(&self, ctx: &Context<'_>) -> Result<(), Failure> {
        let mut router = connect(ctx)?;
        let id = router.find_face(&self.face)?;
        let face = router.faces()?.into_iter().find(|face| face.face_id == id);
        let Some(face) = face else { return Err(ClientError::NoSuchFace(self.face.clone()).into()) };
        let routes: Vec<String> = router
            .rib()?
            .into_iter()
            .filter(|entry| entry.routes.iter().any(|route| route.face_id == id))
            .map(|entry| entry.prefix.to_string())
            .collect();
        // Only namely's router reports the routes and bindings of a face.
        let is_ours = router.status()?.version.starts_with("namely-");
        let bindings = if is_ours { router.bindings()? } else { Vec::new() };
        let of_face = |binding: &&Binding| id == FACE_LOCAL || binding.face_id == id;
        let bound: Vec<String> = bindings.iter().filter(of_face).map(|b| b.prefix.to_string()).collect();
        let counters = if is_ours { router.counters()? } else { Vec::new() };
        let drops: Vec<(String, u64)> =
            counters.into_iter().filter(|c| c.face_id == Some(id)).map(|c| (c.label, c.value)).collect();
        let value = || {
            let mut value = face_json(&face);
            value["routes"] = json!(routes);
            value["bound"] = json!(bound);
            value["counters"] = drops
                .iter()
                .map(|(label, n)| (label.clone(), json!(n)))
                .collect::<serde_json::Map<_, _>>()
                .into();
            value
        };
        ctx.out.answer(|| details(&face, &routes, &bound, &drops), value);
        Ok(())
    }
}

fn details(face: &FaceStatus, routes: &[String], bound: &[String], drops: &[(String, u64)]) -> Vec<String> {
    let list = |names: &[String]| if names.is_empty() { "-".to_owned() } else { names.join(" ") };
    let switches = [
        (face_flags::LOCAL_FIELDS, "local fields"),
        (face_flags::LINK_RELIABILITY, "reliability"),
        (face_flags::CONGESTION_MARKING, "congestion marking"),
    ];
    let on: Vec<&str> = switches.iter().filter(|(bit, _)| face.flags & bit != 0).map(|(_, w)| *w).collect();
    let mut lines = vec![
        format!("face         {}", face.face_id),
        format!("remote       {}", face.uri),
        format!("local        {}", face.local_uri),
        format!("kind         {}, {}, {}", face.face_scope, persistency(face), face.link_type),
        format!("on           {}", if on.is_empty() { "-".into() } else { on.join(", ") }),
        format!("MTU          {}", face.mtu.map_or("-".into(), |mtu| format!("{mtu} octets"))),
        format!(
            "idle end     {}",
            face.expiration_period_ms.map_or("-".into(), |ms| format!("in {} s", ms / 1000))
        ),
        format!(
            "in           {} Interests, {} Data, {} Nacks, {}",
            face.in_interests,
            face.in_data,
            face.in_nacks,
            octets_text(face.in_octets)
        ),
        format!(
            "out          {} Interests, {} Data, {} Nacks, {}",
            face.out_interests,
            face.out_data,
            face.out_nacks,
            octets_text(face.out_octets)
        ),
        format!("routes       {}", list(routes)),
        format!("bound        {}", list(bound)),
    ];
    lines.extend(face.process().map(|process| format!("program      {process}")));
    let given = face.details.as_ref().and_then(|details| details.given_uri.as_ref());
    lines.extend(given.map(|uri| format!("made for     {uri}")));
    lines.extend(drops.iter().map(|(label, value)| format!("{label}  {value}")));
    lines
}

fn row(face: &FaceStatus) -> Vec<Cell> {
    vec![
        face.face_id.into(),
        persistency(face).into(),
        face.in_interests.into(),
        face.in_data.into(),
        Cell::Amount(octets_text(face.in_octets)),
        Cell::Amount(octets_text(face.out_octets)),
        far_end(face).into(),
    ]
}

/// The persistency, with the state of a face that cannot send.
fn persistency(face: &FaceStatus) -> String {
    match face.state() {
        None | Some(FaceState::Up) => face.face_persistency.to_string(),
        Some(state) => format!("{}, {state}", face.face_persistency),
    }
}

/// The remote end, with the local one if that is more than an address of this host.
fn far_end(face: &FaceStatus) -> String {
    let is_named = ["dev://", "memif://"].iter().any(|scheme| face.local_uri.starts_with(scheme));
    let remote = face.remote_text();
    if is_named { format!("{remote} at {}", face.local_uri) } else { remote }
}

fn face_json(face: &FaceStatus) -> serde_json::Value {
    let details = face.details.as_ref();
    json!({
        "face_id": face.face_id,
        "remote": face.uri,
        "local": face.local_uri,
        "state": face.state().map(FaceState::as_str),
        "given": details.and_then(|of| of.given_uri.as_deref()),
        "process": details.filter(|of| of.uid.is_some()).map(|of| {
            json!({"program": of.program, "pid": of.pid, "uid": of.uid, "user": of.user})
        }),
        "scope": face.face_scope.as_str(),
        "persistency": face.face_persistency.as_str(),
        "link_type": face.link_type.as_str(),
        "mtu": face.mtu,
        "expires_ms": face.expiration_period_ms,
        "local_fields": face.flags & face_flags::LOCAL_FIELDS != 0,
        "reliability": face.flags & face_flags::LINK_RELIABILITY != 0,
        "congestion_marking": face.flags & face_flags::CONGESTION_MARKING != 0,
        "in": { "interests": face.in_interests, "data": face.in_data, "nacks": face.in_nacks, "octets": face.in_octets },
        "out": {
            "interests": face.out_interests, "data": face.out_data, "nacks": face.out_nacks, "octets": face.out_octets,
        },
    })
}

/// Off or on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Switch {
    /// Disabled.
    Off,
    /// Enabled.
    On,
}

impl Switch {
    /// Returns true for [`Switch::On`].
    pub fn is_on(self) -> bool {
        self == Switch::On
    }
}

/// A face's changeable properties.
#[derive(Debug, Args)]
pub struct Properties {
    /// The condition under which the face closes: persistent, on-demand or permanent.
    #[arg(long, value_parser = parse_persistency)]
    persistency: Option<FacePersistency>,
    /// Largest link packet in octets.
    #[arg(long, value_name = "OCTETS")]
    mtu: Option<u64>,
    /// Retransmit lost link packets.
    #[arg(long, value_enum, value_name = "on|off")]
    reliability: Option<Switch>,
    /// Mark packets when the send queue is long.
    #[arg(long, value_enum, value_name = "on|off")]
    congestion_marking: Option<Switch>,
    /// Accept and send NextHopFaceId, IncomingFaceId and CachePolicy.
    #[arg(long, value_enum, value_name = "on|off")]
    local_fields: Option<Switch>,
}

fn parse_persistency(word: &str) -> Result<FacePersistency, String> {
    word.parse().map_err(|_| "persistent, on-demand or permanent".to_string())
}

impl Properties {
    fn properties(&self) -> FaceProperties {
        FaceProperties {
            persistency: self.persistency,
            mtu: self.mtu,
            reliability: self.reliability.map(Switch::is_on),
            congestion_marking: self.congestion_marking.map(Switch::is_on),
            local_fields: self.local_fields.map(Switch::is_on),
        }
    }
}

/// Create a face.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  namely face create udp://192.0.2.7\n  namely face create tcp://router.example:6363 --persistency permanent\n  namely face create 'ether://[02:00:00:00:00:01]' --local dev://eth0"
)]
pub struct Create {
    /// The remote end: udp://host[:port], tcp://host[:port], ether://[address] with --local, or
    /// memif:///path, where a program such as VPP listens for shared memory.
    uri: String,
    /// The local end, if needed: dev://interface for ether.
    #[arg(long, value_name = "URI")]
    local: Option<String>,
    #[command(flatten)]
    properties: Properties,
}

impl Create {
    fn run(&self, ctx: &Context<'_>) -> Result<(), Failure> {
        let (local, properties) = (self.local.as_deref(), self.properties.properties());
        let created = connect(ctx)?.create_face(&self.uri, local, &properties)?;
        ctx.out.answer(
            || {
                format!(
                    "face {} to {}{}",
                    created.face_id,
                    created.uri,
                    if created.existed { " (was there)" } else { "" }
                )
            },
            || json!({"face_id": created.face_id, "remote": created.uri, "existed": created.existed}),
        );
        Ok(())
    }
}

/// Change a face.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  namely face update 262 --congestion-marking off")]
pub struct Update {
    /// The face: its number or its remote URI.
    face: String,
    #[command(flatten)]
    properties: Properties,
}

impl Update {
    fn run(&self, ctx: &Context<'_>) -> Result<(), Failure> {
        let mut router = connect(ctx)?;
        let id = router.find_face(&self.face)?;
        router.update_face(id, &self.properties.properties())?;
        ctx.out.answer(|| format!("face {id} changed"), || json!({"face_id": id}));
        Ok(())
    }
}

/// Destroy a face.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  namely face destroy udp4://192.0.2.7:6363")]
pub struct Destroy {
    /// The face: its number or its remote URI.
    face: String,
}

impl Destroy {
    fn run(&self, ctx: &Context<'_>) -> Result<(), Failure> {
        let mut router = connect(ctx)?;
        let id = router.find_face(&self.face)?;
        router.destroy_face(id)?;
        ctx.out.answer(|| format!("face {id} destroyed"), || json!({"face_id": id}));
        Ok(())
    }
}

/// Print face events.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  namely face events --count 3 --json")]
pub struct Events {
    /// Stop after this many events.
    #[arg(long, value_name = "N")]
    count: Option<u64>,
}

impl Events {
    fn run(&self, ctx: &Context<'_>) -> Result<(), Failure> {
        let mut router = connect(ctx)?;
        let mut last = None;
        for _ in 0..self.count.unwrap_or(u64::MAX) {
            let Some((seq, event)) = router.next_face_event(last, None)? else { break };
            if ctx.out.is_closed(Duration::ZERO) {
                break;
            }
            ctx.out.answer(
                || format!("{seq} face {} {} {}", event.face_id, event.kind, event.uri),
                || event_json(seq, &event),
            );
            last = Some(seq);
        }
        Ok(())
    }
}

fn event_json(seq: u64, event: &FaceEventNotification) -> serde_json::Value {
    json!({
        "seq": seq,
        "kind": event.kind.as_str(),
        "face_id": event.face_id,
        "remote": event.uri,
        "local": event.local_uri,
        "scope": event.face_scope.as_str(),
        "persistency": event.face_persistency.as_str(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Computed by hand, for a face that has received a million packets.
    #[test]
    fn a_listed_face_fits_80_columns() {
        let face = FaceStatus {
            face_id: 65_535,
            uri: "udp4://192.0.2.7:6363".into(),
            in_interests: 1_000_000,
            in_data: 999_999,
            in_octets: 1023 << 20,
            out_octets: 44 << 10,
            face_persistency: FacePersistency::Persistent,
            ..FaceStatus::default()
        };
        let texts = row(&face).into_iter().map(|cell| match cell {
            Cell::Amount(text) | Cell::Text(text) => text,
            Cell::Number(n) => n.to_string(),
            other => panic!("{other:?}"),
        });
        let widths: Vec<usize> =
            texts.zip(COLUMNS).map(|(text, title)| text.len().max(title.len())).collect();
        assert_eq!(widths, [5, 10, 7, 7, 10, 8, 21]);
        assert_eq!(widths.iter().sum::<usize>() + 2 * (COLUMNS.len() - 1), 80);
        let local = FaceStatus { uri: "fd://8".into(), local_uri: "memif:///m".into(), ..face };
        assert_eq!(far_end(&local), "fd://8 at memif:///m");
    }

    #[test]
    fn orphan_faces_are_reported_if_any_exist() {
        assert_eq!(orphans_text(0), None);
        assert!(orphans_text(1).is_some_and(|text| text.starts_with("1 face that is closed")));
        assert!(orphans_text(2).is_some_and(|text| text.starts_with("2 faces that are closed")));
    }
}
