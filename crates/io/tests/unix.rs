//! Unix sockets through a running loop.

use crate::support;

use std::io::{Read, Write};
use std::net::Shutdown;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::time::Duration;

use namely_io::{CloseReason, DispatchedLinks, FaceShares, FaceTag, IoOptions, OpenError, SendError};
use namely_testkit::eventually;
use namely_wire::{DecodeError, FaceUri};
use support::{Loop, as_user, packet, push};

struct SocketPath {
    _directory: tempfile::TempDir,
    path: PathBuf,
}

impl SocketPath {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        support::open_to_all(directory.path());
        let path = directory.path().join("r.sock");
        SocketPath { _directory: directory, path }
    }

    fn listen(&self, io: &Loop) -> Result<(), OpenError> {
        let path = self.path.clone();
        io.with(move |io| io.listen_unix(&path, 0o666)).map(|_| ())
    }

    fn connect(&self) -> UnixStream {
        let stream = UnixStream::connect(&self.path).unwrap();
        stream.set_read_timeout(Some(support::PATIENCE)).unwrap();
        stream
    }
}

fn listening(options: IoOptions) -> (SocketPath, Loop) {
    let (listener, io) = (SocketPath::new(), Loop::start(options));
    listener.listen(&io).unwrap();
    (listener, io)
}

#[test]
fn a_unix_application_is_known_by_user() {
    let (listener, io) = listening(IoOptions::default());
    let _stream = listener.connect();
    let status = io.status(io.accepted()).unwrap();
    let credentials = status.credentials.unwrap();
    assert_eq!(credentials.uid, rustix::process::getuid().as_raw());
    assert_eq!(credentials.pid, std::process::id() as i32);
    // The name of the process, not of the thread of this test. A container may hide /proc.
    let own = std::fs::read_to_string("/proc/self/comm").ok();
    assert_eq!(credentials.program.text().as_deref(), own.as_deref().map(str::trim_end));
    assert_eq!(status.local, FaceUri::Unix(listener.path.display().to_string()));
    assert!(matches!(status.remote, FaceUri::Fd(_)));
}

#[test]
fn the_socket_has_the_requested_mode() {
    let (listener, io) = listening(IoOptions::default());
    assert_eq!(std::fs::metadata(&listener.path).unwrap().permissions().mode() & 0o777, 0o666);
    drop(io);
    assert!(!listener.path.exists());
}

#[test]
fn split_streams_yield_whole_packets() {
    let (listener, io) = listening(IoOptions::default());
    let mut stream = listener.connect();
    let id = io.accepted();
    let sent: Vec<Vec<u8>> = [0, 1, 252, 253, 5000, 8000, 8796].map(|n| packet(n, n as u8)).to_vec();
    let octets = sent.concat();
    for (n, piece) in octets.chunks(777).enumerate() {
        stream.write_all(piece).unwrap();
        if n % 8 == 0 {
            // The loop runs one turn, in which it reads all available octets.
            io.with(|_| ());
        }
    }
    for expected in &sent {
        assert_eq!(io.next_frame(), (id, expected.clone()));
    }
    let counters = io.status(id).unwrap().counters;
    assert_eq!((counters.in_frames, counters.in_octets), (sent.len() as u64, octets.len() as u64));
}

#[test]
fn a_megabyte_burst_returns_in_order() {
    let (listener, io) = (SocketPath::new(), Loop::echo(IoOptions::default()));
    listener.listen(&io).unwrap();
    let mut stream = listener.connect();
    let octets: Vec<u8> = (0..400).flat_map(|n| packet(100 + n * 20, n as u8)).collect();
    let mut writer = stream.try_clone().unwrap();
    let (expected, wanted) = (octets.clone(), octets.len());
    let writing = std::thread::spawn(move || writer.write_all(&octets).unwrap());
    let mut echoed = vec![0; wanted];
    stream.read_exact(&mut echoed).unwrap();
    writing.join().unwrap();
    assert_eq!(echoed, expected);
}

#[test]
fn a_broken_stream_closes_only_itself() {
    let (listener, io) = listening(IoOptions::default());
    let mut good = listener.connect();
    let good_id = io.accepted();
    for (garbage, reason) in [
        (vec![6, 255, 0, 0, 1, 0, 0, 0, 0, 0], DecodeError::LengthTooLarge),
        (vec![6, 253, 36, 93], DecodeError::LengthTooLarge),
        (vec![0, 0], DecodeError::BadType),
        (vec![6, 253, 0, 7], DecodeError::NonMinimalNumber),
        (vec![0xff; 64], DecodeError::BadType),
    ] {
        let mut bad = listener.connect();
        let bad_id = io.accepted();
        bad.write_all(&packet(10, 1)).unwrap();
        assert_eq!(io.next_frame(), (bad_id, packet(10, 1)), "what came before counts");
        bad.write_all(&garbage).unwrap();
        let (closed_for, status) = io.closed(bad_id);
        assert_eq!(closed_for, CloseReason::BadStream(reason));
        assert_eq!(status.counters.drops.of(reason.label()), 1);
        assert!(
            matches!(namely_testkit::uninterrupted(|| bad.read(&mut [0; 1])), Ok(0) | Err(_)),
            "the connection is closed"
        );
    }
    good.write_all(&packet(10, 2)).unwrap();
    assert_eq!(io.next_frame(), (good_id, packet(10, 2)));
}

#[test]
fn a_close_from_either_side_ends_transports() {
    let (listener, io) = listening(IoOptions::default());
    let half = listener.connect();
    let id = io.accepted();
    half.shutdown(Shutdown::Write).unwrap();
    assert_eq!(io.closed(id).0, CloseReason::Peer);
    let gone = listener.connect();
    let id = io.accepted();
    drop(gone);
    assert_eq!(io.closed(id).0, CloseReason::Peer);
    let unread = listener.connect();
    let id = io.accepted();
    unread.shutdown(Shutdown::Read).unwrap();
    io.send(id, &packet(100, 1));
    assert!(matches!(io.closed(id).0, CloseReason::System(_) | CloseReason::Peer));
    assert!(io.is_quiet_for(Duration::from_millis(20)));
}

#[test]
fn a_stalled_unix_consumer_is_bounded() {
    let options = IoOptions {
        queue_octets_max: 1 << 20,
        send_buffer_octets: 64 << 10,
        stream_receive_buffer_octets: 64 << 10,
        ..IoOptions::default()
    };
    let (listener, io) = listening(options);
    let _lazy = listener.connect();
    let lazy = io.accepted();
    let mut diligent = listener.connect();
    let diligent_id = io.accepted();
    let (admitted, queued) = io.with(move |io| {
        let mut admitted = 0;
        for _ in 0..1000 {
            admitted += u64::from(push(io, lazy, support::frame(&packet(8000, 1))).is_ok());
        }
        (admitted, support::port(lazy).unwrap().status().queue_octets)
    });
    assert!((120..=131).contains(&admitted), "{admitted} packets of 8004 octets fill 1 MiB");
    assert!(queued <= (1 << 20) + 8004);
    assert_eq!(io.drops(lazy, "queue_full"), 1000 - admitted);
    io.send(diligent_id, &packet(50, 2));
    let mut octets = vec![0; 52];
    diligent.read_exact(&mut octets).unwrap();
    assert_eq!(octets, packet(50, 2));
}

#[test]
fn the_limit_over_all_queues_holds() {
    const MAX: usize = 1 << 20;
    let options = IoOptions {
        queue_octets_total_max: MAX,
        send_buffer_octets: 4096,
        stream_receive_buffer_octets: 4096,
        ..IoOptions::default()
    };
    let (listener, io) = listening(options);
    for _ in 0..2 {
        let streams: Vec<UnixStream> = (0..4).map(|_| listener.connect()).collect();
        let ids: Vec<_> = (0..4).map(|_| io.accepted()).collect();
        let queued = io.with({
            let ids = ids.clone();
            move |io| {
                // Each packet is accepted, because the oldest waiting packet is dropped for it.
                (0..1000).for_each(|n| push(io, ids[n % 4], support::frame(&packet(9000, 1))).unwrap());
                let octets = |id: &FaceTag| support::port(*id).unwrap().status().queue_octets;
                ids.iter().map(octets).sum::<usize>()
            }
        });
        assert!((MAX / 4 * 3..=MAX).contains(&queued), "{queued} octets wait");
        assert!(ids.iter().all(|id| io.drops(*id, "queues_full") > 100));
        drop(streams);
        (0..4).for_each(|_| drop(io.next_event()));
    }
}

#[test]
fn only_a_stale_socket_is_replaced() {
    let (listener, first) = listening(IoOptions::default());
    let second = Loop::start(IoOptions::default());
    let error = listener.listen(&second).unwrap_err();
    assert_eq!(error, OpenError::InUse(format!("unix://{}", listener.path.display())));
    assert!(error.to_string().contains("another router is running there"));
    let _stream = listener.connect();
    first.accepted();
    drop(first);
    drop(UnixListener::bind(&listener.path).unwrap());
    assert!(listener.path.exists(), "a listener that died leaves its file");
    // A process that another test forks holds copies of both sockets until it executes its program.
    namely_testkit::until("the file is replaced", || listener.listen(&second).ok());
    let _stream = listener.connect();
    second.accepted();
}

#[test]
fn a_plain_file_is_not_replaced() {
    let listener = SocketPath::new();
    std::fs::write(&listener.path, "precious").unwrap();
    let error = listener.listen(&Loop::start(IoOptions::default())).unwrap_err();
    assert!(matches!(error, OpenError::NotASocket(_)), "{error}");
    assert_eq!(std::fs::read_to_string(&listener.path).unwrap(), "precious");
}

#[test]
fn another_listeners_file_is_not_removed() {
    let (listener, io) = listening(IoOptions::default());
    std::fs::remove_file(&listener.path).unwrap();
    let _other = UnixListener::bind(&listener.path).unwrap();
    drop(io);
    assert!(listener.path.exists());
}

#[test]
fn an_extra_connection_is_closed_and_counted() {
    let face_shares = FaceShares { per_uid_max: 3, ..FaceShares::default() };
    let (listener, io) = listening(IoOptions { faces_max: 2, face_shares, ..IoOptions::default() });
    // Root would have faces beyond the limit.
    let connect = || as_user(4711, || listener.connect());
    let first = connect();
    let first_id = io.accepted();
    let _second = as_user(4712, || listener.connect());
    io.accepted();
    let mut third = as_user(4713, || listener.connect());
    assert_eq!(namely_testkit::uninterrupted(|| third.read(&mut [0; 1])).unwrap_or(0), 0);
    eventually("it is refused", || io.listener_drops("too_many_transports") == 1);
    drop(first);
    io.closed(first_id);
    let _fourth = connect();
    io.accepted();
}

#[test]
fn sends_to_a_closed_face_fail() {
    let (listener, io) = listening(IoOptions::default());
    let first = listener.connect();
    let old = support::port(io.accepted()).unwrap();
    drop(first);
    io.closed(old.tag().unwrap());
    let mut second = listener.connect();
    io.accepted();
    let packet = support::outbound(support::frame(&packet(10, 1)));
    assert_eq!(io.with(move |io| io.send(&old, packet)), Err(SendError::Gone));
    second.set_nonblocking(true).unwrap();
    assert!(second.read(&mut [0; 1]).is_err(), "whoever has its slot now gets nothing");
}

#[test]
fn new_transports_go_to_the_emptiest_worker() {
    let (listener, workers) = (SocketPath::new(), Loop::workers(IoOptions::default(), 3));
    listener.listen(&workers[0]).unwrap();
    let mut streams: Vec<UnixStream> = (0..9).map(|_| listener.connect()).collect();
    for worker in &workers {
        (0..3).for_each(|_| _ = worker.accepted());
        assert!(worker.is_quiet_for(Duration::from_millis(20)));
    }
    // The next face is assigned to the worker of a closed face.
    for (n, stream) in streams.iter_mut().enumerate() {
        stream.write_all(&packet(10, n as u8)).unwrap();
    }
    let (second, _) = workers[1].next_frame();
    workers[1].close(second);
    let _stream = listener.connect();
    loop {
        match workers[1].next() {
            support::Seen::Event(support::Event::Accepted(_)) => break,
            support::Seen::Frame(..) => (),
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn any_worker_sends_on_a_port() {
    let options = IoOptions {
        send_buffer_octets: 64 << 10,
        stream_receive_buffer_octets: 64 << 10,
        ..IoOptions::default()
    };
    let (listener, workers) = (SocketPath::new(), Loop::workers(options, 2));
    listener.listen(&workers[0]).unwrap();
    let mut stream = listener.connect();
    let id = workers[0].accepted();
    let port = support::port(id).unwrap();
    let sent: Vec<Vec<u8>> = (0..200).map(|n| packet(8000, n as u8)).collect();
    for frames in sent.chunks(20) {
        let frames: Vec<_> = frames.iter().map(|packet| support::frame(packet)).collect();
        let port = port.clone();
        // The other worker sends; it need not read the port, nor wait for it.
        workers[1].with(move |io| {
            frames.into_iter().for_each(|frame| io.send(&port, support::outbound(frame)).unwrap())
        });
    }
    let mut octets = vec![0; sent.iter().map(Vec::len).sum()];
    stream.read_exact(&mut octets).unwrap();
    assert_eq!(octets, sent.concat());
    port.close();
    assert_eq!(
        namely_testkit::uninterrupted(|| stream.read(&mut [0; 1])).unwrap(),
        0,
        "closed without any worker's help"
    );
}

#[test]
fn an_idle_loop_sleeps() {
    let (listener, io) = listening(IoOptions::default());
    let _streams: Vec<UnixStream> = (0..50).map(|_| listener.connect()).collect();
    for _ in 0..50 {
        io.accepted();
    }
    let switches = io.with(|_| {
        let thread = rustix::thread::gettid().as_raw_nonzero();
        move || {
            let status = std::fs::read_to_string(format!("/proc/self/task/{thread}/status")).unwrap();
            let line = status.lines().find(|line| line.starts_with("voluntary")).unwrap();
            line.split_whitespace().last().unwrap().parse::<u64>().unwrap()
        }
    });
    // The loop may not have ended its last turn, so it may be measured again.
    eventually("the loop sleeps", || {
        let before = switches();
        std::thread::sleep(Duration::from_millis(500));
        switches() == before
    });
}

#[test]
fn a_busy_stream_starves_no_other() {
    let (listener, io) = (SocketPath::new(), Loop::echo(IoOptions::default()));
    listener.listen(&io).unwrap();
    let (flooding, mut quiet) = (listener.connect(), listener.connect());
    let stop = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
    let mut flooder = flooding.try_clone().unwrap();
    let stopped = stop.clone();
    let writer = std::thread::spawn(move || {
        let burst: Vec<u8> = (0..50).flat_map(|_| packet(1200, 1)).collect();
        while !stopped.load(std::sync::atomic::Ordering::Relaxed) && flooder.write_all(&burst).is_ok() {}
    });
    let mut reader = flooding.try_clone().unwrap();
    let drain = std::thread::spawn(move || while matches!(reader.read(&mut [0; 65536]), Ok(n) if n > 0) {});
    for n in 0..50 {
        quiet.write_all(&packet(20, n)).unwrap();
        let mut octets = vec![0; 22];
        quiet.read_exact(&mut octets).unwrap();
        assert_eq!(octets, packet(20, n));
    }
    stop.store(true, std::sync::atomic::Ordering::Relaxed);
    flooding.shutdown(Shutdown::Both).unwrap();
    writer.join().unwrap();
    drain.join().unwrap();
}

#[test]
fn tiny_packets_get_no_longer_turns() {
    let (listener, io) = listening(IoOptions::default());
    let (mut flooding, mut quiet) = (listener.connect(), listener.connect());
    let (_, quiet_id) = (io.accepted(), io.accepted());
    let tiny: Vec<u8> = (0..4000).flat_map(|_| packet(20, 1)).collect();
    // Both streams wait while the loop runs this command, the flood before the other.
    let _open = io.with(move |_| {
        flooding.write_all(&tiny).unwrap();
        quiet.write_all(&packet(20, 2)).unwrap();
        (flooding, quiet)
    });
    let before = (0..).take_while(|_| io.next_frame().0 != quiet_id).count();
    assert!(before < 1000, "{before} packets of one stream before any of the other");
}

#[test]
fn a_dedicated_worker_reads_dispatched_links() {
    let (own, other) = (SocketPath::new(), SocketPath::new());
    let links = vec![FaceUri::Unix(own.path.display().to_string())];
    let dispatched = DispatchedLinks { links, own_worker: true };
    let workers = Loop::workers_with(IoOptions::default(), dispatched, 3);
    own.listen(&workers[0]).unwrap();
    other.listen(&workers[0]).unwrap();
    let _streams: Vec<UnixStream> =
        (0..2).map(|_| own.connect()).chain((0..4).map(|_| other.connect())).collect();
    for (index, worker) in workers.iter().enumerate() {
        let ids = [worker.accepted(), worker.accepted()];
        let of_own = ids.iter().filter(|id| {
            let local = worker.status(**id).unwrap().local;
            local == FaceUri::Unix(own.path.display().to_string())
        });
        assert_eq!(of_own.count(), if index == 0 { 2 } else { 0 });
    }
}
