//! How soon a thread gives its processor to another one that wakes up (sched_setattr(2)).
//!
//! Linux lets a thread run on for as long as its slice, 1 to 3 ms by default, although somebody
//! wakes up who is owed the processor, unless that one's slice is the shorter (since 6.12, where
//! threads may ask for one). A share of the processor is another matter, and no slice changes it.
//!
//! The one invariant: the two calls read and write no more than the size that they are given, and
//! keep no pointer.

use std::io;

/// How many times as long a slice is asked for as the thread has. Who wakes up runs at once while
/// more is left of this slice than he has of his own. With the longest that there is (100 ms) the
/// whole program would come after others on a busy machine: its slice is that of its threads.
const TIMES: u64 = 4;

/// Octets of [`libc::sched_attr`], its first version, which every kernel knows.
const OCTETS: u32 = size_of::<libc::sched_attr>() as u32;

/// Has the calling thread, which is to do so once, give way to whoever wakes up on its processor:
/// for what takes longer than a packet and for which nobody waits. It keeps its share of the
/// processor. A thread that is not scheduled as most are (SCHED_FIFO, SCHED_IDLE …) stays as
/// whoever runs it has chosen, and before Linux 6.12, which tells no slice, nothing changes.
///
/// # Errors
/// The environment's: the kernel has not the call, or a filter of system calls refuses it.
pub fn give_way() -> io::Result<()> {
    let own = attributes()?;
    let usual = [libc::SCHED_OTHER, libc::SCHED_BATCH];
    let is_usual = usual.iter().any(|policy| own.sched_policy == policy.cast_unsigned());
    if !is_usual || own.sched_runtime == 0 {
        return Ok(());
    }
    let asked = libc::sched_attr { size: OCTETS, sched_runtime: own.sched_runtime * TIMES, ..own };
    // SAFETY: the kernel reads a live value of the size that it says; 0 is the calling thread.
    let done = unsafe { libc::syscall(libc::SYS_sched_setattr, 0, &raw const asked, 0) };
    if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// How the calling thread is scheduled.
fn attributes() -> io::Result<libc::sched_attr> {
    let mut own = libc::sched_attr {
        size: OCTETS,
        sched_policy: 0,
        sched_flags: 0,
        sched_nice: 0,
        sched_priority: 0,
        sched_runtime: 0,
        sched_deadline: 0,
        sched_period: 0,
    };
    // SAFETY: the kernel writes at most the size that it is given, integers all, into a live value
    // that is nobody else's.
    let done = unsafe { libc::syscall(libc::SYS_sched_getattr, 0, &raw mut own, OCTETS, 0) };
    if done == 0 { Ok(own) } else { Err(io::Error::last_os_error()) }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use namely_skip::{Need, skip};

    use super::*;

    /// Of a thread of its own, as this changes how it is scheduled.
    fn in_thread<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
        thread::spawn(work).join().expect("the thread ends")
    }

    #[test]
    fn a_thread_that_gives_way_has_a_longer_slice_and_the_share_that_it_had() {
        let (before, after) = in_thread(|| {
            rustix::process::nice(3).expect("less is allowed to anybody");
            let before = attributes().expect("the kernel tells");
            give_way().expect("the kernel takes it");
            (before, attributes().expect("the kernel tells"))
        });
        if before.sched_runtime == 0 {
            return skip(Need::Kernel, "slices of threads (Linux 6.12)");
        }
        assert!(before.sched_nice >= 3 && after.sched_nice == before.sched_nice, "{}", after.sched_nice);
        assert_eq!(before.sched_policy, after.sched_policy);
        // The kernel gives 100 ms at most.
        assert_eq!(after.sched_runtime, (before.sched_runtime * TIMES).min(100_000_000));
        let own = attributes().expect("the kernel tells");
        assert_eq!(own.sched_runtime, before.sched_runtime, "that thread's alone");
    }

    #[test]
    fn a_thread_that_was_put_behind_all_others_stays_there() {
        let (set, policy) = in_thread(|| {
            let idle = libc::sched_attr {
                size: OCTETS,
                sched_policy: libc::SCHED_IDLE.cast_unsigned(),
                sched_nice: 0,
                sched_runtime: 0,
                ..attributes().expect("the kernel tells")
            };
            // SAFETY: as above.
            let set = unsafe { libc::syscall(libc::SYS_sched_setattr, 0, &raw const idle, 0) };
            give_way().expect("nothing is asked of the kernel");
            (set, attributes().expect("the kernel tells").sched_policy)
        });
        assert_eq!((set, policy), (0, libc::SCHED_IDLE.cast_unsigned()));
    }
}
