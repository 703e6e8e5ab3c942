//! Threads beside the workers. Their work (signatures, tables for management, storage) takes longer
//! than the forwarding of a packet. No packet waits for it.

use std::io;
use std::thread::JoinHandle;

use parking_lot::Mutex;

/// A thread of a service, which stops on request.
pub(crate) struct Thread {
    name: &'static str,
    handle: Mutex<Option<JoinHandle<()>>>,
}

impl Thread {
    /// Starts the thread as [`start_beside`] does.
    ///
    /// # Errors
    /// An error of the environment: the system starts no thread.
    pub(crate) fn start(name: &'static str, work: impl FnOnce() + Send + 'static) -> io::Result<Self> {
        Ok(Thread { name, handle: Mutex::new(Some(start_beside(name, work)?)) })
    }

    /// Waits until the thread has ended. The caller has requested the stop before. Does nothing if
    /// the thread was joined already.
    pub(crate) fn join(&self) {
        let handle = self.handle.lock().take();
        if handle.is_some_and(|handle| handle.join().is_err()) {
            tracing::error!("{} ended by a panic", self.name);
        }
    }
}

/// Starts a thread that yields its processor to a thread that wakes up there, such as a worker with
/// a packet. Its share of the processors is that of any other thread.
///
/// # Errors
/// An error of the environment: the system starts no thread.
pub(crate) fn start_beside<T: Send + 'static>(
    name: &str,
    work: impl FnOnce() -> T + Send + 'static,
) -> io::Result<JoinHandle<T>> {
    std::thread::Builder::new().name(name.to_owned()).spawn(|| {
        yield_on_wakeup();
        work()
    })
}

/// Makes the current thread yield to threads that wake up. If the kernel does not support it, the
/// thread is scheduled like all others.
fn yield_on_wakeup() {
    if let Err(error) = namely_host::yield_on_wakeup() {
        let thread = std::thread::current();
        tracing::debug!("{} keeps the priority of workers: {error}", thread.name().unwrap_or_default());
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::sync::{Arc, Mutex};

    use seccompiler::{BpfProgram, SeccompAction, SeccompFilter, TargetArch};
    use tracing_subscriber::fmt::MakeWriter;

    use super::*;

    /// A writer that keeps the logged text.
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

    /// Makes sched_setattr(2) fail for this thread and its children, as in a kernel that lacks it.
    fn refuse_slices() {
        let arch = TargetArch::try_from(std::env::consts::ARCH).unwrap();
        let rules = BTreeMap::from([(libc::SYS_sched_setattr, Vec::new())]);
        let refused = SeccompAction::Errno(libc::ENOSYS.cast_unsigned());
        let filter = SeccompFilter::new(rules, SeccompAction::Allow, refused, arch).unwrap();
        let program: BpfProgram = filter.try_into().unwrap();
        seccompiler::apply_filter(&program).unwrap();
    }

    #[test]
    fn missing_kernel_slices_are_logged_once() {
        // Linux reports a thread's slice since version 6.12. On an older kernel the call is not
        // made.
        let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
        let version: Vec<u32> = release.split('.').take(2).filter_map(|part| part.parse().ok()).collect();
        if version < vec![6, 12] {
            return namely_testkit::skip(namely_testkit::Need::Kernel, "slices of threads (Linux 6.12)");
        }
        let lines = Lines::default();
        let all = tracing_subscriber::fmt().with_max_level(tracing::Level::DEBUG);
        let subscriber = all.with_writer(lines.clone()).with_ansi(false).finish();
        let of_test = std::thread::Builder::new().name("of-the-test".into()).spawn(|| {
            refuse_slices();
            tracing::subscriber::with_default(subscriber, yield_on_wakeup);
            start_beside("beside", || 5).expect("a thread").join().expect("it ends")
        });
        assert_eq!(of_test.expect("a thread").join().expect("it ends"), 5);
        let lines = String::from_utf8(lines.0.lock().unwrap().clone()).unwrap();
        assert_eq!(lines.lines().count(), 1, "{lines}");
        assert!(lines.contains("DEBUG") && lines.contains("of-the-test keeps the priority"), "{lines}");
    }
}
