//! The counters of a page.

use std::sync::atomic::{AtomicU64, Ordering};

/// Requests, by how they ended.
#[derive(Debug, Default)]
pub struct Counters {
    /// Requests.
    pub requests: AtomicU64,
    /// Connections that were one more than there may be.
    pub refused_full: AtomicU64,
    /// Connections without a complete TLS handshake, above all requests by HTTP without TLS.
    pub refused_handshake: AtomicU64,
    /// Requests with a Host that the page does not accept.
    pub refused_host: AtomicU64,
    /// Requests without the token, or with another.
    pub refused_token: AtomicU64,
    /// Requests that are malformed or name an unknown resource.
    pub refused: AtomicU64,
    /// Requests that were one more of their kind than there may be at once.
    pub refused_busy: AtomicU64,
    /// Clients that took too long to send a request or to read the answer.
    pub slow: AtomicU64,
    /// Times that a page received the whole state again, because it had not kept up with changes.
    pub lagged: AtomicU64,
    /// Looks at routers.
    pub looks: AtomicU64,
    /// Commands to routers that were carried out.
    pub actions: AtomicU64,
}

impl Counters {
    pub(crate) fn count(counter: &AtomicU64) {
        counter.fetch_add(1, Ordering::Relaxed);
    }
}
