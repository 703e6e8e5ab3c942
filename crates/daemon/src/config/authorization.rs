//! Authorization rules for local users and for keys.

use std::path::PathBuf;

use namely_mgmt::Loopback;
use namely_wire::Name;
use serde::Deserialize;

use super::values;

/// The authorization rules. Root and the daemon's own user may do everything and need no rule.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Authorization {
    /// The upper limit of a user's rights over a loopback connection. The kernel reports the user
    /// of such a connection.
    #[serde(deserialize_with = "loopback")]
    pub loopback: Loopback,
    /// Whether users are identified over UDP, too, by the present owner of the socket at the
    /// sender's address. `/localhost/nfd` and `/localhop/nfd/rib` then answer them. A UDP face
    /// outlives this socket, so the next owner of the port inherits the face.
    pub loopback_udp: bool,
    /// Whether `/localhop/nfd/rib` answers: other nodes may then register prefixes on this router,
    /// with commands that a `key` rule allows.
    pub localhop_rib: bool,
    /// Whether hop-by-hop queries about a name (`namely why NAME --trace`) are answered with the
    /// route, the strategy and the addresses of next hops.
    pub explain_to_network: bool,
    /// Whether every user of this machine may bind a prefix below one that is routed to the face
    /// `local`.
    pub bind_below_local: bool,
    /// Files of certificates. If there are any, a prefix announcement (`rib/announce`) must be
    /// signed by one of their keys, and the identity of that key must be above the prefix.
    pub announcement_anchors: Vec<PathBuf>,
    /// Additional rights of users of the Unix socket or of loopback connections. Matching rules add
    /// up. Without rules, only root and the router's own user may register prefixes.
    pub user: Vec<UserRule>,
    /// Rights of the owners of keys, for any connection.
    pub key: Vec<KeyRule>,
}

impl Default for Authorization {
    fn default() -> Self {
        Authorization {
            loopback: Loopback::default(),
            loopback_udp: false,
            localhop_rib: false,
            explain_to_network: false,
            bind_below_local: true,
            announcement_anchors: Vec::new(),
            user: Vec::new(),
            key: Vec::new(),
        }
    }
}

/// The rights of a user of the Unix socket.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct UserRule {
    /// A user name from `/etc/passwd`, a uid, or `"*"` for everyone.
    pub user: User,
    /// Prefixes at or under which the user's applications may register for themselves.
    #[serde(default, deserialize_with = "values::names")]
    pub register: Vec<Name>,
    /// Prefixes at or under which they may bind. The right to register includes the right to bind.
    #[serde(default, deserialize_with = "values::names")]
    pub bind: Vec<Name>,
    /// Whether the user may do everything: faces, routes of others, the content store, strategies.
    #[serde(default)]
    pub manage: bool,
}

/// A local user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum User {
    /// Everyone.
    Any,
    /// The user with this uid.
    Uid(u32),
    /// The user of this name, looked up when the configuration is applied.
    Name(String),
}

/// The rights of the owner of a key.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KeyRule {
    /// File of the certificate whose key must have signed the commands.
    pub certificate: PathBuf,
    /// Prefixes at or under which the owner may register.
    #[serde(default, deserialize_with = "values::names")]
    pub register: Vec<Name>,
    /// Prefixes at or under which the owner may bind. The right to register includes the right to
    /// bind.
    #[serde(default, deserialize_with = "values::names")]
    pub bind: Vec<Name>,
    /// Whether the owner may do everything.
    #[serde(default)]
    pub manage: bool,
}

fn loopback<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Loopback, D::Error> {
    let choices =
        [("nothing", Loopback::Nothing), ("register", Loopback::Register), ("manage", Loopback::Manage)];
    values::choice(deserializer, &choices)
}

impl<'de> Deserialize<'de> for User {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(UserVisitor)
    }
}

struct UserVisitor;

impl serde::de::Visitor<'_> for UserVisitor {
    type Value = User;

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("a user name, a uid, or \"*\"")
    }

    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<User, E> {
        match text {
            "" => Err(E::invalid_value(serde::de::Unexpected::Str(text), &self)),
            "*" => Ok(User::Any),
            _ => Ok(text.parse().map_or_else(|_| User::Name(text.into()), User::Uid)),
        }
    }

    fn visit_i64<E: serde::de::Error>(self, uid: i64) -> Result<User, E> {
        u32::try_from(uid)
            .map(User::Uid)
            .map_err(|_| E::invalid_value(serde::de::Unexpected::Signed(uid), &self))
    }
}
