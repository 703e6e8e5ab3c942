//! Requests that a producer has received and the C program has not answered yet, by the numbers
//! that the program gets (`msg_request`).
//!
//! Follows docs/c.md. Holds a bounded number, and answers nothing itself.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use namely_socket::{Pushed, Request};

use crate::failure::Failure;
use crate::types::ICN_REQUESTS_MAX;

/// The requests and pushes of one socket: at most [`ICN_REQUESTS_MAX`] of each kind. A new one
/// replaces the oldest.
#[derive(Default)]
pub(crate) struct Requests(Mutex<Waiting>);

#[derive(Default)]
struct Waiting {
    last: u64,
    requests: BTreeMap<u64, Request>,
    pushes: BTreeMap<u64, Pushed>,
}

impl Waiting {
    fn next_number(&mut self) -> u64 {
        self.last += 1;
        self.last
    }
}

impl Requests {
    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Stores a request. Returns its number.
    pub(crate) fn insert(&self, request: Request) -> u64 {
        let mut waiting = self.waiting();
        let number = waiting.next_number();
        insert_bounded(&mut waiting.requests, number, request);
        number
    }

    /// Stores a push. Returns its number.
    pub(crate) fn insert_push(&self, pushed: Pushed) -> u64 {
        let mut waiting = self.waiting();
        let number = waiting.next_number();
        insert_bounded(&mut waiting.pushes, number, pushed);
        number
    }

    /// Takes a request out, to answer it.
    ///
    /// # Errors
    /// EINVAL if there is none of this number.
    pub(crate) fn take(&self, number: u64) -> Result<Request, Failure> {
        self.waiting().requests.remove(&number).ok_or_else(|| no_request(number))
    }

    /// Stores a request again, under its old number, if it was taken and could not be answered.
    pub(crate) fn put_back(&self, number: u64, request: Request) {
        self.waiting().requests.insert(number, request);
    }

    /// Removes a push if the caller has `room` octets for its object.
    ///
    /// # Errors
    /// EINVAL if there is no push of this number. EMSGSIZE if its size, as stated by the client,
    /// exceeds `room`; then it remains.
    pub(crate) fn take_push(&self, number: u64, room: usize) -> Result<Pushed, Failure> {
        let mut waiting = self.waiting();
        let offered = waiting.pushes.get(&number).ok_or_else(|| no_request(number))?.octets();
        if offered.is_some_and(|octets| octets > room as u64) {
            let sentence = format!("the buffer has {room} octets, the object more");
            return Err(Failure::new(libc::EMSGSIZE, sentence));
        }
        waiting.pushes.remove(&number).ok_or_else(|| no_request(number))
    }
}

fn insert_bounded<T>(list: &mut BTreeMap<u64, T>, number: u64, item: T) {
    list.insert(number, item);
    if list.len() > ICN_REQUESTS_MAX {
        list.pop_first();
    }
}

fn no_request(number: u64) -> Failure {
    let sentence = format!("there is no request {number}: it was answered, or never received");
    Failure::new(libc::EINVAL, sentence)
}
