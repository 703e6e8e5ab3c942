//! Authorization rules.
//!
//! Two kinds of principals send commands: users of this machine, identified by the uid at the other
//! end of their Unix socket, and owners of keys, identified by their signature. Each has
//! [`Rights`]: to register prefixes for its own face, or to manage everything.

use std::fmt;

use namely_messages::{Command, ControlParameters, Scope};
use namely_security::Certificate;
use namely_wire::{Component, Name, NameRef};

/// The identity of a face's peer before a signature is checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Requester {
    /// A process of this machine that runs as this uid: `SO_PEERCRED` of its Unix socket, which
    /// shared memory has, too.
    User(u32),
    /// A process of this machine that runs as this uid, according to the kernel: the other end of a
    /// loopback connection, or the source address of a datagram.
    Loopback(u32),
    /// A process of this machine whose uid the kernel cannot report, with the reason. Only
    /// signatures count.
    Nameless(String),
    /// An unidentified peer. Only signatures count.
    Unknown,
}

/// The limit of the rights of users over a loopback connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Loopback {
    /// Nothing: only signatures count.
    Nothing,
    /// Register prefixes, as the rules for users allow.
    #[default]
    Register,
    /// All that the rules for users allow.
    Manage,
}

/// The rights of a principal.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rights {
    /// Prefixes at or under which routes to the own face may be registered.
    pub register: Vec<Name>,
    /// Prefixes at or under which the own face may bind. The right to register includes the right
    /// to bind.
    pub bind: Vec<Name>,
    /// Whether every command is allowed.
    pub manage: bool,
}

/// The authorization rules of a router.
#[derive(Clone, Debug, Default)]
pub struct Policy {
    /// Users with all rights: root, and the user that runs the router.
    pub superusers: Vec<u32>,
    /// Rights of users; the uid `None` matches every user. Matching rights add up.
    pub users: Vec<(Option<u32>, Rights)>,
    /// Rights of the owners of keys, each identified by a certificate.
    pub keys: Vec<(Certificate, Rights)>,
    /// The certificates whose keys may sign prefix announcements. Without any, only the rights of
    /// the command's sender count.
    pub announcement_anchors: Vec<Certificate>,
    /// The trust in user ids over loopback.
    pub loopback: Loopback,
    /// Whether every user may bind below a prefix that is routed to the face `local`.
    pub bind_below_local: bool,
    /// Whether `/localhop/nfd/rib` answers other machines.
    pub localhop_rib: bool,
    /// Whether hop-by-hop queries about names are answered for any sender of an Interest.
    pub explain_to_network: bool,
}

/// The rule that allows an act.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ground<'a> {
    /// The user is root or the user that runs the router.
    Superuser,
    /// The rule for all users: the name is below a prefix routed to the face `local`, or the
    /// binding is the user's own.
    Free,
    /// Every user of this machine may report Data that an application received.
    Consumer,
    /// The rule for this user, or for every user.
    Rule(Option<u32>, &'a Rights),
    /// The rule for this key, which signed the command.
    Key(NameRef<'a>, &'a Rights),
}

/// The kind of a command for the purpose of authorization.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Act<'a> {
    /// Adds or removes a route to the face that the command came from.
    RegisterOwn(NameRef<'a>),
    /// Binds a prefix to the face that the command came from.
    BindOwn {
        /// The prefix.
        name: NameRef<'a>,
        /// Whether a shorter prefix is routed to the face `local`.
        is_below_local: bool,
    },
    /// Removes a binding of the face that the command came from.
    UnbindOwn(NameRef<'a>),
    /// Chooses the strategy of a prefix that the face which the command came from has registered.
    ChooseOwn(NameRef<'a>),
    /// Reports invalid Data. Every user of this machine may do so.
    Report,
    /// Executes any other command.
    Manage,
}

impl<'a> Act<'a> {
    /// The act of `command` with `parameters` from face `own`. `routed` returns the number of
    /// components of a name that are routed to the face `local`.
    pub fn of(
        command: Command,
        parameters: &'a ControlParameters,
        own: u64,
        routed: impl Fn(NameRef<'_>) -> Option<usize>,
    ) -> Self {
        let is_own = matches!(parameters.face_id, None | Some(0)) || parameters.face_id == Some(own);
        match (command, &parameters.name) {
            (Command::RibRegister | Command::RibUnregister | Command::RibAnnounce, Some(name)) if is_own => {
                Act::RegisterOwn(name.as_name())
            }
            (Command::BptBind, Some(name)) if is_own => {
                let name = name.as_name();
                Act::BindOwn { name, is_below_local: routed(name).is_some_and(|n| n < name.len()) }
            }
            (Command::BptUnbind, Some(name)) if is_own => Act::UnbindOwn(name.as_name()),
            (Command::CsReport, _) => Act::Report,
            _ => Act::Manage,
        }
    }
}

impl Rights {
    /// Returns true if these rights allow `act`.
    pub(crate) fn allow(&self, act: Act<'_>) -> bool {
        match act {
            _ if self.manage => true,
            Act::RegisterOwn(name) | Act::ChooseOwn(name) => {
                self.register.iter().any(|prefix| covers(prefix.as_name(), name))
            }
            Act::BindOwn { name, .. } | Act::UnbindOwn(name) => {
                let mut prefixes = self.register.iter().chain(&self.bind);
                prefixes.any(|prefix| covers(prefix.as_name(), name))
            }
            Act::Manage | Act::Report => false,
        }
    }
}

impl fmt::Display for Ground<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Ground::Superuser => f.write_str("root and the router's own user may do everything"),
            Ground::Consumer => f.write_str("every user of this machine may report Data"),
            Ground::Free => f.write_str("authorization.bind_below_local: below a route to `local`"),
            Ground::Rule(Some(uid), rights) => write!(f, "[[authorization.user]] user = {uid}, {rights}"),
            Ground::Rule(None, rights) => write!(f, "[[authorization.user]] user = \"*\", {rights}"),
            Ground::Key(key, rights) => write!(f, "[[authorization.key]] of {key}, {rights}"),
        }
    }
}

impl fmt::Display for Rights {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut lines = Vec::new();
        for (key, names) in [("register", &self.register), ("bind", &self.bind)] {
            if !names.is_empty() {
                let names: Vec<_> = names.iter().map(|name| format!("\"{name}\"")).collect();
                lines.push(format!("{key} = [{}]", names.join(", ")));
            }
        }
        lines.extend(self.manage.then(|| "manage = true".to_owned()));
        f.write_str(if lines.is_empty() { "nothing" } else { "" })?;
        f.write_str(&lines.join(", "))
    }
}

/// Returns true if the right to register `prefix` includes `name`. A right above `/localhost` does
/// not include names below it, because they belong to this machine's services.
fn covers(prefix: NameRef<'_>, name: NameRef<'_>) -> bool {
    prefix.is_prefix_of(name) && (!is_localhost(name) || is_localhost(prefix))
}

pub(crate) fn is_localhost(name: NameRef<'_>) -> bool {
    name.component(0) == Some(Component::generic(b"localhost"))
}

/// Returns true if `name` belongs to management. Such a name must not be routed elsewhere.
pub(crate) fn is_reserved(name: NameRef<'_>) -> bool {
    [Scope::Localhost, Scope::Localhop].iter().any(|scope| scope.prefix().is_prefix_of(name))
}

impl Policy {
    /// Returns true if the user at the other end of a local connection may do `act` unsigned.
    pub(crate) fn user_allows(&self, requester: &Requester, act: Act<'_>) -> bool {
        self.user_ground(requester, act).is_some()
    }

    /// The rule by which the user at the other end of a local connection may do `act` unsigned.
    pub(crate) fn user_ground(&self, requester: &Requester, act: Act<'_>) -> Option<Ground<'_>> {
        let uid = match (requester, self.loopback, act) {
            (Requester::User(uid), ..)
            | (
                Requester::Loopback(uid),
                Loopback::Register,
                Act::RegisterOwn(_)
                | Act::BindOwn { .. }
                | Act::UnbindOwn(_)
                | Act::ChooseOwn(_)
                | Act::Report,
            )
            | (Requester::Loopback(uid), Loopback::Manage, _) => *uid,
            _ => return None,
        };
        let is_free = match act {
            Act::BindOwn { is_below_local, .. } => self.bind_below_local && is_below_local,
            // Only the peer of the same face can have bound the prefix.
            Act::UnbindOwn(_) => true,
            _ => false,
        };
        if self.superusers.contains(&uid) {
            return Some(Ground::Superuser);
        }
        if is_free {
            return Some(Ground::Free);
        }
        if act == Act::Report {
            return Some(Ground::Consumer);
        }
        let mut fit = self.users.iter().filter(|(user, _)| user.is_none_or(|user| user == uid));
        fit.find(|(_, rights)| rights.allow(act)).map(|(user, rights)| Ground::Rule(*user, rights))
    }

    /// The rule by which the owner of the key of this name may do `act`.
    pub(crate) fn key_ground<'a>(&'a self, key: NameRef<'a>, act: Act<'_>) -> Option<Ground<'a>> {
        self.key_rules(key).find(|rights| rights.allow(act)).map(|rights| Ground::Key(key, rights))
    }

    /// All rules for the key of this name.
    pub(crate) fn key_rules<'a>(&'a self, key: NameRef<'a>) -> impl Iterator<Item = &'a Rights> {
        self.keys.iter().filter(move |(own, _)| own.key_name() == key).map(|(_, rights)| rights)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(uri: &str) -> Name {
        uri.parse().unwrap()
    }

    fn rights(register: &[&str]) -> Rights {
        Rights {
            register: register.iter().map(|uri| name(uri)).collect(),
            manage: false,
            ..Rights::default()
        }
    }

    #[test]
    fn a_right_covers_names_below_its_prefix() {
        let rights = rights(&["/a/b"]);
        for (uri, allowed) in
            [("/a/b", true), ("/a/b/c", true), ("/a", false), ("/a/bc", false), ("/", false), ("/x", false)]
        {
            assert_eq!(rights.allow(Act::RegisterOwn(name(uri).as_name())), allowed, "{uri}");
        }
        assert!(!rights.allow(Act::Manage));
    }

    #[test]
    fn a_right_to_everything_stops_at_localhost() {
        let everything = rights(&["/"]);
        assert!(everything.allow(Act::RegisterOwn(name("/").as_name())));
        assert!(!everything.allow(Act::RegisterOwn(name("/localhost/x").as_name())));
        assert!(rights(&["/localhost/x"]).allow(Act::RegisterOwn(name("/localhost/x/y").as_name())));
    }

    #[test]
    fn registration_covers_only_the_own_face() {
        let own = 300;
        let parameters =
            |face_id| ControlParameters { name: Some(name("/a")), face_id, ..Default::default() };
        for (face_id, is_own) in [(None, true), (Some(0), true), (Some(300), true), (Some(301), false)] {
            let parameters = parameters(face_id);
            let act = Act::of(Command::RibRegister, &parameters, own, |_| None);
            assert_eq!(act != Act::Manage, is_own, "{face_id:?}");
        }
        assert_eq!(Act::of(Command::FibAddNexthop, &parameters(None), own, |_| None), Act::Manage);
    }

    #[test]
    fn user_rules_add_up_per_user() {
        let policy = Policy {
            superusers: vec![0],
            users: vec![(None, rights(&["/pub"])), (Some(7), rights(&["/seven"]))],
            ..Policy::default()
        };
        let may =
            |requester, uri: &str| policy.user_allows(&requester, Act::RegisterOwn(name(uri).as_name()));
        assert!(may(Requester::User(0), "/anything") && policy.user_allows(&Requester::User(0), Act::Manage));
        assert!(may(Requester::User(7), "/pub/x") && may(Requester::User(7), "/seven/x"));
        assert!(may(Requester::User(8), "/pub/x") && !may(Requester::User(8), "/seven/x"));
        assert!(!may(Requester::Unknown, "/pub/x"), "rules for users are for Unix sockets");
    }

    #[test]
    fn loopback_rights_need_rule_and_setting() {
        let all = Rights { register: vec![Name::new()], manage: true, ..Rights::default() };
        for (loopback, registers, manages) in [
            (Loopback::Nothing, false, false),
            (Loopback::Register, true, false),
            (Loopback::Manage, true, true),
        ] {
            let users = vec![(Some(7), all.clone()), (Some(8), rights(&["/eight"]))];
            let policy = Policy { superusers: vec![0], users, loopback, ..Policy::default() };
            let may = |uid, uri: &str| {
                policy.user_allows(&Requester::Loopback(uid), Act::RegisterOwn(name(uri).as_name()))
            };
            let manage = |uid| policy.user_allows(&Requester::Loopback(uid), Act::Manage);
            assert_eq!([may(0, "/x"), may(7, "/x"), may(8, "/eight/x")], [registers; 3], "{loopback:?}");
            assert_eq!([manage(0), manage(7)], [manages; 2], "{loopback:?}");
            assert!(!may(8, "/x") && !may(9, "/x") && !manage(8));
            assert!(policy.user_allows(&Requester::User(7), Act::Manage), "over a Unix socket as ever");
        }
    }

    #[test]
    fn users_bind_below_local_routes() {
        let bind = |uri: &str, routed: Option<usize>, policy: &Policy, uid| {
            let parameters = ControlParameters { name: Some(name(uri)), ..Default::default() };
            policy.user_allows(&Requester::User(uid), Act::of(Command::BptBind, &parameters, 300, |_| routed))
        };
        let seven = Rights { bind: vec![name("/seven")], ..Rights::default() };
        let policy = Policy { users: vec![(Some(7), seven)], bind_below_local: true, ..Policy::default() };
        assert!(bind("/lab/x", Some(1), &policy, 8), "below a routable prefix");
        assert!(!bind("/lab", Some(1), &policy, 8), "the routable prefix itself is the operator's");
        assert!(!bind("/other", None, &policy, 8));
        assert!(bind("/seven/x", None, &policy, 7) && !bind("/seven/x", None, &policy, 8));
        let parameters = ControlParameters { name: Some(name("/seven/x")), ..Default::default() };
        let register = Act::of(Command::RibRegister, &parameters, 300, |_| None);
        assert!(!policy.user_allows(&Requester::User(7), register), "who may bind may not register");
        assert!(!bind("/lab/x", Some(1), &Policy { bind_below_local: false, ..policy }, 8));
    }

    #[test]
    fn management_names_are_reserved() {
        for (uri, reserved) in [
            ("/localhost/nfd", true),
            ("/localhost/nfd/rib", true),
            ("/localhop/nfd", true),
            ("/localhost", false),
        ] {
            assert_eq!(is_reserved(name(uri).as_name()), reserved, "{uri}");
        }
    }
}
