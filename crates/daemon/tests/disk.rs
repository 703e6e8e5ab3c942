//! A content store on disk at a real `namelyd`: the retained packets, and forwarding when the disk
//! is full, slow, damaged, in use, or the router is killed.

use crate::common;

use std::io::{Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use common::client::{name, named};
use common::{Client, Daemon, PATIENCE, namelyd, run};
use namely_messages::{Command, ControlParameters, CsDiskStatus, CsInfo, Dataset, blocks};
use namely_security::{Signer, sha256, sign_data};
use namely_testkit::until;
use namely_wire::types::IMPLICIT_DIGEST_COMPONENT;
use namely_wire::{Component, DataBuilder, InterestBuilder, LpHeaders, NackReason, Name, encode_lp_packet};

/// Octets of content of a Data.
const CONTENT_OCTETS: usize = 2000;

/// A memory that holds few Data, and a disk.
fn config(folder: &Path, more: &str) -> String {
    let folder = folder.display();
    format!("[tables]\ncs_packets_max = 16\n[cs.disk]\nfolder = \"{folder}\"\nadmission = \"all\"\n{more}")
}

/// A router with a disk in a folder of its own.
struct Lab {
    daemon: Daemon,
    folder: tempfile::TempDir,
}

impl Lab {
    fn start(more: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let daemon = Daemon::start_with(&config(&folder.path().join("cs"), more), &[]);
        Lab { daemon, folder }
    }

    /// Starts a router whose disk is a file in the place of a device.
    fn on_device() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let device = std::fs::File::create_new(folder.path().join("cs")).unwrap();
        device.set_len(64 << 20).unwrap();
        Self::again(folder, "")
    }

    fn disk(&self) -> PathBuf {
        self.folder.path().join("cs")
    }

    /// Stops the router, and starts another one in the same folder.
    fn restart(self, more: &str) -> Self {
        let (status, _) = self.daemon.stop();
        assert_eq!(status.code(), Some(0));
        Self::again(self.folder, more)
    }

    fn again(folder: tempfile::TempDir, more: &str) -> Self {
        let daemon = Daemon::start_with(&config(&folder.path().join("cs"), more), &[]);
        Lab { daemon, folder }
    }

    /// Fetches `count` Data below `prefix` from a producer, which then ends.
    fn fill(&self, prefix: &str, count: usize) {
        let _producer = Producer::new(&self.daemon, prefix);
        let mut client = self.daemon.connect();
        assert!((0..count).all(|i| is_kept(&mut client, prefix, i)));
    }

    /// Requests `count` Data below `prefix` without a producer. Returns the number of Data that
    /// arrive. Each must be the right one.
    fn kept(&self, prefix: &str, count: usize) -> usize {
        let mut client = self.daemon.connect();
        (0..count).filter(|i| is_kept(&mut client, prefix, *i)).count()
    }

    fn status(&self) -> CsDiskStatus {
        status(&mut self.daemon.connect())
    }

    /// The segments of the disk, the oldest first.
    fn segments(&self) -> Vec<PathBuf> {
        let files = std::fs::read_dir(self.disk()).unwrap().flatten().map(|entry| entry.path());
        let mut logs: Vec<_> = files.filter(|path| path.extension().is_some_and(|e| e == "log")).collect();
        logs.sort();
        logs
    }
}

fn status(client: &mut Client) -> CsDiskStatus {
    blocks(&client.dataset(Dataset::CsDisk)).next().expect("a disk").expect("a status")
}

fn content(prefix: &str, i: usize) -> Vec<u8> {
    format!("{prefix}/{i} ").into_bytes().into_iter().cycle().take(CONTENT_OCTETS).collect()
}

/// Returns true if Data arrives. It must be the right one.
fn is_kept(client: &mut Client, prefix: &str, i: usize) -> bool {
    let interest = client.interest(&format!("{prefix}/{i}"));
    match client.express(&interest, PATIENCE).expect("an answer") {
        Ok(packet) => {
            assert_eq!(packet.data().content, content(prefix, i), "{prefix}/{i}");
            true
        }
        Err(reason) => {
            assert_eq!(reason, NackReason::NoRoute);
            false
        }
    }
}

/// Answers Interests below a prefix until it is dropped. Its route is then removed.
struct Producer {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Producer {
    fn new(daemon: &Daemon, prefix: &str) -> Self {
        let mut client = daemon.connect();
        client.register(prefix);
        let (stop, prefix) = (Arc::new(AtomicBool::new(false)), prefix.to_owned());
        let is_over = stop.clone();
        let thread = thread::spawn(move || {
            while !is_over.load(Ordering::Relaxed) {
                serve(&mut client, &prefix);
            }
            client.ok(Command::RibUnregister, &named(&prefix));
        });
        Producer { stop, thread: Some(thread) }
    }
}

impl Drop for Producer {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        let ended = self.thread.take().map(JoinHandle::join);
        assert!(thread::panicking() || ended.is_some_and(|ended| ended.is_ok()));
    }
}

/// Answers the next Interest, if one comes.
fn serve(client: &mut Client, prefix: &str) {
    let Some(packet) = client.receive(Duration::from_millis(20)) else { return };
    let name = packet.interest().name.to_name();
    let i = name.to_string().rsplit('/').next().and_then(|last| last.parse().ok()).expect("a number");
    let headers = LpHeaders { pit_token: packet.headers.pit_token, ..LpHeaders::default() };
    client.send(&encode_lp_packet(&headers, &data(&name, &content(prefix, i))));
}

fn data(name: &Name, content: &[u8]) -> Vec<u8> {
    sign_data(&DataBuilder::new(name.as_name()), content, &Signer::digest_sha256()).expect("a digest")
}

#[test]
fn a_disk_cache_survives_a_restart() {
    let lab = Lab::start("");
    lab.fill("/x", 300);
    let held: CsInfo = blocks(&lab.daemon.connect().dataset(Dataset::CsInfo)).next().unwrap().unwrap();
    assert_eq!((held.entries, held.capacity), (16, 16));
    assert_eq!(lab.kept("/x", 300), 300, "while it runs");
    let lab = lab.restart("");
    assert_eq!(lab.kept("/x", 300), 300, "packets that were in memory at the end, too");
    let status = lab.status();
    assert_eq!((status.records, status.count("hits")), (300, 300));
    assert!(!is_kept(&mut lab.daemon.connect(), "/x", 300));
}

#[test]
fn hit_admission_skips_unrequested_data() {
    let lab = Lab::start("");
    let change = |admission: &str| ControlParameters {
        cs_disk_admission: Some(admission.into()),
        ..ControlParameters::default()
    };
    let mut client = lab.daemon.connect();
    client.ok(Command::CsConfig, &change("hit"));
    lab.fill("/once", 60);
    assert_eq!(lab.status().records, 0);
    let text = client.command(Command::CsConfig, &change("some")).text;
    assert!(text.contains("hit, again, all"), "{text}");
    // Requested again while it is in memory, and then evicted.
    lab.fill("/twice", 2);
    assert!(is_kept(&mut client, "/twice", 1), "from memory");
    lab.fill("/other", 60);
    assert_eq!(lab.status().records, 1);
    assert_eq!([0, 1].map(|i| is_kept(&mut client, "/twice", i)), [false, true]);
}

#[test]
fn again_admission_writes_data_evicted_twice() {
    let folder = tempfile::tempdir().unwrap();
    let file = config(&folder.path().join("cs"), "").replace("admission = \"all\"\n", "");
    let lab = Lab { daemon: Daemon::start_with(&file, &[]), folder };
    assert_eq!(lab.status().admission, "again", "the default");
    lab.fill("/x", 40);
    assert_eq!(lab.status().records, 0, "nothing has come twice");
    lab.fill("/x", 20);
    lab.fill("/other", 40);
    assert_eq!(lab.status().records, 20);
    assert_eq!(lab.kept("/x", 20), 20);
}

#[test]
fn disk_limits_change_at_run_time() {
    let mut lab = Lab::start("");
    let mut client = lab.daemon.connect();
    let change = ControlParameters {
        cs_disk_octets: Some(512 << 20),
        cs_disk_threshold: Some(7),
        cs_disk_queue: Some("weighted".into()),
        ..ControlParameters::default()
    };
    let changed = client.ok(Command::CsConfig, &change);
    assert_eq!((changed.cs_disk_octets, changed.cs_disk_threshold), (Some(512 << 20), Some(7)));
    let now = lab.status();
    assert_eq!((now.octets_max, now.threshold, now.queue.as_str()), (512 << 20, 7, "weighted"));
    let few = ControlParameters { cs_disk_octets: Some((1 << 20) - 1), ..ControlParameters::default() };
    assert_eq!(client.command(Command::CsConfig, &few).code, 400);
    let file = config(&lab.disk(), "threshold = 9\nengine = \"threads\"\nthreads = 2\n");
    lab.daemon.reload(&file);
    let line = lab.daemon.wait_for_log("restart");
    assert!(line.contains("cs.disk.engine") && !line.contains("threshold"), "{line}");
    assert_eq!(lab.status().threshold, 9);
}

#[test]
fn a_pinned_prefix_stays_on_disk() {
    let lab = Lab::start("octets_max = \"1MiB\"\n");
    let mut client = lab.daemon.connect();
    let hit = ControlParameters { cs_disk_admission: Some("hit".into()), ..ControlParameters::default() };
    client.ok(Command::CsConfig, &hit);
    client.ok(Command::CsPin, &named("/pinned"));
    lab.fill("/pinned", 3);
    lab.fill("/other", 40);
    assert_eq!((lab.status().records, lab.status().pinned), (3, vec![name("/pinned")]));
    // Several times the disk's capacity passes through it, as fast as it accepts packets.
    let all = ControlParameters { cs_disk_admission: Some("all".into()), ..ControlParameters::default() };
    client.ok(Command::CsConfig, &all);
    let mut rounds = 0..;
    let status = until("all else has gone round twice", || {
        lab.fill(&format!("/flood/{}", rounds.next()?), 100);
        Some(lab.status()).filter(|status| status.count("evicted") > 1000)
    });
    assert!(status.octets <= status.octets_max && status.count("reinserted") > 0, "{status:?}");
    assert_eq!(lab.kept("/pinned", 3), 3);
    client.ok(Command::CsErase, &named("/pinned"));
    assert_eq!(lab.kept("/pinned", 3), 0);
    client.ok(Command::CsUnpin, &named("/pinned"));
    let lab = lab.restart("octets_max = \"1MiB\"\n");
    assert_eq!(lab.kept("/pinned", 3), 0, "nor after a restart");
}

#[test]
fn reported_data_leaves_memory_and_disk() {
    let lab = Lab::start("");
    lab.fill("/x", 60);
    let mut client = lab.daemon.connect();
    // Memory has the last packet, and only the disk has the first.
    for i in [0, 59] {
        let reported = name(&format!("/x/{i}"));
        let digest = sha256(&data(&reported, &content("/x", i)));
        let full = reported.join(Component { typ: IMPLICIT_DIGEST_COMPONENT, value: &digest });
        client.ok(Command::CsReport, &named(&full.to_string()));
        assert!(!is_kept(&mut client, "/x", i), "{i}");
    }
    assert_eq!(lab.kept("/x", 60), 58);
    let lab = lab.restart("");
    assert_eq!(lab.kept("/x", 60), 58, "nor after a restart");
}

#[test]
fn a_device_cache_survives_kills() {
    let mut lab = Lab::on_device();
    let octets_max = lab.status().octets_max;
    assert!((48 << 20..64 << 20).contains(&octets_max), "all of it: {octets_max}");
    lab.fill("/x", 300);
    assert_eq!(lab.kept("/x", 300), 300, "while it runs");
    for round in 0..3 {
        lab = lab.restart("");
        assert_eq!(lab.kept("/x", 300), 300, "after restart {round}");
        lab.fill(&format!("/more/{round}"), 100);
        drop(lab.daemon.kill());
        lab = Lab::again(lab.folder, "");
        assert_eq!(lab.kept("/x", 300), 300, "after kill {round}");
    }
    assert_eq!((lab.status().octets_max, lab.status().count("read_errors")), (octets_max, 0));
    let said = refusal(&lab.disk());
    assert!(said.contains("in use by another router") && said.contains("another device"), "{said}");
}

#[test]
fn an_unsuitable_device_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let device = folder.path().join("device");
    let mut octets = vec![0; 8 << 20];
    octets[0x438..0x43a].copy_from_slice(&[0x53, 0xef]);
    std::fs::write(&device, &octets).unwrap();
    let said = refusal(&device);
    assert!(said.contains("an ext2, ext3 or ext4 file system"), "{said}");
    assert!(said.contains(&format!("namely cs format --force {}", device.display())), "{said}");
    assert!(std::fs::read(&device).unwrap() == octets, "it is as it was");
    let said = refusal(Path::new("/dev/no-such-disk"));
    assert!(said.contains("there is no device /dev/no-such-disk") && said.contains("lsblk"), "{said}");
}

/// A block device in a file. Dropping this removes the device.
struct Loop(PathBuf);

impl Loop {
    fn new(image: &Path) -> Option<Self> {
        if !rustix::process::geteuid().is_root() {
            namely_testkit::skip(namely_testkit::Need::Root, "only root can make a device");
            return None;
        }
        let made = std::process::Command::new("losetup").args(["--find", "--show"]).arg(image).output();
        let Some(made) = made.ok().filter(|made| made.status.success()) else {
            namely_testkit::skip(namely_testkit::Need::Mount, "no loop device");
            return None;
        };
        Some(Loop(PathBuf::from(String::from_utf8(made.stdout).unwrap().trim())))
    }
}

impl Drop for Loop {
    fn drop(&mut self) {
        let _ = std::process::Command::new("losetup").arg("--detach").arg(&self.0).status();
    }
}

#[test]
fn a_block_device_cache_survives_restarts() {
    let folder = tempfile::tempdir().unwrap();
    let image = folder.path().join("image");
    std::fs::File::create_new(&image).unwrap().set_len(64 << 20).unwrap();
    let Some(device) = Loop::new(&image) else { return };
    let start = |folder| Lab { daemon: Daemon::start_with(&config(&device.0, ""), &[]), folder };
    let lab = start(folder);
    lab.fill("/x", 300);
    assert_eq!(lab.kept("/x", 300), 300);
    assert!(lab.status().octets_max > 48 << 20, "{:?}", lab.status());
    let said = refusal(&device.0);
    assert!(said.contains("in use by another router"), "{said}");
    assert_eq!(lab.daemon.stop().0.code(), Some(0));
    let lab = start(lab.folder);
    assert_eq!(lab.kept("/x", 300), 300, "after a restart");
    drop(lab.daemon.stop());
}

#[test]
fn a_folder_in_use_is_refused() {
    let lab = Lab::start("");
    let said = refusal(&lab.disk());
    assert!(said.contains("in use") && said.contains("another folder"), "{said}");
    lab.fill("/x", 20);
}

#[test]
fn a_folder_with_other_files_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("thesis.tex"), "mine").unwrap();
    let said = refusal(folder.path());
    assert!(
        said.contains("thesis.tex does not belong to a cache") && said.contains("empty folder"),
        "{said}"
    );
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
}

#[test]
fn a_folder_of_another_version_is_refused() {
    let lab = Lab::start("");
    lab.fill("/x", 100);
    let segment = lab.segments().remove(0);
    let (disk, folder) = (lab.disk(), lab.folder);
    drop(lab.daemon.stop());
    let mut file = std::fs::OpenOptions::new().write(true).open(segment).unwrap();
    file.write_all(b"namely-segment-9").unwrap();
    let said = refusal(&disk);
    assert!(said.contains("version") && said.contains("remove"), "{said}");
    if !rustix::process::geteuid().is_root() {
        return namely_testkit::skip(namely_testkit::Need::Root, "only root can give a folder away");
    }
    let nobody = Some(rustix::process::Uid::from_raw(common::other_user::NOBODY));
    rustix::fs::chown(&disk, nobody, None).unwrap();
    let said = refusal(&disk);
    assert!(said.contains("belongs to user") && said.contains("chown"), "{said}");
    drop(folder);
}

/// The error of a router that does not start with this folder.
fn refusal(folder: &Path) -> String {
    let dir = tempfile::tempdir().unwrap();
    let mut command = namelyd();
    command.args(["--no-config", "--listen", &format!("unix://{}", dir.path().join("y.sock").display())]);
    command.arg("--cs-disk").arg(folder);
    let (status, _, stderr) = run(command);
    assert!(status == 1 || status == 78, "{status}: {stderr}");
    stderr
}

#[test]
fn damaged_records_are_never_served() {
    let lab = Lab::start("");
    lab.fill("/x", 300);
    let lab = lab.restart("");
    for segment in lab.segments() {
        damage(&segment);
    }
    let kept = lab.kept("/x", 300);
    let status = lab.status();
    assert!(kept < 300 && status.count("damaged") > 0, "{kept} kept, {status:?}");
    // From upstream again, with the right content.
    lab.fill("/x", 300);
}

/// Changes an octet in every kilobyte behind the header.
fn damage(segment: &Path) {
    let mut file = std::fs::OpenOptions::new().read(true).write(true).open(segment).unwrap();
    let octets = file.metadata().unwrap().len();
    for at in (4096..octets).step_by(1024) {
        let mut octet = [0];
        file.seek(SeekFrom::Start(at)).unwrap();
        file.read_exact(&mut octet).unwrap();
        file.seek(SeekFrom::Start(at)).unwrap();
        file.write_all(&[octet[0] ^ 0x55]).unwrap();
    }
    file.sync_all().unwrap();
}

#[test]
fn failed_disk_reads_send_interests_upstream() {
    let mut lab = Lab::start("");
    lab.fill("/x", 300);
    lab = lab.restart("");
    for segment in lab.segments() {
        // Records after the end cannot be read.
        std::fs::OpenOptions::new().write(true).open(segment).unwrap().set_len(4096).unwrap();
    }
    assert_eq!(lab.kept("/x", 300), 0);
    let status = lab.status();
    assert!(status.count("read_errors") > 0 && status.trouble.is_some(), "{status:?}");
    lab.daemon.wait_for_log("content store's disk");
    lab.fill("/x", 20);
}

#[test]
fn a_slow_disk_does_not_delay_misses() {
    let lab = Lab::start("");
    lab.fill("/x", 300);
    // One request at a time takes a second. The others wait, up to the threshold.
    let lab = lab.restart("slow = \"1/s\"\nengine = \"threads\"\nthreads = 1\nthreshold = 8\n");
    let producers = ["/x", "/y"].map(|prefix| Producer::new(&lab.daemon, prefix));
    let mut floods = Vec::new();
    // On a busy machine, the disk may perform some requests before the test sees that they wait.
    until("the disk is saturated", || {
        let mut flood = lab.daemon.connect();
        (0..200).for_each(|i| flood.ask(&format!("/x/{i}")));
        floods.push(flood);
        (lab.status().pending >= 8).then_some(())
    });
    let mut client = lab.daemon.connect();
    let begin = Instant::now();
    for i in 0..200 {
        assert!(is_kept(&mut client, "/y", i), "a miss is forwarded");
        assert!(is_kept(&mut client, "/y", i), "a hit in memory");
    }
    // At any load of this machine, 400 exchanges that waited for the disk would take 400 s.
    assert!(begin.elapsed() < Duration::from_secs(200), "{:?}", begin.elapsed());
    let status = lab.status();
    assert!(status.count("bypassed_reads") > 0, "{status:?}");
    drop(producers);
    let (status, _) = lab.daemon.stop();
    assert_eq!(status.code(), Some(0), "in time, whatever the disk does");
}

#[test]
fn a_prefix_interest_is_answered_from_disk() {
    let lab = Lab::start("");
    lab.fill("/x", 40);
    let lab = lab.restart("");
    let mut client = lab.daemon.connect();
    let interest = InterestBuilder::new(name("/x")).nonce(client.next_nonce()).can_be_prefix().build();
    let packet = client.express(&interest, PATIENCE).expect("an answer").expect("Data");
    let found = packet.data().name.to_name();
    assert!(name("/x").as_name().is_prefix_of(found.as_name()) && found.as_name().len() == 2, "{found}");
    assert_eq!(lab.status().count("hits"), 1);
    // An Interest for exactly that name receives a Nack.
    let interest = InterestBuilder::new(name("/x")).nonce(client.next_nonce()).build();
    assert!(client.express(&interest, PATIENCE).expect("an answer").is_err());
}

#[test]
fn each_store_path_is_timed() {
    let lab = Lab::start("");
    lab.fill("/x", 300);
    // Each read takes 20 ms. With two pending reads, Interests that have a route bypass the disk.
    let lab = lab.restart("slow = \"20ms\"\nengine = \"threads\"\nthreads = 1\nthreshold = 2\n");
    let _producer = Producer::new(&lab.daemon, "/x");
    let mut client = lab.daemon.connect();
    // One packet each from the disk, from memory and from upstream; then more at once than the disk
    // accepts.
    assert!([7, 7, 300].iter().all(|i| is_kept(&mut client, "/x", *i)));
    (100..140).for_each(|i| client.ask(&format!("/x/{i}")));
    assert!((100..140).all(|_| client.receive(PATIENCE).is_some()));
    let status = until("each path was taken", || {
        let status = lab.status();
        let paths = ["time_memory", "time_issue", "time_disk", "time_absent", "time_busy"];
        paths.iter().all(|path| status.count(path) > 0).then_some(status)
    });
    let mean_ns = |path: &str| status.count(&format!("{path}_ns")) / status.count(path);
    assert!(mean_ns("time_disk") >= 20_000_000, "{status:?}");
    assert!(status.count("time_disk_ns_p99") >= status.count("time_disk_ns_p50"), "{status:?}");
    // No worker waits for a read of the disk. It may wait for a processor once, which the median
    // does not show.
    let median_ns = |path: &str| status.count(&format!("{path}_ns_p50"));
    assert!(median_ns("time_issue") < median_ns("time_disk"), "{status:?}");
    assert!(median_ns("time_busy") < median_ns("time_disk"), "{status:?}");
}

#[test]
fn a_saturated_disk_is_announced_to_neighbors() {
    let lab = Lab::start("");
    lab.fill("/x", 300);
    let disk = "slow = \"20/s\"\nengine = \"threads\"\nthreads = 1\nthreshold = 8\nannounce_ms = 50\n";
    let lab = lab.restart(disk);
    let _producer = Producer::new(&lab.daemon, "/x");
    let mut neighbour = Client::udp(lab.daemon.udp());
    (0..40).for_each(|i| neighbour.ask(&format!("/x/{i}")));
    let mut await_announcement = |what: &str| {
        let of = name(&format!("/localhop/nb-cc/{what}"));
        until(what, || {
            let packet = neighbour.receive(Duration::from_millis(20))?;
            let is_interest = packet.wire.first() == Some(&0x05) && packet.headers.nack.is_none();
            (is_interest && packet.interest().name.to_name() == of).then_some(())
        });
    };
    await_announcement("busy");
    await_announcement("free");
}

/// Starts a router on a disk of its own, which `script` creates at `$1` in a namespace of the
/// router. Skips the test and returns none if the disk cannot be created.
fn on_a_disk(script: &str) -> Option<(Daemon, PathBuf)> {
    let dir = tempfile::tempdir().unwrap();
    let disk = dir.path().join("small");
    std::fs::create_dir(&disk).unwrap();
    let file = dir.path().join("namely.toml");
    std::fs::write(&file, config(&disk.join("cs"), "octets_max = \"64MiB\"\nread_ahead = false\n")).unwrap();
    let socket = dir.path().join("x.sock");
    let mut command = std::process::Command::new("unshare");
    command.arg("--mount");
    if !rustix::process::geteuid().is_root() {
        command.arg("--map-root-user");
    }
    command.args(["sh", "-c", &format!("set -e; {script}; shift; exec \"$@\""), "sh"]).arg(&disk);
    command.arg(env!("CARGO_BIN_EXE_namelyd")).arg("--config").arg(&file);
    command.args(["--log", "debug", "--listen", &format!("unix://{}", socket.display())]);
    match Daemon::spawn(command, dir) {
        Ok(daemon) => Some((daemon, disk)),
        Err(output) if output.contains("cs.disk") => panic!("{output}"),
        Err(output) => {
            namely_testkit::skip(namely_testkit::Need::Mount, format_args!("no such disk: {output}"));
            None
        }
    }
}

/// Makes a disk of 24 MiB in a file that fills a file system in memory, `$1.back`. The device is
/// removed when the disk is no longer mounted.
const LOOP: &str = "mkdir $1.back; mount -t tmpfs -o size=25m none $1.back; truncate -s 24m $1.back/disk; \
    device=$(losetup --find --show $1.back/disk); mkfs.ext4 -q $device || { losetup -d $device; exit 1; }; \
    mount -o errors=remount-ro $device $1; losetup -d $device";

/// Only root of the machine has devices in files.
fn on_a_device() -> Option<(Daemon, PathBuf)> {
    if !rustix::process::geteuid().is_root() {
        namely_testkit::skip(namely_testkit::Need::Root, "only root can make a device");
        return None;
    }
    on_a_disk(LOOP)
}

#[test]
fn a_full_disk_only_stops_caching() {
    let Some((mut daemon, _)) = on_a_disk("mount -t tmpfs -o size=6m none $1") else { return };
    let mut client = daemon.connect();
    let _producer = Producer::new(&daemon, "/x");
    assert!((0..4000).all(|i| is_kept(&mut client, "/x", i)), "forwarding goes on");
    let status = until("its report", || Some(status(&mut client)).filter(|status| status.trouble.is_some()));
    assert!(status.trouble.unwrap().contains("no space left"));
    let line = daemon.wait_for_log("no space left");
    assert!(line.contains("lower") || line.contains("free"), "{line}");
}

#[test]
fn a_read_only_disk_still_answers() {
    let Some((mut daemon, disk)) = on_a_device() else { return };
    let _producer = Producer::new(&daemon, "/x");
    let mut client = daemon.connect();
    assert!((0..600).all(|i| is_kept(&mut client, "/x", i)));
    let is_at_rest = |s: &CsDiskStatus| s.count("disk_writes") > 0 && s.pending == 0;
    let before = until("the disk is at rest", || Some(status(&mut client)).filter(is_at_rest));
    // The hook of ext4 for tests has the same effect as an error of the file system.
    let mounts = std::fs::read_to_string(format!("/proc/{}/mounts", daemon.pid())).unwrap();
    let mount = mounts.lines().find(|line| line.split(' ').nth(1) == disk.to_str()).expect("a mount");
    let device = mount.strip_prefix("/dev/").and_then(|rest| rest.split(' ').next()).expect("a device");
    std::fs::write(format!("/sys/fs/ext4/{device}/trigger_fs_error"), "a test").unwrap();
    assert!((600..3000).all(|i| is_kept(&mut client, "/x", i)), "forwarding goes on");
    let status = until("its report", || Some(status(&mut client)).filter(|status| status.trouble.is_some()));
    assert!(status.count("write_errors") > 0, "{status:?}");
    let line = daemon.wait_for_log("cannot be written");
    assert!(line.contains("mount its file system for writing"), "{line}");
    drop(_producer);
    let kept = (0..600).filter(|i| is_kept(&mut client, "/x", *i)).count() as u64;
    assert!(kept > 0 && kept + 100 > before.count("written"), "reads go on: {kept}, {before:?}");
}

#[test]
fn a_removed_device_sends_interests_upstream() {
    let Some((mut daemon, disk)) = on_a_device() else { return };
    let _producer = Producer::new(&daemon, "/x");
    let mut client = daemon.connect();
    assert!((0..600).all(|i| is_kept(&mut client, "/x", i)));
    until("some is on the disk", || (status(&mut client).count("disk_writes") > 0).then_some(()));
    // The file of the device becomes empty and cannot grow again, so reads and writes of the device
    // fail.
    let back = PathBuf::from(format!("/proc/{}/root{}.back", daemon.pid(), disk.display()));
    std::fs::OpenOptions::new().write(true).open(back.join("disk")).unwrap().set_len(0).unwrap();
    let filled = std::fs::write(back.join("rest"), vec![0; 26 << 20]);
    assert!(filled.is_err(), "nothing is left for the device");
    assert!((0..1500).all(|i| is_kept(&mut client, "/x", i)), "all comes from upstream");
    let status = until("its report", || Some(status(&mut client)).filter(|status| status.trouble.is_some()));
    assert!(status.count("read_errors") > 0, "{status:?}");
    daemon.wait_for_log("see the kernel's log for the disk's faults");
}

#[test]
fn a_read_only_mount_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let script =
        "mount -t tmpfs none \"$1\" && mkdir \"$1/cs\" && mount -o remount,ro \"$1\" && shift && exec \"$@\"";
    let mut command = std::process::Command::new("unshare");
    command.args(["--mount", "--map-root-user", "sh", "-c", script, "sh"]).arg(dir.path());
    command.arg(env!("CARGO_BIN_EXE_namelyd")).args(["--no-config", "--listen", "udp://127.0.0.1:0"]);
    command.arg("--cs-disk").arg(dir.path().join("cs"));
    let (status, _, said) = run(command);
    if said.contains("mount:") || said.contains("unshare") {
        return namely_testkit::skip(namely_testkit::Need::Mount, said);
    }
    assert_eq!(status, 78, "{said}");
    assert!(
        said.contains("cannot be written") && said.contains("mount its file system for writing"),
        "{said}"
    );
}

/// Requests many packets from a slow disk, without another source.
fn request_many(lab: &Lab) -> Client {
    let socket = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.connect(lab.daemon.udp()).unwrap();
    let uri = format!("udp4://{}", socket.local_addr().unwrap());
    let (mut peer, mut watching) = (Client::udp_from(socket), lab.daemon.connect());
    (0..400).for_each(|i| {
        peer.ask(&format!("/x/{i}"));
        // A socket accepts about 50 datagrams at once.
        if i % 50 == 49 {
            until("the router has read them", || {
                let face = watching.faces().into_iter().find(|face| face.uri == uri)?;
                (face.in_interests > i).then_some(())
            });
        }
    });
    until("the peer's reads wait", || (lab.status().pending > 250).then_some(()));
    peer
}

#[test]
fn one_peer_cannot_monopolize_the_disk() {
    let lab = Lab::start("");
    lab.fill("/x", 450);
    // The peer's reads take 80 s: most of them wait when the test looks, and some still wait when
    // the others are answered.
    let lab = lab.restart("slow = \"5/s\"\nengine = \"threads\"\nthreads = 1\nthreshold = 8\n");
    let _peer = request_many(&lab);
    let other = std::net::UdpSocket::bind("127.0.0.2:0").unwrap();
    other.connect(lab.daemon.udp()).unwrap();
    let mut others = [Client::udp_from(other), lab.daemon.connect()];
    for (n, client) in others.iter_mut().enumerate() {
        for i in 0..3 {
            assert!(is_kept(client, "/x", 400 + 10 * n + i), "from the disk");
        }
    }
    let is_root = rustix::process::geteuid().is_root();
    if is_root {
        common::other_user::as_nobody(&lab.daemon, "disk::a_slow_disk_serves_another_user");
    } else {
        namely_testkit::skip(namely_testkit::Need::Root, "only root becomes another user");
    }
    let status = lab.status();
    assert!(status.pending > 50, "the peer's reads still wait: {status:?}");
}

#[test]
#[ignore = "run as another user by one_peer_cannot_monopolize_the_disk"]
fn a_slow_disk_serves_another_user() {
    let Some(mut client) = common::other_user::connect_as_other_user() else { return };
    assert!((430..433).all(|i| is_kept(&mut client, "/x", i)));
}

#[test]
fn a_killed_routers_cache_stays_valid() {
    // NAMELY_KILLS=100 is the number that the requirement names.
    let kills = std::env::var("NAMELY_KILLS").ok().and_then(|kills| kills.parse().ok()).unwrap_or(5);
    let mut lab = Lab::start("octets_max = \"4MiB\"\n");
    for round in 0..kills {
        let mut client = lab.daemon.connect();
        let stop = Arc::new(AtomicBool::new(false));
        let load = under_load(&lab.daemon, stop.clone());
        // The kills happen at different moments: while a segment is written, begun or evicted.
        let times = 200 + round * 37 % 400;
        assert!((0..times).all(|i| is_kept(&mut client, "/load", i)), "round {round}");
        drop(lab.daemon.kill());
        stop.store(true, Ordering::Relaxed);
        load.join().expect("a producer");
        lab = Lab::again(lab.folder, "octets_max = \"4MiB\"\n");
    }
    // Each Data that arrives is compared.
    lab.kept("/load", 600);
}

/// A producer that sees its router die.
fn under_load(daemon: &Daemon, stop: Arc<AtomicBool>) -> JoinHandle<()> {
    let mut client = daemon.connect();
    client.register("/load");
    thread::spawn(move || {
        while !stop.load(Ordering::Relaxed) {
            serve(&mut client, "/load");
        }
    })
}

#[test]
fn the_disk_threshold_controls_bypassing() {
    let lab = Lab::start("");
    lab.fill("/x", 100);
    // The threshold counts requests to the disk, not packets that wait to be written.
    let lab = lab.restart("");
    let _producer = Producer::new(&lab.daemon, "/x");
    let mut client = lab.daemon.connect();
    assert!((0..40).all(|i| is_kept(&mut client, "/x", i)));
    let idle = lab.status();
    assert_eq!((idle.count("hits"), idle.count("bypassed_reads"), idle.count("bypassed_writes")), (40, 0, 0));
    let always = ControlParameters { cs_disk_threshold: Some(0), ..ControlParameters::default() };
    client.ok(Command::CsConfig, &always);
    assert!((40..80).all(|i| is_kept(&mut client, "/x", i)), "from upstream");
    let status = lab.status();
    assert_eq!(status.count("hits") + status.count("bypassed_reads"), 80);
    assert!(status.count("bypassed_reads") > 0, "{status:?}");
    let never = ControlParameters { cs_disk_threshold: Some(u64::MAX), ..ControlParameters::default() };
    client.ok(Command::CsConfig, &never);
    let before = lab.status().count("bypassed_reads");
    assert!((80..100).all(|i| is_kept(&mut client, "/x", i)));
    assert_eq!(lab.status().count("bypassed_reads"), before);
}
