//! Two network namespaces with the forwarder of the kernel in each, in a guest.

use std::ffi::OsStr;
use std::os::unix::process::CommandExt;
use std::process::Command;

use namely_nnet::module;
use namely_testbed::Net;
use namely_testkit::{Need, skip};

use super::{Ended, Home, ended};

/// The module, in a guest.
pub const MODULE: &str = "/modules/nnet.ko";

/// A user without rights.
const NOBODY: u32 = 65_534;

/// Two namespaces with a veth pair between them, called `cable` at both ends, and a home. The
/// module is loaded; nothing else is set up.
pub struct World {
    pub net: Net,
    pub home: Home,
}

impl World {
    /// Returns `None`, with a skip, outside a guest.
    pub fn new() -> Option<Self> {
        if std::env::var_os("NAMELY_GUEST").is_none() {
            skip(Need::Guest, "it loads a module: `kernel/run --tools` runs it in a guest");
            return None;
        }
        let home = Home::new();
        if !module::is_loaded() {
            load(&home, &[]);
        }
        let net = Net::new(&["lab", "desk"]).unwrap();
        net.ip("-n {lab} link add cable up type veth peer name cable netns {desk}").unwrap();

        net.ip("-n {desk} link set cable up").unwrap();
        Some(World { net, home })
    }

    /// Creates a world with routes for names below /lab: from `desk` to `lab`, and from `lab` to
    /// its applications.
    pub fn routed() -> Option<Self> {
        let world = World::new()?;
        world.ok("lab", &["kernel", "face", "create", "cable"]);
        world.ok("lab", &["kernel", "route", "add", "/lab", "local"]);
        world.ok("desk", &["kernel", "route", "add", "/lab", "cable"]);
        Some(world)
    }

    /// `namely` in a namespace, without a router in its environment.
    pub fn namely<S: AsRef<OsStr>>(&self, node: &str, words: impl IntoIterator<Item = S>) -> Command {
        let namely = self.home.namely(words);
        self.program(node, namely.get_program(), namely.get_args())
    }

    /// A program in a namespace, without a router in its environment.
    pub fn program<S: AsRef<OsStr>>(
        &self,
        node: &str,
        program: impl AsRef<OsStr>,
        words: impl IntoIterator<Item = S>,
    ) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", self.net.name(node)]).arg(program).args(words);
        command.current_dir(self.home.path("")).env_remove("NAMELY_ROUTER");
        command.env("HOME", self.home.path("")).env("NAMELY_HOME", self.home.path("home"));
        command
    }

    pub fn run(&self, node: &str, words: &[&str]) -> Ended {
        ended(self.namely(node, words).output().unwrap())
    }

    pub fn ok(&self, node: &str, words: &[&str]) -> String {
        let end = self.run(node, words);
        assert_eq!(end.code, Some(0), "{words:?}: {end:?}\n{}", self.home.background_log());
        end.stdout
    }

    pub fn json(&self, node: &str, words: &[&str]) -> serde_json::Value {
        let text = self.ok(node, &[words, &["--json"]].concat());
        serde_json::from_str(text.lines().next().unwrap_or_default())
            .unwrap_or_else(|e| panic!("{text}: {e}"))
    }

    /// Starts a command that serves a prefix, and waits until the prefix is bound.
    pub fn serve(&mut self, node: &str, prefix: &str, words: &[&str]) -> usize {
        let command = self.namely(node, words);
        let index = self.home.spawn(command);
        let has_it = || self.run(node, &["kernel", "bind", "list"]).stdout.contains(prefix);
        self.home.wait_for(prefix, has_it);
        index
    }

    /// Runs `namely` in a namespace as a user without rights.
    pub fn as_nobody(&self, node: &str, words: &[&str]) -> Ended {
        let home = self.home.path("");
        self.net.enter(node, || {
            let mut command = Command::new(env!("CARGO_BIN_EXE_namely"));
            command.args(words).uid(NOBODY).env_remove("NAMELY_ROUTER").env("HOME", &home);
            ended(command.output().unwrap())
        })
    }
}

/// Loads the module.
pub fn load(home: &Home, parameters: &[&str]) {
    home.ok([&["kernel", "load", "--module", MODULE], parameters].concat());
}
