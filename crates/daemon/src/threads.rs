//! Threads beside those that forward: what they do (signatures, tables for management, what is to
//! be kept) takes longer than a packet, and no packet waits for it.

use std::io;
use std::thread::JoinHandle;

use parking_lot::Mutex;

/// A thread of a service, which ends when it is told to.
pub(crate) struct Thread {
    name: &'static str,
    handle: Mutex<Option<JoinHandle<()>>>,
}

impl Thread {
    /// Starts it as [`start_beside`] does.
    ///
    /// # Errors
    /// The environment's: no thread.
    pub(crate) fn start(name: &'static str, work: impl FnOnce() + Send + 'static) -> io::Result<Self> {
        Ok(Thread { name, handle: Mutex::new(Some(start_beside(name, work)?)) })
    }

    /// Waits for its end, which the caller has asked for. Once it has ended, this does nothing.
    pub(crate) fn join(&self) {
        let handle = self.handle.lock().take();
        if handle.is_some_and(|handle| handle.join().is_err()) {
            tracing::error!("{} ended by a panic", self.name);
        }
    }
}

/// Starts a thread that gives its processor to whoever wakes up there, as a worker does for a
/// packet. It has as large a share of the processors as any other thread.
///
/// # Errors
/// The environment's: no thread.
pub(crate) fn start_beside<T: Send + 'static>(
    name: &str,
    work: impl FnOnce() -> T + Send + 'static,
) -> io::Result<JoinHandle<T>> {
    std::thread::Builder::new().name(name.to_owned()).spawn(|| {
        give_way();
        work()
    })
}

/// Where the kernel has no such thing, the thread is one as all others.
fn give_way() {
    if let Err(error) = namely_host::give_way() {
        let thread = std::thread::current();
        tracing::debug!("{} does not give way to workers: {error}", thread.name().unwrap_or_default());
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::sync::{Arc, Mutex};

    use seccompiler::{BpfProgram, SeccompAction, SeccompFilter, TargetArch};
    use tracing_subscriber::fmt::MakeWriter;

    use super::*;

    /// What is logged.
    #[derive(Clone, Default)]
    struct Lines(Arc<Mutex<Vec<u8>>>);

    impl io::Write for Lines {
        fn write(&mut self, octets: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().write(octets)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    impl MakeWriter<'_> for Lines {
        type Writer = Self;

        fn make_writer(&self) -> Self {
            self.clone()
        }
    }

    /// From now on the calling thread, and those that it starts, are refused the call as by a
    /// kernel that has it not.
    fn refuse_slices() {
        let arch = TargetArch::try_from(std::env::consts::ARCH).unwrap();
        let rules = BTreeMap::from([(libc::SYS_sched_setattr, Vec::new())]);
        let refused = SeccompAction::Errno(libc::ENOSYS.cast_unsigned());
        let filter = SeccompFilter::new(rules, SeccompAction::Allow, refused, arch).unwrap();
        let program: BpfProgram = filter.try_into().unwrap();
        seccompiler::apply_filter(&program).unwrap();
    }

    #[test]
    fn where_the_kernel_has_no_slices_a_thread_says_so_once_and_works_as_all_others() {
        // Linux tells a thread's slice since 6.12, and before that nothing is asked of it.
        let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
        let version: Vec<u32> = release.split('.').take(2).filter_map(|part| part.parse().ok()).collect();
        if version < vec![6, 12] {
            return namely_skip::skip(namely_skip::Need::Kernel, "slices of threads (Linux 6.12)");
        }
        let lines = Lines::default();
        let all = tracing_subscriber::fmt().with_max_level(tracing::Level::DEBUG);
        let subscriber = all.with_writer(lines.clone()).with_ansi(false).finish();
        let of_test = std::thread::Builder::new().name("of-the-test".into()).spawn(|| {
            refuse_slices();
            tracing::subscriber::with_default(subscriber, give_way);
            start_beside("beside", || 5).expect("a thread").join().expect("it ends")
        });
        assert_eq!(of_test.expect("a thread").join().expect("it ends"), 5);
        let lines = String::from_utf8(lines.0.lock().unwrap().clone()).unwrap();
        assert_eq!(lines.lines().count(), 1, "{lines}");
        assert!(lines.contains("DEBUG") && lines.contains("of-the-test does not give way"), "{lines}");
    }
}
