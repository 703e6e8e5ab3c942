//! Who may change what: rules for local users and for keys.

use std::path::PathBuf;

use namely_mgmt::Loopback;
use namely_wire::Name;
use serde::Deserialize;

use super::values;

/// Who may change what. Root and the daemon's own user may do everything and need no rule.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Authorization {
    /// What users may do, at most, who come over loopback: the kernel says who they are.
    #[serde(deserialize_with = "loopback")]
    pub loopback: Loopback,
    /// Whether users are known over UDP too, by who has the socket that a command comes from:
    /// `/localhost/nfd` and `/localhop/nfd/rib` answer them then. A face outlives the socket.
    pub loopback_udp: bool,
    /// Whether `/localhop/nfd/rib` answers: other nodes may then register prefixes on this router,
    /// with commands that a `key` rule allows.
    pub localhop_rib: bool,
    /// Whether who follows a name hop by hop (`namely why NAME --trace`) is told where it goes from
    /// here: route, strategy and the addresses of next hops.
    pub explain_to_network: bool,
    /// Whether every user of this machine may bind a prefix below one that a route leads to the
    /// face `local`.
    pub bind_below_local: bool,
    /// Files of certificates: with some, prefix announcements (`rib/announce`) are taken only if
    /// the key of one signed them and its identity is above the prefix.
    pub announcement_anchors: Vec<PathBuf>,
    /// What users may do who come through the Unix socket or over loopback, beside that.
    /// All rules that fit add up; without any, only root and the router's own user register
    /// prefixes.
    pub user: Vec<UserRule>,
    /// What holders of keys may do, wherever they connect from.
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

/// What one user may do through the Unix socket.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct UserRule {
    /// A user name from `/etc/passwd`, a uid, or `"*"` for everyone.
    pub user: User,
    /// Prefixes at or under which the user's applications may register for themselves.
    #[serde(default, deserialize_with = "values::names")]
    pub register: Vec<Name>,
    /// Prefixes at or under which they may bind; where they may register they may bind, too.
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

/// What the holder of one key may do.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KeyRule {
    /// The file of the certificate that commands must be signed under.
    pub certificate: PathBuf,
    /// Prefixes at or under which the holder may register.
    #[serde(default, deserialize_with = "values::names")]
    pub register: Vec<Name>,
    /// Prefixes at or under which the holder may bind; where they may register they may bind, too.
    #[serde(default, deserialize_with = "values::names")]
    pub bind: Vec<Name>,
    /// Whether the holder may do everything.
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
