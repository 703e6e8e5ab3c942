//! Datagrams: one Interest, one Data, with names, parameters and signers.

use crate::common;

use std::future::Future;
use std::pin::pin;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use common::{World, name};
use namely_security::sign_data;
use namely_socket::{CallError, DATAGRAMS_MAX, Datagram, RecvError, errno_name};
use namely_testkit::PATIENCE;
use namely_wire::DataBuilder;
use rustix::event::{PollFd, PollFlags, Timespec};

/// A producer that answers an Interest with its parameters or, without parameters, with the second
/// component of its name. It does not answer `/p/silent`.
fn echo(world: &World) -> common::Scripted {
    let signer = world.signer("/p");
    world.serve("/p", move |interest| {
        let what = interest.name.component(1)?.value;
        let content = interest.application_parameters.unwrap_or(what);
        let builder = DataBuilder::new(interest.name);
        (what != b"silent").then(|| sign_data(&builder, content, &signer).unwrap())
    })
}

fn is_readable(fd: impl std::os::fd::AsFd, within: Duration) -> bool {
    let timeout = Timespec::try_from(within).unwrap();
    rustix::event::poll(&mut [PollFd::new(&fd, PollFlags::IN)], Some(&timeout)).unwrap() == 1
}

#[test]
fn an_echo_is_verified_and_timed() {
    let world = World::new();
    let _producer = echo(&world);
    let consumer = world.consumer("/p");
    let echoed =
        consumer.request(&Datagram::new(name("/p/echo")).with_parameters(b"hello".to_vec())).unwrap();
    assert_eq!(echoed.content, b"hello");
    assert!(name("/p/echo").is_prefix_of(echoed.name.as_name()) && echoed.name.len() == 3);
    assert!(name("/p/KEY").is_prefix_of(echoed.signer.unwrap().as_name()));
    for i in 0..5 {
        let begun = Instant::now();
        let ping = consumer.request(&Datagram::new(name(&format!("/p/ping/{i}")))).unwrap();
        assert!(ping.rtt > Duration::ZERO && ping.rtt <= begun.elapsed());
    }
    let stats = consumer.stats();
    assert_eq!((stats.datagrams_sent, stats.datagrams_received), (6, 6));
}

#[test]
fn a_received_answer_makes_the_descriptor_readable() {
    let world = World::new();
    let _producer = echo(&world);
    let consumer = world.consumer("/p");
    assert!(matches!(consumer.try_recv(), Err(RecvError::Call(CallError::WouldBlock))));
    assert!(!is_readable(&consumer, Duration::ZERO));
    for i in 0..20 {
        consumer.send(&Datagram::new(name(&format!("/p/{i}")))).unwrap();
    }
    assert!(is_readable(&consumer, PATIENCE));
    let mut names: Vec<String> = (0..20).map(|_| consumer.recv().unwrap().name.to_string()).collect();
    names.sort_by_key(|name| name[3..].parse::<u32>().unwrap());
    assert_eq!(names, (0..20).map(|i| format!("/p/{i}")).collect::<Vec<_>>());
    assert!(!is_readable(&consumer, Duration::ZERO), "nothing is left");
    // As a future.
    let mut received = pin!(consumer.recv_async());
    let mut context = Context::from_waker(Waker::noop());
    assert!(received.as_mut().poll(&mut context).is_pending());
    consumer.send(&Datagram::new(name("/p/later"))).unwrap();
    assert!(is_readable(&consumer, PATIENCE));
    assert!(matches!(received.as_mut().poll(&mut context), Poll::Ready(Ok(_))));
}

#[test]
fn timeouts_and_nacks_are_reported_by_name() {
    let world = World::new();
    let _producer = echo(&world);
    let consumer = world.consumer("/");
    let brief =
        |uri: &str| Datagram { lifetime: Some(Duration::from_millis(50)), ..Datagram::new(name(uri)) };
    consumer.send(&brief("/p/silent")).unwrap();
    let error = consumer.recv().unwrap_err();
    assert!(
        errno_name(error.errno()) == Some("ETIMEDOUT") && error.to_string().contains("/p/silent"),
        "{error}"
    );
    let error = consumer.request(&Datagram::new(name("/unrouted"))).unwrap_err();
    assert!(errno_name(error.errno()) == Some("ENETUNREACH"), "{error}");
    let error = consumer.request(&brief("/p/x").with_parameters(vec![0; 9000])).unwrap_err();
    assert_eq!(errno_name(error.errno()), Some("EMSGSIZE"), "{error}");
    let fenced = world.consumer("/p/a");
    let error = fenced.send(&brief("/p/b")).unwrap_err();
    assert_eq!(errno_name(error.errno()), Some("EADDRNOTAVAIL"), "{error}");
}

#[test]
fn open_datagrams_are_limited() {
    let world = World::new();
    let _producer = echo(&world);
    let consumer = world.consumer("/p");
    for i in 0..DATAGRAMS_MAX {
        consumer.send(&Datagram::new(name(&format!("/p/{i}")))).unwrap();
    }
    let refused = consumer.send(&Datagram::new(name("/p/more"))).unwrap_err();
    assert_eq!(errno_name(refused.errno()), Some("ENOBUFS"), "{refused}");
    consumer.recv().unwrap();
    consumer.send(&Datagram::new(name("/p/more"))).unwrap();
}
