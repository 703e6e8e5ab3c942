//! `namely why --register`, `--bind` and `--manage`: what the router's policy would say to a
//! command, asked of the router before the command is sent.

use std::fmt;

use namely_client::{Client, ClientError, default_signer};
use namely_wire::mgmt::{Command, Explained, ExplainedRight, Scope};
use namely_wire::{FaceUri, Name};

use super::{Step, Verdict};

/// What somebody means to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Asked {
    /// Register a prefix for the own face.
    Register(Name),
    /// Bind a prefix to the own face.
    Bind(Name),
    /// Anything else.
    Manage,
}

/// What the router tells of it.
#[derive(Debug)]
pub(super) struct RightFacts {
    pub(super) asked: Asked,
    uid: Option<u64>,
    right: Option<ExplainedRight>,
    key: Option<Name>,
    by: FaceUri,
}

impl Asked {
    fn name(&self) -> Name {
        match self {
            Asked::Register(name) | Asked::Bind(name) => name.clone(),
            Asked::Manage => Name::new(),
        }
    }

    /// The command that stands for all that need this right.
    fn command(&self) -> Command {
        match self {
            Asked::Register(_) => Command::RibRegister,
            Asked::Bind(_) => Command::BptBind,
            Asked::Manage => Command::FacesUpdate,
        }
    }

    /// The line of a rule that allows it.
    fn rule(&self) -> String {
        match self {
            Asked::Register(name) => format!("register = [\"{name}\"]"),
            Asked::Bind(name) => format!("bind = [\"{name}\"]"),
            Asked::Manage => "manage = true".into(),
        }
    }
}

impl fmt::Display for Asked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Asked::Register(name) => write!(f, "register {name}"),
            Asked::Bind(name) => write!(f, "bind {name}"),
            Asked::Manage => f.write_str("manage the router"),
        }
    }
}

impl RightFacts {
    pub(super) fn ask(router: &mut Client, asked: Asked) -> Result<Self, ClientError> {
        let explained = match router.explain(&asked.name()) {
            // From another machine only signatures count, of which nothing is told in advance.
            Err(ClientError::NotForYou) => Explained::default(),
            explained => explained?,
        };
        let command = asked.command().to_string();
        let right = explained.rights.into_iter().find(|right| right.command == command);
        let key = default_signer().key_name().cloned();
        Ok(RightFacts { asked, uid: explained.uid, right, key, by: router.connection().uri().clone() })
    }

    pub(super) fn steps(&self) -> Vec<Step> {
        let who = self.uid.map_or_else(|| "nobody whom the router knows".into(), |uid| format!("user {uid}"));
        let key = self.key.as_ref().map_or_else(
            || "none: commands from here are signed by a digest, which gives no right".into(),
            |key| format!("{key}; the router tells in advance of users' rights only, not of keys'"),
        );
        let rule = match &self.right {
            Some(right) => right.why.clone(),
            None => "the router does not tell".into(),
        };
        let other = "limits, parameters and times of signatures are looked at when the command comes";
        vec![
            Step { at: "as", found: format!("{who}, over {}", self.by) },
            Step { at: "key", found: key },
            Step { at: "rule", found: rule },
            Step { at: "not told", found: other.into() },
        ]
    }

    pub(super) fn verdict(&self) -> Verdict {
        let (asked, key) = (&self.asked, self.key.as_ref());
        let Some(right) = &self.right else {
            let text = format!("whether you may {asked} cannot be told before the command is sent");
            return Verdict::new("not_told", text).hint("send the command: a refusal says why");
        };
        if right.is_allowed {
            return Verdict::new("ok", format!("the router's policy allows you to {asked}"));
        }
        let name = asked.name();
        if [Scope::Localhost, Scope::Localhop].iter().any(|s| s.prefix().is_prefix_of(name.as_name())) {
            let text = format!("the router would refuse to {asked} to everybody");
            return Verdict::new("not_allowed", text).hint("choose another prefix");
        }
        let unless =
            key.map_or_else(String::new, |key| format!(", unless a rule for the key {key} allows it"));
        let verdict =
            Verdict::new("not_allowed", format!("the router would refuse to let you {asked}{unless}"));
        // Over loopback a rule for the user may not be enough: authorization.loopback limits it.
        if !matches!(self.by, FaceUri::Unix(_)) {
            return verdict
                .hint("use the router's Unix socket; `namely why` over it tells if a rule lacks there");
        }
        let uid = self.uid.map_or_else(|| "UID".into(), |uid| uid.to_string());
        let rule = asked.rule();
        verdict.hint(format!(
            "add to its namely.toml a rule `[[authorization.user]]` with `user = {uid}` and `{rule}`, \
             and reload it (`systemctl reload namelyd`, or SIGHUP)"
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(uri: &str) -> Name {
        uri.parse().unwrap()
    }

    fn refused(asked: Asked) -> RightFacts {
        let right = ExplainedRight { why: "no rule allows it".into(), ..ExplainedRight::default() };
        let by = "unix:///run/namely.sock".parse().unwrap();
        RightFacts { asked, uid: Some(1000), right: Some(right), key: None, by }
    }

    #[test]
    fn each_answer_about_rights_has_its_cause_and_its_next_step() {
        let register = || refused(Asked::Register(name("/lab")));
        let keyed = RightFacts { key: Some(name("/alice/KEY/1")), ..register() };
        let far = RightFacts { by: "tcp4://127.0.0.1:6363".parse().unwrap(), ..register() };
        let untold = RightFacts { right: None, uid: None, ..register() };
        let mut allowed = register();
        allowed.right.as_mut().unwrap().is_allowed = true;
        for (facts, cause, text, next) in [
            (allowed, "ok", "allows you to register /lab", ""),
            (
                register(),
                "not_allowed",
                "refuse to let you register /lab",
                "`user = 1000` and `register = [\"/lab\"]`",
            ),
            (refused(Asked::Bind(name("/lab"))), "not_allowed", "bind /lab", "`bind = [\"/lab\"]`"),
            (refused(Asked::Manage), "not_allowed", "manage the router", "`manage = true`"),
            (keyed, "not_allowed", "unless a rule for the key /alice/KEY/1 allows it", "user = 1000"),
            (far, "not_allowed", "register", "use the router's Unix socket"),
            (refused(Asked::Register(name("/localhop/nfd/x"))), "not_allowed", "everybody", "another prefix"),
            (untold, "not_told", "cannot be told before", "send the command"),
        ] {
            let verdict = facts.verdict();
            assert_eq!(verdict.cause, cause, "{verdict:?}");
            assert!(verdict.text.contains(text), "{verdict:?}");
            assert!(verdict.hint.clone().unwrap_or_default().contains(next), "{verdict:?}");
        }
    }
}
