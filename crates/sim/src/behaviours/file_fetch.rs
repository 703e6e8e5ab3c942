//! Fetches a file with the client's own window, loss detection and congestion control.

use namely_forwarder::Received;
use namely_transport::fetch::PieceInterest;
use namely_transport::fetch::{Arrival, Counters, DataOutcome, Failure, Fetch, Options};
use namely_wire::{DataView, InterestView, Name};

use crate::behaviour::{Behaviour, Context};
use crate::packet::Packet;

/// InterestLifetime, ms.
const LIFETIME_MS: u64 = 4_000;

/// A consumer that fetches pieces 0, 1, 2, … under a prefix.
#[derive(Debug)]
pub struct FileFetch {
    template: PieceInterest,
    options: Options,
    pieces: Option<u64>,
    start_ns: u64,
    fetch: Option<Fetch>,
    /// Octets of Data packets received for the first time.
    pub octets: u64,
    /// Time of the last piece.
    pub done_ns: Option<u64>,
}

impl FileFetch {
    /// Creates a fetch without end, from `start_ns` on.
    pub fn new(prefix: Name, options: Options, start_ns: u64) -> Self {
        FileFetch {
            template: PieceInterest::new(prefix.as_name(), LIFETIME_MS),
            options,
            pieces: None,
            start_ns,
            fetch: None,
            octets: 0,
            done_ns: None,
        }
    }

    /// Limits the fetch to `pieces`.
    #[must_use]
    pub fn of_pieces(mut self, pieces: u64) -> Self {
        self.pieces = Some(pieces);
        self
    }

    /// Returns the maximum number of outstanding Interests now; 0 before the start.
    pub fn window(&self) -> usize {
        self.fetch.as_ref().map_or(0, Fetch::window)
    }

    /// Returns the counters of the fetch.
    pub fn counters(&self) -> Counters {
        self.fetch.as_ref().map(Fetch::counters).unwrap_or_default()
    }

    /// Returns the reason for an early end of the fetch, if it failed.
    pub fn failure(&self) -> Option<Failure> {
        self.fetch.as_ref().and_then(Fetch::failure)
    }

    fn go_on(&mut self, context: &mut Context<'_>) {
        let Some(fetch) = &mut self.fetch else { return };
        let now_ns = context.now_ns();
        fetch.expire(now_ns);
        while let Some(piece) = fetch.request(now_ns) {
            let nonce = context.random().nonce();
            context.send(Packet::new(|out| self.template.write(piece, false, nonce, out)));
        }
        if fetch.is_complete() || fetch.failure().is_some() {
            self.done_ns = self.done_ns.or(Some(now_ns));
            context.wake_at(u64::MAX);
            return;
        }
        context.wake_at(fetch.next_timeout_ns().max(now_ns + 1));
    }
}

impl Behaviour for FileFetch {
    fn start(&mut self, context: &mut Context<'_>) {
        context.wake_at(self.start_ns);
    }

    fn receive(&mut self, packet: &Received<Packet>, context: &mut Context<'_>) {
        let now_ns = context.now_ns();
        let Some(fetch) = &mut self.fetch else { return };
        if let Some(reason) = packet.headers.nack {
            let refused = InterestView::parse(&packet.packet).ok();
            if let Some(piece) = refused.and_then(|interest| self.template.piece(interest.name)) {
                fetch.on_nack(piece, reason, now_ns);
            }
        } else if let Ok(data) = DataView::parse(&packet.packet)
            && let Some(piece) = self.template.piece(data.name)
        {
            let marked = packet.headers.is_marked();
            if fetch.on_data(piece, Arrival { marked, ..Arrival::at(now_ns) }) == DataOutcome::New {
                self.octets += packet.packet.len() as u64;
            }
            fetch.advance(u64::MAX);
        }
        self.go_on(context);
    }

    fn wake(&mut self, context: &mut Context<'_>) {
        if self.fetch.is_none() {
            let mut fetch = Fetch::new(self.options, context.now_ns());
            if let Some(pieces) = self.pieces {
                // A fetch that has not begun accepts any end.
                let _ = fetch.set_end(pieces);
            }
            self.fetch = Some(fetch);
        }
        self.go_on(context);
    }
}
