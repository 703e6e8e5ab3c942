//! `files`: a tree of small files, fetched by `namely get --recursive` and beside it by rsync from
//! an rsync daemon, alternating in one run. What each costs is the processor time of all processes
//! that take part, which other programs on the machine change less than the wall clock.

use std::fs;
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use clap::Args;

use crate::error::Error;
use crate::programs::{Program, READY_LIMIT};

/// Files of a directory of the tree.
const FILES_OF_DIRECTORY: u64 = 100;

/// Ticks of processor time in a second, as `/proc` counts them.
const TICKS: f64 = 100.0;

/// The options of `files`.
#[derive(Debug, Args)]
pub struct Trees {
    /// Files of 100 to 1000 octets, a hundred in a directory.
    #[arg(long, default_value_t = 20_000)]
    files: u64,
    /// Where trees are made and fetched to; by default the system's directory for temporary files.
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
    /// How often each is run.
    #[arg(long, default_value_t = 3)]
    runs: u32,
}

/// Measures and prints a line for each run.
pub fn run(options: &Trees) -> Result<(), Error> {
    let namely = Program::find(&["namely"], "NAMELY_BIN_DIR", true);
    let rsync = Program::find(&["rsync"], "RSYNC_BIN", false);
    if let Some(missing) = namely.missing().or(rsync.missing()) {
        return Err(Error::Subject(missing));
    }
    let base = options.dir.clone().unwrap_or_else(std::env::temp_dir);
    let base = tempfile::tempdir_in(&base).map_err(|e| Error::environment("cannot make a directory", e))?;
    let bench = Bench { namely, rsync, base: base.path().to_owned() };
    bench.make(options.files).map_err(|e| Error::environment("cannot make the tree", e))?;
    println!("{} files below {}", options.files, base.path().display());
    println!("run  with     wall s  processor s");
    for run in 1..=options.runs {
        for (name, fetch) in
            [("rsync", Bench::by_rsync as fn(&Bench) -> Result<Cost, Error>), ("namely", Bench::by_namely)]
        {
            let cost = fetch(&bench)?;
            println!("{run:3}  {name:6}  {:7.2}  {:11.2}", cost.wall.as_secs_f64(), cost.processor_s);
            bench.check(options.files)?;
        }
    }
    Ok(())
}

/// What a fetch cost.
struct Cost {
    wall: Duration,
    processor_s: f64,
}

struct Bench {
    namely: Program,
    rsync: Program,
    base: PathBuf,
}

/// A process that ends, and is waited for, with this.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        if let Some(pid) = rustix::process::Pid::from_raw(self.0.id() as i32) {
            let _ = rustix::process::kill_process(pid, rustix::process::Signal::TERM);
        }
        let _ = self.0.wait();
    }
}

impl Bench {
    fn source(&self) -> PathBuf {
        self.base.join("source")
    }

    fn copy(&self) -> PathBuf {
        self.base.join("copy")
    }

    fn make(&self, files: u64) -> std::io::Result<()> {
        for file in 0..files {
            let directory = self.source().join((file / FILES_OF_DIRECTORY).to_string());
            if file % FILES_OF_DIRECTORY == 0 {
                fs::create_dir_all(&directory)?;
            }
            let octets = 100 + file.wrapping_mul(0x9E37_79B9) % 900;
            let content: Vec<u8> = (0..octets).map(|i| (i ^ file ^ file >> 8) as u8).collect();
            fs::write(directory.join(file.to_string()), content)?;
        }
        Ok(())
    }

    /// The copy is what it should be, and goes.
    fn check(&self, files: u64) -> Result<(), Error> {
        for file in 0..files {
            let below = format!("{}/{file}", file / FILES_OF_DIRECTORY);
            let read = |root: PathBuf| fs::read(root.join(&below)).ok();
            if read(self.source()) != read(self.copy()) {
                return Err(Error::Subject(format!("{below} was not fetched as it is")));
            }
        }
        fs::remove_dir_all(self.copy()).map_err(|e| Error::environment("cannot remove the copy", e))
    }

    fn by_rsync(&self) -> Result<Cost, Error> {
        let environment = |e| Error::environment("cannot start an rsync daemon", e);
        let free = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).map_err(environment)?;
        let port = free.local_addr().map_err(environment)?.port();
        drop(free);
        let config = self.base.join("rsyncd.conf");
        let text = format!(
            "port = {port}\naddress = 127.0.0.1\nuse chroot = no\nlog file = /dev/null\n[tree]\npath = {}\n",
            self.source().display()
        );
        fs::write(&config, text).map_err(environment)?;
        let before = children_s();
        let daemon = start(
            Command::new(self.rsync.path())
                .args(["--daemon", "--no-detach"])
                .arg(format!("--config={}", config.display())),
        )?;
        wait_for(|| TcpStream::connect((Ipv4Addr::LOCALHOST, port)).is_ok())?;
        let begin = Instant::now();
        let from = format!("rsync://127.0.0.1:{port}/tree/");
        finish(Command::new(self.rsync.path()).arg("-rt").arg(from).arg(self.copy()))?;
        let wall = begin.elapsed();
        drop(daemon);
        Ok(Cost { wall, processor_s: children_s() - before })
    }

    fn by_namely(&self) -> Result<Cost, Error> {
        let router = format!("unix://{}", self.base.join("namely.sock").display());
        let namely = || {
            let mut command = Command::new(self.namely.path());
            command.env("NAMELY_HOME", self.base.join("keys")).env("NAMELY_ROUTER", &router);
            command.arg("--quiet");
            command
        };
        let before = children_s();
        let up = start(namely().args(["up", "--no-config", "--listen", &router]))?;
        finish(namely().arg("wait"))?;
        let serve = start(namely().arg("serve").arg(self.source()).args(["--prefix", "/tree"]))?;
        finish(namely().args(["wait", "/tree"]))?;
        let begin = Instant::now();
        finish(namely().args(["get", "--recursive", "/tree"]).arg(self.copy()))?;
        let wall = begin.elapsed();
        drop(serve);
        drop(up);
        Ok(Cost { wall, processor_s: children_s() - before })
    }
}

fn start(command: &mut Command) -> Result<Running, Error> {
    let quiet = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    quiet.spawn().map(Running).map_err(|e| Error::environment("cannot start a program", e))
}

fn finish(command: &mut Command) -> Result<(), Error> {
    let status = command.stdin(Stdio::null()).stdout(Stdio::null()).status();
    match status.map_err(|e| Error::environment("cannot start a program", e))? {
        status if status.success() => Ok(()),
        status => Err(Error::Subject(format!("{command:?}: {status}"))),
    }
}

fn wait_for(mut condition: impl FnMut() -> bool) -> Result<(), Error> {
    let end = Instant::now() + READY_LIMIT;
    while !condition() {
        if Instant::now() > end {
            return Err(Error::Subject("it is not ready in time".into()));
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    Ok(())
}

/// Processor time of the processes that were waited for, and of those that they waited for, s.
fn children_s() -> f64 {
    let stat = fs::read_to_string(Path::new("/proc/self/stat")).unwrap_or_default();
    // Behind the program's name in parentheses: the 14th and 15th field.
    let fields = stat.rsplit_once(')').map_or("", |(_, rest)| rest).split_whitespace();
    fields.skip(13).take(2).filter_map(|field| field.parse::<f64>().ok()).sum::<f64>() / TICKS
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_small_tree_comes_by_both_ways() {
        for program in [
            Program::find(&["namely"], "NAMELY_BIN_DIR", true),
            Program::find(&["rsync"], "RSYNC_BIN", false),
        ] {
            if let Some(missing) = program.missing() {
                return eprintln!("skipped: {missing}");
            }
        }
        run(&Trees { files: 250, dir: None, runs: 1 }).unwrap();
    }

    #[test]
    fn the_time_of_children_is_counted() {
        let before = children_s();
        finish(Command::new("sh").args(["-c", "i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done"])).unwrap();
        assert!(children_s() > before);
    }
}
