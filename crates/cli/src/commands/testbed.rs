//! `namely testbed`: networks of namespaces with real routers and programs.

use std::path::{Path, PathBuf};

use clap::{Args, Subcommand, ValueEnum};
use namely_testbed::file::Testbed;
use namely_testbed::sandbox::{self, SandboxSide};
use namely_testbed::{Interrupt, Lab, NodeReport, Report, TestbedError, devices, picture};
use serde_json::json;

use crate::context::Context;
use crate::failure::{Exit, Failure, io_failure};
use crate::output::{Cell, Text};

/// The examples that `init` prints.
const BRIDGE: &str = include_str!("../../texts/three-on-a-bridge.toml");
const LEARN: &str = include_str!("../../texts/three-that-learn.toml");

/// Name of the testbed's file in the folder of results. The file marks the folder as one of
/// results.
const COPY: &str = "testbed.toml";

/// Run networks of routers on this machine.
#[derive(Debug, Subcommand)]
pub enum Bed {
    /// Build a testbed, run it to its end, and take it down
    Run(Run),
    /// Check a testbed's file, and list the devices of its nodes
    Check(Check),
    /// Print an example to begin with
    Init(Init),
}

/// Build a testbed, run it to its end, and take it down.
#[derive(Debug, Args)]
#[command(after_help = "Needs unshare, ip and tc; no root if users may have namespaces.\n\n\
                  Examples:\n  namely testbed run docs/testbeds/three-on-a-bridge.toml\n  \
                  namely testbed run three.toml --results /tmp/three --json\n  \
                  namely testbed run three.toml --hold")]
pub struct Run {
    /// The testbed's file (docs/testbed.md).
    file: PathBuf,
    /// The folder for logs, datasets, captures and the picture; by default `NAME-results` here.
    #[arg(long, value_name = "FOLDER")]
    results: Option<PathBuf>,
    /// Only build it: run no programs, print how to enter it, and wait for Ctrl-C.
    #[arg(long)]
    hold: bool,
}

/// Check a testbed's file, and list the devices of its nodes.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  namely testbed check docs/testbeds/three-on-a-bridge.toml")]
pub struct Check {
    /// The testbed's file.
    file: PathBuf,
    /// Also draw it into this file (SVG).
    #[arg(long, value_name = "FILE")]
    draw: Option<PathBuf>,
}

/// Print an example to begin with.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  namely testbed init > three.toml && namely testbed run three.toml\n  namely testbed init learn > learn.toml && namely testbed run learn.toml"
)]
pub struct Init {
    /// The example.
    #[arg(default_value = "bridge")]
    example: Example,
}

/// An example of a testbed.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum Example {
    /// Three routers on a bridge that find one another
    Bridge,
    /// Three routers in a line that learn the objects to cache (VIP)
    Learn,
}

impl Example {
    fn text(self) -> &'static str {
        match self {
            Example::Bridge => BRIDGE,
            Example::Learn => LEARN,
        }
    }
}

impl Bed {
    /// Runs the subcommand.
    pub fn run(&self, ctx: &Context<'_>) -> Result<(), Failure> {
        match self {
            Bed::Run(run) => run.run(ctx),
            Bed::Check(check) => check.run(ctx),
            Bed::Init(init) => {
                ctx.out.line(Text::laid_out(init.example.text()));
                Ok(())
            }
        }
    }
}

impl Check {
    fn run(&self, ctx: &Context<'_>) -> Result<(), Failure> {
        let testbed = load(&self.file)?;
        if let Some(draw) = &self.draw {
            std::fs::write(draw, picture::svg(&testbed)).map_err(|e| io_failure("write", draw, e))?;
        }
        let networks = testbed.networks();
        let rows: Vec<Vec<Cell>> = devices(&testbed)
            .iter()
            .map(|device| {
                let network = networks.get(device.addresses.network).map(|network| network.name.as_str());
                vec![
                    device.node.as_str().into(),
                    device.name.as_str().into(),
                    network.into(),
                    device.addresses.ipv4().into(),
                    device.addresses.ethernet().into(),
                    u64::from(device.mtu).into(),
                ]
            })
            .collect();
        ctx.out.table(&["node", "device", "network", "ipv4", "ethernet", "mtu"], &rows);
        Ok(())
    }
}

impl Run {
    fn run(&self, ctx: &Context<'_>) -> Result<(), Failure> {
        // The file is checked outside the sandbox, because a sandbox may not be available.
        let testbed = load(&self.file)?;
        let text = std::fs::read(&self.file).map_err(|e| io_failure("read", &self.file, e))?;
        let interrupt = match sandbox::enter().map_err(failure)? {
            SandboxSide::Inside(interrupt) => interrupt,
            SandboxSide::Done(0) => return Ok(()),
            SandboxSide::Done(status) => std::process::exit(i32::from(status)),
        };
        let folder = self.results.clone().unwrap_or_else(|| format!("{}-results", testbed.name()).into());
        empty(&folder)?;
        let drawing = folder.join("topology.svg");
        std::fs::write(&drawing, picture::svg(&testbed)).map_err(|e| io_failure("write", &drawing, e))?;
        let copy = folder.join(COPY);
        std::fs::write(&copy, text).map_err(|e| io_failure("write", &copy, e))?;
        if self.hold {
            return hold(testbed, &folder, &interrupt, ctx);
        }
        ctx.out.remark(format!("{}: results go to {}", testbed.name(), folder.display()));
        let report = namely_testbed::run(testbed, &folder, &interrupt).map_err(failure)?;
        show(&report, ctx);
        if report.is_interrupted {
            return Err(Failure::new(Exit::Interrupted, "everything that it started has been ended"));
        }
        report.complaint().map_or(Ok(()), |complaint| Err(Failure::failed(complaint)))
    }
}

/// Creates the folder of results. It replaces the folder of an earlier run.
fn empty(folder: &Path) -> Result<(), Failure> {
    let is_empty = std::fs::read_dir(folder).map_or(true, |mut entries| entries.next().is_none());
    if folder.join(COPY).is_file() {
        std::fs::remove_dir_all(folder).map_err(|e| io_failure("remove", folder, e))?;
    } else if !is_empty {
        let message = format!("{} has files that are not results of a testbed", folder.display());
        return Err(Failure::failed(message).hint("name another folder with --results"));
    }
    std::fs::create_dir_all(folder).map_err(|e| io_failure("make", folder, e))
}

/// Builds the testbed, prints the commands to enter it, and waits.
fn hold(testbed: Testbed, folder: &Path, interrupt: &Interrupt, ctx: &Context<'_>) -> Result<(), Failure> {
    let lab = Lab::build(testbed, folder, interrupt).map_err(failure)?;
    let user = if sandbox::is_own_user() { " --user --preserve-credentials" } else { "" };
    let process = sandbox::outer_pid().map_or("PID".to_owned(), |pid| pid.to_string());
    let enter = |node: &str| {
        format!(
            "nsenter --target {process}{user} --mount ip netns exec {node} env NAMELY_ROUTER={} NAMELY_HOME={} sh",
            lab.router(node),
            lab.folder().join("keys").display()
        )
    };
    for node in &lab.testbed().nodes {
        let name = node.name.get_ref();
        let devices = lab.devices().iter().filter(|device| device.node == *name);
        let devices: Vec<String> =
            devices.map(|device| format!("{} {}", device.name, device.addresses.ipv4())).collect();
        ctx.out.answer(
            || [format!("{name}: {}", devices.join(", ")), format!("  {}", enter(name))],
            || json!({"node": name, "devices": devices, "enter": enter(name)}),
        );
    }
    ctx.out.remark("it stays until Ctrl-C");
    while interrupt.sleep(std::time::Duration::from_secs(1)).is_ok() {}
    Ok(())
}

fn show(report: &Report, ctx: &Context<'_>) {
    if ctx.out.is_json() {
        ctx.out.answer(String::new, || report.json());
        return;
    }
    let node = |node: &NodeReport| -> Vec<Cell> {
        let router = node.end.map(|end| match end {
            Some(true) => "ended well",
            Some(false) => "failed",
            None => "gone",
        });
        let counts =
            ["faces", "in.interests", "out.interests", "in.data", "out.data", "unsatisfied_interests"];
        let mut row: Vec<Cell> = vec![node.name.as_str().into(), router.into()];
        row.extend(counts.map(|path| Cell::from(node.count(path))));
        row.push(format!("{:.2}", node.cpu_s).into());
        row
    };
    let columns =
        ["node", "router", "faces", "Interests in", "out", "Data in", "out", "unsatisfied", "CPU s"];
    ctx.out.table(&columns, &report.nodes.iter().map(node).collect::<Vec<_>>());
    let time = |seconds: Option<f64>| Cell::from(seconds.map(|seconds| format!("{seconds:.2}")));
    let rows = report.programs.iter().map(|program| {
        let exit = program.exit.map_or_else(|| "-".to_owned(), |exit| exit.to_string());
        let tries = u64::from(program.tries);
        vec![
            program.name.as_str().into(),
            program.node.as_str().into(),
            time(program.started_s),
            time(program.seconds),
            tries.into(),
            exit.into(),
        ]
    });
    let rows: Vec<Vec<Cell>> = rows.collect();
    if !rows.is_empty() {
        ctx.out.line("");
        ctx.out.table(&["program", "node", "from s", "seconds", "tries", "exit"], &rows);
    }
    for (at, what) in &report.events {
        ctx.out.line(format!("{:>8.2} s  {what}", at.as_secs_f64()));
    }
}

fn load(file: &Path) -> Result<Testbed, Failure> {
    Testbed::load(file).map_err(|e| Failure::new(Exit::Configuration, e.to_string()))
}

fn failure(error: TestbedError) -> Failure {
    match error {
        TestbedError::Unable { reason, hint: Some(hint) } => Failure::failed(reason).hint(hint),
        TestbedError::Process(namely_testbed::ProcessError::Interrupted) => {
            Failure::new(Exit::Interrupted, "everything that it started has been ended")
        }
        error => Failure::failed(error.to_string()),
    }
}
