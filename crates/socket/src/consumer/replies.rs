//! Answers to datagrams. An answer waits first for verification, then for the application.

use std::collections::VecDeque;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Duration;

use namely_transport::connection::Answer;
use namely_wire::{ContentType, Name};

use super::datagram::Datagram;
use super::error::RecvError;
use crate::error::CallError;
use crate::inbox::Inbox;
use crate::pending::Promise;

/// A verified answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Received {
    /// The Data's name.
    pub name: Name,
    /// Its content.
    pub content: Vec<u8>,
    /// Its ContentType. Never Nack: a denial is an error.
    pub content_type: ContentType,
    /// The key that signed it, if there is one.
    pub signer: Option<Name>,
    /// Time from sending the Interest to receiving the Data.
    pub rtt: Duration,
}

/// The result that the application receives.
pub(super) type AnswerResult = Result<Received, RecvError>;

/// The datagrams of one consumer.
pub(super) struct Datagrams {
    pub(super) inbox: Inbox<AnswerResult>,
    /// Number of datagrams whose result the application has not taken yet.
    pub(super) open: AtomicUsize,
    pub(super) replies: Mutex<Replies>,
    came: Condvar,
}

#[derive(Default)]
pub(super) struct Replies {
    queue: VecDeque<Reply>,
    pub(super) started: bool,
    closed: bool,
}

pub(super) struct Reply {
    pub(super) datagram: Datagram,
    pub(super) answer: Result<Answer, CallError>,
    pub(super) to: ReplyTarget,
}

/// The destination of an answer.
pub(super) enum ReplyTarget {
    Inbox,
    Caller(Promise<AnswerResult>),
}

impl Datagrams {
    pub(super) fn new() -> std::io::Result<Self> {
        Ok(Datagrams {
            inbox: Inbox::new()?,
            open: AtomicUsize::new(0),
            replies: Mutex::default(),
            came: Condvar::new(),
        })
    }

    /// Closes the inbox and wakes all waiting threads.
    pub(super) fn close(&self) {
        self.inbox.close(CallError::Closed);
        self.replies.lock().unwrap_or_else(PoisonError::into_inner).closed = true;
        self.came.notify_all();
    }

    /// Frees the slot of an answer that was taken, so that another datagram may be sent.
    pub(super) fn taken(&self) {
        self.open.fetch_sub(1, Ordering::Relaxed);
    }

    pub(super) fn reply(&self, reply: Reply) {
        self.replies.lock().unwrap_or_else(PoisonError::into_inner).queue.push_back(reply);
        self.came.notify_one();
    }

    pub(super) fn next(&self) -> Option<Reply> {
        let mut replies = self.replies.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            if replies.closed {
                return None;
            }
            if let Some(reply) = replies.queue.pop_front() {
                return Some(reply);
            }
            replies = self.came.wait(replies).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

impl AsFd for Datagrams {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.inbox.as_fd()
    }
}
