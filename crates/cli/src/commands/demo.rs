//! `namely demo`: the main use in one command. Two routers are joined over UDP, with a producer at
//! one and a consumer at the other. The consumer fetches and verifies a file by name twice: first
//! from the producer, and then from the caches, after the producer has stopped.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use clap::Args;
use namely_daemon::Router;
use namely_daemon::config::{Config, StaticRoute};
use namely_files::{FetchedFile, FileServer, GetOptions, ServeCounters, ServeOptions, get};
use namely_host::clock::unix_ns;
use namely_security::{KeyChain, KeyType, NewKey, Signer, TrustPolicy, validity};
use namely_socket::{Consumer, ConsumerOptions, Trust};
use namely_transport::connection::{Connection, Options};
use namely_transport::serve::{register, serve};
use namely_wire::{FaceUri, Name};
use serde_json::json;

use crate::context::Context;
use crate::failure::{Exit, Failure, io_failure};
use crate::fetching::{Watch, bind_failure, get_failure, rate_text, summary_json};
use crate::keys::key_failure;
use crate::output::{Cell, Text, octets_text};
use crate::router::{command_failure, connection_failure};

/// Serve a real file on one router and fetch it through another, verified.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  namely demo\n  namely demo --file /data/run7.root")]
pub struct Demo {
    /// The file to send; by default the namely program itself.
    #[arg(long, value_name = "FILE")]
    file: Option<PathBuf>,
}

/// One fetch, and the source of its packets.
struct Leg {
    got: FetchedFile,
    producer: u64,
    far_cache: u64,
    near_cache: u64,
}

impl Demo {
    /// Runs the demonstration in a temporary directory, which is removed at the end.
    pub fn run(&self, ctx: &Context<'_>) -> Result<(), Failure> {
        let file = match &self.file {
            Some(path) => path.clone(),
            None => std::env::current_exe()
                .map_err(|e| Failure::failed(format!("cannot find the program: {e}")))?,
        };
        let size = fs::metadata(&file).map_err(|e| io_failure("read", &file, e))?.len();
        let scratch = Scratch::new()?;
        let shared = scratch.0.join("shared");
        fs::create_dir(&shared).map_err(|e| io_failure("make", &shared, e))?;
        fs::copy(&file, shared.join("file")).map_err(|e| io_failure("copy", &file, e))?;

        let far = start(&scratch.0.join("far.sock"), Some("udp://127.0.0.1:0"), None, size)?;
        let link = far.listening().iter().find(|u| matches!(u, FaceUri::Udp(_))).cloned();
        let near = start(&scratch.0.join("near.sock"), None, link.as_ref(), size)?;
        let (far_uri, near_uri) = (scratch.uri("far.sock"), scratch.uri("near.sock"));
        ctx.out.remark(format!(
            "consumer - near router - {} - far router - producer",
            link.map_or_else(|| "?".into(), |u| u.to_string())
        ));

        let prefix: Name = "/demo".parse().map_err(|e| Failure::failed(format!("/demo: {e}")))?;
        let (signer, policy) = trust(&prefix)?;
        let producer = Producer::start(&shared, &prefix, signer, &far_uri)?;
        let name = prefix.join_generic("file");
        let fetch =
            |name: &Name, target: &str| fetch(ctx, name, &scratch.0.join(target), policy.clone(), &near_uri);
        let counts = || Ok::<_, Failure>((hits(&far_uri)?, hits(&near_uri)?));

        let before = counts()?;
        let got = fetch(&name, "first")?;
        let version = got.object.clone();
        let after = counts()?;
        let sent = producer.stop()?;
        let first = Leg {
            got,
            producer: packets(&sent),
            far_cache: after.0 - before.0,
            near_cache: after.1 - before.1,
        };
        // The name includes the version, because no producer is left to answer for the newest
        // version.
        let got = fetch(&version, "second")?;
        let end = counts()?;
        let second = Leg { got, producer: 0, far_cache: end.0 - after.0, near_cache: end.1 - after.1 };
        for copy in ["first", "second"] {
            same(&file, &scratch.0.join(copy))?;
        }
        report(ctx, &file, size, &[("producer running", &first), ("producer stopped", &second)]);
        near.stop();
        far.stop();
        Ok(())
    }
}

/// A directory that is removed at the end of the demonstration, even after an error.
struct Scratch(PathBuf);

impl Scratch {
    fn new() -> Result<Self, Failure> {
        let path = std::env::temp_dir().join(format!("namely-demo-{}", std::process::id()));
        fs::create_dir(&path).map_err(|e| io_failure("make", &path, e))?;
        Ok(Scratch(path))
    }

    fn uri(&self, socket: &str) -> String {
        format!("unix://{}", self.0.join(socket).display())
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // Errors are ignored, because the system removes temporary directories.
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Starts a router at the Unix socket `socket`, with room for the file in its content store.
fn start(socket: &Path, udp: Option<&str>, route_to: Option<&FaceUri>, size: u64) -> Result<Router, Failure> {
    let bad = |e: &dyn std::fmt::Display| Failure::failed(format!("the demonstration's configuration: {e}"));
    let mut config = Config::default();
    let unix = format!("unix://{}", socket.display());
    config.faces.listen = [Some(unix.as_str()), udp]
        .into_iter()
        .flatten()
        .map(|uri| uri.parse().map_err(|e| bad(&e)))
        .collect::<Result<_, _>>()?;
    config.faces.multicast.clear();
    config.tables.cs_octets_max = config.tables.cs_octets_max.max(size + size / 4);
    if let Some(uri) = route_to {
        let prefix = "/demo".parse().map_err(|e| bad(&e))?;
        config.route.push(StaticRoute::new(prefix, uri.clone()));
    }
    Router::start(config).map_err(|f| Failure { hint: f.hint, ..Failure::failed(f.message) })
}

/// Creates a key for `prefix`, and a policy that trusts only this key.
fn trust(prefix: &Name) -> Result<(Signer, TrustPolicy), Failure> {
    let chain = KeyChain::in_memory();
    let entry = chain
        .generate(&NewKey {
            identity: prefix.as_name(),
            key_type: KeyType::Ed25519,
            validity: validity::days_from(unix_ns(), 1),
            version: unix_ns() / 1_000_000,
            passphrase: None,
        })
        .map_err(key_failure)?;
    let mut policy = TrustPolicy::hierarchical();
    for certificate in entry.certificates {
        policy.add_anchor(certificate);
    }
    Ok((chain.signer(None, None).map_err(key_failure)?, policy))
}

/// The producer's thread.
struct Producer {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<Result<ServeCounters, Failure>>,
}

impl Producer {
    fn start(dir: &Path, prefix: &Name, signer: Signer, router: &str) -> Result<Self, Failure> {
        let mut server = FileServer::new(dir, ServeOptions::new(prefix.clone()), signer)
            .map_err(|e| Failure::failed(e.to_string()))?;
        let mut connection =
            Connection::find(Some(router), Options::for_server()).map_err(connection_failure)?;
        register(&mut connection, &mut server).map_err(command_failure)?;
        let stop = Arc::new(AtomicBool::new(false));
        let is_stopped = Arc::clone(&stop);
        let thread = std::thread::spawn(move || {
            serve(&mut connection, &mut server, &mut || !is_stopped.load(Ordering::Relaxed))
                .map_err(connection_failure)?;
            Ok(server.counters())
        });
        Ok(Producer { stop, thread })
    }

    fn stop(self) -> Result<ServeCounters, Failure> {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().map_err(|_| Failure::failed("the producer ended by a panic"))?
    }
}

fn packets(sent: &ServeCounters) -> u64 {
    sent.segments + sent.manifests + sent.metadata
}

fn fetch(
    ctx: &Context<'_>,
    name: &Name,
    target: &Path,
    policy: TrustPolicy,
    router: &str,
) -> Result<FetchedFile, Failure> {
    let options = ConsumerOptions {
        router: Some(router.to_owned()),
        trust: Trust::Policy(policy.into()),
        ..ConsumerOptions::default()
    };
    let consumer = Consumer::bind(name.clone(), options).map_err(bind_failure)?;
    let watch = Watch::new(ctx, name)?;
    get(&consumer, name, target, GetOptions::default(), &mut |p| watch.see("", p)).map_err(get_failure)
}

/// Returns the number of packets that a router's content store has served.
fn hits(router: &str) -> Result<u64, Failure> {
    Ok(namely_client::Client::find(Some(router), namely_client::default_signer())?.cs_info()?.hits)
}

fn same(a: &Path, b: &Path) -> Result<(), Failure> {
    let read = |path: &Path| fs::read(path).map_err(|e| io_failure("read", path, e));
    if read(a)? == read(b)? {
        return Ok(());
    }
    Err(Failure::new(Exit::NotVerified, "the copy differs from the file: this is a bug in namely"))
}

fn report(ctx: &Context<'_>, file: &Path, size: u64, legs: &[(&str, &Leg)]) {
    if ctx.out.is_json() {
        for (label, leg) in legs {
            ctx.out.answer(String::new, || {
                let mut value = summary_json(&leg.got.progress);
                value["fetch"] = json!(label);
                value["name"] = json!(leg.got.object.to_string());
                value["verified"] = json!(leg.got.reason.as_ref().map(ToString::to_string));
                value["packets_from"] =
                    json!({"producer": leg.producer, "far_router": leg.far_cache, "near_router": leg.near_cache});
                value
            });
        }
        return;
    }
    let rows: Vec<Vec<Cell>> = legs
        .iter()
        .map(|(label, leg)| {
            let progress = &leg.got.progress;
            vec![
                (*label).into(),
                format!("{:.2} s", progress.elapsed_ns as f64 / 1e9).into(),
                rate_text(progress.octets_per_second()).into(),
                leg.producer.into(),
                leg.far_cache.into(),
                leg.near_cache.into(),
            ]
        })
        .collect();
    let Some((_, first)) = legs.first() else { return };
    ctx.out.answer(
        || {
            let verified = first.got.reason.as_ref().map_or_else(String::new, ToString::to_string);
            [
                format!("{} ({}) as {}", file.display(), octets_text(size), first.got.object),
                verified,
                String::new(),
            ]
        },
        || json!(null),
    );
    ctx.out.table(
        &[
            "fetch",
            "time",
            "goodput",
            "packets from the producer",
            "far router's cache",
            "near router's cache",
        ],
        &rows,
    );
    ctx.out.answer(|| Text::laid_out("\nboth copies are equal to the file"), || json!(null));
}
