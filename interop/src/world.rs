//! One test's world: a temporary directory with its own home, and the programs of this workspace.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use namely_testkit::eventually;
use serde_json::Value;
use tempfile::TempDir;

use crate::install::{profile_dir, target_dir};
use crate::running::{Finished, Running};

/// Environment variable that names a folder with other binaries of `namely` and `namelyd`.
const BINARIES_VARIABLE: &str = "NAMELY_BIN_DIR";

/// The features of this workspace's programs in `cargo test --workspace`, including those of
/// dev-dependencies. With other features cargo would build nearly all of it a second time.
const TEST_FEATURES: &str =
    "namely-host/faults,namely-testkit/disk,namely-testkit/hostile,namely-testkit/signed";

/// Environment variable that `.ci/tests` sets so that a test program reports the time of each test.
/// If it changed, cargo would rebuild every package that reads it.
pub(crate) const UNSTABLE_VARIABLE: &str = "RUSTC_BOOTSTRAP";

/// A temporary directory with its own home and key chain.
#[derive(Debug)]
pub struct World {
    dir: TempDir,
}

impl World {
    /// Passphrase of private keys and SafeBags in these tests.
    pub const PASSPHRASE: &str = "interoperability";

    /// An empty world.
    #[expect(clippy::new_without_default, reason = "it makes a directory")]
    pub fn new() -> Self {
        let dir =
            tempfile::Builder::new().prefix("namely-interop-").tempdir().expect("a temporary directory");
        World { dir }
    }

    /// The directory.
    pub fn dir(&self) -> &Path {
        self.dir.path()
    }

    /// A path in the directory.
    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Writes a file of `octets` octets that compress badly. The content depends on `seed`.
    pub fn payload(&self, name: &str, octets: usize, seed: u64) -> PathBuf {
        let path = self.path(name);
        if let Some(folder) = path.parent() {
            std::fs::create_dir_all(folder).expect("a folder in the temporary directory");
        }
        std::fs::write(&path, noise(octets, seed)).expect("a file in the temporary directory");
        path
    }

    /// Returns a command with this world as its home.
    pub fn command(&self, program: impl AsRef<Path>) -> Command {
        let mut command = Command::new(program.as_ref());
        command.current_dir(self.dir()).env("HOME", self.dir()).env("NAMELY_HOME", self.path("namely"));
        command
            .env("NAMELY_PASSPHRASE", Self::PASSPHRASE)
            .env_remove("NAMELY_ROUTER")
            .env_remove("XDG_RUNTIME_DIR");
        command
    }

    /// Returns the command `namely ARGS` with JSON output.
    pub fn namely_command<S: AsRef<std::ffi::OsStr>>(&self, args: impl IntoIterator<Item = S>) -> Command {
        let mut command = self.command(program("namely"));
        command.arg("--json").args(args);
        command
    }

    /// Runs `namely ARGS` to its end.
    pub fn namely<S: AsRef<std::ffi::OsStr>>(&self, args: impl IntoIterator<Item = S>) -> Finished {
        Finished::run("namely", self.namely_command(args), self.dir())
    }

    /// Starts `namely ARGS`.
    pub fn start_namely<S: AsRef<std::ffi::OsStr>>(&self, args: impl IntoIterator<Item = S>) -> Running {
        Running::start("namely", self.namely_command(args), self.dir())
    }

    /// Starts `namely --router ROUTER serve DIRECTORY ARGS` and waits until the prefix is
    /// registered.
    pub fn serve(&self, router: &str, directory: &Path, args: &[&str]) -> Running {
        let mut command = self.command(program("namely"));
        command.args(["--router", router, "serve"]).arg(directory).args(args);
        let mut server = Running::start("namely serve", command, self.dir());
        server.remark("serving ");
        server
    }

    /// Starts `namely --router ROUTER put ARGS` with the file `input` as its standard input, and
    /// waits until it is published.
    pub fn put(&self, router: &str, input: &Path, args: &[&str]) -> Running {
        let mut command = self.command("/bin/sh");
        let script = "input=$1; shift; exec \"$@\" < \"$input\"";
        command.args(["-c", script, "sh", text(input)]).arg(program("namely"));
        command.args(["--json", "--router", router, "put"]).args(args);
        let mut publication = Running::start("namely put", command, self.dir());
        publication.answer();
        publication
    }

    /// Runs `namely --router ROUTER get NAME -o OUT ARGS`.
    pub fn get(&self, router: &str, name: &str, out: &Path, args: &[&str]) -> Finished {
        self.namely([&["--router", router, "get", name, "-o", text(out)], args].concat())
    }

    /// Returns the JSON lines of `namely --router ROUTER ARGS`.
    pub fn ask(&self, router: &str, args: &[&str]) -> Vec<Value> {
        self.namely([&["--router", router], args].concat()).success().values()
    }

    /// Waits for the face of `router` to a remote.
    pub fn face_to(&self, router: &str, remote: &str) -> String {
        let find = || {
            let faces = self.ask(router, &["face", "list"]);
            Some(faces.iter().find(|face| face["remote"] == remote)?["face_id"].to_string())
        };
        eventually(remote, || find().is_some());
        find().expect("it was there")
    }

    /// Serves a file at one router and fetches it at the other, by a route over `face` there.
    /// Segments of 8000 octets are fragmented.
    pub fn fetch_across(&self, from: &str, to: &str, face: &str, prefix: &str) {
        let folder = self.path(&prefix[1..]);
        let file = self.payload(&format!("{}/f", &prefix[1..]), 300_000, 5);
        let server = self.serve(from, &folder, &["--prefix", prefix]);
        self.ask(to, &["route", "add", prefix, face]);
        let out = self.path("out");
        self.get(to, &format!("{prefix}/f"), &out, &[]).success();
        let read = |path: &Path| std::fs::read(path).expect("a file that was written");
        assert!(read(&out) == read(&file), "{prefix}");
        std::fs::remove_file(out).expect("it was read");
        self.ask(to, &["route", "remove", prefix, face]);
        drop(server);
    }

    /// Makes a key in the world's key chain and returns the path of its exported certificate.
    pub fn namely_key(&self, identity: &str, key_type: &str) -> PathBuf {
        self.namely(["key", "new", identity, "--type", key_type]).success();
        let path = self.path(&format!("namely{}.cert", identity.replace('/', "-")));
        self.namely(["cert", "export", identity, "-o", text(&path)]).success();
        path
    }
}

/// Returns a path as text. All paths of these tests are UTF-8.
pub(crate) fn text(path: &Path) -> &str {
    path.to_str().expect("temporary paths are UTF-8")
}

/// Returns a program of this workspace, built if it is missing.
pub(crate) fn program(name: &str) -> PathBuf {
    programs().join(name)
}

/// Returns the folder of this workspace's programs, built if they are missing.
///
/// # Panics
/// If they cannot be built.
pub fn programs() -> &'static Path {
    static FOLDER: OnceLock<PathBuf> = OnceLock::new();
    FOLDER.get_or_init(|| match std::env::var_os(BINARIES_VARIABLE) {
        Some(folder) => PathBuf::from(folder),
        None => build().unwrap_or_else(|why| panic!("cannot build namely: {why}")),
    })
}

/// Builds the programs beside this test. Cargo does nothing if they are up to date, and its own
/// lock serializes concurrent tests.
fn build() -> Result<PathBuf, String> {
    let folder = profile_dir()?;
    let target = target_dir()?;
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    command.args(["build", "--quiet", "--workspace", "--bins", "--features", TEST_FEATURES, "--target-dir"]);
    command.arg(&target);
    command.env_remove(UNSTABLE_VARIABLE);
    // Cargo's folder has the name of the profile, except for its own two development profiles.
    if let Some(profile) = folder.file_name().filter(|name| *name != "debug") {
        command.arg("--profile").arg(profile);
    }
    let output = command.current_dir(crate::install::sources()).output().map_err(|e| e.to_string())?;
    if output.status.success() {
        Ok(folder)
    } else {
        Err(String::from_utf8_lossy(&output.stderr).into_owned())
    }
}

/// Returns octets of a multiplicative generator. The payload does not repeat.
fn noise(octets: usize, seed: u64) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    std::iter::repeat_with(|| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.to_le_bytes()
    })
    .flatten()
    .take(octets)
    .collect()
}
