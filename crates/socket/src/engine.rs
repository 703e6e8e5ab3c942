//! A socket's own thread: it owns the connection, takes orders from a bounded queue, and drives the socket's role. It
//! never runs an application's code.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use namely_transport::connection::{Connection, ConnectionError, Incoming, Outbox, Waker};

use crate::error::CallError;

/// Orders that wait for a socket's thread; a further one is refused with `ENOBUFS`.
pub(crate) const ORDERS_MAX: usize = 256;

/// What a socket's thread does.
pub(crate) trait Role: Send + 'static {
    /// What application threads ask of it.
    type Order: Send + 'static;

    /// Takes an order.
    fn order(&mut self, order: Self::Order, connection: &mut Connection);

    /// Sends what may go out now; when to be asked again at the latest, by the connection's clock.
    fn poll(&mut self, connection: &mut Connection) -> u64;

    /// Takes a packet in.
    fn take(&mut self, incoming: Incoming<'_>, outbox: &mut Outbox);

    /// The socket was closed.
    fn close(self, connection: &mut Connection);

    /// The router is gone for good: whoever waits is told.
    fn lost(self, error: ConnectionError);
}

/// The handle that application threads hold.
pub(crate) struct Engine<O> {
    orders: SyncSender<O>,
    closed: Arc<AtomicBool>,
    /// Whether the thread ended because the router is gone.
    lost: Arc<AtomicBool>,
    waker: Waker,
    thread: Mutex<Option<JoinHandle<()>>>,
    process: rustix::process::Pid,
}

impl<O: Send + 'static> Engine<O> {
    /// Starts the thread.
    pub(crate) fn start<R: Role<Order = O>>(
        name: &str,
        connection: Connection,
        role: R,
    ) -> std::io::Result<Self> {
        let (sender, receiver) = sync_channel(ORDERS_MAX);
        let waker = connection.waker();
        let (closed, lost) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
        let (is_closed, is_lost) = (closed.clone(), lost.clone());
        let thread = std::thread::Builder::new()
            .name(name.into())
            .spawn(move || run(connection, role, &receiver, (&is_closed, &is_lost)))?;
        let process = rustix::process::getpid();
        Ok(Engine { orders: sender, closed, lost, waker, thread: Mutex::new(Some(thread)), process })
    }

    /// Hands an order to the thread.
    pub(crate) fn order(&self, order: O) -> Result<(), CallError> {
        self.check_process()?;
        if self.closed.load(Ordering::Relaxed) {
            return Err(CallError::Closed);
        }
        match self.orders.try_send(order) {
            Ok(()) => {
                self.waker.wake();
                Ok(())
            }
            Err(TrySendError::Full(_)) => Err(CallError::QueueFull),
            Err(TrySendError::Disconnected(_)) if self.lost.load(Ordering::Acquire) => {
                Err(CallError::RouterLost)
            }
            Err(TrySendError::Disconnected(_)) => Err(CallError::Closed),
        }
    }

    /// Whether the socket was closed.
    pub(crate) fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Relaxed)
    }

    /// Ends a wait of the thread, so that it looks at what others left for it.
    pub(crate) fn wake(&self) {
        self.waker.wake();
    }

    /// Hands an order to the thread; gives it back when the thread is gone or does not keep up.
    pub(crate) fn try_order(&self, order: O) -> Result<(), O> {
        if self.check_process().is_err() || self.closed.load(Ordering::Relaxed) {
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

    /// Whether this is the process that made the socket: after a fork the child has no such thread.
    pub(crate) fn check_process(&self) -> Result<(), CallError> {
        if rustix::process::getpid() == self.process { Ok(()) } else { Err(CallError::Forked) }
    }

    /// Closes the socket and waits for its thread; what waits on it ends as cancelled. In a process that forked it does
    /// nothing: the socket is the parent's.
    pub(crate) fn close(&self) {
        if self.check_process().is_err() {
            return;
        }
        self.closed.store(true, Ordering::Relaxed);
        self.waker.wake();
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        if thread.is_some_and(|thread| thread.join().is_err()) {
            tracing::error!("a socket's thread ended by a panic");
        }
    }
}

fn run<R: Role>(
    mut connection: Connection,
    mut role: R,
    orders: &Receiver<R::Order>,
    (closed, lost): (&AtomicBool, &AtomicBool),
) {
    loop {
        if closed.load(Ordering::Relaxed) {
            return role.close(&mut connection);
        }
        while let Ok(order) = orders.try_recv() {
            role.order(order, &mut connection);
        }
        let due_ns = role.poll(&mut connection);
        if let Err(error) = connection.turn(due_ns, &mut |incoming, outbox| role.take(incoming, outbox)) {
            lost.store(true, Ordering::Release);
            return role.lost(error);
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

    fn engine() -> (Engine<<Doing as Role>::Order>, UnixStream, mpsc::Receiver<&'static str>) {
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
