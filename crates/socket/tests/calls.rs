//! Calls that a signal interrupts, and sockets after a fork.

mod common;

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use common::{World, name};
use namely_socket::{CallError, FetchError, PublishOptions, RecvError, errno_name};
use namely_testkit::{asleep, eventually};
use signal_hook::consts::SIGUSR1;

/// Runs `wait` on a thread that receives signals until `wait` has returned.
fn interrupted<T: Send>(wait: impl FnOnce() -> T + Send) -> T {
    signal_hook::flag::register(SIGUSR1, Arc::new(AtomicBool::new(false))).unwrap();
    let (sender, waiting) = std::sync::mpsc::channel();
    std::thread::scope(|scope| {
        let thread = asleep(scope, move || {
            sender.send(this_thread()).unwrap();
            wait()
        });
        let id = waiting.recv().unwrap();
        // A signal that comes before the wait has begun is lost.
        eventually("the wait ends", || {
            signal(id);
            thread.is_finished()
        });
        thread.join().unwrap()
    })
}

#[test]
fn a_signal_interrupts_a_wait_with_eintr() {
    let world = World::new();
    let _producer = world.serve("/p", |_| None);
    let consumer = world.consumer("/p");
    let received = interrupted(|| consumer.recv());
    assert!(matches!(received, Err(RecvError::Call(CallError::Interrupted))), "{received:?}");
    let mut fetch = consumer.fetch_async(&name("/p/nothing")).unwrap();
    for _ in 0..2 {
        let fetched = interrupted(|| fetch.wait(None));
        assert!(matches!(fetched, Err(FetchError::Call(CallError::Interrupted))), "{fetched:?}");
    }
    assert!(matches!(fetch.try_take(), Err(FetchError::Call(CallError::WouldBlock))), "it goes on");
}

#[test]
fn only_the_parent_uses_a_forked_socket() {
    let world = World::new();
    let _producer = world.serve("/p", |_| None);
    let consumer = world.consumer("/p");
    let status = forked(|| {
        let error = consumer.recv_timeout(Duration::from_millis(1)).unwrap_err();
        i32::from(errno_name(error.errno()) != Some("EBADFD"))
    });
    assert_eq!(status, 0, "the child was told EBADFD");
    let started = Instant::now();
    let error = consumer.recv_timeout(Duration::from_millis(1)).unwrap_err();
    assert!(errno_name(error.errno()) == Some("ETIMEDOUT") && started.elapsed() < Duration::from_secs(20));
}

#[test]
fn only_the_parent_publishes_after_a_fork() {
    let world = World::new();
    let producer = world.producer("/p");
    let (object, options) = (name("/p/o"), PublishOptions::default());
    let is_forked = |errno: i32| errno_name(errno) == Some("EBADFD");
    let status = forked(|| {
        let publish = producer.publish(&object, b"child", &options).map(drop).unwrap_err();
        let receive = producer.try_recv().map(drop).unwrap_err();
        let wait = producer.recv_timeout(Duration::from_millis(1)).map(drop).unwrap_err();
        // A close in the child does not close the parent's socket.
        producer.close();
        i32::from(![publish.errno(), receive.errno(), wait.errno()].into_iter().all(is_forked))
    });
    assert_eq!(status, 0, "the child was told EBADFD");
    producer.publish(&object, b"parent", &options).unwrap();
    assert_eq!(world.consumer("/p").fetch(&object).unwrap(), b"parent");
}

/// Runs `child` in a child process and returns its exit status.
#[allow(unsafe_code, reason = "there is no safe fork")]
fn forked(child: impl FnOnce() -> i32) -> i32 {
    // SAFETY: the child process has this thread only. It runs only `child`, which waits for no
    // other thread and takes no lock that another thread may hold. It ends by `_exit`, without the
    // destructors and exit handlers of its parent.
    unsafe {
        match libc::fork() {
            0 => libc::_exit(child()),
            pid => {
                let mut status = 0;
                assert_eq!(libc::waitpid(pid, &raw mut status, 0), pid);
                assert!(libc::WIFEXITED(status), "the child ended by itself");
                libc::WEXITSTATUS(status)
            }
        }
    }
}

#[allow(unsafe_code, reason = "there is no safe name of a thread")]
fn this_thread() -> libc::pthread_t {
    // SAFETY: it has no preconditions.
    unsafe { libc::pthread_self() }
}

/// Sends SIGUSR1 to a thread.
#[allow(unsafe_code, reason = "there is no safe signal to a thread")]
fn signal(thread: libc::pthread_t) {
    // SAFETY: the thread has not been joined yet, so its id is valid. The signal has a handler.
    unsafe { libc::pthread_kill(thread, SIGUSR1) };
}
