//! Two network namespaces with routers, joined by a veth pair without IP addresses.

use std::fs;
use std::process::Command;

use namely_testkit::{Need, ip, skip};

use super::Home;

/// The addresses of the two ends.
pub const MACS: [&str; 2] = ["02:00:00:00:00:0a", "02:00:00:00:00:0b"];

/// The two namespaces. The device is `veth0` in each. They are removed when dropped.
pub struct Pair {
    pub names: [String; 2],
}

impl Pair {
    /// Prints the reason and returns none if namespaces are not available.
    pub fn new(test: &str) -> Option<Self> {
        if !rustix::process::geteuid().is_root() {
            skip(Need::Namespaces, "network namespaces need root");
            return None;
        }
        let pair = Pair { names: [0, 1].map(|i| format!("nmlp-{test}-{}-{i}", std::process::id())) };
        let is_there = pair.names.iter().all(|name| ip(&format!("netns add {name}"))) && pair.plug();
        is_there.then_some(pair)
    }

    /// Makes the devices.
    pub fn plug(&self) -> bool {
        let [a, b] = &self.names;
        let [of_a, of_b] = MACS;
        ip(&format!(
            "-n {a} link add veth0 address {of_a} type veth peer name veth0 address {of_b} netns {b}"
        )) && (0..2).all(|i| self.ip(i, "link set veth0 up"))
    }

    /// Runs `ip` in namespace `i`; false, with the reason printed, when it fails.
    pub fn ip(&self, i: usize, command: &str) -> bool {
        ip(&format!("-n {} {command}", self.names[i]))
    }

    /// `namely up` in namespace `i`.
    pub fn up(&self, i: usize) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.names[i], env!("CARGO_BIN_EXE_namely"), "up"]);
        command
    }

    /// Returns `command` for namespace `i`.
    pub fn within(&self, i: usize, command: &Command) -> Command {
        let mut within = Command::new("ip");
        within.args(["netns", "exec", &self.names[i]]).arg(command.get_program()).args(command.get_args());
        for (variable, value) in command.get_envs() {
            match value {
                Some(value) => within.env(variable, value),
                None => within.env_remove(variable),
            };
        }
        command.get_current_dir().into_iter().for_each(|dir| _ = within.current_dir(dir));
        within
    }

    /// Starts a router in namespace `i`. Its socket is `<i>.sock` in the home, and it also listens
    /// at `listen`. Its section `[faces]` ends with `rest`.
    pub fn router(&self, home: &mut Home, i: usize, listen: &[&str], rest: &str) -> String {
        let uri = format!("unix://{}", home.path(&format!("{i}.sock")).display());
        let file = home.path(&format!("{i}.toml"));
        let listen = [&[uri.as_str()], listen].concat();
        fs::write(&file, format!("[faces]\nlisten = {listen:?}\n{rest}\n[process]\nuser = \"root\"\n"))
            .unwrap();
        let mut command = self.up(i);
        command.arg("--config").arg(file);
        home.spawn(command);
        home.wait_for("a router", || home.run(["status", "--router", &uri]).code == Some(0));
        uri
    }
}

impl Drop for Pair {
    fn drop(&mut self) {
        for name in &self.names {
            let _ = Command::new("ip").args(["netns", "del", name]).output();
        }
    }
}

/// Serves `data/f`, with `octets` octets, below `/lab` at `far`.
pub fn serve(home: &mut Home, octets: usize, far: &str) {
    fs::create_dir(home.path("data")).unwrap();
    super::write_file(&home.path("data/f"), octets, 1);
    let serve = home.namely(["serve", "data", "--prefix", "/lab", "--router", far]);
    home.spawn(serve);
    home.wait_for("the prefix", || home.ok(["route", "list", "--router", far]).contains("/lab"));
}

/// Fetches a file of `data` at `near`. The copy must equal the file.
pub fn fetch(home: &Home, near: &str, file: &str) {
    home.ok(["get", &format!("/lab/{file}"), "-o", "out", "--router", near]);
    assert!(fs::read(home.path("data").join(file)).unwrap() == fs::read(home.path("out")).unwrap());
    fs::remove_file(home.path("out")).unwrap();
}
