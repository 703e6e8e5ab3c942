//! Orders of other threads to the control thread.

use std::sync::mpsc::{Receiver, Sender, SyncSender, channel};

use namely_dataplane::{Inbox, InboxWaker};
use namely_mgmt::{CreateFaceError, Policy};
use namely_wire::mgmt::{Counter, FaceStatus};

use crate::config::Config;

/// Something that another thread wants of the control thread.
pub(crate) enum Order {
    /// Switch to this configuration, with its policy and its neighbors.
    Reload(Box<Reload>),
    /// A face for management or a neighbour was made.
    Made(Asker, Box<Result<FaceStatus, CreateFaceError>>),
    /// Send the counters of management.
    Counters(SyncSender<Vec<Counter>>),
    /// Confirm that the control thread and the data plane are well.
    Answer(SyncSender<()>),
    /// End.
    Stop,
}

/// A new configuration that all services have checked.
pub(crate) struct Reload {
    pub(crate) config: Config,
    pub(crate) policy: Policy,
}

/// The requester of a face.
pub(crate) enum Asker {
    /// A `faces/create` command, by its ticket.
    Command(u64),
    /// A neighbour of the configuration, by its key.
    Neighbour(String),
}

/// Sends orders to the control thread. As many wait as faces are being made, signals came and
/// reloads were asked for: few.
#[derive(Clone)]
pub(crate) struct OrderSender {
    orders: Sender<Order>,
    waker: InboxWaker,
}

impl OrderSender {
    /// A sender to the control thread that reads `inbox`, and where its orders come out.
    pub(crate) fn new(inbox: &Inbox) -> (Self, Receiver<Order>) {
        let (sender, orders) = channel();
        (OrderSender { orders: sender, waker: inbox.waker() }, orders)
    }

    /// Sends an order; a control thread that has ended takes none.
    pub(crate) fn send(&self, order: Order) {
        if self.orders.send(order).is_ok() {
            self.wake();
        }
    }

    /// Has the control thread look for orders and for notices of services.
    pub(crate) fn wake(&self) {
        self.waker.wake();
    }
}
