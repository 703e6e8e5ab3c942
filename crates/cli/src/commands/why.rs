//! `namely why`: what the router would do with a name now, or what is wrong with a face, and what
//! to do about it.

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
use hops::Way;
use name::NameFacts;
use rights::{Asked, RightFacts, Signing};

/// Say what the router would do with a name now, and why.
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
    /// Say whether the router would let this program register the prefix, and by which rule.
    #[arg(long, value_name = "PREFIX", value_parser = options::name)]
    register: Option<Name>,
    /// Say the same of binding the prefix.
    #[arg(long, value_name = "PREFIX", value_parser = options::name)]
    bind: Option<Name>,
    /// Say the same of commands that manage the router, such as `namely route add`.
    #[arg(long)]
    manage: bool,
    /// The identity or key of yours that signs the command, in the place of the default one.
    #[arg(long = "as", value_name = "IDENTITY", value_parser = options::name, conflicts_with_all = ["name", "face"])]
    signed_as: Option<Name>,
    /// Follow the name hop by hop through the routers that say where it goes from them.
    #[arg(long, requires = "name")]
    trace: bool,
}

/// One thing that was looked at.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Step {
    /// What was looked at.
    at: &'static str,
    /// What was found.
    found: String,
}

/// What comes of it all.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Verdict {
    /// The kind of fault, for programs; `ok` for none.
    cause: &'static str,
    /// What happens, and why.
    text: String,
    /// What to do next.
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
    /// Asks the router, and explains.
    pub fn run(&self, ctx: &Context<'_>) -> Result<(), Failure> {
        if let Some(asked) = self.asked() {
            let signing = Signing::of(self.signed_as.as_ref())?;
            let mut router = connect_as(ctx, signing.signer.clone())?;
            let facts = RightFacts::ask(&mut router, asked, signing).map_err(of_others)?;
            show(ctx, &facts.asked.to_string(), &facts.steps(), &facts.verdict(), None);
            return Ok(());
        }
        let mut router = connect(ctx)?;
        let mut way = None;
        let (what, mut steps, mut verdict) = match (&self.name, self.face.as_deref().unwrap_or_default()) {
            (Some(name), _) => {
                let facts = NameFacts::ask(&mut router, name).map_err(of_others)?;
                if let Some(first) = facts.first_remote().filter(|_| self.trace) {
                    way = Some(Way::follow(&mut router, name, &first)?);
                }
                (name.to_string(), facts.steps(), facts.verdict())
            }
            // The parser takes no command line with neither.
            (None, face) => {
                let facts = FaceFacts::ask(&mut router, face)?;
                (format!("face {}", facts.face.face_id), facts.steps(), facts.verdict())
            }
        };
        if let Some(way) = &way {
            steps.extend(way.steps());
            // What this router does comes first, unless all is well here.
            if verdict.cause == "ok" || way.verdict.cause != "ok" {
                verdict = way.verdict.clone();
            }
        }
        show(ctx, &what, &steps, &verdict, way.as_ref());
        Ok(())
    }

    fn asked(&self) -> Option<Asked> {
        let register = self.register.clone().map(Asked::Register);
        let bind = || self.bind.clone().map(Asked::Bind);
        register.or_else(bind).or_else(|| self.manage.then_some(Asked::Manage))
    }
}

/// Only namely's router has the dataset.
fn of_others(error: ClientError) -> Failure {
    let is_unknown = matches!(error, ClientError::Malformed(_) | ClientError::NoAnswer);
    let failure = Failure::from(error);
    if is_unknown && failure.hint.is_none() {
        return failure
            .hint("`namely why NAME` needs a router of namely's: ask others by `namely route list`");
    }
    failure
}

fn show(ctx: &Context<'_>, what: &str, steps: &[Step], verdict: &Verdict, way: Option<&Way>) {
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
        if let Some(way) = way {
            all["hops"] = way.json();
        }
        all
    };
    ctx.out.answer(text, value);
}

/// A number of things: `1 face`, `2 faces`.
fn count(n: u64, what: &str) -> String {
    if n == 1 { format!("1 {what}") } else { format!("{n} {what}s") }
}

/// A time as people read it.
fn time_text(ms: u64) -> String {
    match ms {
        0..1_000 => format!("{ms} ms"),
        1_000..120_000 => format!("{:.1} s", ms as f64 / 1e3),
        120_000..7_200_000 => format!("{} min", ms / 60_000),
        _ => format!("{} h", ms / 3_600_000),
    }
}
