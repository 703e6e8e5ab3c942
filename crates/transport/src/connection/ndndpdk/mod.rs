//! NDN-DPDK's forwarder on this host, used in the way of its own applications (VI-05). Its
//! management creates a face of shared memory by GraphQL, and FIB entries for served prefixes. Both
//! are deleted at the end.
//!
//! The forwarder listens on a memif socket for this connection alone. Packets are sent as link
//! packets in its buffers of 2048 octets, longer ones in fragments. It does not accept NFD
//! management commands.

mod control;
mod error;

use std::io::{self, ErrorKind};
use std::time::{Duration, Instant};

use namely_host::Waker;
use namely_memif::{Interface, Options};
use namely_wire::{Endpoint, Name, NameRef};
use rustix::io::Errno;
use rustix::net::SocketType;
use serde_json::json;

pub use self::control::ANSWER_OCTETS_MAX;
use self::control::Control;
pub use self::error::ManagementError;
use super::carrier::{Bindings, Carrier, Delivery, Ready};
use super::fault::Fault;
use super::outbox::Outbox;
use super::reach::{NotBound, Reachability};
use super::{memory, peer};

/// Default folder for the sockets of NDN-DPDK's applications.
const FOLDER: &str = "/run/ndn";

/// Octets of a buffer, and so of a link packet: the default of the forwarder.
const BUFFER_OCTETS: u32 = 2048;

/// log2 of the slots of a ring.
const RING_SIZE_LOG2: u8 = 10;

/// Number of the interface on its socket.
const INTERFACE: u32 = 1;

/// Time for NDN-DPDK to open the socket of a new face.
///
/// # Limit
/// The face is deleted, and the router is not used.
/// - Tests: `a_face_without_its_socket_is_deleted`
const SOCKET_TIME_MAX: Duration = Duration::from_secs(2);

/// Pause between two attempts to open the socket.
const SOCKET_PAUSE: Duration = Duration::from_millis(10);

/// A face of the forwarder, and the client's end of it.
#[derive(Debug)]
pub(super) struct NdnDpdk {
    // The order matters: fields drop in this order, and the forwarder's state must be deleted
    // before the memory is freed.
    attachment: Attachment,
    interface: Interface,
}

/// The forwarder's state for this connection. It is deleted on drop.
#[derive(Debug)]
struct Attachment {
    control: Control,
    face: String,
    served: Vec<Name>,
}

/// Requests a face from the forwarder, and opens the client's end.
pub(super) fn attach(server: &Endpoint, folder: Option<&str>, trusted: &str) -> io::Result<NdnDpdk> {
    // Process ids recur, so a random number makes the path unique.
    let number = u64::from_ne_bytes(namely_host::random()?);
    let folder = folder.unwrap_or(FOLDER);
    let path = format!("{folder}/memif-{}-{number:016x}.sock", std::process::id());
    let mut locator = json!({
        "scheme": "memif", "role": "server", "socketName": path, "id": INTERFACE, "dataroom": BUFFER_OCTETS,
        "ringCapacity": 1 << RING_SIZE_LOG2,
    });
    let (uid, gid) = (rustix::process::geteuid(), rustix::process::getegid());
    // Without this the socket belongs to the forwarder's user, and this process is not permitted to
    // connect.
    if !uid.is_root() {
        locator["socketOwner"] = json!([uid.as_raw(), gid.as_raw()]);
    }
    let control = Control { server: server.clone() };
    let face = control.create_face(&locator)?;
    tracing::debug!(%server, face, path, "NDN-DPDK has made a face");
    // An early return drops `attachment`, which deletes the face.
    let attachment = Attachment { control, face, served: Vec::new() };
    let interface = take_up(&path, trusted).map_err(|error| match error.get_ref() {
        Some(source) if !source.is::<namely_memif::Fault>() => error,
        _ => ManagementError::Socket(path, error.kind()).into(),
    })?;
    Ok(NdnDpdk { attachment, interface })
}

/// Connects to the socket. Waits for it, because the forwarder may open it with a delay.
fn take_up(path: &str, trusted: &str) -> io::Result<Interface> {
    let end = Instant::now() + SOCKET_TIME_MAX;
    let options = Options {
        id: INTERFACE,
        buffer_octets: BUFFER_OCTETS,
        ring_size_log2: RING_SIZE_LOG2,
        ..Options::default()
    };
    loop {
        match peer::connect(path, SocketType::SEQPACKET, trusted) {
            Ok(socket) => return memory::connect(socket, options),
            Err(error)
                if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::ConnectionRefused)
                    && Instant::now() < end =>
            {
                std::thread::sleep(SOCKET_PAUSE);
            }
            Err(error) => return Err(error),
        }
    }
}

impl Attachment {
    /// Adds the face to the next hops of `prefix`. A FIB entry can only be replaced as a whole, so
    /// the other next hops and the strategy of the present entry are copied.
    fn serve(&mut self, prefix: NameRef<'_>) -> Result<(), ManagementError> {
        let mut entry = self.control.find(prefix)?;
        if !entry.nexthops.contains(&self.face) {
            entry.nexthops.push(self.face.clone());
        }
        self.control.insert(prefix, &entry)?;
        // The prefix is recorded after the insertion, so that `end` withdraws only inserted
        // prefixes.
        if self.served.iter().all(|served| served.as_name() != prefix) {
            self.served.push(prefix.to_name());
        }
        Ok(())
    }

    fn withdraw(&self, prefix: NameRef<'_>) -> Result<(), ManagementError> {
        let mut entry = self.control.find(prefix)?;
        entry.nexthops.retain(|face| *face != self.face);
        match &entry.id {
            // An entry without next hops would still match and would hide routes of shorter
            // prefixes.
            Some(id) if entry.nexthops.is_empty() => self.control.delete(id),
            Some(_) => self.control.insert(prefix, &entry),
            None => Ok(()),
        }
    }

    /// Deletes the forwarder's state for this connection, as far as the server answers.
    fn end(&mut self) -> Result<(), ManagementError> {
        let mut ended = Ok(());
        for prefix in std::mem::take(&mut self.served) {
            match self.withdraw(prefix.as_name()) {
                // Each further request would wait for the same timeout.
                Err(error) if error.is_of_all() => return Err(error),
                Err(error) => ended = Err(error),
                Ok(()) => {}
            }
        }
        // The face is deleted even if a prefix could not be withdrawn.
        self.control.delete(&self.face).and(ended)
    }
}

impl Drop for Attachment {
    fn drop(&mut self) {
        if let Err(error) = self.end() {
            tracing::warn!(face = self.face, %error, "something is left behind at NDN-DPDK");
        }
    }
}

impl Bindings for NdnDpdk {
    fn bind(&mut self, prefix: NameRef<'_>, _is_shared: bool) -> Result<Reachability, NotBound> {
        self.attachment.serve(prefix).map_err(NotBound::NdnDpdk)?;
        Ok(Reachability::Route)
    }

    fn unbind(&mut self, prefix: NameRef<'_>, _is_shared: bool) -> Result<(), NotBound> {
        self.attachment.served.retain(|served| served.as_name() != prefix);
        self.attachment.withdraw(prefix).map_err(NotBound::NdnDpdk)
    }
}

impl Carrier for NdnDpdk {
    fn frame_octets_max(&self) -> Option<usize> {
        Some(BUFFER_OCTETS as usize)
    }

    fn is_lossy(&self) -> bool {
        self.interface.is_lossy()
    }

    fn watch(&self, waker: &Waker) -> Result<(), Errno> {
        self.interface.watch(waker)
    }

    fn bindings(&mut self) -> Option<&mut dyn Bindings> {
        Some(self)
    }

    fn send(&mut self, outbox: &mut Outbox) -> Result<(), Fault> {
        self.interface.send(outbox)
    }

    fn take_pending(&mut self, delivery: &mut Delivery<'_>) -> Result<usize, Fault> {
        self.interface.take_pending(delivery)
    }

    fn wait(&mut self, outbox: &mut Outbox, waker: &Waker, wait_ns: u64) -> Result<Ready, Fault> {
        Carrier::wait(&mut self.interface, outbox, waker, wait_ns)
    }

    fn receive(&mut self, delivery: &mut Delivery<'_>) -> Result<usize, Fault> {
        Carrier::receive(&mut self.interface, delivery)
    }
}
