//! `namely trace`: the packets below a prefix, and the router's decisions, one line each, live.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use clap::Args;
use namely_client::{Client, ClientError};
use namely_messages::{TraceEntry, TraceSent, TraceStep, TracedKind, status_code};
use namely_transport::connection::CommandError;
use namely_wire::text::Plain;
use namely_wire::{NackReason, Name};
use serde_json::{Value, json};

use crate::context::Context;
use crate::failure::{Exit, Failure};
use crate::options;
use crate::router::connect;

/// Pause after a router's answer without entries.
const PAUSE: Duration = Duration::from_millis(100);

/// Show each packet below a prefix, with the router's decisions and the sent packets.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  namely trace /lab\n  namely trace /lab --count 20 --json\n  namely trace / --for 60\n\nCtrl-C ends the trace, also in the router. It needs the right to manage the router."
)]
pub struct Trace {
    /// The prefix.
    #[arg(value_parser = options::name)]
    prefix: Name,
    /// End after this many packets.
    #[arg(long, value_name = "PACKETS")]
    count: Option<u64>,
    /// End after this many seconds, 3600 at most.
    #[arg(long = "for", value_name = "SECONDS", default_value = "600", value_parser = super::status::seconds)]
    time: Duration,
}

impl Trace {
    /// Shows packets until the command is stopped.
    pub fn run(&self, ctx: &Context<'_>) -> Result<(), Failure> {
        let stop = crate::stop::flag()?;
        let mut router = connect(ctx)?;
        let id = router.start_trace(&self.prefix, self.time).map_err(unsupported_router)?;
        if ctx.out.is_json() {
            ctx.out.json(&json!({"tracing": self.prefix.to_string()}));
        }
        ctx.out.remark(format!("packets below {} are traced; Ctrl-C ends that", self.prefix));
        let followed = self.follow(ctx, &mut router, id, &|| stop.load(Ordering::Relaxed));
        match router.stop_trace(id) {
            // The trace has ended already.
            Err(ClientError::Command(CommandError::Refused(_))) => {}
            stopped => followed.and(stopped.map_err(Failure::from))?,
        }
        Ok(())
    }

    fn follow(
        &self,
        ctx: &Context<'_>,
        router: &mut Client,
        id: u64,
        is_stopped: &dyn Fn() -> bool,
    ) -> Result<(), Failure> {
        let end = Instant::now() + self.time;
        let mut left = self.count.unwrap_or(u64::MAX);
        while left > 0 && !is_stopped() && Instant::now() < end {
            let part = match router.read_trace(id) {
                Ok(part) => part,
                Err(ClientError::Command(CommandError::Refused(response)))
                    if response.code == status_code::NOT_FOUND =>
                {
                    ctx.out.remark("the router has ended the trace");
                    return Ok(());
                }
                Err(error) => return Err(error.into()),
            };
            if part.lost > 0 {
                let lost = part.lost;
                ctx.out.answer(
                    || format!("{lost} more packets are missing: there were too many"),
                    || json!({"lost": lost}),
                );
            }
            let shown = u64::try_from(part.entries.len()).unwrap_or(u64::MAX).min(left);
            part.entries.iter().take(shown as usize).for_each(|entry| {
                ctx.out.answer(|| line(entry), || value(entry));
            });
            left -= shown;
            let pause = if part.is_more { Duration::ZERO } else { PAUSE };
            if left > 0 && ctx.out.is_closed(pause) {
                return Ok(());
            }
        }
        Ok(())
    }
}

/// Converts an error of a router that does not trace. Only namely's router does.
fn unsupported_router(error: ClientError) -> Failure {
    match &error {
        ClientError::Command(CommandError::Refused(response)) if response.code == status_code::NOT_FOUND => {
            Failure::new(Exit::Refused, "the router does not trace packets")
                .hint("`namely trace` needs namely's router")
        }
        _ => error.into(),
    }
}

/// Formats an entry as one line:
/// `12:01:02.000345  Interest /a/b from face 260: cs miss, route /a, best-route -> face 261`
fn line(entry: &TraceEntry) -> String {
    let from = entry.face_id.map(|face| format!(" from face {face}")).unwrap_or_default();
    let nack = entry.nack.map(|reason| format!(" ({})", nack(reason))).unwrap_or_default();
    let cut = if entry.is_cut { "/..." } else { "" };
    let nonce = entry.nonce.map(|nonce| format!(" nonce {nonce:08x}")).unwrap_or_default();
    let hops = entry.hop_limit.map(|limit| format!(" hops {limit}")).unwrap_or_default();
    let steps: Vec<String> = entry.steps.iter().map(|step| step_text(entry, step)).collect();
    let sent: Vec<String> = entry.sent.iter().map(|sent| sent_text(entry, sent)).collect();
    let colon = if steps.is_empty() { "" } else { ": " };
    let arrow = if sent.is_empty() { "" } else { " -> " };
    let more = match entry.left_out {
        0 => String::new(),
        more => format!(" (and {more} more)"),
    };
    format!(
        "{}  {:9} {}{cut}{from}{nack}{nonce}{hops}{colon}{}{arrow}{}{more}",
        time_text(entry.time_us),
        entry.kind.word(),
        entry.name,
        steps.join(", "),
        sent.join(", "),
    )
}

fn step_text(entry: &TraceEntry, step: &TraceStep) -> String {
    // The text is escaped, because it is from a router whose identity is not verified.
    let what = Plain::new(&step.what);
    match step.number {
        None => what.to_string(),
        Some(n) if step.what == "route" => format!("route {}", prefix(&entry.name, n)),
        Some(n) => format!("{what} {n}"),
    }
}

fn prefix(name: &Name, components: u64) -> Name {
    name.as_name().prefix(usize::try_from(components).unwrap_or(usize::MAX).min(name.len())).to_name()
}

fn sent_text(entry: &TraceEntry, sent: &TraceSent) -> String {
    let face = sent.face_id;
    match (sent.kind, sent.nack) {
        (TracedKind::Nack, reason) => format!("Nack ({}) to face {face}", nack(reason.unwrap_or_default())),
        (kind, _) if kind == entry.kind => format!("face {face}"),
        (kind, _) => format!("{} to face {face}", kind.word()),
    }
}

fn nack(reason: u64) -> String {
    NackReason::from_number(reason).to_string()
}

/// Formats the time of day in UTC.
fn time_text(time_us: u64) -> String {
    let (s, us) = (time_us / 1_000_000, time_us % 1_000_000);
    format!("{:02}:{:02}:{:02}.{us:06}", s / 3_600 % 24, s / 60 % 60, s % 60)
}

fn value(entry: &TraceEntry) -> Value {
    let steps: Vec<Value> =
        entry.steps.iter().map(|step| json!({"what": step.what, "number": step.number})).collect();
    let sent: Vec<Value> = entry
        .sent
        .iter()
        .map(|sent| {
            json!({
                "packet": sent.kind.word(), "face_id": sent.face_id, "nack": sent.nack.map(nack),
            })
        })
        .collect();
    json!({
        "time_us": entry.time_us, "packet": entry.kind.word(), "name": entry.name.to_string(),
        "cut": entry.is_cut, "face_id": entry.face_id, "octets": entry.octets, "nonce": entry.nonce,
        "hop_limit": entry.hop_limit, "nack": entry.nack.map(nack), "steps": steps, "sent": sent,
        "left_out": entry.left_out,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry() -> TraceEntry {
        TraceEntry {
            time_us: 86_400_000_000 + 3_723_000_045,
            name: "/a/%0A%1B".parse().unwrap(),
            face_id: Some(260),
            nonce: Some(0xab),
            steps: vec![
                TraceStep { what: "route".into(), number: Some(1) },
                TraceStep { what: "x\n".into(), number: Some(2) },
            ],
            sent: vec![
                TraceSent { kind: TracedKind::Interest, face_id: 261, nack: None },
                TraceSent { kind: TracedKind::Nack, face_id: 260, nack: Some(150) },
            ],
            left_out: 1,
            ..TraceEntry::default()
        }
    }

    #[test]
    fn a_traced_packet_prints_as_one_line() {
        let expected = "01:02:03.000045  Interest  /a/%0A%1B from face 260 nonce 000000ab: route /a, x\\n 2 -> \
                        face 261, Nack (NoRoute) to face 260 (and 1 more)";
        assert_eq!(line(&entry()), expected);
        let json = value(&entry()).to_string();
        assert!(json.contains(r#""what":"x\n""#) && !json.contains('\n'), "{json}");
        let odd = TraceEntry { steps: vec![TraceStep { what: "route".into(), number: Some(99) }], ..entry() };
        assert!(line(&odd).contains("route /a/%0A%1B"), "{}", line(&odd));
    }
}
