//! python-ndn and NDNts, as programs under `interop/python` and `interop/node` with the same
//! subcommands.

use std::path::PathBuf;
use std::process::Command;

use serde_json::Value;

use crate::install;
use crate::running::{Finished, Running};
use crate::world::{World, text};

/// Signature types: their names in the peers' programs, and their SignatureType.
pub const SIGNATURE_TYPES: [(&str, u64); 6] =
    [("digest", 0), ("rsa", 1), ("ecdsa", 3), ("hmac", 4), ("ed25519", 5), ("null", 200)];

/// A third-party library, with a program that uses it.
#[derive(Clone, Debug)]
pub struct Peer {
    name: &'static str,
    program: PathBuf,
    script: PathBuf,
}

/// A peer that serves an object or a directory until it is stopped.
#[derive(Debug)]
pub struct Producer {
    /// The process.
    pub process: Running,
    /// The name of the newest version, or of the directory.
    pub name: String,
    /// Its certificate, if it has one.
    pub certificate: PathBuf,
}

impl Peer {
    /// python-ndn.
    pub fn python_ndn() -> Result<Self, String> {
        let script = install::sources().join("python/peer.py");
        Ok(Peer { name: "python-ndn", program: install::python()?, script })
    }

    /// NDNts.
    pub fn ndnts() -> Result<Self, String> {
        Ok(Peer { name: "NDNts", program: PathBuf::from("node"), script: install::node()?.join("peer.mjs") })
    }

    /// Runs a subcommand to its end.
    pub fn run(&self, world: &World, args: &[&str]) -> Finished {
        Finished::run(self.name, self.command(world, args), world.dir())
    }

    /// Starts a subcommand.
    pub fn start(&self, world: &World, args: &[&str]) -> Running {
        Running::start(self.name, self.command(world, args), world.dir())
    }

    /// Returns a program from the peer's packages, such as `pyndntools`.
    pub fn tool(&self, world: &World, name: &str) -> Command {
        world.command(self.program.with_file_name(name))
    }

    /// Makes a key pair of `kind` for commands.
    pub fn new_command_key(&self, world: &World, kind: &str) -> CommandKey {
        self.new_key(world, kind, "/operator")
    }

    /// Makes a key pair of `kind` with a self-signed certificate.
    pub fn new_key(&self, world: &World, kind: &str, identity: &str) -> CommandKey {
        let file = |end| world.path(&format!("{}-{kind}{}.{end}", self.name, identity.replace('/', "-")));
        let key = CommandKey { kind: kind.to_owned(), private: file("pkcs8"), certificate: file("cert") };
        self.run(
            world,
            &[
                "new-key",
                "--sign",
                kind,
                "--identity",
                identity,
                "--write-key",
                text(&key.private),
                "--write-certificate",
                text(&key.certificate),
            ],
        )
        .success();
        key
    }

    /// Starts a producer and waits until its prefix is registered. `args` is `produce` or
    /// `serve-files` with its options, except for the router, the command key and the path of the
    /// certificate.
    pub fn produce(
        &self,
        world: &World,
        router: &str,
        command_key: Option<&CommandKey>,
        args: &[&str],
    ) -> Producer {
        let certificate = world.path(&format!("{}-producer.cert", self.name));
        let mut all = vec![args[0], "--router", router, "--write-certificate", text(&certificate)];
        all.extend(command_key.map(CommandKey::args).unwrap_or_default());
        all.extend(&args[1..]);
        let mut process = self.start(world, &all);
        let ready = process.event("ready");
        let name = ready["name"].as_str().expect("a producer says what it serves").to_owned();
        Producer { process, name, certificate }
    }

    /// Fetches an object through its metadata and returns the peer's report.
    pub fn fetch(&self, world: &World, router: &str, name: &str, args: &[&str]) -> Value {
        let mut all = vec!["fetch", "--router", router, name];
        all.extend(args);
        self.run(world, &all).success().event("fetched")
    }

    fn command(&self, world: &World, args: &[&str]) -> Command {
        let mut command = world.command(&self.program);
        // Tests must not write to the source tree.
        command.env("PYTHONDONTWRITEBYTECODE", "1").arg(&self.script).args(args);
        command
    }
}

/// A key for the commands of a peer to a router.
#[derive(Debug)]
pub struct CommandKey {
    /// `rsa`, `ecdsa` or `ed25519`.
    pub kind: String,
    /// The private key, PKCS#8.
    pub private: PathBuf,
    /// The self-signed certificate.
    pub certificate: PathBuf,
}

impl CommandKey {
    /// Returns the options by which a peer's program uses this key.
    pub fn args(&self) -> Vec<&str> {
        vec![
            "--command-sign",
            &self.kind,
            "--command-key",
            text(&self.private),
            "--command-certificate",
            text(&self.certificate),
        ]
    }
}
