//! What drives a socket: its connection, its role and a bounded queue of orders. Usually a thread
//! of its own does. A call that waits anyway may drive instead, as long as nobody else has to
//! ([`Engine::drive_here`]): then no packet passes from one thread to another. It never runs an
//! application's code on a thread of its own.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use namely_transport::connection::{Connection, ConnectionError, Incoming, Outbox, Waker};

use crate::error::CallError;

/// Orders that wait for a socket's thread; a further one is refused with `ENOBUFS`.
pub(crate) const ORDERS_MAX: usize = 256;

/// What a socket does.
pub(crate) trait Role: Send + 'static {
    /// What application threads ask of it.
    type Order: Send + 'static;

    /// Takes an order.
    fn order(&mut self, order: Self::Order, connection: &mut Connection);

    /// Sends what may go out now; returns when to poll again at the latest, by the connection's
    /// clock.
    fn poll(&mut self, connection: &mut Connection) -> u64;

    /// Takes a packet in.
    fn take(&mut self, incoming: Incoming<'_>, outbox: &mut Outbox);

    /// All packets of one turn were taken in.
    fn settle(&mut self, _: &mut Connection) {}

    /// Returns true if nobody has to drive it until the next order.
    fn is_idle(&mut self) -> bool {
        false
    }

    /// The socket was closed.
    fn close(self, connection: &mut Connection);

    /// The router is gone for good: ends whatever waits.
    fn lost(self, error: ConnectionError);
}

/// The handle that application threads hold.
pub(crate) struct Engine<R: Role> {
    name: &'static str,
    orders: SyncSender<R::Order>,
    ends: Arc<Ends>,
    waker: Waker,
    /// Orders are sent under this lock: who stops driving looks for orders under it too, so that
    /// none is left over.
    driver: Mutex<DrivenBy<R>>,
    process: rustix::process::Pid,
}

/// How a socket ended.
#[derive(Default)]
struct Ends {
    closed: AtomicBool,
    /// The router is gone.
    lost: AtomicBool,
}

/// Who drives a socket.
enum DrivenBy<R: Role> {
    /// Nobody: nothing is under way.
    Nobody(Box<Driver<R>>),
    /// A thread of its own, until the socket ends.
    Thread(JoinHandle<()>),
    /// A call ([`Here`]).
    Call,
    /// It has ended.
    Ended,
}

struct Driver<R: Role> {
    connection: Connection,
    role: R,
    orders: Receiver<R::Order>,
    ends: Arc<Ends>,
}

impl<R: Role> Driver<R> {
    /// One turn, for `wait` at most.
    fn turn(&mut self, wait: Option<Duration>) -> Result<(), ConnectionError> {
        while let Ok(order) = self.orders.try_recv() {
            self.role.order(order, &mut self.connection);
        }
        let mut due_ns = self.role.poll(&mut self.connection);
        if let Some(wait) = wait {
            due_ns = due_ns.min(self.connection.now_ns() + wait.as_nanos() as u64);
        }
        let role = &mut self.role;
        self.connection.turn(due_ns, &mut |incoming, outbox| role.take(incoming, outbox))?;
        self.role.settle(&mut self.connection);
        Ok(())
    }

    fn close(mut self) {
        self.role.close(&mut self.connection);
    }

    /// Ends it; `lost` is seen before whatever waits ends.
    fn lose(self, error: ConnectionError) {
        self.ends.lost.store(true, Ordering::Release);
        self.role.lost(error);
    }

    fn run(mut self) {
        loop {
            if self.ends.closed.load(Ordering::Relaxed) {
                return self.close();
            }
            if let Err(error) = self.turn(None) {
                return self.lose(error);
            }
        }
    }
}

impl<R: Role> Engine<R> {
    /// Starts a thread that drives `role`.
    pub(crate) fn start(name: &'static str, connection: Connection, role: R) -> std::io::Result<Self> {
        let engine = Self::idle(name, connection, role);
        engine.ensure_driven(&mut engine.lock())?;
        Ok(engine)
    }

    /// Starts the thread with the first order that finds nobody driving.
    pub(crate) fn idle(name: &'static str, connection: Connection, role: R) -> Self {
        let (sender, orders) = sync_channel(ORDERS_MAX);
        let (waker, ends) = (connection.waker(), Arc::new(Ends::default()));
        let driver = Box::new(Driver { connection, role, orders, ends: ends.clone() });
        let process = rustix::process::getpid();
        let driver = Mutex::new(DrivenBy::Nobody(driver));
        Engine { name, orders: sender, ends, waker, driver, process }
    }

    fn lock(&self) -> MutexGuard<'_, DrivenBy<R>> {
        self.driver.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Starts the thread if nobody drives.
    fn ensure_driven(&self, driven: &mut DrivenBy<R>) -> std::io::Result<()> {
        if !matches!(driven, DrivenBy::Nobody(_)) {
            return Ok(());
        }
        // The driver follows once there is a thread, so that it is not lost with one that cannot be
        // had.
        let (hand_over, taken) = sync_channel::<Box<Driver<R>>>(1);
        let run = move || {
            if let Ok(driver) = taken.recv() {
                driver.run();
            }
        };
        let thread = std::thread::Builder::new().name(self.name.into()).spawn(run)?;
        if let DrivenBy::Nobody(driver) = std::mem::replace(driven, DrivenBy::Thread(thread)) {
            let _ = hand_over.send(driver);
        }
        Ok(())
    }

    /// Hands an order to whoever drives.
    pub(crate) fn order(&self, order: R::Order) -> Result<(), CallError> {
        self.check_process()?;
        if self.is_closed() {
            return Err(CallError::Closed);
        }
        let mut driven = self.lock();
        self.ensure_driven(&mut driven).map_err(|error| CallError::from_io(&error))?;
        let sent = self.orders.try_send(order);
        drop(driven);
        match sent {
            Ok(()) => {
                self.waker.wake();
                Ok(())
            }
            Err(TrySendError::Full(_)) => Err(CallError::QueueFull),
            Err(TrySendError::Disconnected(_)) => Err(self.end()),
        }
    }

    /// Why it takes no orders any more.
    fn end(&self) -> CallError {
        if self.ends.lost.load(Ordering::Acquire) { CallError::RouterLost } else { CallError::Closed }
    }

    /// Returns true once the socket was closed.
    pub(crate) fn is_closed(&self) -> bool {
        self.ends.closed.load(Ordering::Relaxed)
    }

    /// Ends a wait of whoever drives, so that it looks at what others left for it.
    pub(crate) fn wake(&self) {
        self.waker.wake();
    }

    /// Hands an order to the thread; returns it when the thread is gone or does not keep up.
    pub(crate) fn try_order(&self, order: R::Order) -> Result<(), R::Order> {
        if self.check_process().is_err() || self.is_closed() {
            return Err(order);
        }
        match self.orders.try_send(order) {
            Ok(()) => {
                self.waker.wake();
                Ok(())
            }
            Err(TrySendError::Full(order) | TrySendError::Disconnected(order)) => Err(order),
        }
    }

    /// Lets the calling thread drive, if nobody else does.
    pub(crate) fn drive_here(&self) -> Option<Here<'_, R>> {
        let mut driven = self.lock();
        match std::mem::replace(&mut *driven, DrivenBy::Call) {
            DrivenBy::Nobody(driver) => Some(Here { engine: self, driver: Some(driver) }),
            other => {
                *driven = other;
                None
            }
        }
    }

    /// Returns an error in a process that forked after the socket was made: it has no such thread.
    pub(crate) fn check_process(&self) -> Result<(), CallError> {
        if rustix::process::getpid() == self.process { Ok(()) } else { Err(CallError::Forked) }
    }

    /// Closes the socket and waits for its thread; what waits on it ends as cancelled. In a process
    /// that forked it does nothing: the socket is the parent's.
    pub(crate) fn close(&self) {
        if self.check_process().is_err() {
            return;
        }
        self.ends.closed.store(true, Ordering::Relaxed);
        self.waker.wake();
        let mut driven = self.lock();
        if matches!(*driven, DrivenBy::Call) {
            // The call sees that it was closed, and ends it.
            return;
        }
        let was = std::mem::replace(&mut *driven, DrivenBy::Ended);
        drop(driven);
        match was {
            DrivenBy::Nobody(driver) => driver.close(),
            DrivenBy::Thread(thread) => {
                if thread.join().is_err() {
                    tracing::error!("a socket's thread ended by a panic");
                }
            }
            DrivenBy::Call | DrivenBy::Ended => {}
        }
    }
}

/// A call that drives its socket.
pub(crate) struct Here<'a, R: Role> {
    engine: &'a Engine<R>,
    /// None once the router is lost.
    driver: Option<Box<Driver<R>>>,
}

impl<R: Role> Here<'_, R> {
    /// One turn, for `wait` at most.
    pub(crate) fn turn(&mut self, wait: Duration) -> Result<(), CallError> {
        if self.engine.is_closed() {
            return Err(CallError::Closed);
        }
        self.with(|driver| driver.turn(Some(wait)))
    }

    /// Runs `work` on the connection.
    pub(crate) fn with_connection(
        &mut self,
        work: impl FnOnce(&mut Connection) -> Result<(), ConnectionError>,
    ) -> Result<(), CallError> {
        self.with(|driver| work(&mut driver.connection))
    }

    fn with(
        &mut self,
        work: impl FnOnce(&mut Driver<R>) -> Result<(), ConnectionError>,
    ) -> Result<(), CallError> {
        let Some(driver) = &mut self.driver else { return Err(self.engine.end()) };
        if let Err(error) = work(driver) {
            if let Some(driver) = self.driver.take() {
                driver.lose(error);
            }
            return Err(self.engine.end());
        }
        Ok(())
    }
}

impl<R: Role> Drop for Here<'_, R> {
    /// Somebody else drives on if something is under way.
    fn drop(&mut self) {
        let mut driven = self.engine.lock();
        let Some(mut driver) = self.driver.take() else {
            *driven = DrivenBy::Ended;
            return;
        };
        if self.engine.is_closed() {
            *driven = DrivenBy::Ended;
            drop(driven);
            return driver.close();
        }
        while let Ok(order) = driver.orders.try_recv() {
            driver.role.order(order, &mut driver.connection);
        }
        let is_idle = driver.role.is_idle();
        *driven = DrivenBy::Nobody(driver);
        if !is_idle && let Err(error) = self.engine.ensure_driven(&mut driven) {
            tracing::warn!(%error, "no thread for a socket: what is under way waits for the next call");
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixStream;
    use std::sync::mpsc;

    use super::*;

    /// Does as it is told, and tells how it ended.
    struct Doing(mpsc::Sender<&'static str>);

    impl Role for Doing {
        type Order = Box<dyn FnOnce() + Send>;

        fn order(&mut self, order: Self::Order, _: &mut Connection) {
            order();
        }

        fn poll(&mut self, _: &mut Connection) -> u64 {
            u64::MAX
        }

        fn take(&mut self, _: Incoming<'_>, _: &mut Outbox) {}

        fn close(self, _: &mut Connection) {
            self.0.send("closed").unwrap();
        }

        fn lost(self, _: ConnectionError) {
            self.0.send("lost").unwrap();
        }
    }

    fn engine() -> (Engine<Doing>, UnixStream, mpsc::Receiver<&'static str>) {
        let (near, far) = UnixStream::pair().unwrap();
        let (sender, ended) = mpsc::channel();
        let connection = Connection::from_stream(near).unwrap();
        (Engine::start("test", connection, Doing(sender)).unwrap(), far, ended)
    }

    #[test]
    fn orders_are_taken_up_to_the_limit_and_refused_while_the_thread_is_busy() {
        let (engine, _router, ended) = engine();
        let (go_on, held) = mpsc::channel::<()>();
        let (busy, is_busy) = mpsc::channel();
        let hold = move || {
            busy.send(()).unwrap();
            let _ = held.recv();
        };
        engine.order(Box::new(hold)).unwrap();
        is_busy.recv().unwrap();
        for _ in 0..ORDERS_MAX {
            engine.order(Box::new(|| {})).unwrap();
        }
        assert_eq!(engine.order(Box::new(|| {})), Err(CallError::QueueFull));
        drop(go_on);
        engine.close();
        assert_eq!(ended.recv(), Ok("closed"));
        assert_eq!(engine.order(Box::new(|| {})), Err(CallError::Closed));
    }

    #[test]
    fn a_call_drives_until_others_need_somebody_who_does() {
        let (near, _router) = UnixStream::pair().unwrap();
        let (sender, ended) = mpsc::channel();
        let engine = Engine::idle("test", Connection::from_stream(near).unwrap(), Doing(sender));
        let done = Arc::new(AtomicBool::new(false));
        let order = |done: &Arc<AtomicBool>| {
            let done = done.clone();
            Box::new(move || done.store(true, Ordering::Relaxed))
        };
        let mut here = engine.drive_here().unwrap();
        assert!(engine.drive_here().is_none(), "one at a time");
        engine.order(order(&done)).unwrap();
        here.turn(Duration::ZERO).unwrap();
        assert!(done.swap(false, Ordering::Relaxed));
        // What comes when it has driven for the last time is not left over: its role is never idle.
        engine.order(order(&done)).unwrap();
        drop(here);
        assert!(done.load(Ordering::Relaxed));
        assert!(engine.drive_here().is_none(), "a thread does now");
        engine.close();
        assert_eq!(ended.recv(), Ok("closed"));
    }

    #[test]
    fn closing_ends_a_socket_that_nobody_or_a_call_drives() {
        for driven in [false, true] {
            let (near, _router) = UnixStream::pair().unwrap();
            let (sender, ended) = mpsc::channel();
            let engine = Engine::idle("test", Connection::from_stream(near).unwrap(), Doing(sender));
            let here = driven.then(|| engine.drive_here().unwrap());
            engine.close();
            if let Some(mut here) = here {
                assert_eq!(here.turn(Duration::ZERO), Err(CallError::Closed));
            }
            assert_eq!(ended.recv(), Ok("closed"));
        }
    }

    #[test]
    fn a_socket_whose_router_is_gone_says_so() {
        let (engine, router, ended) = engine();
        drop(router);
        assert_eq!(ended.recv(), Ok("lost"));
        while engine.order(Box::new(|| {})).is_ok() {
            std::thread::yield_now();
        }
        assert_eq!(engine.order(Box::new(|| {})), Err(CallError::RouterLost));
    }
}
