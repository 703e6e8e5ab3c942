//! The sockets behind the numbers of `icn_socket`: the options of a socket that is not bound yet,
//! then a consumer or a producer of `namely-socket`, with the state that a C program cannot hold
//! itself.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use libc::c_int;
use namely_host::Waker;
use namely_socket::{Consumer, ConsumerOptions, Producer, ProducerOptions};
use namely_wire::Name;
use rustix::event::epoll;

use crate::failure::{Errno, Failure};
use crate::reading::Objects;
use crate::requests::Requests;
use crate::table::Table;
use crate::types::{
    AF_ICN, CONS_REL, CONS_UNREL, ICN_DONTWAIT, ICN_NONBLOCK, ICN_SOCKETS_MAX, PROD_REL, PROD_UNREL,
    SOCK_CONS, SOCK_PROD,
};

static SOCKETS: Table<Socket, ICN_SOCKETS_MAX> = Table::new();

/// A socket of a C program.
pub(crate) struct Socket {
    nonblocking: bool,
    /// An epoll instance over the waker, the received messages, and the objects that are read. It
    /// is readable when a receive would not wait.
    descriptor: OwnedFd,
    /// Readable for events without a descriptor of their own.
    pub(crate) waker: Waker,
    /// Objects that are being read.
    pub(crate) objects: Objects,
    /// Requests that the program has received and not answered.
    pub(crate) requests: Requests,
    state: Mutex<SocketState>,
}

/// The state of a socket.
pub(crate) enum SocketState {
    NewConsumer(Box<ConsumerOptions>),
    NewProducer(Box<ProducerOptions>),
    Consumer(Arc<Consumer>),
    Producer(Arc<Producer>),
}

/// The role of a bound socket.
pub(crate) enum Role {
    Consumer(Arc<Consumer>),
    Producer(Arc<Producer>),
}

/// `icn_socket`.
pub(crate) fn open(domain: c_int, kind: c_int, protocol: c_int) -> Result<c_int, Failure> {
    if domain != AF_ICN {
        return Err(Failure::new(libc::EAFNOSUPPORT, format!("family {domain} is not AF_ICN")));
    }
    let nonblocking = kind & ICN_NONBLOCK != 0;
    let (consumes, reliable) = match protocol {
        CONS_REL => (true, true),
        CONS_UNREL => (true, false),
        PROD_REL => (false, true),
        PROD_UNREL => (false, false),
        _ => return Err(Failure::new(libc::EPROTONOSUPPORT, format!("there is no protocol {protocol}"))),
    };
    let state = match kind & !ICN_NONBLOCK {
        SOCK_CONS if consumes => {
            SocketState::NewConsumer(Box::new(ConsumerOptions { reliable, ..ConsumerOptions::default() }))
        }
        SOCK_PROD if !consumes => {
            SocketState::NewProducer(Box::new(ProducerOptions { reliable, ..ProducerOptions::default() }))
        }
        SOCK_CONS => return Err(Failure::new(libc::EPROTOTYPE, "SOCK_CONS takes CONS_REL or CONS_UNREL")),
        SOCK_PROD => return Err(Failure::new(libc::EPROTOTYPE, "SOCK_PROD takes PROD_REL or PROD_UNREL")),
        _ => return Err(Failure::new(libc::EPROTONOSUPPORT, format!("there is no type of socket {kind}"))),
    };
    let descriptor = epoll::create(epoll::CreateFlags::CLOEXEC).map_err(of_system)?;
    let socket = Socket {
        nonblocking,
        descriptor,
        waker: Waker::new().map_err(of_system)?,
        objects: Objects::default(),
        requests: Requests::default(),
        state: Mutex::new(state),
    };
    socket.watch(socket.waker.as_fd());
    Ok(SOCKETS.insert(socket)?)
}

/// `icn_bind`.
pub(crate) fn bind(number: c_int, prefix: Name) -> Result<(), Failure> {
    let socket = SOCKETS.get(number)?;
    let mut state = socket.state();
    let bound = match &*state {
        SocketState::NewConsumer(options) => {
            SocketState::Consumer(Arc::new(Consumer::bind(prefix, (**options).clone())?))
        }
        SocketState::NewProducer(options) => {
            SocketState::Producer(Arc::new(Producer::bind(prefix, (**options).clone())?))
        }
        SocketState::Consumer(_) | SocketState::Producer(_) => return Err(Errno(libc::EISCONN).into()),
    };
    match &bound {
        SocketState::Consumer(consumer) => socket.watch(consumer.as_fd()),
        SocketState::Producer(producer) => socket.watch(producer.as_fd()),
        SocketState::NewConsumer(_) | SocketState::NewProducer(_) => {}
    }
    *state = bound;
    Ok(())
}

/// `icn_close`.
pub(crate) fn close(number: c_int) -> Result<(), Failure> {
    let socket = SOCKETS.remove(number)?;
    match &*socket.state() {
        SocketState::Consumer(consumer) => consumer.close(),
        SocketState::Producer(producer) => producer.close(),
        SocketState::NewConsumer(_) | SocketState::NewProducer(_) => {}
    }
    // A thread that waits for the descriptor looks the socket up again, and finds it closed.
    socket.waker.wake();
    Ok(())
}

/// The socket of a number.
pub(crate) fn find(number: c_int) -> Result<Arc<Socket>, Failure> {
    Ok(SOCKETS.get(number)?)
}

/// `icn_getsockname`.
pub(crate) fn prefix(number: c_int) -> Result<Name, Failure> {
    match &*find(number)?.state() {
        SocketState::Consumer(consumer) => Ok(consumer.local_prefix().clone()),
        SocketState::Producer(producer) => Ok(producer.local_prefix().clone()),
        SocketState::NewConsumer(_) | SocketState::NewProducer(_) => Err(Errno(libc::ENOTCONN).into()),
    }
}

/// `icn_fileno`.
pub(crate) fn descriptor(number: c_int) -> Result<c_int, Failure> {
    let socket = find(number)?;
    match &*socket.state() {
        SocketState::Consumer(_) | SocketState::Producer(_) => Ok(socket.descriptor.as_raw_fd()),
        SocketState::NewConsumer(_) | SocketState::NewProducer(_) => Err(Errno(libc::ENOTCONN).into()),
    }
}

fn of_system(errno: rustix::io::Errno) -> Failure {
    Failure::new(errno.raw_os_error(), errno.to_string())
}

/// Fails with EINVAL for a flag that the call does not accept.
pub(crate) fn check_flags(flags: c_int, known: c_int) -> Result<(), Failure> {
    match flags & !known {
        0 => Ok(()),
        unknown => Err(Failure::new(libc::EINVAL, format!("this call has no flag {unknown:#x}"))),
    }
}

impl Socket {
    pub(crate) fn state(&self) -> MutexGuard<'_, SocketState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The role of the socket, if it is bound.
    pub(crate) fn role(&self) -> Result<Role, Failure> {
        match &*self.state() {
            SocketState::Consumer(consumer) => Ok(Role::Consumer(consumer.clone())),
            SocketState::Producer(producer) => Ok(Role::Producer(producer.clone())),
            SocketState::NewConsumer(_) | SocketState::NewProducer(_) => Err(Errno(libc::ENOTCONN).into()),
        }
    }

    /// The consumer, if the socket is bound as one.
    pub(crate) fn consumer(&self) -> Result<Arc<Consumer>, Failure> {
        match &*self.state() {
            SocketState::Consumer(consumer) => Ok(consumer.clone()),
            SocketState::NewConsumer(_) => Err(Errno(libc::ENOTCONN).into()),
            SocketState::NewProducer(_) | SocketState::Producer(_) => Err(Errno(libc::EOPNOTSUPP).into()),
        }
    }

    /// The producer, if the socket is bound as one.
    pub(crate) fn producer(&self) -> Result<Arc<Producer>, Failure> {
        match &*self.state() {
            SocketState::Producer(producer) => Ok(producer.clone()),
            SocketState::NewProducer(_) => Err(Errno(libc::ENOTCONN).into()),
            SocketState::NewConsumer(_) | SocketState::Consumer(_) => Err(Errno(libc::EOPNOTSUPP).into()),
        }
    }

    pub(crate) fn raw_descriptor(&self) -> RawFd {
        self.descriptor.as_raw_fd()
    }

    /// Makes the socket's descriptor readable while `descriptor` is.
    pub(crate) fn watch(&self, descriptor: BorrowedFd<'_>) {
        // This fails if it is watched already.
        let _ = epoll::add(&self.descriptor, descriptor, epoll::EventData::new_u64(0), epoll::EventFlags::IN);
    }

    pub(crate) fn unwatch(&self, descriptor: BorrowedFd<'_>) {
        // This fails if it is not watched.
        let _ = epoll::delete(&self.descriptor, descriptor);
    }

    /// Makes the waker readable if a receive would not wait and no other descriptor shows this.
    pub(crate) fn announce(&self) {
        self.waker.reset();
        if self.objects.are_ready(&self.waker) {
            self.waker.wake();
        }
    }

    /// Returns true if a call with these flags may wait.
    pub(crate) fn may_wait(&self, flags: c_int) -> bool {
        !self.nonblocking && flags & ICN_DONTWAIT == 0
    }
}
