//! A consumer that requests each Data of a list once, at a constant rate or with a window.

use std::collections::BTreeMap;

use hdrhistogram::Histogram;
use namely_forwarder::Received;
use namely_transport::congestion::{Algorithm, CongestionControl, Path, Signal};
use namely_wire::{DataView, InterestBuilder, Name};

use crate::behaviour::{Behaviour, Context};
use crate::packet::Packet;

/// InterestLifetime in ms: the longest that a router accepts.
const LIFETIME_MS: u64 = 60_000;

/// Maximum round trip of the histogram in ns.
const RTT_NS_MAX: u64 = 100_000_000_000;

/// Maximum window in packets.
const WINDOW_MAX: usize = 1 << 16;

/// The load of a consumer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Load {
    /// So many Interests per second, regardless of answers.
    Rate(u64),
    /// As many outstanding Interests as the window of a congestion control allows.
    Window(Algorithm),
}

/// A consumer with a list of names.
#[derive(Debug)]
pub struct Catalogue {
    names: Vec<Name>,
    interval_ns: u64,
    control: Option<Box<dyn CongestionControl>>,
    next: usize,
    /// Time of sending of each outstanding Interest.
    pending: BTreeMap<Vec<u8>, u64>,
    path: Path,
    /// Time until which a mark belongs to a congestion event that was handled already.
    deaf_until_ns: u64,
    window_sum: u64,
    /// Data received.
    pub data: u64,
    /// Data received with a mark.
    pub marked: u64,
    /// Interests that a router refused.
    pub nacks: u64,
    /// Round trips in ns.
    pub rtt_ns: Histogram<u64>,
    /// Times of the first and the latest Data in ns.
    pub first_ns: u64,
    /// See `first_ns`.
    pub last_ns: u64,
}

impl Catalogue {
    /// Creates a consumer that requests `names`, in their order.
    pub fn new(names: Vec<Name>, load: Load) -> Self {
        let (interval_ns, control) = match load {
            Load::Rate(per_second) => (1_000_000_000 / per_second.max(1), None),
            Load::Window(algorithm) => (0, Some(algorithm.controller(WINDOW_MAX))),
        };
        Catalogue {
            names,
            interval_ns,
            control,
            next: 0,
            pending: BTreeMap::new(),
            path: Path::default(),
            deaf_until_ns: 0,
            window_sum: 0,
            data: 0,
            marked: 0,
            nacks: 0,
            rtt_ns: Histogram::new_with_bounds(1, RTT_NS_MAX, 3).expect("bounds that a histogram can have"),
            first_ns: 0,
            last_ns: 0,
        }
    }

    /// Returns true if every name was requested and answered.
    pub fn is_done(&self) -> bool {
        self.next == self.names.len() && self.pending.is_empty()
    }

    /// Returns Data per second from the first to the last.
    pub fn throughput(&self) -> f64 {
        self.data.saturating_sub(1) as f64 * 1e9 / self.last_ns.saturating_sub(self.first_ns).max(1) as f64
    }

    /// Returns the window, averaged over the received Data; 0 without one.
    pub fn window_mean(&self) -> f64 {
        self.window_sum as f64 / self.data.max(1) as f64
    }

    fn send_next(&mut self, context: &mut Context<'_>) {
        let Some(name) = self.names.get(self.next) else { return };
        self.next += 1;
        self.pending.insert(name.as_name().as_bytes().to_vec(), context.now_ns());
        let nonce = context.random().nonce();
        context.send(InterestBuilder::new(name.clone()).nonce(nonce).lifetime_ms(LIFETIME_MS).build());
    }

    fn fill_window(&mut self, context: &mut Context<'_>) {
        let window = self.control.as_ref().map_or(0, |control| control.window());
        while self.pending.len() < window && self.next < self.names.len() {
            self.send_next(context);
        }
    }

    /// Adapts the window. NB-16: at most one reduction per round trip.
    fn adapt(&mut self, is_marked: bool, rtt_ns: u64, was_full: bool, now_ns: u64) {
        let path = &mut self.path;
        path.now_ns = now_ns;
        path.rtt_smoothed_ns = match path.rtt_smoothed_ns {
            0 => rtt_ns,
            smoothed => smoothed - smoothed / 8 + rtt_ns / 8,
        };
        let Some(control) = &mut self.control else { return };
        self.window_sum += control.window() as u64;
        if !is_marked {
            control.on_data(path, was_full);
        } else if now_ns >= self.deaf_until_ns && control.on_congestion(path, Signal::Mark) {
            self.deaf_until_ns = now_ns + path.rtt_smoothed_ns;
        }
    }
}

impl Behaviour for Catalogue {
    fn start(&mut self, context: &mut Context<'_>) {
        match self.control {
            Some(_) => self.fill_window(context),
            None => context.wake_at(context.now_ns()),
        }
    }

    fn receive(&mut self, packet: &Received<Packet>, context: &mut Context<'_>) {
        if packet.headers.nack.is_some() {
            self.nacks += 1;
            return;
        }
        let Ok(data) = DataView::parse(&packet.packet) else { return };
        let was_full = self.control.as_ref().is_some_and(|control| self.pending.len() >= control.window());
        let Some(sent_ns) = self.pending.remove(data.name.as_bytes()) else { return };
        let (now_ns, is_marked) = (context.now_ns(), packet.headers.is_marked());
        if self.data == 0 {
            self.first_ns = now_ns;
        }
        self.last_ns = now_ns;
        self.data += 1;
        self.marked += u64::from(is_marked);
        self.rtt_ns.saturating_record(now_ns - sent_ns);
        self.adapt(is_marked, now_ns - sent_ns, was_full, now_ns);
        self.fill_window(context);
    }

    fn wake(&mut self, context: &mut Context<'_>) {
        self.send_next(context);
        if self.next < self.names.len() {
            context.wake_at(context.now_ns() + self.interval_ns);
        }
    }
}
