//! The event loop of a socket: its connection, its role and a bounded queue of orders. Usually a
//! thread of its own drives it. While no operation is in progress, a blocking call may drive it
//! instead ([`Engine::drive_inline`]), so that no packet passes from one thread to another. The
//! thread of the event loop never runs an application's code.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use namely_transport::connection::{Connection, ConnectionError, Incoming, Outbox, Waker};

use crate::error::CallError;

/// Orders that wait for a socket's thread.
///
/// # Limit
/// A further call is refused with `ENOBUFS`.
/// - Tests: `engine_orders_are_limited`
pub(crate) const ORDERS_MAX: usize = 256;

/// A driver that did not read for this time paused, so that packets may wait although a timeout has
/// passed. It is short against every timeout, and long against one iteration of the loop.
const PAUSE_NS: u64 = if cfg!(test) { 1 } else { 1_000_000 };

/// The behavior of a socket, such as a consumer or a producer.
pub(crate) trait Role: Send + 'static {
    /// A request from application threads.
    type Order: Send + 'static;

    /// Executes an order.
    fn order(&mut self, order: Self::Order, connection: &mut Connection);

    /// Sends the packets that may be sent now. Returns the latest time for the next poll, by
    /// the connection's clock.
    fn poll(&mut self, connection: &mut Connection) -> u64;

    /// Processes a received packet.
    fn take(&mut self, incoming: Incoming<'_>, outbox: &mut Outbox);

    /// Called after all packets of one round were processed, with the time by the connection's
    /// clock.
    fn settle(&mut self, _now_ns: u64) {}

    /// Returns true if the socket needs no driver until the next order.
    fn is_idle(&mut self) -> bool {
        false
    }

    /// Called when the socket is closed.
    fn close(self, connection: &mut Connection);

    /// Called when the connection to the router is lost for good. Ends all operations in progress.
    fn lost(self, error: ConnectionError);
}

/// The handle that application threads hold.
pub(crate) struct Engine<R: Role> {
    name: &'static str,
    orders: SyncSender<R::Order>,
    ends: Arc<Ends>,
    waker: Waker,
    /// [`Engine::order`] enqueues an order under this lock. A call that stops driving checks the
    /// queue under it, too, so that each order has a driver.
    driver: Mutex<DriverKind<R>>,
    process: rustix::process::Pid,
}

/// Flags that record why a socket ended.
#[derive(Default)]
struct Ends {
    closed: AtomicBool,
    /// The connection to the router is lost.
    lost: AtomicBool,
}

/// The driver of a socket.
enum DriverKind<R: Role> {
    /// No driver, because no operation is in progress.
    Idle(Box<Driver<R>>),
    /// A thread of its own, until the socket ends.
    Thread(JoinHandle<()>),
    /// A call ([`DrivingCall`]).
    Call,
    /// The socket has ended.
    Ended,
}

struct Driver<R: Role> {
    connection: Connection,
    role: R,
    orders: Receiver<R::Order>,
    ends: Arc<Ends>,
    /// The time of the role's next timeout.
    due_ns: u64,
    /// The end of the last round.
    read_ns: u64,
}

impl<R: Role> Driver<R> {
    /// Runs one round: executes all orders, then polls the role and waits for packets, at most for
    /// `wait`.
    fn turn(&mut self, wait: Option<Duration>) -> Result<(), ConnectionError> {
        while let Ok(order) = self.orders.try_recv() {
            self.role.order(order, &mut self.connection);
        }
        // Read once, for the check of a pause and for the end of the wait.
        let now_ns = self.connection.now_ns();
        self.read_after_pause(now_ns)?;
        let mut due_ns = self.role.poll(&mut self.connection);
        self.due_ns = due_ns;
        if let Some(wait) = wait {
            due_ns = due_ns.min(now_ns + wait.as_nanos() as u64);
        }
        let role = &mut self.role;
        self.connection.turn(due_ns, &mut |incoming, outbox| role.take(incoming, outbox))?;
        self.read_ns = self.connection.now_ns();
        self.role.settle(self.read_ns);
        Ok(())
    }

    /// Passes the waiting packets to the role before it counts their Interests as lost. A process
    /// may be stopped, and a thread that drives inline writes files between two rounds.
    fn read_after_pause(&mut self, now_ns: u64) -> Result<(), ConnectionError> {
        if now_ns < self.due_ns || now_ns.saturating_sub(self.read_ns) < PAUSE_NS {
            return Ok(());
        }
        let role = &mut self.role;
        self.connection.drain(&mut |incoming, outbox| role.take(incoming, outbox))
    }

    fn close(mut self) {
        self.role.close(&mut self.connection);
    }

    /// Ends the socket after its router is lost. `lost` is set first, so that the operations that
    /// end report this reason.
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

    /// Creates the engine without a thread. An order starts a thread if there is no driver.
    pub(crate) fn idle(name: &'static str, connection: Connection, role: R) -> Self {
        let (sender, orders) = sync_channel(ORDERS_MAX);
        let (waker, ends) = (connection.waker(), Arc::new(Ends::default()));
        let (due_ns, read_ns) = (u64::MAX, connection.now_ns());
        let driver = Box::new(Driver { connection, role, orders, ends: ends.clone(), due_ns, read_ns });
        let process = rustix::process::getpid();
        let driver = Mutex::new(DriverKind::Idle(driver));
        Engine { name, orders: sender, ends, waker, driver, process }
    }

    fn lock(&self) -> MutexGuard<'_, DriverKind<R>> {
        self.driver.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Starts a thread if there is no driver.
    fn ensure_driven(&self, driven: &mut DriverKind<R>) -> std::io::Result<()> {
        if !matches!(driven, DriverKind::Idle(_)) {
            return Ok(());
        }
        // The driver is sent to the thread after the thread was created. If this fails, the driver
        // is not lost.
        let (hand_over, taken) = sync_channel::<Box<Driver<R>>>(1);
        let run = move || {
            if let Ok(driver) = taken.recv() {
                driver.run();
            }
        };
        let thread = std::thread::Builder::new().name(self.name.into()).spawn(run)?;
        if let DriverKind::Idle(driver) = std::mem::replace(driven, DriverKind::Thread(thread)) {
            let _ = hand_over.send(driver);
        }
        Ok(())
    }

    /// Passes an order to the driver. Starts a thread if there is no driver.
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

    /// Returns the reason why no more orders are accepted.
    fn end(&self) -> CallError {
        if self.ends.lost.load(Ordering::Acquire) { CallError::RouterLost } else { CallError::Closed }
    }

    /// Returns true if the socket was closed.
    pub(crate) fn is_closed(&self) -> bool {
        self.ends.closed.load(Ordering::Relaxed)
    }

    /// Wakes the driver, so that it processes the work that another thread has left for it.
    pub(crate) fn wake(&self) {
        self.waker.wake();
    }

    /// Passes an order to the thread of an engine that [`Engine::start`] made. Returns the order if
    /// the socket has ended, the queue is full, or this process is a fork.
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

    /// Makes the calling thread the driver. `None` if there is another driver, or the socket ended.
    pub(crate) fn drive_inline(&self) -> Option<DrivingCall<'_, R>> {
        let mut driven = self.lock();
        match std::mem::replace(&mut *driven, DriverKind::Call) {
            DriverKind::Idle(driver) => Some(DrivingCall { engine: self, driver: Some(driver) }),
            other => {
                *driven = other;
                None
            }
        }
    }

    /// Returns an error in a process that was forked after the socket was made. The socket's thread
    /// does not exist in the fork.
    pub(crate) fn check_process(&self) -> Result<(), CallError> {
        if rustix::process::getpid() == self.process { Ok(()) } else { Err(CallError::Forked) }
    }

    /// Closes the socket and waits for the end of its thread. Pending calls end as canceled. If a
    /// call drives the socket, that call closes it, and this function does not wait. In a forked
    /// process it does nothing, because the socket belongs to the parent.
    pub(crate) fn close(&self) {
        if self.check_process().is_err() {
            return;
        }
        self.ends.closed.store(true, Ordering::Relaxed);
        self.waker.wake();
        let mut driven = self.lock();
        if matches!(*driven, DriverKind::Call) {
            // The driving call reads `closed` and closes the socket when it ends.
            return;
        }
        let was = std::mem::replace(&mut *driven, DriverKind::Ended);
        drop(driven);
        match was {
            DriverKind::Idle(driver) => driver.close(),
            DriverKind::Thread(thread) => {
                if thread.join().is_err() {
                    tracing::error!("a socket's thread ended by a panic");
                }
            }
            DriverKind::Call | DriverKind::Ended => {}
        }
    }
}

/// A call that drives its socket.
pub(crate) struct DrivingCall<'a, R: Role> {
    engine: &'a Engine<R>,
    /// `None` after the router was lost.
    driver: Option<Box<Driver<R>>>,
}

impl<R: Role> DrivingCall<'_, R> {
    /// Runs one round and waits at most `wait`.
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

impl<R: Role> Drop for DrivingCall<'_, R> {
    /// Executes the remaining orders. Then passes the driver to a thread if an operation is in
    /// progress.
    fn drop(&mut self) {
        let mut driven = self.engine.lock();
        let Some(mut driver) = self.driver.take() else {
            *driven = DriverKind::Ended;
            return;
        };
        if self.engine.is_closed() {
            *driven = DriverKind::Ended;
            drop(driven);
            return driver.close();
        }
        while let Ok(order) = driver.orders.try_recv() {
            driver.role.order(order, &mut driver.connection);
        }
        let is_idle = driver.role.is_idle();
        *driven = DriverKind::Idle(driver);
        if !is_idle && let Err(error) = self.engine.ensure_driven(&mut driven) {
            tracing::warn!(%error, "no thread for a socket: its work waits for the next call");
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::os::unix::net::UnixStream;
    use std::sync::mpsc;

    use namely_wire::InterestBuilder;

    use super::*;

    /// A role that runs closures and reports how it ended.
    struct ClosureRole(mpsc::Sender<&'static str>);

    impl Role for ClosureRole {
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

    fn engine() -> (Engine<ClosureRole>, UnixStream, mpsc::Receiver<&'static str>) {
        let (near, far) = UnixStream::pair().unwrap();
        let (sender, ended) = mpsc::channel();
        let connection = Connection::from_stream(near).unwrap();
        (Engine::start("test", connection, ClosureRole(sender)).unwrap(), far, ended)
    }

    #[test]
    fn engine_orders_are_limited() {
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
    fn a_call_drives_until_a_thread_takes_over() {
        let (near, _router) = UnixStream::pair().unwrap();
        let (sender, ended) = mpsc::channel();
        let engine = Engine::idle("test", Connection::from_stream(near).unwrap(), ClosureRole(sender));
        let done = Arc::new(AtomicBool::new(false));
        let order = |done: &Arc<AtomicBool>| {
            let done = done.clone();
            Box::new(move || done.store(true, Ordering::Relaxed))
        };
        let mut here = engine.drive_inline().unwrap();
        assert!(engine.drive_inline().is_none(), "one at a time");
        engine.order(order(&done)).unwrap();
        here.turn(Duration::ZERO).unwrap();
        assert!(done.swap(false, Ordering::Relaxed));
        // The end of the driving call executes an order that arrived after its last round. A thread
        // drives the socket then, because this role is never idle.
        engine.order(order(&done)).unwrap();
        drop(here);
        assert!(done.load(Ordering::Relaxed));
        assert!(engine.drive_inline().is_none(), "a thread does now");
        engine.close();
        assert_eq!(ended.recv(), Ok("closed"));
    }

    #[test]
    fn closing_ends_a_driven_or_idle_socket() {
        for driven in [false, true] {
            let (near, _router) = UnixStream::pair().unwrap();
            let (sender, ended) = mpsc::channel();
            let engine = Engine::idle("test", Connection::from_stream(near).unwrap(), ClosureRole(sender));
            let here = driven.then(|| engine.drive_inline().unwrap());
            engine.close();
            if let Some(mut here) = here {
                assert_eq!(here.turn(Duration::ZERO), Err(CallError::Closed));
            }
            assert_eq!(ended.recv(), Ok("closed"));
        }
    }

    #[test]
    fn a_socket_without_its_router_reports_it() {
        let (engine, router, ended) = engine();
        drop(router);
        assert_eq!(ended.recv(), Ok("lost"));
        while engine.order(Box::new(|| {})).is_ok() {
            std::thread::yield_now();
        }
        assert_eq!(engine.order(Box::new(|| {})), Err(CallError::RouterLost));
    }

    /// A role with a timeout that has always passed. It records its calls.
    struct HastyRole(Vec<&'static str>);

    impl Role for HastyRole {
        type Order = ();

        fn order(&mut self, (): (), _: &mut Connection) {}

        fn poll(&mut self, _: &mut Connection) -> u64 {
            self.0.push("poll");
            0
        }

        fn take(&mut self, _: Incoming<'_>, _: &mut Outbox) {
            self.0.push("take");
        }

        fn close(self, _: &mut Connection) {}

        fn lost(self, _: ConnectionError) {}
    }

    #[test]
    fn waiting_packets_precede_timeouts() {
        let (near, mut router) = UnixStream::pair().unwrap();
        let (_orders, orders) = sync_channel(1);
        let mut driver = Driver {
            connection: Connection::from_stream(near).unwrap(),
            role: HastyRole(Vec::new()),
            orders,
            ends: Arc::default(),
            due_ns: u64::MAX,
            read_ns: 0,
        };
        driver.turn(Some(Duration::ZERO)).unwrap();
        // The process pauses between two rounds. A packet arrives, and the timeout passes.
        let interest = InterestBuilder::new("/a".parse().unwrap()).nonce([1; 4]).lifetime_ms(60_000);
        router.write_all(&interest.build()).unwrap();
        driver.turn(Some(Duration::ZERO)).unwrap();
        assert_eq!(driver.role.0, ["poll", "take", "poll"]);
    }
}
