//! Actions that the state machine requests from its host.

use alloc::vec::Vec;

use namely_wire::Name;

use crate::interface::InterfaceId;
use crate::link_address::{Face, Key, LinkAddress};
use crate::message::{OwnHello, OwnReply};

/// The recipient of a message. A recipient that is no neighbor yet has no face, so the message is
/// sent to its link address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Recipient {
    /// The link address.
    pub station: LinkAddress,
    /// The face, if there is one.
    pub face: Option<Face>,
    /// The longest frame that the recipient accepts, octets.
    pub mtu: usize,
}

/// An action that the host of the state machine carries out. The host must carry out all actions in
/// order, because an action may set an MTU for the next one only.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Sign and send a hello, either to the group of the interface or to one link address. Then
    /// call [`crate::Discovery::hello_sent`].
    SendHello {
        /// The interface.
        interface: InterfaceId,
        /// The only recipient; `None` multicasts the hello.
        to: Option<Recipient>,
        /// The hello.
        hello: OwnHello,
    },
    /// Sign and send a reply to one link address.
    SendReply {
        /// The interface.
        interface: InterfaceId,
        /// The recipient.
        to: Recipient,
        /// The reply.
        reply: OwnReply,
    },
    /// Check a signature and call [`crate::Discovery::verified`].
    Verify {
        /// Passed back to [`crate::Discovery::verified`].
        ticket: u64,
        /// The key that the signature must match.
        key: Key,
        /// The Interest or Data.
        packet: Vec<u8>,
    },
    /// Make a unicast face and call [`crate::Discovery::face_made`].
    MakeFace {
        /// The interface.
        interface: InterfaceId,
        /// The remote link address.
        station: LinkAddress,
        /// The longest frame to send, octets.
        mtu: usize,
    },
    /// Destroy a face.
    DestroyFace {
        /// The face.
        face: Face,
    },
    /// Change the MTU of a face.
    SetMtu {
        /// The face.
        face: Face,
        /// The longest frame, octets.
        mtu: usize,
    },
    /// Change the longest frame that is multicast on an interface.
    SetGroupMtu {
        /// The interface.
        interface: InterfaceId,
        /// The longest frame, octets.
        mtu: usize,
    },
    /// Add a route for a prefix to a face.
    AddRoute {
        /// The face.
        face: Face,
        /// The prefix.
        prefix: Name,
    },
    /// Remove the route of an earlier `AddRoute`.
    RemoveRoute {
        /// The face.
        face: Face,
        /// The prefix.
        prefix: Name,
    },
    /// Write a line to the log. Each event causes one line at most.
    Note {
        /// The interface.
        interface: InterfaceId,
        /// The link address of the neighbor or peer.
        station: LinkAddress,
        /// The event.
        note: Note,
    },
}

/// An event for the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Note {
    /// A station became a proven neighbor.
    Proven {
        /// The MTU of the neighbor's face, octets.
        mtu: usize,
        /// The neighbor's key.
        key: Key,
    },
    /// No message of the neighbor arrived for three heartbeats.
    Expired,
    /// The neighbor sent a goodbye.
    Left,
    /// The MTU of the neighbor's face changed; octets.
    Mtu(usize),
    /// The neighbor announces a prefix, which is now a route.
    Accepted(Name),
    /// The neighbor announces a prefix that no rule accepts.
    Refused(Name),
    /// The peer uses another key than before. It is an impostor, or a router with a new key.
    OtherKey,
    /// The peer's MTU is smaller than the configuration allows.
    MtuTooSmall(usize),
    /// Messages of the peer are dropped until its quarantine ends.
    Quarantined,
    /// The table of neighbors is full.
    NoRoom,
}

/// The result of checking a signature.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Proof {
    /// The signature is valid.
    Valid,
    /// The signature is not valid.
    Invalid,
}
