//! Orders of other threads to the control thread.

use std::net::SocketAddr;
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::time::Duration;

use namely_dataplane::{Inbox, InboxWaker};
use namely_messages::{Counter, FaceStatus};
use namely_mgmt::{CreateFaceError, Policy};

use crate::config::Config;

/// An order to the control thread.
pub(crate) enum Order {
    /// Apply this configuration, with its policy and its neighbors.
    Reload(Box<Reload>),
    /// The result of making a face for management or a neighbor.
    Made(FaceRequester, Box<Result<FaceStatus, CreateFaceError>>),
    /// The addresses of the host of a configured neighbor, by its key; or the reason for none.
    LookedUp(String, Result<Vec<SocketAddr>, String>),
    /// Send the counters of management.
    Counters(SyncSender<Vec<Counter>>),
    /// Confirm that the control thread and the data plane respond.
    Answer(SyncSender<()>),
    /// Drain, and stop afterwards.
    Drain,
    /// Stop.
    Stop,
}

/// A new configuration that all services have checked.
pub(crate) struct Reload {
    pub(crate) config: Config,
    pub(crate) policy: Policy,
}

/// The requester of a face.
pub(crate) enum FaceRequester {
    /// A `faces/create` command, by its ticket.
    Command(u64),
    /// A neighbor of the configuration, by its key.
    Neighbour(String),
}

/// Sends orders to the control thread. The queue has no limit of its own. Each face in the making,
/// each reload and each request of another thread adds one order.
#[derive(Clone)]
pub(crate) struct OrderSender {
    orders: Sender<Order>,
    waker: InboxWaker,
}

impl OrderSender {
    /// A sender to the control thread that reads `inbox`, and the receiver of its orders.
    pub(crate) fn new(inbox: &Inbox) -> (Self, Receiver<Order>) {
        let (sender, orders) = channel();
        (OrderSender { orders: sender, waker: inbox.waker() }, orders)
    }

    /// Sends an order. If the control thread has stopped, the order is dropped.
    pub(crate) fn send(&self, order: Order) {
        if self.orders.send(order).is_ok() {
            self.wake();
        }
    }

    /// Returns true if the control thread and the data plane respond within `patience`.
    pub(crate) fn is_answered(&self, patience: Duration) -> bool {
        let (answer, answered) = sync_channel(1);
        self.send(Order::Answer(answer));
        answered.recv_timeout(patience).is_ok()
    }

    /// Wakes the control thread to check for orders and notices of services.
    pub(crate) fn wake(&self) {
        self.waker.wake();
    }
}
