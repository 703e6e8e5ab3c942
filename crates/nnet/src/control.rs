//! The management of a forwarder in the kernel: changes and listings of faces of devices, routes,
//! strategies, bindings and the content store. Listings need no privilege. Changes need
//! CAP_NET_ADMIN in the user namespace that owns the network namespace.

use std::ops::ControlFlow;

use namely_wire::{MacAddress, Name, NameRef};
use rustix::io::Errno;
use rustix::net::RecvFlags;
use rustix::net::netlink::GENERIC;

use crate::netlink::{Attributes, Message, Request, RequestError, Socket};
use crate::uapi::{NNET_GENL_NAME, attr, cmd};

/// Octets of `genlmsghdr`: the command and the version of the family.
pub(crate) const GENERIC_HEADER_OCTETS: usize = 4;

/// The controller of generic netlink, which resolves a family's number.
mod controller {
    pub(super) const ID: u16 = 16;
    pub(super) const GET_FAMILY: u8 = 3;
    pub(super) const FAMILY_ID: u16 = 1;
    pub(super) const FAMILY_NAME: u16 = 2;
    pub(super) const GROUPS: u16 = 7;
    pub(super) const GROUP_NAME: u16 = 1;
    pub(super) const GROUP_ID: u16 = 2;
}

/// The reason why the kernel refused a request.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ControlError {
    /// Environment: the module is not loaded.
    #[error("the kernel's forwarder is not loaded")]
    NotLoaded,
    /// Caller: it lacks CAP_NET_ADMIN here.
    #[error("to change the kernel's forwarder takes CAP_NET_ADMIN in this network namespace")]
    NotPermitted,
    /// Caller: there is no such face, route, strategy choice or device.
    #[error("the kernel has no such thing")]
    NotFound,
    /// Caller: the kernel refused the arguments as invalid, with its message if there is one.
    #[error("the kernel takes it for invalid{}", .0.as_deref().map(|text| format!(": {text}")).unwrap_or_default())]
    Invalid(Option<String>),
    /// Caller: the face is permanent, or belongs to a socket.
    #[error("this face cannot be taken away: it is `local`, or that of a program's socket")]
    Permanent,
    /// Caller: there is no such strategy.
    #[error("the kernel has no such strategy")]
    NoStrategy,
    /// Environment: a table is as full as the module's parameters allow.
    #[error("the table is as full as the module's parameters allow (docs/kernel.md)")]
    Full,
    /// Bug in the kernel: this namespace's forwarder has stopped.
    #[error("the kernel's forwarder has stopped in this network namespace")]
    Stopped,
    /// Environment: the system refuses.
    #[error("the kernel refuses: {0}")]
    System(#[source] Errno),
}

impl ControlError {
    fn of(errno: Errno, text: Option<String>) -> Self {
        match errno {
            Errno::PERM | Errno::ACCESS => ControlError::NotPermitted,
            Errno::NOENT | Errno::NODEV => ControlError::NotFound,
            Errno::INVAL => ControlError::Invalid(text),
            Errno::BUSY => ControlError::Permanent,
            Errno::OPNOTSUPP => ControlError::NoStrategy,
            Errno::NOSPC => ControlError::Full,
            Errno::SHUTDOWN | Errno::IO => ControlError::Stopped,
            errno => ControlError::System(errno),
        }
    }
}

impl From<Errno> for ControlError {
    fn from(errno: Errno) -> Self {
        ControlError::System(errno)
    }
}

impl From<RequestError> for ControlError {
    fn from(error: RequestError) -> Self {
        match error {
            RequestError::System(errno) => ControlError::System(errno),
            RequestError::Refused(errno, text) => ControlError::of(errno, text),
        }
    }
}

/// The endpoint of a face.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaceKind {
    /// A program's socket.
    Socket,
    /// A link address on a device.
    LinkAddress,
    /// A group of link addresses on a device.
    Group,
}

/// A face.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Face {
    /// Its number.
    pub id: u64,
    /// The endpoint of the face.
    pub kind: FaceKind,
    /// The index of its network device, and the address of the peer or group; none for a socket.
    pub link: Option<(u32, MacAddress)>,
    /// Packets or frames received.
    pub packets_in: u64,
    /// Packets or frames sent.
    pub packets_out: u64,
}

/// A next hop of a prefix.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Route {
    /// The prefix.
    pub prefix: Name,
    /// The face that it leads to.
    pub face: u64,
    /// Lower is better.
    pub cost: u64,
}

/// A prefix that a socket has bound.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Binding {
    /// The prefix.
    pub prefix: Name,
    /// The socket's face.
    pub face: u64,
}

/// The strategy that forwards below a prefix.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StrategyChoice {
    /// The prefix.
    pub prefix: Name,
    /// The strategy.
    pub strategy: Name,
}

/// A socket of the family `nnet`.
#[derive(Debug)]
pub struct Control {
    pub(crate) socket: Socket,
    family: u16,
}

impl Control {
    /// Connects to the forwarder of this network namespace.
    ///
    /// # Errors
    /// [`ControlError::NotLoaded`]: there is no such family.
    pub fn open() -> Result<Self, ControlError> {
        let mut control = Control { socket: Socket::open(Some(GENERIC), 0)?, family: controller::ID };
        let mut family = None;
        let take =
            &mut |attributes: Attributes<'_>| family = family.or(attributes.u16(controller::FAMILY_ID));
        control.exchange(family_request(), take).map_err(|error| match error {
            ControlError::NotFound => ControlError::NotLoaded,
            error => error,
        })?;
        control.family = family.ok_or(ControlError::NotLoaded)?;
        Ok(control)
    }

    /// The number of a group of the family.
    pub(crate) fn group(&mut self, name: &str) -> Result<Option<u32>, ControlError> {
        let mut number = None;
        self.exchange(family_request(), &mut |attributes| {
            let groups = Attributes(attributes.octets(controller::GROUPS).unwrap_or_default());
            for (_, group) in groups.all() {
                let group = Attributes(group);
                let named = group.octets(controller::GROUP_NAME).and_then(|name| name.strip_suffix(b"\0"));
                if named == Some(name.as_bytes()) {
                    number = group.u32(controller::GROUP_ID);
                }
            }
        })?;
        Ok(number)
    }

    fn request(&self, command: u8, is_listing: bool) -> Request {
        Request::new(self.family, is_listing, &generic_header(command))
    }

    /// Sends a request, and passes the attributes of each message of the answer to `take` until the
    /// answer ends.
    fn exchange(
        &mut self,
        request: Request,
        take: &mut dyn FnMut(Attributes<'_>),
    ) -> Result<(), ControlError> {
        let take = &mut |message: Message<'_>| -> ControlFlow<()> {
            take(message.attributes(GENERIC_HEADER_OCTETS));
            ControlFlow::Continue(())
        };
        self.socket.exchange(request, RecvFlags::empty(), take).map_err(ControlError::from)
    }

    /// Stops this network namespace's forwarder by a panic, if the module was loaded with
    /// `planted=1`. Tests use it to check the effect on programs.
    ///
    /// # Errors
    /// [`ControlError::NoStrategy`]: the module was loaded without `planted=1`.
    /// [`ControlError::Stopped`]: the forwarder has stopped.
    pub fn plant_panic(&mut self) -> Result<(), ControlError> {
        let request = self.request(cmd::PANIC, false);
        self.exchange(request, &mut |_| {})
    }

    fn list<T>(
        &mut self,
        command: u8,
        parse: impl Fn(Attributes<'_>) -> Option<T>,
    ) -> Result<Vec<T>, ControlError> {
        let mut rows = Vec::new();
        let request = self.request(command, true);
        self.exchange(request, &mut |attributes| rows.extend(parse(attributes)))?;
        Ok(rows)
    }

    /// The faces of devices and of sockets; `local` is not among them.
    ///
    /// # Errors
    /// [`ControlError`], as for every call below.
    pub fn faces(&mut self) -> Result<Vec<Face>, ControlError> {
        self.list(cmd::FACE_GET, face)
    }

    /// Creates a face for a link address or group on the device with this index, or for NDN's
    /// group.
    ///
    /// # Errors
    /// [`ControlError::NotFound`]: no such device. [`ControlError::Full`]: too many faces.
    /// [`ControlError::System`] with `EXIST`: there is one.
    pub fn face_new(&mut self, device: u32, address: Option<MacAddress>) -> Result<u64, ControlError> {
        let mut request = self.request(cmd::FACE_NEW, false).with(attr::IFINDEX, &device.to_ne_bytes());
        if let Some(MacAddress(octets)) = address {
            request = request.with(attr::ADDRESS, &octets);
        }
        let mut face = None;
        self.exchange(request, &mut |attributes| face = attributes.u64(attr::FACE))?;
        face.ok_or(ControlError::System(Errno::BADMSG))
    }

    /// Removes the face of a device, and the routes to it.
    ///
    /// # Errors
    /// [`ControlError::Permanent`]: it is `local` or a socket's.
    pub fn face_del(&mut self, face: u64) -> Result<(), ControlError> {
        let request = self.request(cmd::FACE_DEL, false).with(attr::FACE, &face.to_ne_bytes());
        self.exchange(request, &mut |_| {})
    }

    /// The FIB, a row for each next hop.
    ///
    /// # Errors
    /// As for every call.
    pub fn routes(&mut self) -> Result<Vec<Route>, ControlError> {
        self.list(cmd::ROUTE_GET, |row| {
            Some(Route {
                prefix: name(row, attr::NAME)?,
                face: row.u64(attr::FACE)?,
                cost: row.u64(attr::COST)?,
            })
        })
    }

    /// Adds a next hop of a prefix, or changes its cost.
    ///
    /// # Errors
    /// [`ControlError::NotFound`]: no such face. [`ControlError::Full`]: too many prefixes.
    pub fn route_new(&mut self, prefix: NameRef<'_>, face: u64, cost: u64) -> Result<(), ControlError> {
        let request = self
            .request(cmd::ROUTE_NEW, false)
            .with(attr::NAME, prefix.as_bytes())
            .with(attr::FACE, &face.to_ne_bytes())
            .with(attr::COST, &cost.to_ne_bytes());
        self.exchange(request, &mut |_| {})
    }

    /// Removes a next hop.
    ///
    /// # Errors
    /// [`ControlError::NotFound`]: there is none.
    pub fn route_del(&mut self, prefix: NameRef<'_>, face: u64) -> Result<(), ControlError> {
        let request = self
            .request(cmd::ROUTE_DEL, false)
            .with(attr::NAME, prefix.as_bytes())
            .with(attr::FACE, &face.to_ne_bytes());
        self.exchange(request, &mut |_| {})
    }

    /// The strategy choices.
    ///
    /// # Errors
    /// As for every call.
    pub fn strategies(&mut self) -> Result<Vec<StrategyChoice>, ControlError> {
        self.list(cmd::STRATEGY_GET, |row| {
            Some(StrategyChoice { prefix: name(row, attr::NAME)?, strategy: name(row, attr::STRATEGY)? })
        })
    }

    /// Chooses the strategy below a prefix.
    ///
    /// # Errors
    /// [`ControlError::NoStrategy`].
    pub fn strategy_new(&mut self, prefix: NameRef<'_>, strategy: NameRef<'_>) -> Result<(), ControlError> {
        let request = self
            .request(cmd::STRATEGY_NEW, false)
            .with(attr::NAME, prefix.as_bytes())
            .with(attr::STRATEGY, strategy.as_bytes());
        self.exchange(request, &mut |_| {})
    }

    /// Removes the strategy choice of a prefix.
    ///
    /// # Errors
    /// [`ControlError::NotFound`]: there is none.
    pub fn strategy_del(&mut self, prefix: NameRef<'_>) -> Result<(), ControlError> {
        let request = self.request(cmd::STRATEGY_DEL, false).with(attr::NAME, prefix.as_bytes());
        self.exchange(request, &mut |_| {})
    }

    /// The prefixes that sockets have bound.
    ///
    /// # Errors
    /// As for every call.
    pub fn bindings(&mut self) -> Result<Vec<Binding>, ControlError> {
        self.list(cmd::BINDING_GET, |row| {
            Some(Binding { prefix: name(row, attr::NAME)?, face: row.u64(attr::FACE)? })
        })
    }

    /// Sets the content store's capacity, in Data.
    ///
    /// # Errors
    /// [`ControlError::Full`]: more than the module's parameter `cs_packets_max`.
    pub fn cs_set(&mut self, packets_max: u64) -> Result<(), ControlError> {
        let request = self.request(cmd::CS_SET, false).with(attr::COUNT, &packets_max.to_ne_bytes());
        self.exchange(request, &mut |_| {})
    }

    /// Erases a portion of the Data below a prefix, at most `most`. Returns the number of erased
    /// Data; 0 if none is left.
    ///
    /// # Errors
    /// As for every call.
    pub fn cs_erase(&mut self, prefix: NameRef<'_>, most: Option<u64>) -> Result<u64, ControlError> {
        let mut request = self.request(cmd::CS_ERASE, false).with(attr::NAME, prefix.as_bytes());
        if let Some(most) = most {
            request = request.with(attr::COUNT, &most.to_ne_bytes());
        }
        let mut erased = 0;
        self.exchange(request, &mut |attributes| erased = attributes.u64(attr::COUNT).unwrap_or(0))?;
        Ok(erased)
    }
}

/// The header of a message of generic netlink.
pub(crate) fn generic_header(command: u8) -> [u8; GENERIC_HEADER_OCTETS] {
    [command, 1, 0, 0]
}

/// A request for the number and the groups of the family.
fn family_request() -> Request {
    Request::new(controller::ID, false, &generic_header(controller::GET_FAMILY))
        .with(controller::FAMILY_NAME, format!("{NNET_GENL_NAME}\0").as_bytes())
}

/// Parses a face from a row or an event.
pub(crate) fn face(row: Attributes<'_>) -> Option<Face> {
    let address = || Some(MacAddress(row.octets(attr::ADDRESS)?.try_into().ok()?));
    Some(Face {
        id: row.u64(attr::FACE)?,
        kind: match row.u32(attr::KIND)? {
            0 => FaceKind::Socket,
            1 => FaceKind::LinkAddress,
            _ => FaceKind::Group,
        },
        link: row.u32(attr::IFINDEX).zip(address()),
        packets_in: row.u64(attr::IN)?,
        packets_out: row.u64(attr::OUT)?,
    })
}

fn name(row: Attributes<'_>, attribute: u16) -> Option<Name> {
    NameRef::parse_value(row.octets(attribute)?).ok().map(Name::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_kernel_module_is_reported() {
        match Control::open() {
            Ok(mut control) => assert!(control.routes().is_ok()),
            Err(error) => {
                assert_eq!(error, ControlError::NotLoaded);
                assert!(!crate::module::is_loaded());
            }
        }
    }
}
