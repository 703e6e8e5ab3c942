//! `namely config`: the settings of a router, and how they differ from the defaults or from a
//! running router.

use std::collections::{BTreeMap, BTreeSet};

use clap::{Args, Subcommand};
use namely_client::Client;
use namely_daemon::config::Config;
use namely_daemon::{DaemonArgs, Setting, settings};
use namely_messages::{RouteOrigin, strategy_name};
use namely_wire::{FaceUri, Name};

use super::up::failure;
use crate::context::Context;
use crate::failure::Failure;
use crate::output::Cell;
use crate::router::connect;

/// Show the settings of a router.
#[derive(Debug, Subcommand)]
pub enum Settings {
    /// Show every setting in force, with its origin
    Show(Show),
    /// Show the settings that differ from the defaults, or from a running router
    Diff(Diff),
}

impl Settings {
    /// Runs the subcommand.
    pub fn run(&self, ctx: &Context<'_>) -> Result<(), Failure> {
        match self {
            Settings::Show(c) => c.run(ctx),
            Settings::Diff(c) => c.run(ctx),
        }
    }
}

/// Show every setting in force.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  namely config show\n  namely config show --config namely.toml --workers 2"
)]
pub struct Show {
    #[command(flatten)]
    daemon: DaemonArgs,
}

impl Show {
    fn run(&self, ctx: &Context<'_>) -> Result<(), Failure> {
        let rows: Vec<Vec<Cell>> = read(&self.daemon)?
            .into_iter()
            .map(|of| vec![of.key.into(), of.origin.into(), of.value.into()])
            .collect();
        // The value is last, because some are longer than a line.
        ctx.out.table(&["key", "origin", "value"], &rows);
        Ok(())
    }
}

/// Show the settings that differ.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  namely config diff\n  namely config diff --running\n\nWith --running: addresses, content store, strategies and static routes of the router that runs."
)]
pub struct Diff {
    #[command(flatten)]
    daemon: DaemonArgs,
    /// Compare with the router that runs, and not with the defaults.
    #[arg(long)]
    running: bool,
}

impl Diff {
    fn run(&self, ctx: &Context<'_>) -> Result<(), Failure> {
        if self.running {
            let config = self.daemon.load().map_err(|error| failure(error.into()))?;
            let rows = compared(&config, &mut connect(ctx)?)?;
            differences(ctx, &["key", "running", "configured"], &rows);
            return Ok(());
        }
        let changed = read(&self.daemon)?.into_iter().filter(Setting::is_changed);
        let rows: Vec<Vec<Cell>> = changed
            .map(|of| vec![of.key.into(), of.origin.into(), of.default.into(), of.value.into()])
            .collect();
        differences(ctx, &["key", "origin", "default", "value"], &rows);
        Ok(())
    }
}

/// Prints the settings that differ, if any do.
fn differences(ctx: &Context<'_>, columns: &[&str], rows: &[Vec<Cell>]) {
    match rows {
        [] => ctx.out.remark("no setting differs"),
        _ => ctx.out.table(columns, rows),
    }
}

fn read(daemon: &DaemonArgs) -> Result<Vec<Setting>, Failure> {
    settings(daemon).map_err(|error| failure(error.into()))
}

/// The differences between `config` and a running router, as rows.
fn compared(config: &Config, router: &mut Client) -> Result<Vec<Vec<Cell>>, Failure> {
    let mut rows = Vec::new();
    let mut add = |key: String, running: Option<String>, configured: Option<String>| {
        if running != configured {
            rows.push(vec![key.into(), running.into(), configured.into()]);
        }
    };
    let running: BTreeSet<String> = router.channels()?.into_iter().map(|channel| channel.local_uri).collect();
    let listeners = config.faces.listeners();
    let is_any_port = |uri: &FaceUri| uri.address().is_some_and(|address| address.port() == 0);
    let fixed = listeners.iter().filter(|uri| !is_any_port(uri)).map(ToString::to_string);
    let configured: BTreeSet<String> = fixed.collect();
    // A port that the system chose stands for a configured one of the same kind.
    let schemes: BTreeSet<&str> =
        listeners.iter().filter(|uri| is_any_port(uri)).map(FaceUri::scheme).collect();
    let is_chosen = |uri: &str| uri.split_once(':').is_some_and(|(scheme, _)| schemes.contains(scheme));
    for uri in running.union(&configured).filter(|uri| !is_chosen(uri)) {
        let of = |set: &BTreeSet<String>| set.get(uri).cloned();
        add("faces.listen".into(), of(&running), of(&configured));
    }
    let cs = router.cs_info()?;
    let packets = (cs.capacity.to_string(), config.tables.cs_packets_max.to_string());
    add("tables.cs_packets_max".into(), Some(packets.0), Some(packets.1));
    if let Some(policy) = cs.policy {
        add("tables.cs_policy".into(), Some(policy), Some(config.tables.cs_policy.name().to_owned()));
    }
    let chosen = router.strategies()?.into_iter().map(|choice| (choice.prefix, last_word(&choice.strategy)));
    let chosen: BTreeMap<Name, String> = chosen.collect();
    let configured: BTreeMap<Name, String> = config
        .strategy
        .iter()
        .filter_map(|(prefix, strategy)| Some((prefix.clone(), last_word(&strategy_name(strategy)?))))
        .collect();
    let prefixes: BTreeSet<&Name> = chosen.keys().chain(configured.keys()).collect();
    // The router chooses the strategies of these prefixes itself unless they are configured.
    let is_own = |prefix: &Name| {
        !configured.contains_key(prefix)
            && (prefix.is_empty() || prefix.to_string().starts_with("/localhost"))
    };
    for prefix in prefixes.into_iter().filter(|prefix| !is_own(prefix)) {
        let key = format!("strategy.{prefix}");
        add(key, chosen.get(prefix).cloned(), configured.get(prefix).cloned());
    }
    let is_static = |route: &namely_messages::Route| route.origin == RouteOrigin::STATIC;
    let entries = router.rib()?.into_iter().filter(|entry| entry.routes.iter().any(is_static));
    let routed: BTreeSet<Name> = entries.map(|entry| entry.prefix).collect();
    let of_faces = config.face.iter().flat_map(|face| &face.routes).chain(&config.network.local);
    let wanted: BTreeSet<Name> =
        config.route.iter().map(|route| &route.prefix).chain(of_faces).cloned().collect();
    for prefix in routed.symmetric_difference(&wanted) {
        let of = |set: &BTreeSet<Name>| set.contains(prefix).then(|| prefix.to_string());
        add("route".into(), of(&routed), of(&wanted));
    }
    Ok(rows)
}

/// The last component of a strategy's name that is not its version.
fn last_word(strategy: &Name) -> String {
    let last = strategy.components().filter(|component| component.version().is_none()).last();
    last.map_or_else(String::new, |component| String::from_utf8_lossy(component.value).into_owned())
}
