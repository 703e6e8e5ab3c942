//! NDN-DPDK's forwarder on this machine, as its own applications use it (VI-05): a face of shared
//! memory that its management makes when it is asked by GraphQL, entries of its FIB for prefixes
//! that are served, and both deleted at the end.
//!
//! The forwarder listens on a socket of memif that is this connection's alone. Packets go as link
//! packets in its buffers of 2048 octets, longer ones in fragments. There is no other management:
//! commands of NFD end nowhere.

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
use super::reach::{NotBound, Reach};
use super::{memory, peer};

/// Folder of its applications' sockets, where nobody names another one.
const FOLDER: &str = "/run/ndn";

/// Octets of a buffer, and so of a link packet: what its forwarder has where nobody changed it.
const BUFFER_OCTETS: u32 = 2048;

/// log2 of the slots of a ring.
const RING_SIZE_LOG2: u8 = 10;

/// Number of the interface on its socket.
const INTERFACE: u32 = 1;

/// How long the forwarder may take from the face to its socket.
const SOCKET_TIME_MAX: Duration = Duration::from_secs(2);

/// How often the socket is looked for.
const SOCKET_PAUSE: Duration = Duration::from_millis(10);

/// A face of the forwarder's, and the program's end of it.
#[derive(Debug)]
pub(super) struct NdnDpdk {
    // In this order: what is at the forwarder goes before the memory does.
    attachment: Attachment,
    interface: Interface,
}

/// What the forwarder has for this connection, and deletes when it is dropped.
#[derive(Debug)]
struct Attachment {
    control: Control,
    face: String,
    served: Vec<Name>,
}

/// Has the forwarder make a face, and takes up its other end.
pub(super) fn attach(server: &Endpoint, folder: Option<&str>, trusted: &str) -> io::Result<NdnDpdk> {
    let number = u64::from_ne_bytes(namely_host::random()?);
    let folder = folder.unwrap_or(FOLDER);
    let path = format!("{folder}/memif-{}-{number:016x}.sock", std::process::id());
    let mut locator = json!({
        "scheme": "memif", "role": "server", "socketName": path, "id": INTERFACE, "dataroom": BUFFER_OCTETS,
        "ringCapacity": 1 << RING_SIZE_LOG2,
    });
    let (uid, gid) = (rustix::process::geteuid(), rustix::process::getegid());
    if !uid.is_root() {
        locator["socketOwner"] = json!([uid.as_raw(), gid.as_raw()]);
    }
    let control = Control { server: server.clone() };
    let face = control.create_face(&locator)?;
    tracing::debug!(%server, face, path, "NDN-DPDK has made a face");
    let attachment = Attachment { control, face, served: Vec::new() };
    let interface = take_up(&path, trusted).map_err(|error| match error.get_ref() {
        Some(told) if !told.is::<namely_memif::Fault>() => error,
        _ => ManagementError::Socket(path, error.kind()).into(),
    })?;
    Ok(NdnDpdk { attachment, interface })
}

/// Connects to the socket, for which the forwarder may need a moment.
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
    /// Adds the face to those that Interests for `prefix` go to. The entry of a FIB is written as a
    /// whole: who else serves the prefix, and its strategy, stay.
    fn serve(&mut self, prefix: NameRef<'_>) -> Result<(), ManagementError> {
        let mut entry = self.control.find(prefix)?;
        if !entry.nexthops.contains(&self.face) {
            entry.nexthops.push(self.face.clone());
        }
        self.control.insert(prefix, &entry)?;
        if self.served.iter().all(|served| served.as_name() != prefix) {
            self.served.push(prefix.to_name());
        }
        Ok(())
    }

    fn withdraw(&self, prefix: NameRef<'_>) -> Result<(), ManagementError> {
        let mut entry = self.control.find(prefix)?;
        entry.nexthops.retain(|face| *face != self.face);
        match &entry.id {
            Some(id) if entry.nexthops.is_empty() => self.control.delete(id),
            Some(_) => self.control.insert(prefix, &entry),
            None => Ok(()),
        }
    }

    /// Deletes what is there for this connection, as far as anybody answers.
    fn end(&mut self) -> Result<(), ManagementError> {
        let mut ended = Ok(());
        for prefix in std::mem::take(&mut self.served) {
            match self.withdraw(prefix.as_name()) {
                Err(error) if error.is_of_all() => return Err(error),
                Err(error) => ended = Err(error),
                Ok(()) => {}
            }
        }
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
    fn bind(&mut self, prefix: NameRef<'_>, _is_shared: bool) -> Result<Reach, NotBound> {
        self.attachment.serve(prefix).map_err(NotBound::NdnDpdk)?;
        Ok(Reach::Route)
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
