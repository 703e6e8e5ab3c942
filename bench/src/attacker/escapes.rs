//! A router that puts escape sequences into its refusals.

use std::io;
use std::net::TcpListener;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::pace::{Done, End};
use crate::attacks::Place;

/// Refuses each command with such text.
pub(super) fn escapes(place: &Place, end: &End) -> io::Result<Done> {
    let listener = TcpListener::bind(place.liar)?;
    let clients = Arc::new(AtomicU64::new(0));
    let count = clients.clone();
    std::thread::spawn(move || {
        for client in listener.incoming().flatten() {
            count.fetch_add(1, Ordering::Relaxed);
            std::thread::spawn(|| namely_hostile::lie_to(client));
        }
    });
    end.wait();
    Ok(Done::from([("clients", clients.load(Ordering::Relaxed))]))
}
