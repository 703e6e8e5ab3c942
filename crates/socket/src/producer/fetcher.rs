//! A producer's second thread, for slow work that must not block the socket's thread: it reads
//! packets from the store, signs statements about certificates, and renews the session's
//! certificates.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError};

use namely_wire::{InterestView, LpHeaders};

use super::jobs::Job;
use super::shared::Shared;
use crate::buffer::{BufferedPacket, is_answer};
use crate::session::{Renewal, Session};
use namely_store::Location;

/// Runs the thread.
pub(super) fn run(jobs: &Receiver<Job>, shared: &Arc<Shared>, session: &Arc<Session>) {
    loop {
        match jobs.recv_timeout(session.rest()) {
            Ok(Job::Read { location, interest, headers }) => read(shared, location, &interest, headers),
            Ok(Job::Statement { interest, headers }) => state(shared, session, &interest, headers),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return,
        }
        match session.renew() {
            Renewal::NotDue => {}
            Renewal::Missing => shared.count(|stats| stats.renewals_missing += 1),
            Renewal::Renewed => {
                shared.count(|stats| stats.renewals += 1);
                shared.fix(&session.certificates());
                shared.follow_identity(session.command_signer());
            }
        }
    }
}

fn read(shared: &Shared, location: Location, interest: &[u8], headers: LpHeaders) {
    let Ok(interest) = InterestView::parse(interest) else { return };
    let stored = shared.store().as_ref().and_then(|store| store.reader(location));
    let packet = match stored.map(|stored| stored.read()) {
        Some(Ok(Some(packet))) => Arc::new(packet),
        Some(Ok(None)) => return shared.count(|stats| stats.dropped_damaged += 1),
        Some(Err(error)) => {
            tracing::warn!(%error, "a packet cannot be read from its store");
            return shared.count(|stats| stats.dropped_damaged += 1);
        }
        // The file was deleted in the meantime.
        None => return shared.count(|stats| stats.dropped_unanswerable += 1),
    };
    if !is_answer(&interest, &packet) {
        return shared.count(|stats| stats.dropped_unanswerable += 1);
    }
    if let Ok(data) = namely_wire::DataView::parse(&packet) {
        shared.state().buffer.insert(data.name, packet.clone(), Some(location));
    }
    shared.answer(headers, packet, |stats| stats.hits_disk += 1);
}

/// Answers a request for the revocation status of a certificate. A certificate of this session is
/// good, so a statement is signed. For another certificate the buffer may have a published record.
fn state(shared: &Shared, session: &Session, interest: &[u8], headers: LpHeaders) {
    let Ok(interest) = InterestView::parse(interest) else { return };
    if let Some(statement) = session.statement(interest.name) {
        return shared.answer(headers, statement, |stats| stats.certificates += 1);
    }
    let found = shared.state().buffer.find(&interest, 0);
    match found {
        Some(BufferedPacket::Memory(record)) => {
            shared.answer(headers, record, |stats| stats.certificates += 1)
        }
        Some(BufferedPacket::Disk(location)) => read(shared, location, interest.wire, headers),
        None => shared.count(|stats| stats.dropped_unanswerable += 1),
    }
}
