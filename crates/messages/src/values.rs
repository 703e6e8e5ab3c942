//! The closed sets of numbers in management, and flag bits and status codes.

use core::fmt;
use core::str::FromStr;

use super::field::{Field, choice_field};
use namely_wire::DecodeError;
use namely_wire::fields::Fields;
use namely_wire::tlv::Writer;

/// Makes an enum whose variants have a number on the wire and a word for people.
macro_rules! numbered {
    ($(#[$doc:meta])* $name:ident { $($(#[$variant_doc:meta])* $variant:ident = $number:literal, $word:literal;)* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum $name {
            $($(#[$variant_doc])* $variant,)*
        }

        impl $name {
            /// All values, in the order of their numbers.
            pub const ALL: &[$name] = &[$($name::$variant),*];

            /// The number on the wire.
            pub fn number(self) -> u64 {
                match self {
                    $($name::$variant => $number,)*
                }
            }

            /// The value of a number on the wire, if it is a known one.
            pub fn from_number(n: u64) -> Option<Self> {
                Self::ALL.iter().copied().find(|v| v.number() == n)
            }

            /// The word that NFD's tools print.
            pub fn as_str(self) -> &'static str {
                match self {
                    $($name::$variant => $word,)*
                }
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.pad(self.as_str())
            }
        }

        impl FromStr for $name {
            type Err = DecodeError;

            /// Reads the word that [`fmt::Display`] writes.
            fn from_str(word: &str) -> Result<Self, DecodeError> {
                Self::ALL.iter().copied().find(|v| v.as_str() == word).ok_or(DecodeError::BadText)
            }
        }
    };
}

numbered! {
    /// The condition under which a face is closed.
    #[derive(Default)]
    FacePersistency {
        /// Closed only if it is destroyed or its socket fails.
        #[default]
        Persistent = 0, "persistent";
        /// Closed after it has been idle for a while.
        OnDemand = 1, "on-demand";
        /// Closed only if it is destroyed; it outlives its socket.
        Permanent = 2, "permanent";
    }
}

numbered! {
    /// Whether the peer of a face is on this host. `/localhost` packets use only local faces.
    #[derive(Default)]
    FaceScope {
        /// Leads to other hosts.
        #[default]
        NonLocal = 0, "non-local";
        /// Leads to applications on this host.
        Local = 1, "local";
    }
}

numbered! {
    /// The number of peers that a face reaches.
    #[derive(Default)]
    LinkType {
        /// One.
        #[default]
        PointToPoint = 0, "point-to-point";
        /// All members of a group, which also receive from each other.
        MultiAccess = 1, "multi-access";
        /// Members that may not all receive from each other.
        AdHoc = 2, "adhoc";
    }
}

numbered! {
    /// An event of a face.
    FaceEventKind {
        /// The face exists now.
        Created = 1, "created";
        /// The face is gone.
        Destroyed = 2, "destroyed";
        /// The face works again.
        Up = 3, "up";
        /// The face does not work at the moment.
        Down = 4, "down";
    }
}

numbered! {
    /// Whether a face can send. Namely's own.
    #[derive(Default)]
    FaceState {
        /// Able to send.
        #[default]
        Up = 1, "up";
        /// Not able to send at present: the peer or the network device is away.
        Down = 2, "down";
        /// Connecting for the first time.
        Connecting = 3, "connecting";
    }
}

choice_field!(FacePersistency, FaceScope, FaceState, LinkType, FaceEventKind);

/// The origin of a route in the RIB. An open set: routing programs may use other numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RouteOrigin(pub u64);

impl Field for RouteOrigin {
    fn read(fields: &Fields<'_>, typ: u32) -> Result<Self, DecodeError> {
        fields.nni(typ).map(RouteOrigin)
    }

    fn write(&self, w: &mut Writer, typ: u32) {
        w.nni(typ, self.0);
    }
}

impl RouteOrigin {
    /// An application, for its own prefix.
    pub const APP: RouteOrigin = RouteOrigin(0);
    /// The router, for a new face that matches its rules.
    pub const AUTOREG: RouteOrigin = RouteOrigin(64);
    /// An end host's router, on the router of its network.
    pub const CLIENT: RouteOrigin = RouteOrigin(65);
    /// Discovery of the network's router.
    pub(crate) const AUTOCONF: RouteOrigin = RouteOrigin(66);
    /// The NLSR routing daemon.
    pub const NLSR: RouteOrigin = RouteOrigin(128);
    /// A Prefix Announcement.
    pub const PREFIX_ANNOUNCEMENT: RouteOrigin = RouteOrigin(129);
    /// A person or a script.
    pub const STATIC: RouteOrigin = RouteOrigin(255);

    const WORDS: [(RouteOrigin, &'static str); 7] = [
        (Self::APP, "app"),
        (Self::AUTOREG, "autoreg"),
        (Self::CLIENT, "client"),
        (Self::AUTOCONF, "autoconf"),
        (Self::NLSR, "nlsr"),
        (Self::PREFIX_ANNOUNCEMENT, "prefixann"),
        (Self::STATIC, "static"),
    ];
}

impl fmt::Display for RouteOrigin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match Self::WORDS.iter().find(|(origin, _)| origin == self) {
            Some((_, word)) => f.pad(word),
            None => self.0.fmt(f),
        }
    }
}

impl FromStr for RouteOrigin {
    type Err = DecodeError;

    /// Reads the word that [`fmt::Display`] writes, or a number.
    fn from_str(text: &str) -> Result<Self, DecodeError> {
        match Self::WORDS.iter().find(|(_, word)| *word == text) {
            Some((origin, _)) => Ok(*origin),
            None => text.parse().map(RouteOrigin).map_err(|_| DecodeError::BadText),
        }
    }
}

/// Bits of a face's Flags and Mask.
pub mod face_flags {
    /// IncomingFaceId, NextHopFaceId and CachePolicy are understood on the face.
    pub const LOCAL_FIELDS: u64 = 1 << 0;
    /// Lost link packets are sent again.
    pub const LINK_RELIABILITY: u64 = 1 << 1;
    /// A long send queue marks packets.
    pub const CONGESTION_MARKING: u64 = 1 << 2;
}

/// Bits of the content store's Flags and Mask.
pub mod cs_flags {
    /// New Data may enter.
    pub const ENABLE_ADMIT: u64 = 1 << 0;
    /// Cached Data may answer.
    pub const ENABLE_SERVE: u64 = 1 << 1;
}

/// Bits of a binding's Flags (`bpt/bind`). Namely's own.
pub mod bind_flags {
    /// In a command: bind only if a route leads the prefix to the face `local`. In a response: such
    /// a route exists.
    pub const ROUTED: u64 = 1 << 0;
}

/// Bits of a route's Flags.
pub mod route_flags {
    /// The route also serves longer prefixes that have routes of their own.
    pub const CHILD_INHERIT: u64 = 1 << 0;
    /// Routes of shorter prefixes do not serve this one.
    pub const CAPTURE: u64 = 1 << 1;
}

/// StatusCode numbers that NFD uses.
pub mod status_code {
    /// Done.
    pub const OK: u64 = 200;
    /// Parameters are malformed, missing or not allowed together.
    pub const BAD_PARAMETERS: u64 = 400;
    /// The signer may not do this.
    pub const UNAUTHORIZED: u64 = 403;
    /// There is no such face or strategy.
    pub const NOT_FOUND: u64 = 404;
    /// The URI's protocol is not available.
    pub const UNSUPPORTED_PROTOCOL: u64 = 406;
    /// The face exists already, its properties cannot be set so, or a prefix overlaps a bound one.
    pub const CONFLICT: u64 = 409;
    /// The face of a next hop does not exist.
    pub const FACE_NOT_FOUND: u64 = 410;
    /// The name has more components than the table takes.
    pub const NAME_TOO_LONG: u64 = 414;
    /// The router failed.
    pub const INTERNAL_ERROR: u64 = 500;
    /// The face could not be made: the environment refused.
    pub const FACE_CREATION_FAILED: u64 = 504;
}
