//! Routers that run the virtual plane, on loopback.
#![allow(dead_code, unreachable_pub, reason = "each test file uses a part of this module")]

use std::fs;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::thread::JoinHandle;
use std::time::Duration;

use namely_messages::{Dataset, VipNeighbour, VipObject, VipStatus, blocks};
use namely_security::{Signer, sign_data};
use namely_wire::{DataBuilder, LpHeaders, encode_lp_packet};

use namely_testkit::until;

use crate::common::{Client, Daemon};

/// Duration of a slot, ms.
pub const PERIOD_MS: u64 = 500;

/// Two blocks of 100 segments of 100 octets.
pub const CATALOGUE: &str = "catalogue\t1\n/hot\t10000\n\t/hot/a\t10000\n/cold\t10000\n\t/cold/a\t10000\n";

/// A router that runs the plane.
pub struct Router {
    pub daemon: Daemon,
    pub client: Client,
    name: String,
    /// Its own settings in [vip], beside the common ones.
    settings: String,
}

impl Router {
    /// Starts a router without neighbors.
    pub fn start(name: &str, settings: &str) -> Self {
        Self::start_in(tempfile::tempdir().expect("a directory"), name, settings)
    }

    /// As `start`, in a directory that an earlier router used.
    pub fn start_in(dir: tempfile::TempDir, router: &str, settings: &str) -> Self {
        let text = lay_out(&dir, router, settings);
        Self::of(Daemon::start_in(dir, &text, &[]), router, settings)
    }

    /// As `start`, on a port that no other process takes while the router is stopped.
    pub fn start_on(port: u16, router: &str, settings: &str) -> Self {
        let dir = tempfile::tempdir().expect("a directory");
        let file = dir.path().join("namely.toml");
        fs::write(&file, lay_out(&dir, router, settings)).expect("a configuration file");
        let mut command = crate::common::namelyd();
        command.arg("--config").arg(&file).args(["--log", "debug"]);
        command.args(["--listen", &format!("unix://{}", dir.path().join("x.sock").display())]);
        command.args(["--listen", &format!("udp://127.0.0.1:{port}")]);
        let daemon = Daemon::spawn(command, dir).unwrap_or_else(|why| panic!("it did not start: {why}"));
        Self::of(daemon, router, settings)
    }

    /// As `start_in`, with a folder `disk` in the directory. The shell runs `script`, which mounts
    /// a file system there that only the router sees. Returns the error if that is not possible
    /// here.
    pub fn start_mounted(
        dir: tempfile::TempDir,
        script: &str,
        router: &str,
        settings: &str,
    ) -> Result<Self, String> {
        let text = lay_out(&dir, router, settings);
        let file = dir.path().join("namely.toml");
        fs::write(&file, text).expect("a configuration file");
        fs::create_dir(dir.path().join("disk")).expect("a directory");
        let socket = format!("unix://{}", dir.path().join("x.sock").display());
        let mut command = Command::new("unshare");
        command.args(["--mount", "sh", "-c", &format!("set -e; {script}; shift; exec \"$@\""), "sh"]);
        command.arg(dir.path().join("disk")).arg(env!("CARGO_BIN_EXE_namelyd")).arg("--config").arg(&file);
        command.args(["--listen", &socket, "--listen", "udp://127.0.0.1:0", "--log", "debug"]);
        Ok(Self::of(Daemon::spawn(command, dir)?, router, settings))
    }

    fn of(daemon: Daemon, router: &str, settings: &str) -> Self {
        let client = daemon.connect();
        Router { daemon, client, name: router.into(), settings: settings.into() }
    }

    pub fn catalogue(&self) -> std::path::PathBuf {
        self.daemon.config_file().with_file_name("blocks.tsv")
    }

    pub fn status(&mut self) -> VipStatus {
        let all = self.client.dataset(Dataset::VipStatus);
        blocks(&all).next().expect("it runs the plane").expect("well formed")
    }

    pub fn objects(&mut self) -> Vec<VipObject> {
        blocks(&self.client.dataset(Dataset::VipObjects)).collect::<Result<_, _>>().expect("objects")
    }

    pub fn neighbours(&mut self) -> Vec<VipNeighbour> {
        blocks(&self.client.dataset(Dataset::VipNeighbours)).collect::<Result<_, _>>().expect("neighbours")
    }

    /// Waits until `slots` slots have begun, because directions are set at the beginning of a slot.
    pub fn let_pass(&mut self, slots: u64) {
        let due = self.status().slot + slots;
        until("slots go by", || (self.status().slot >= due).then_some(()));
    }

    /// A counter of the plane.
    pub fn count(&mut self, label: &str) -> u64 {
        let status = self.status();
        let counter = status.counters.iter().find(|counter| counter.label == label);
        counter.unwrap_or_else(|| panic!("there is no {label}")).value
    }

    /// [[face]] and [[vip.neighbour]] of a neighbor.
    pub fn neighbour(port: u16, router: &str, key: &[u8], routes: &str) -> String {
        let key: String = key.iter().map(|octet| format!("{octet:02x}")).collect();
        let uri = format!("udp4://127.0.0.1:{port}");
        format!(
            "[[face]]\nremote = \"{uri}\"\nroutes = [{routes}]\n\
             [[vip.neighbour]]\nface = \"{uri}\"\nrouter = \"{router}\"\nkey = \"{key}\"\n\
             octets_per_s = 100_000\n"
        )
    }

    /// Reloads the unchanged configuration file.
    pub fn reload_settings(&mut self) {
        let text = fs::read_to_string(self.daemon.config_file()).expect("a configuration");
        let line = self.daemon.reload(&text);
        assert!(line.contains("configuration reloaded"), "{line}");
        self.daemon.wait_for_log("is in force");
    }

    /// Replaces its neighbors. Returns the log line with the outcome.
    pub fn reload(&mut self, neighbours: &str) -> String {
        let dir = self.daemon.config_file().with_file_name("").display().to_string();
        let line = self.daemon.reload(&config(&dir, &self.name, &self.settings, neighbours));
        let count = neighbours.matches("[[vip.neighbour]]").count();
        if line.contains("not reloaded") {
            return line;
        }
        until("the plane knows them", || (self.neighbours().len() == count).then_some(()));
        line
    }

    /// An application that answers for a prefix.
    pub fn producer(&mut self, prefix: &str) -> Client {
        let mut producer = self.daemon.connect();
        producer.register(prefix);
        producer
    }

    /// Answers Interests below `prefix` on a thread of its own, until the result is dropped.
    pub fn serve(&mut self, prefix: &str) -> Serving {
        self.serve_long(prefix, 100)
    }

    /// As `serve`, with Data of `octets` octets.
    pub fn serve_long(&mut self, prefix: &str, octets: usize) -> Serving {
        let mut producer = self.producer(prefix);
        let (answered, is_over) = <(Arc<AtomicUsize>, Arc<AtomicBool>)>::default();
        let (count, ends) = (answered.clone(), is_over.clone());
        let thread = std::thread::spawn(move || {
            while !ends.load(Relaxed) {
                let Some(packet) = producer.receive(Duration::from_millis(50)) else { continue };
                let name = packet.interest().name.to_name();
                let data = DataBuilder::new(name.as_name()).freshness_ms(1000);
                let data = sign_data(&data, &content(&name.to_string(), octets), &Signer::digest_sha256())
                    .expect("a digest");
                let headers = LpHeaders { pit_token: packet.headers.pit_token, ..LpHeaders::default() };
                count.fetch_add(1, Relaxed);
                producer.send(&encode_lp_packet(&headers, &data));
            }
        });
        Serving { answered, is_over, thread: Some(thread) }
    }
}

/// An application that answers.
pub struct Serving {
    answered: Arc<AtomicUsize>,
    is_over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Serving {
    /// Returns the number of Interests that the peer has answered.
    pub fn answered(&self) -> usize {
        self.answered.load(Relaxed)
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        self.is_over.store(true, Relaxed);
        self.thread.take().map(JoinHandle::join);
    }
}

/// The content of the Data with a name.
pub fn content(name: &str, octets: usize) -> Vec<u8> {
    format!("{name} ").into_bytes().into_iter().cycle().take(octets).collect()
}

/// Writes a catalogue if there is none. Returns the configuration.
fn lay_out(dir: &tempfile::TempDir, router: &str, settings: &str) -> String {
    if !dir.path().join("blocks.tsv").exists() {
        fs::write(dir.path().join("blocks.tsv"), CATALOGUE).expect("a catalogue");
    }
    config(&dir.path().display().to_string(), router, settings, "")
}

fn config(dir: &str, name: &str, settings: &str, neighbours: &str) -> String {
    format!(
        "[discovery]\nkey_chain = \"{dir}/keys\"\n[vip]\nrouter = \"{name}\"\ncatalogue = \"{dir}/blocks.tsv\"\n\
         prefix = \"/cms\"\nperiod_ms = {PERIOD_MS}\nsegment_octets = 100\n{settings}\n{neighbours}"
    )
}

/// Makes two routers neighbors. The first routes `/cms` to the second.
pub fn join(a: &mut Router, b: &mut Router) {
    let (key_a, key_b) = (a.status().key, b.status().key);
    let to_b = Router::neighbour(b.daemon.udp().port(), &b.name.clone(), &key_b, "\"/cms\"");
    let to_a = Router::neighbour(a.daemon.udp().port(), &a.name.clone(), &key_a, "");
    a.reload(&to_b);
    b.reload(&to_a);
}
