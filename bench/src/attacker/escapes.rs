//! A false router whose responses contain terminal escape sequences.

use std::io;
use std::net::TcpListener;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::pace::{AttackCounts, End};
use crate::attacks::RouterAddresses;

/// Refuses each command with a text that contains escape sequences. Counts the clients.
pub(super) fn escapes(addresses: &RouterAddresses, end: &End) -> io::Result<AttackCounts> {
    let listener = TcpListener::bind(addresses.liar)?;
    let clients = Arc::new(AtomicU64::new(0));
    let count = clients.clone();
    std::thread::spawn(move || {
        for client in listener.incoming().flatten() {
            count.fetch_add(1, Ordering::Relaxed);
            std::thread::spawn(|| namely_testkit::hostile::lie_to(client));
        }
    });
    end.wait();
    Ok(AttackCounts::from([("clients", clients.load(Ordering::Relaxed))]))
}
