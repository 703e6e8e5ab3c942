//! The events that wake this end: packets in its rings, the end of the control channel, or another
//! thread of this process.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use rustix::event::{EventfdFlags, Timespec};
use rustix::io::Errno;

use crate::channel::Channel;
use crate::handshake::Fault;
use crate::message::Message;

const CONTROL: u64 = 0;
const RING: u64 = 1;
const KICK: u64 = 2;

/// The events that have occurred.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ready {
    /// A ring may hold packets.
    pub ring: bool,
    /// The control channel is readable: see [`Link::check`].
    pub control: bool,
    /// [`Kick::kick`] was called.
    pub kicked: bool,
}

/// Watches one interface. Its descriptor is readable when [`Link::ready`] has something to report.
#[derive(Debug)]
pub struct Link {
    channel: Channel,
    epoll: OwnedFd,
    kick: Kick,
}

/// Wakes the thread that waits for a link of this process.
#[derive(Clone, Debug)]
pub struct Kick(Arc<OwnedFd>);

impl Kick {
    /// Wakes the thread.
    pub fn kick(&self) {
        // The only failure is a full counter; then the thread is awake already.
        let _ = rustix::io::write(&self.0, &1u64.to_ne_bytes());
    }
}

impl Link {
    pub(crate) fn new<'a>(channel: Channel, rings: impl Iterator<Item = &'a OwnedFd>) -> Result<Self, Errno> {
        let epoll = epoll::create(CreateFlags::CLOEXEC)?;
        let kick = rustix::event::eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        epoll::add(&epoll, &channel, EventData::new_u64(CONTROL), EventFlags::IN)?;
        // Edge-triggered, so that the counters need not be read.
        let edge = EventFlags::IN | EventFlags::ET;
        epoll::add(&epoll, &kick, EventData::new_u64(KICK), edge)?;
        for ring in rings {
            epoll::add(&epoll, ring, EventData::new_u64(RING), edge)?;
        }
        Ok(Link { channel, epoll, kick: Kick(Arc::new(kick)) })
    }

    /// Returns the events since the last call.
    ///
    /// # Errors
    /// Environment: the system cannot report them.
    pub fn ready(&self) -> Result<Ready, Errno> {
        self.wait(Duration::ZERO)
    }

    /// Returns the events since the last call; waits for one for up to `at_most`. Returns early on
    /// a signal.
    ///
    /// # Errors
    /// Environment: the system cannot wait.
    pub fn wait(&self, at_most: Duration) -> Result<Ready, Errno> {
        let timeout = Timespec {
            tv_sec: i64::try_from(at_most.as_secs()).unwrap_or(i64::MAX),
            tv_nsec: i64::from(at_most.subsec_nanos()),
        };
        let mut ready = Ready::default();
        let mut events = Vec::with_capacity(16);
        match epoll::wait(&self.epoll, rustix::buffer::spare_capacity(&mut events), Some(&timeout)) {
            Ok(_) | Err(Errno::INTR) => (),
            Err(errno) => return Err(errno),
        }
        for event in &events {
            match event.data.u64() {
                CONTROL => ready.control = true,
                RING => ready.ring = true,
                _ => ready.kicked = true,
            }
        }
        Ok(ready)
    }

    /// Checks that the peer is still connected.
    ///
    /// # Errors
    /// The peer is gone, or sent a message that is invalid on a connected channel.
    pub fn check(&self) -> Result<(), Fault> {
        match self.channel.receive()? {
            None => Ok(()),
            Some((Message::Disconnect { reason, .. }, _)) => Err(Fault::Disconnected(reason)),
            Some(_) => Err(Fault::Unexpected),
        }
    }

    /// Sends DISCONNECT to the peer. The channel ends when the link is dropped.
    pub fn disconnect(&self, reason: &str) {
        let message = Message::Disconnect { code: 0, reason: crate::message::Text::new(reason) };
        // Ignored: a peer that does not read observes the end of the channel.
        let _ = self.channel.send(&message, None);
    }

    /// Adds another eventfd that wakes this link, reported as [`Ready::kicked`]. The eventfd must
    /// outlive this link and need not be read.
    ///
    /// # Errors
    /// Environment: the system refused.
    pub fn watch(&self, eventfd: impl AsFd) -> Result<(), Errno> {
        epoll::add(&self.epoll, eventfd, EventData::new_u64(KICK), EventFlags::IN | EventFlags::ET)
    }

    /// Returns a handle that wakes the thread that waits here.
    pub fn kick(&self) -> Kick {
        self.kick.clone()
    }
}

impl AsFd for Link {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.epoll.as_fd()
    }
}
