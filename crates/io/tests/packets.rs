//! Sockets on which each message is one packet, like those of the kernel's forwarder. Pairs of
//! SOCK_SEQPACKET sockets stand for them here.

use crate::support;

use std::os::fd::OwnedFd;
use std::sync::Arc;

use namely_io::{FaceShares, IoOptions, OpenError, Owner};
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType};
use support::{Event, Loop, PATIENCE, packet};

/// Both ends, non-blocking.
fn pair() -> (OwnedFd, OwnedFd) {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    rustix::net::socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None).unwrap()
}

fn send(socket: &OwnedFd, octets: &[u8]) {
    rustix::net::send(socket, octets, SendFlags::empty()).unwrap();
}

fn receive(socket: &OwnedFd) -> Vec<u8> {
    let wait = Timespec { tv_sec: PATIENCE.as_secs() as i64, tv_nsec: 0 };
    rustix::event::poll(&mut [PollFd::new(socket, PollFlags::IN)], Some(&wait)).unwrap();
    let mut octets = vec![0; 16 << 10];
    let (length, _) = rustix::net::recv(socket, &mut octets[..], RecvFlags::empty()).unwrap();
    octets.truncate(length);
    octets
}

#[test]
fn each_message_is_one_packet() {
    let io = Loop::start(IoOptions::default());
    let (near, far) = pair();
    let face = io.open(|io| io.open_packets(Arc::new(near), Owner::Root)).unwrap();
    // More packets than one call reads or writes. Each arrives unchanged.
    let packets: Vec<Vec<u8>> = (0..100).map(|n| packet(1 + n * 80, n as u8)).collect();
    for octets in &packets {
        send(&far, octets);
        assert_eq!(io.next_frame(), (face, octets.clone()));
    }
    let hold = io.hold();
    packets[..20].iter().for_each(|octets| send(&far, octets));
    drop(hold);
    packets[..20].iter().for_each(|octets| assert_eq!(io.next_frame().1, *octets));
    for octets in &packets {
        io.send(face, octets);
        assert_eq!(receive(&far), *octets);
    }
    drop(far);
    // The peer is gone: the next write finds no reader.
    io.send(face, &packets[0]);
    assert!(matches!(io.next_event(), Event::Closed { face: closed, .. } if closed == face));
}

#[test]
fn a_second_socket_takes_two_places() {
    let shares = FaceShares { per_uid_max: 2, ..FaceShares::default() };
    let options = IoOptions { faces_max: 8, face_shares: shares, ..IoOptions::default() };
    let io = Loop::start(options.for_two_sockets_each());
    let mut far = Vec::new();
    let mut open = |uid: u32| {
        let (near, end) = pair();
        far.push(end);
        io.open(move |io| io.open_packets(Arc::new(near), Owner::uid(uid)))
    };
    for _ in 0..4 {
        open(7).expect("two faces of two sockets each");
    }
    assert_eq!(open(7), Err(OpenError::TooManyFaces));
    open(8).expect("another user's");
}
