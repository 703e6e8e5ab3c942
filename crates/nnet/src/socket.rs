//! SOCK_RAW sockets of the family. Each message is one packet.
//!
//! Binding uses an address and an option of this family. No library has a safe call for them.
//! Packets are sent and received through `sendmmsg` and `recvmmsg` elsewhere, which accept any
//! descriptor.
#![allow(unsafe_code)]

use std::mem;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use namely_wire::NameRef;
use rustix::io::Errno;
use rustix::net::{AddressFamily, SendFlags, SocketFlags, SocketType};

use crate::uapi::{
    NNET_FACE, NNET_KIND_GROUP, NNET_KIND_STATION, NNET_NAME_INLINE, NNET_PREFIX, NNET_REMOTE, NNET_UNBIND,
    SOL_NNET,
};
use crate::{module, proc};

/// A packet without content: NDNLPv2's IDLE.
const IDLE: [u8; 2] = [0x64, 0];

/// The reason for which a socket was not opened.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OpenError {
    /// Environment: the module is not loaded.
    #[error("the kernel's forwarder is not loaded")]
    NotLoaded,
    /// Bug in the kernel: the forwarder of this network namespace has stopped, for this reason.
    #[error(
        "the kernel's forwarder has stopped in this network namespace, and only a new namespace gets a new \
         one: {0}"
    )]
    Stopped(String),
    /// Caller: a face to another machine needs CAP_NET_ADMIN.
    #[error("a face of another machine takes CAP_NET_ADMIN in this network namespace")]
    NotPermitted,
    /// Environment: a system call failed, or there is no memory or room for a forwarder or a face.
    #[error("{}", of_system(*.0))]
    System(#[source] Errno),
}

impl OpenError {
    /// Returns the reason for which no face was created.
    fn of(errno: Errno) -> Self {
        match errno {
            Errno::SHUTDOWN | Errno::IO => {
                OpenError::Stopped(proc::stop_reason().ok().flatten().unwrap_or_default())
            }
            Errno::PERM => OpenError::NotPermitted,
            errno => OpenError::System(errno),
        }
    }
}

fn of_system(errno: Errno) -> String {
    match errno {
        Errno::NOMEM => "no memory for the kernel's forwarder".into(),
        Errno::NOSPC => {
            "the kernel's forwarder has as many faces as it may: its module's parameter faces_max".into()
        }
        errno => format!("the kernel's forwarder refuses: {errno}"),
    }
}

/// `struct sockaddr_nnet`.
#[repr(C)]
struct Address {
    family: u16,
    name_octets: u16,
    reserved: u32,
    name: [u8; NNET_NAME_INLINE],
}

/// A non-blocking SOCK_RAW socket of the kernel's forwarder. Its face and bindings end with it.
#[derive(Debug)]
pub struct Socket {
    fd: OwnedFd,
    family: u16,
}

impl Socket {
    /// Opens a socket with a face in the forwarder of this network namespace. The forwarder is
    /// created if there is none.
    ///
    /// # Errors
    /// [`OpenError`].
    pub fn open() -> Result<Self, OpenError> {
        let socket = Self::without_face()?;
        match rustix::net::send(&socket.fd, &IDLE, SendFlags::NOSIGNAL) {
            Ok(_) => Ok(socket),
            Err(errno) => Err(OpenError::of(errno)),
        }
    }

    /// Opens a socket with a face to another machine, or to several. A router uses it to carry
    /// packets to these machines. Packets below /localhost do not pass this face.
    ///
    /// # Errors
    /// [`OpenError`]; without CAP_NET_ADMIN [`OpenError::NotPermitted`].
    pub fn open_remote(is_group: bool) -> Result<Self, OpenError> {
        let socket = Self::without_face()?;
        let kind = if is_group { NNET_KIND_GROUP } else { NNET_KIND_STATION };
        socket.set(NNET_REMOTE, &kind.to_ne_bytes()).map_err(OpenError::of)?;
        Ok(socket)
    }

    fn without_face() -> Result<Self, OpenError> {
        let family = module::family();
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let fd = rustix::net::socket_with(AddressFamily::from_raw(family), SocketType::RAW, flags, None);
        let fd = fd.map_err(|errno| match errno {
            // If no family has the number, every user receives one of these errors, even without
            // privileges.
            Errno::AFNOSUPPORT | Errno::PROTONOSUPPORT | Errno::SOCKTNOSUPPORT => OpenError::NotLoaded,
            Errno::PERM | Errno::ACCESS if !module::is_loaded() => OpenError::NotLoaded,
            errno => OpenError::System(errno),
        })?;
        let socket = Socket { fd, family };
        // Another family with this number does not have the option.
        socket.face().map_err(|_| OpenError::NotLoaded)?;
        Ok(socket)
    }

    /// Binds `prefix`: this socket receives its Interests if a route leads to the face `local`.
    ///
    /// # Errors
    /// Caller: a bound prefix equals it, extends it or is extended by it (`ADDRINUSE`); it is below
    /// /localhost, which needs CAP_NET_ADMIN (`ACCESS`); it is too long (`INVAL`). Environment: the
    /// table is full (`NOSPC`), no memory (`NOMEM`), the forwarder has stopped (`SHUTDOWN`, `IO`).
    pub fn bind(&self, prefix: NameRef<'_>) -> Result<(), Errno> {
        let octets = prefix.as_bytes();
        if octets.len() > NNET_NAME_INLINE {
            return self.set(NNET_PREFIX, octets);
        }
        let mut address = Address {
            family: self.family,
            name_octets: octets.len() as u16,
            reserved: 0,
            name: [0; NNET_NAME_INLINE],
        };
        address.name[..octets.len()].copy_from_slice(octets);
        // SAFETY: the kernel reads an address of the length given, which lives until after the
        // call; the descriptor is borrowed, hence open.
        check(unsafe {
            libc::bind(
                self.fd.as_raw_fd(),
                (&raw const address).cast(),
                mem::size_of::<Address>() as libc::socklen_t,
            )
        })
    }

    /// Undoes the binding of `prefix`.
    ///
    /// # Errors
    /// Caller: this socket has not bound it (`NOENT`). Environment: the forwarder has stopped
    /// (`SHUTDOWN`, `IO`).
    pub fn unbind(&self, prefix: NameRef<'_>) -> Result<(), Errno> {
        self.set(NNET_UNBIND, prefix.as_bytes())
    }

    /// The face of this socket.
    ///
    /// # Errors
    /// Environment: it is no socket of the kernel's forwarder.
    pub fn face(&self) -> Result<u64, Errno> {
        let mut face = 0_u64;
        let mut octets = mem::size_of_val(&face) as libc::socklen_t;
        // SAFETY: the kernel writes at most `octets` octets into an integer that lives until after
        // the call, and their number.
        check(unsafe {
            libc::getsockopt(
                self.fd.as_raw_fd(),
                SOL_NNET,
                NNET_FACE,
                (&raw mut face).cast(),
                &raw mut octets,
            )
        })?;
        Ok(face)
    }

    fn set(&self, option: i32, octets: &[u8]) -> Result<(), Errno> {
        // SAFETY: the kernel reads `octets.len()` octets, which live until after the call.
        check(unsafe {
            libc::setsockopt(
                self.fd.as_raw_fd(),
                SOL_NNET,
                option,
                octets.as_ptr().cast(),
                octets.len() as libc::socklen_t,
            )
        })
    }
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// Joins a netlink socket to a group. No library has this in a safe form for groups above 32.
pub(crate) fn join_netlink_group(socket: BorrowedFd<'_>, group: u32) -> Result<(), Errno> {
    let octets = mem::size_of_val(&group) as libc::socklen_t;
    // SAFETY: the kernel reads an integer of that length, which lives until after the call.
    check(unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::SOL_NETLINK,
            libc::NETLINK_ADD_MEMBERSHIP,
            (&raw const group).cast(),
            octets,
        )
    })
}

fn check(result: libc::c_int) -> Result<(), Errno> {
    if result >= 0 {
        return Ok(());
    }
    let errno = std::io::Error::last_os_error().raw_os_error();
    Err(Errno::from_raw_os_error(errno.unwrap_or(libc::EIO)))
}

const _: () = assert!(mem::size_of::<Address>() == 128);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_socket_requires_the_kernel_module() {
        match Socket::open() {
            Ok(socket) => assert!(socket.face().is_ok_and(|face| face > 1)),
            Err(error) => assert_eq!(error == OpenError::NotLoaded, !module::is_loaded(), "{error}"),
        }
    }
}
