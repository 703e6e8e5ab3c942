//! What the state machine wants done.

use alloc::vec::Vec;

use namely_wire::Name;

use crate::interface::InterfaceId;
use crate::message::{OwnHello, OwnReply};
use crate::station::{Face, Key, Station};

/// One station that a message goes to. A station that is no neighbour yet has no face: the message
/// goes to it past all faces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Recipient {
    /// Where it is.
    pub station: Station,
    /// Its face, if there is one.
    pub face: Option<Face>,
    /// The longest frame that it takes, octets.
    pub mtu: usize,
}

/// Something that the home of the state machine carries out, in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Sign and send a hello: to the group of the interface, or to one station. Then
    /// [`crate::Discovery::hello_sent`] is called.
    SendHello {
        /// Where.
        interface: InterfaceId,
        /// To one station only.
        to: Option<Recipient>,
        /// What.
        hello: OwnHello,
    },
    /// Sign and send a reply to one station.
    SendReply {
        /// Where.
        interface: InterfaceId,
        /// To whom.
        to: Recipient,
        /// What.
        reply: OwnReply,
    },
    /// Check a signature, and call [`crate::Discovery::verified`].
    Verify {
        /// Which.
        ticket: u64,
        /// Whose signature it claims to be.
        key: Key,
        /// The Interest or Data.
        packet: Vec<u8>,
    },
    /// Make a unicast face, and call [`crate::Discovery::face_made`].
    MakeFace {
        /// Through which interface.
        interface: InterfaceId,
        /// Where to.
        station: Station,
        /// The longest frame to send, octets.
        mtu: usize,
    },
    /// Destroy a face.
    DestroyFace {
        /// Which.
        face: Face,
    },
    /// Change the longest frame of a face.
    SetMtu {
        /// Which.
        face: Face,
        /// Octets.
        mtu: usize,
    },
    /// Change the longest frame that is multicast on an interface.
    SetGroupMtu {
        /// Which.
        interface: InterfaceId,
        /// Octets.
        mtu: usize,
    },
    /// Lead a prefix to a face.
    AddRoute {
        /// The face.
        face: Face,
        /// The prefix.
        prefix: Name,
    },
    /// Take that back.
    RemoveRoute {
        /// The face.
        face: Face,
        /// The prefix.
        prefix: Name,
    },
    /// Write a line to the log: at most one for each event.
    Note {
        /// On which interface.
        interface: InterfaceId,
        /// About whom.
        station: Station,
        /// What happened.
        note: Note,
    },
}

/// An event that people should know of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Note {
    /// A neighbour is there.
    Proven {
        /// The MTU of its face, octets.
        mtu: usize,
        /// Its key.
        key: Key,
    },
    /// It was not heard of for three heartbeats.
    Expired,
    /// It said goodbye.
    Left,
    /// Its MTU changed; octets.
    Mtu(usize),
    /// It announces a prefix, which is a route now.
    Accepted(Name),
    /// It announces a prefix that no rule accepts.
    Refused(Name),
    /// It speaks under another key than before: an impostor, or a router that was set up anew.
    OtherKey,
    /// Its MTU is smaller than the configuration allows.
    MtuTooSmall(usize),
    /// It is not listened to for some time.
    Quarantined,
    /// There is no room for it.
    NoRoom,
}

/// Whether a signature was right.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Proof {
    /// It was.
    Right,
    /// It was not.
    Wrong,
}
