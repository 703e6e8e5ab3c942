//! The time slice after which a thread yields its processor to another one that wakes up
//! (sched_setattr(2)).
//!
//! Linux lets a thread run for its slice, 1 to 3 ms by default, even if another thread that is owed
//! the processor wakes up. That thread runs at once if its slice is shorter. Since 6.12 a thread
//! may request its slice. The share of the processor does not depend on the slice.
//!
//! The one invariant: the two calls read and write no more than the given size, and keep no
//! pointer.

use std::io;

/// The factor by which the slice is lengthened. A thread that wakes up runs at once if more is left
/// of the lengthened slice than of its own. With the maximum (100 ms) the whole program would be
/// delayed on a busy machine, because its slice is that of its threads.
const TIMES: u64 = 4;

/// Octets of [`libc::sched_attr`], its first version, which every kernel knows.
const OCTETS: u32 = size_of::<libc::sched_attr>() as u32;

/// Makes the calling thread yield to threads that wake up on its processor. For work that takes
/// longer than a packet and that no thread waits for. The thread should call this once. It keeps
/// its share of the processor. A thread with another policy (SCHED_FIFO, SCHED_IDLE …) is left as
/// the operator has set it. Before Linux 6.12, which reports no slice, nothing changes.
///
/// # Errors
/// The environment's: the kernel lacks the call, or a filter of system calls refuses it.
pub fn yield_on_wakeup() -> io::Result<()> {
    let own = attributes()?;
    let usual = [libc::SCHED_OTHER, libc::SCHED_BATCH];
    let is_usual = usual.iter().any(|policy| own.sched_policy == policy.cast_unsigned());
    if !is_usual || own.sched_runtime == 0 {
        return Ok(());
    }
    let requested = libc::sched_attr { size: OCTETS, sched_runtime: own.sched_runtime * TIMES, ..own };
    // SAFETY: the kernel reads a live value of the size that it states; 0 is the calling thread.
    let done = unsafe { libc::syscall(libc::SYS_sched_setattr, 0, &raw const requested, 0) };
    if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Returns the scheduling attributes of the calling thread.
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
    // SAFETY: the kernel writes at most the given size, only integers, into a live value that is
    // not shared.
    let done = unsafe { libc::syscall(libc::SYS_sched_getattr, 0, &raw mut own, OCTETS, 0) };
    if done == 0 { Ok(own) } else { Err(io::Error::last_os_error()) }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use namely_testkit::{Need, skip};

    use super::*;

    /// Runs in a separate thread, because it changes the thread's scheduling.
    fn in_thread<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
        thread::spawn(work).join().expect("the thread ends")
    }

    #[test]
    fn a_yielding_thread_keeps_its_nice_value() {
        let (before, after) = in_thread(|| {
            rustix::process::nice(3).expect("less is allowed to anybody");
            let before = attributes().expect("the kernel tells");
            yield_on_wakeup().expect("the kernel takes it");
            (before, attributes().expect("the kernel tells"))
        });
        if before.sched_runtime == 0 {
            return skip(Need::Kernel, "slices of threads (Linux 6.12)");
        }
        assert!(before.sched_nice >= 3 && after.sched_nice == before.sched_nice, "{}", after.sched_nice);
        assert_eq!(before.sched_policy, after.sched_policy);
        // The kernel allows 100 ms at most.
        assert_eq!(after.sched_runtime, (before.sched_runtime * TIMES).min(100_000_000));
        let own = attributes().expect("the kernel tells");
        assert_eq!(own.sched_runtime, before.sched_runtime, "that thread's alone");
    }

    #[test]
    fn a_thread_with_idle_policy_stays_idle() {
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
            yield_on_wakeup().expect("nothing is asked of the kernel");
            (set, attributes().expect("the kernel tells").sched_policy)
        });
        assert_eq!((set, policy), (0, libc::SCHED_IDLE.cast_unsigned()));
    }
}
