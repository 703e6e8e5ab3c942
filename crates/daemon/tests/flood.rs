//! A client that sends commands without pause does not delay the router's answers to others.

use crate::common;

use std::io::Write;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use common::client::named;
use common::other_user::{connect_as_other_user, start_as_nobody};
use common::{Client, Daemon};
use namely_messages::{Command, Counter, Dataset, GeneralStatus, Scope, blocks};
use namely_testkit::until;
use namely_testkit::{Need, skip};
use namely_wire::InterestBuilder;

/// The promise is an answer within a second. A loaded machine may take longer, and then half of the
/// answers must arrive in time.
const PROMISED: Duration = Duration::from_secs(1);

/// Sends commands and requests for the largest dataset without pause, and drops the answers.
fn flood(socket: &Path, is_over: &AtomicBool) {
    let mut stream = UnixStream::connect(socket).unwrap();
    let mut drain = stream.try_clone().unwrap();
    let reading = std::thread::spawn(move || std::io::copy(&mut drain, &mut std::io::sink()).ok());
    let rib = Dataset::RibList.prefix(Scope::Localhost);
    for n in 0u32.. {
        let commands =
            (0..100).map(|k| Command::RibRegister.name(Scope::Localhost, &named(&format!("/flood/{k}"))));
        let mut octets = Vec::new();
        for (k, command) in commands.enumerate() {
            let nonce = (n * 200 + k as u32).wrapping_mul(0x9e37_79b9).to_be_bytes();
            octets.extend(InterestBuilder::new(command).nonce(nonce).build());
            let nonce = (n * 200 + 100 + k as u32).wrapping_mul(0x9e37_79b9).to_be_bytes();
            octets.extend(InterestBuilder::new(rib.clone()).can_be_prefix().nonce(nonce).build());
        }
        if is_over.load(Ordering::Relaxed) || stream.write_all(&octets).is_err() {
            break;
        }
    }
    stream.shutdown(std::net::Shutdown::Both).ok();
    reading.join().unwrap();
}

/// Requests the status repeatedly. Each answer must arrive, and half of them in time.
fn status_answers_in_time(client: &mut Client) {
    let mut took: Vec<Duration> = (0..20)
        .map(|_| {
            let start = Instant::now();
            let status = client.dataset(Dataset::StatusGeneral);
            GeneralStatus::decode(&status).unwrap();
            start.elapsed()
        })
        .collect();
    took.sort();
    assert!(took[took.len() / 2] < PROMISED, "{took:?}");
}

fn counter(client: &mut Client, label: &str) -> u64 {
    let counters = client.dataset(Dataset::StatusCounters);
    let mut counters = blocks::<Counter>(&counters).map(Result::unwrap);
    counters.find(|c| c.label == label && c.face_id.is_none()).map_or(0, |c| c.value)
}

#[test]
fn a_flooding_user_delays_no_other() {
    if !rustix::process::geteuid().is_root() {
        skip(Need::Root, "only root can become another user");
        return;
    }
    let daemon = Daemon::start();
    let mut root = daemon.connect();
    let _flood = start_as_nobody(&daemon, "flood::floods");
    until("more comes than the user's share", || {
        (counter(&mut root, "link.control_share_full") > 0).then_some(())
    });
    status_answers_in_time(&mut root);
    root.register("/in/time");
    // A client that is known only by its address has a share, too.
    let mut other = Client::tcp(daemon.tcp());
    status_answers_in_time(&mut other);
}

#[test]
fn a_flooding_program_delays_no_other() {
    let daemon = Daemon::start();
    let mut client = daemon.connect();
    let is_over = AtomicBool::new(false);
    let socket = daemon.socket();
    std::thread::scope(|scope| {
        let flooding = scope.spawn(|| flood(&socket, &is_over));
        until("more comes than the user's share", || {
            (counter(&mut client, "link.control_share_full") > 0).then_some(())
        });
        status_answers_in_time(&mut client);
        client.register("/in/time");
        is_over.store(true, Ordering::Relaxed);
        flooding.join().unwrap();
    });
}

#[test]
#[ignore = "run as another user by a_flooding_user_delays_no_other"]
fn floods() {
    let Some(client) = connect_as_other_user() else { return };
    drop(client);
    let socket = std::env::var_os("NAMELY_TEST_SOCKET").unwrap();
    // The flood runs until its process is killed.
    let never = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| flood(Path::new(&socket), &never));
        }
    });
}
