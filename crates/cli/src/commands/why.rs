//! `namely why`: the router's handling of a name, or the trouble of a face, with a remedy.

mod face;
mod hops;
mod name;
mod rights;

use clap::{ArgGroup, Args};
use namely_client::ClientError;
use namely_wire::Name;
use serde_json::json;

use crate::context::Context;
use crate::failure::Failure;
use crate::options;
use crate::router::{connect, connect_as};
use face::FaceFacts;
use hops::NamePath;
use name::NameFacts;
use rights::{IntendedCommand, RightFacts, Signing};

/// Explain how the router would forward a name now.
#[derive(Debug, Args)]
#[command(
    group(ArgGroup::new("about").args(["name", "face", "register", "bind", "manage"]).required(true)),
    after_help = "Examples:\n  namely why /lab/run7.root\n  namely why --face udp4://192.0.2.7:6363\n  namely why /lab/run7.root --json\n  namely why /lab/run7.root --trace\n  namely why --register /lab\n  namely why --register /lab --as /lab/alice"
)]
pub struct Why {
    /// The name.
    #[arg(value_parser = options::name)]
    name: Option<Name>,
    /// A face instead: its number or its remote URI.
    #[arg(long, value_name = "FACE")]
    face: Option<String>,
    /// Explain whether the router would let this program register the prefix, and by which rule.
    #[arg(long, value_name = "PREFIX", value_parser = options::name)]
    register: Option<Name>,
    /// The same for binding the prefix.
    #[arg(long, value_name = "PREFIX", value_parser = options::name)]
    bind: Option<Name>,
    /// The same for commands that manage the router, such as `namely route add`.
    #[arg(long)]
    manage: bool,
    /// Your identity or key that signs the command, instead of the default one.
    #[arg(long = "as", value_name = "IDENTITY", value_parser = options::name, conflicts_with_all = ["name", "face"])]
    signed_as: Option<Name>,
    /// Follow the name hop by hop through the routers that report their next hops.
    #[arg(long, requires = "name")]
    trace: bool,
}

/// One check, with its result.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Step {
    /// The object of the check.
    at: &'static str,
    /// The result.
    found: String,
}

/// The conclusion.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Verdict {
    /// The kind of fault, for programs; `ok` if there is none.
    cause: &'static str,
    /// The behavior of the router, and its reason.
    text: String,
    /// The next step.
    hint: Option<String>,
}

impl Verdict {
    fn new(cause: &'static str, text: impl Into<String>) -> Self {
        Verdict { cause, text: text.into(), hint: None }
    }

    fn hint(self, hint: impl Into<String>) -> Self {
        Verdict { hint: Some(hint.into()), ..self }
    }
}

impl Why {
    /// Queries the router and prints the explanation.
    pub fn run(&self, ctx: &Context<'_>) -> Result<(), Failure> {
        if let Some(command) = self.intended_command() {
            let signing = Signing::of(self.signed_as.as_ref())?;
            let mut router = connect_as(ctx, signing.signer.clone())?;
            let facts = RightFacts::query(&mut router, command, signing).map_err(unsupported_router)?;
            show(ctx, &facts.intended.to_string(), &facts.steps(), &facts.verdict(), None);
            return Ok(());
        }
        let mut router = connect(ctx)?;
        let mut path = None;
        let (what, mut steps, mut verdict) = match (&self.name, self.face.as_deref().unwrap_or_default()) {
            (Some(name), _) => {
                let facts = NameFacts::query(&mut router, name).map_err(unsupported_router)?;
                if let Some(first) = facts.first_remote().filter(|_| self.trace) {
                    path = Some(NamePath::follow(&mut router, name, &first)?);
                }
                (name.to_string(), facts.steps(), facts.verdict())
            }
            // The parser requires a name or a face.
            (None, face) => {
                let facts = FaceFacts::query(&mut router, face)?;
                (format!("face {}", facts.face.face_id), facts.steps(), facts.verdict())
            }
        };
        if let Some(path) = &path {
            steps.extend(path.steps());
            // The verdict of this router stays only if it is a fault and the path has none.
            if verdict.cause == "ok" || path.verdict.cause != "ok" {
                verdict = path.verdict.clone();
            }
        }
        show(ctx, &what, &steps, &verdict, path.as_ref());
        Ok(())
    }

    fn intended_command(&self) -> Option<IntendedCommand> {
        let register = self.register.clone().map(IntendedCommand::Register);
        let bind = || self.bind.clone().map(IntendedCommand::Bind);
        register.or_else(bind).or_else(|| self.manage.then_some(IntendedCommand::Manage))
    }
}

/// Converts an error of a router without the dataset. Only namely's router has it.
fn unsupported_router(error: ClientError) -> Failure {
    let is_unknown = matches!(error, ClientError::Malformed(_) | ClientError::NoAnswer);
    let failure = Failure::from(error);
    if is_unknown && failure.hint.is_none() {
        return failure.hint("`namely why NAME` needs namely's router; with others use `namely route list`");
    }
    failure
}

fn show(ctx: &Context<'_>, what: &str, steps: &[Step], verdict: &Verdict, path: Option<&NamePath>) {
    let text = || {
        let mut lines: Vec<String> =
            steps.iter().map(|step| format!("{:10}  {}", step.at, step.found)).collect();
        lines.push(format!("{:10}  {}", "so", verdict.text));
        lines.extend(verdict.hint.iter().map(|hint| format!("{:10}  {hint}", "next")));
        lines
    };
    let value = || {
        let steps: Vec<_> = steps.iter().map(|step| json!({"at": step.at, "found": step.found})).collect();
        let mut all = json!({
            "about": what, "steps": steps, "cause": verdict.cause, "so": verdict.text, "next": verdict.hint,
        });
        if let Some(path) = path {
            all["hops"] = path.json();
        }
        all
    };
    ctx.out.answer(text, value);
}

/// Formats a number of things: `1 face`, `2 faces`.
fn count(n: u64, what: &str) -> String {
    if n == 1 { format!("1 {what}") } else { format!("{n} {what}s") }
}

/// Formats a time for people.
fn time_text(ms: u64) -> String {
    match ms {
        0..1_000 => format!("{ms} ms"),
        1_000..120_000 => format!("{:.1} s", ms as f64 / 1e3),
        120_000..7_200_000 => format!("{} min", ms / 60_000),
        _ => format!("{} h", ms / 3_600_000),
    }
}
