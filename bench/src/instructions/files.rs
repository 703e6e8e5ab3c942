//! The transfer of a file by `namely serve` and `namely get`. Callgrind counts the instructions of
//! one of them. The other runs beside it, with a router in lockstep between them.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use namely_testbed::{Interrupt, Process};

use super::lockstep::Lockstep;
use crate::error::Error;
use crate::files::{Object, expect_same};
use crate::programs::Program;

/// Outstanding Interests of the consumer.
const WINDOW: usize = 16;

/// Maximum time until a program ends.
const END_LIMIT: Duration = Duration::from_secs(120);

/// The counted program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Subject {
    /// `namely serve`.
    Server,
    /// `namely get`.
    Client,
    /// Neither: the file is only transferred.
    None,
}

/// Serves a file of `segments` segments of `segment_octets` octets, fetches it, and returns the log
/// of the subject.
pub(super) fn pass(subject: Subject, segment_octets: u64, segments: u64) -> Result<String, Error> {
    let namely = Program::find(&["namely"], "NAMELY_BIN_DIR", true);
    if let Some(missing) = namely.missing() {
        return Err(Error::Usage(missing));
    }
    let folder = tempfile::tempdir().map_err(|e| Error::environment("cannot make a folder", e))?;
    let (dir, interrupt) = (folder.path(), Interrupt::default());
    let object = Object::create(dir, 1, segment_octets * segments)?;
    let sockets = [dir.join("producer.sock"), dir.join("consumer.sock")];
    let listening = Lockstep::listen(&sockets[0], &sockets[1]);
    let router = listening.map_err(|e| Error::environment("cannot listen", e))?;
    let program = |counted: Subject, socket: &Path| {
        let mut command = if subject == counted {
            let mut valgrind = namely_testbed::command(Path::new("valgrind"), dir);
            valgrind.args(["--tool=callgrind", "--callgrind-out-file=/dev/null"]).arg(namely.path());
            valgrind
        } else {
            namely_testbed::command(namely.path(), dir)
        };
        command.args(["--router", &format!("unix://{}", socket.display())]);
        command
    };

    let mut serve: Command = program(Subject::Server, &sockets[0]);
    serve.arg("serve").arg(&object.dir).args(["--prefix", "/bench"]);
    serve.args(["--segment-size", &segment_octets.to_string()]);
    let mut server = Process::start("namely serve", serve, dir, None)?;
    let stuck = |e| Error::environment("cannot pass packets", e);
    let mut producer = router.accept_producer().map_err(stuck)?;

    let output = dir.join("output");
    let mut get = program(Subject::Client, &sockets[1]);
    get.args(["--quiet", "get", &format!("/bench/{}", Object::FILE_NAME), "-o"]).arg(&output);
    get.args(["--congestion", &format!("fixed:{WINDOW}"), "--verify-threads", "1"]);
    let client = Process::start("namely get", get, dir, None)?;
    let client_log = client.log().to_owned();
    router.pass(&mut producer, WINDOW).map_err(stuck)?;
    client.wait(END_LIMIT, &interrupt)?;
    expect_same(&object.path, &output)?;
    let server_log = server.log().to_owned();
    server.expect_running()?;
    server.stop();
    let log = if subject == Subject::Client { client_log } else { server_log };
    std::fs::read_to_string(&log).map_err(|e| Error::environment(format!("cannot read {}", log.display()), e))
}
