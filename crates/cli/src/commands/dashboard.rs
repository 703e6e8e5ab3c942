//! `namely dashboard`: a web page that shows running routers (docs/dashboard.md).

use std::net::SocketAddr;
use std::sync::atomic::Ordering;
use std::time::Duration;

use clap::Args;
use namely_dashboard::{Counters, Options, PrometheusUrl, StartError};
use serde_json::{Value, json};

use crate::context::Context;
use crate::failure::{Exit, Failure};
use crate::keys::Trust;

/// The name of the command.
const COMMAND: &str = "dashboard";

/// Maximum time from a signal to the end of the command.
const LOOK: Duration = Duration::from_millis(100);

/// Show running routers on a web page: faces, routes, content store, drops, names.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  namely dashboard
  namely dashboard --router unix:///run/namely.sock --router unix:///run/other.sock
  namely dashboard --listen 192.0.2.1:9465 --host lab.example

Open the printed address. The token after the # is required to change routers and to fetch data.")]
pub struct Dashboard {
    /// A router to show; may repeat. By default the router of the other commands.
    #[arg(long, env = "NAMELY_ROUTER", value_name = "URI", action = clap::ArgAction::Append)]
    router: Vec<String>,
    /// The address to listen on for browsers. If it is not a loopback address, every request needs
    /// the token, which then crosses the network without encryption.
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:9465", value_parser = crate::options::address)]
    listen: SocketAddr,
    /// A host name that browsers may use for the page, besides addresses and localhost; may repeat.
    #[arg(long, value_name = "NAME")]
    host: Vec<String>,
    /// Interval in seconds at which a router is polled, 0.1 or more.
    #[arg(long, value_name = "SECONDS", default_value = "1", value_parser = super::status::seconds)]
    interval: Duration,
    /// The Prometheus server that scrapes the routers, such as http://localhost:9090. The charts
    /// then also show hours and days.
    #[arg(long, value_name = "URL")]
    prometheus: Option<PrometheusUrl>,
    #[command(flatten)]
    trust: Trust,
}

impl Dashboard {
    /// Serves the page until the command is stopped.
    pub fn run(&self, ctx: &Context<'_>) -> Result<(), Failure> {
        let stop = crate::stop::flag()?;
        let words = std::env::args_os().map(|word| word.to_string_lossy().into_owned());
        let routers = routers(&words.collect::<Vec<_>>(), &self.router);
        let options = Options {
            listen: self.listen,
            routers,
            trust_router_of: ctx.global.trusted(),
            trust: self.trust.of_socket(),
            hosts: self.host.clone(),
            interval: self.interval,
            prometheus: self.prometheus.clone(),
        };
        let page = namely_dashboard::Dashboard::start(options).map_err(failed)?;
        if page.is_reachable_remotely() {
            ctx.out.remark(format!(
                "WARNING: {} can be reached from other machines. A holder of the token may change the routers. The token and \
                 all data of the page cross the network without encryption: put a proxy with TLS in front, or use \
                 `ssh -L 9465:127.0.0.1:9465` and listen on loopback only",
                page.address()
            ));
        }
        ctx.out.answer(
            || page.url(),
            || json!({"kind": "listening", "address": page.address().to_string(), "url": page.url()}),
        );
        ctx.out.remark("open it in a browser; Ctrl-C stops");
        while !stop.load(Ordering::Relaxed) {
            std::thread::sleep(LOOK);
        }
        ctx.out.answer(|| summary_text(page.counters()), || summary_json(page.counters()));
        Ok(())
    }
}

/// Returns the routers to show. The command line also allows `--router` before the command, as for
/// every command. Clap keeps only those after it.
fn routers(words: &[String], after: &[String]) -> Vec<Option<String>> {
    let before: Vec<&String> = words.iter().take_while(|word| *word != COMMAND).collect();
    let of = |(at, word): (usize, &&String)| match word.strip_prefix("--router")? {
        "" => before.get(at + 1).map(|uri| uri.to_string()),
        uri => uri.strip_prefix('=').map(str::to_owned),
    };
    let before: Vec<String> = before.iter().enumerate().filter_map(of).collect();
    let missing = before.into_iter().filter(|uri| !after.contains(uri));
    let all: Vec<Option<String>> = missing.chain(after.iter().cloned()).map(Some).collect();
    if all.is_empty() { vec![None] } else { all }
}

fn failed(error: StartError) -> Failure {
    match error {
        StartError::Listen(..) => Failure::new(Exit::CannotListen, error.to_string())
            .hint("choose another address with --listen, such as 127.0.0.1:0 for any free port"),
        other => Failure::failed(other.to_string()),
    }
}

fn counted(counters: &Counters) -> [(&'static str, u64); 9] {
    [
        ("requests", &counters.requests),
        ("looks", &counters.looks),
        ("actions", &counters.actions),
        ("refused", &counters.refused),
        ("refused_full", &counters.refused_full),
        ("refused_host", &counters.refused_host),
        ("refused_token", &counters.refused_token),
        ("refused_busy", &counters.refused_busy),
        ("slow", &counters.slow),
    ]
    .map(|(name, counter)| (name, counter.load(Ordering::Relaxed)))
}

fn summary_text(counters: &Counters) -> String {
    let [requests, looks, actions, refused, full, host, token, busy, slow] =
        counted(counters).map(|(_, n)| n);
    format!(
        "{requests} requests, {looks} polls of routers, {actions} commands; refused: {refused} malformed, {full} without a \
         free slot, {host} for another host, {token} without the token, {busy} over the limit of pending requests; \
         closed: {slow} slow clients"
    )
}

fn summary_json(counters: &Counters) -> Value {
    let mut all: serde_json::Map<String, Value> =
        counted(counters).iter().map(|(name, count)| ((*name).to_owned(), (*count).into())).collect();
    all.insert("kind".into(), "summary".into());
    Value::Object(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn routers_before_the_command_are_shown() {
        let shown = |line: &str, after: &[&str]| {
            let words: Vec<String> = line.split(' ').map(str::to_owned).collect();
            let after: Vec<String> = after.iter().map(|uri| (*uri).to_owned()).collect();
            routers(&words, &after).into_iter().map(|uri| uri.unwrap_or_default()).collect::<Vec<_>>()
        };
        assert_eq!(
            shown("namely --router unix:///a dashboard --router unix:///b", &["unix:///b"]),
            ["unix:///a", "unix:///b"]
        );
        assert_eq!(shown("namely --router=unix:///a dashboard", &[]), ["unix:///a"]);
        // Clap passes the first one on if there is none after the command.
        assert_eq!(shown("namely --router unix:///a dashboard", &["unix:///a"]), ["unix:///a"]);
        assert_eq!(shown("namely dashboard", &[]), [""]);
        assert_eq!(shown("namely dashboard --router unix:///b", &["unix:///b"]), ["unix:///b"]);
    }
}
