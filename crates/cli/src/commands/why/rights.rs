//! `namely why --register`, `--bind` and `--manage`: the decision of the router's policy on a
//! command, queried before the command is sent.

use std::fmt;

use namely_client::{Client, ClientError, default_signer};
use namely_messages::{Command, Explained, ExplainedRight, Scope};
use namely_security::{KeyEntry, Signer};
use namely_transport::connection::CommandError;
use namely_wire::{FaceUri, Name, key_name_of_locator};

use super::{Step, Verdict};
use crate::failure::Failure;
use crate::keys::{command_signer, key_chain};

/// The intended command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum IntendedCommand {
    /// Register a prefix for the sender's own face.
    Register(Name),
    /// Bind a prefix to the sender's own face.
    Bind(Name),
    /// Any other command.
    Manage,
}

/// The signer of the command.
#[derive(Debug)]
pub(super) struct Signing {
    pub(super) signer: Signer,
    key: Option<SigningKey>,
}

/// A key of the user.
#[derive(Clone, Debug, Default)]
struct SigningKey {
    name: Name,
    /// The issuer of the key's certificate, if the issuer is another key.
    issuer: Option<Name>,
    /// The key was selected by an option, regardless of the default.
    is_chosen: bool,
    /// The key is the default signer of commands.
    is_default: bool,
}

/// The router's data about the right.
#[derive(Debug)]
pub(super) struct RightFacts {
    pub(super) intended: IntendedCommand,
    uid: Option<u64>,
    /// The decision by the rules for users.
    right: Option<ExplainedRight>,
    /// The decision on a command with this signature.
    signed: Option<ExplainedRight>,
    key: Option<SigningKey>,
    by: FaceUri,
}

impl IntendedCommand {
    fn name(&self) -> Option<&Name> {
        match self {
            IntendedCommand::Register(name) | IntendedCommand::Bind(name) => Some(name),
            IntendedCommand::Manage => None,
        }
    }

    /// Returns the command that queries the decision on the intended command.
    fn query(&self) -> Command {
        match self {
            IntendedCommand::Register(_) => Command::RightsRegister,
            IntendedCommand::Bind(_) => Command::RightsBind,
            IntendedCommand::Manage => Command::RightsManage,
        }
    }

    /// Returns the line of a rule that allows the command.
    fn rule(&self) -> String {
        match self {
            IntendedCommand::Register(name) => format!("register = [\"{name}\"]"),
            IntendedCommand::Bind(name) => format!("bind = [\"{name}\"]"),
            IntendedCommand::Manage => "manage = true".into(),
        }
    }
}

impl fmt::Display for IntendedCommand {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            IntendedCommand::Register(name) => write!(f, "register {name}"),
            IntendedCommand::Bind(name) => write!(f, "bind {name}"),
            IntendedCommand::Manage => f.write_str("manage the router"),
        }
    }
}

impl Signing {
    /// Returns the signer with the key `which`, or the default signer.
    pub(super) fn of(which: Option<&Name>) -> Result<Self, Failure> {
        let default = default_signer();
        let default_key = key_of(&default);
        let Some(which) = which else {
            let entry =
                default_key.as_ref().and_then(|name| key_chain().ok()?.key(Some(name.as_name())).ok());
            let key = entry.map(|entry| SigningKey { is_default: true, ..SigningKey::of(&entry) });
            return Ok(Signing { signer: default, key });
        };
        let (entry, signer) = command_signer(which)?;
        let is_default = default_key.as_ref() == Some(&entry.name);
        let key = Some(SigningKey { is_chosen: true, is_default, ..SigningKey::of(&entry) });
        Ok(Signing { signer, key })
    }
}

impl SigningKey {
    fn of(entry: &KeyEntry) -> Self {
        let signer = entry.certificates.first().and_then(|certificate| certificate.signer_name());
        let issuer = signer.and_then(|name| key_name_of_locator(name).ok()).map(|name| name.to_name());
        let issuer = issuer.filter(|issuer| *issuer != entry.name);
        SigningKey { name: entry.name.clone(), issuer, ..SigningKey::default() }
    }
}

fn key_of(signer: &Signer) -> Option<Name> {
    key_name_of_locator(signer.key_name()?.as_name()).ok().map(|name| name.to_name())
}

impl RightFacts {
    pub(super) fn query(
        router: &mut Client,
        intended: IntendedCommand,
        signing: Signing,
    ) -> Result<Self, ClientError> {
        let about = intended.name().cloned().unwrap_or_default();
        let explained = match router.explain(&about) {
            // The router reports no user to another machine, where only signatures count.
            Err(ClientError::NotForYou) => Explained::default(),
            explained => explained?,
        };
        let command = intended.query().queried_command().map(|command| command.to_string());
        let right = explained.rights.into_iter().find(|right| Some(&right.command) == command.as_ref());
        let key = signing.key;
        let signed = match (&key, &right) {
            // Without a key, commands have a digest, which gives no right beyond those of the user.
            (None, Some(_)) => None,
            _ => query_signed(router, &intended)?,
        };
        let by = router.connection().uri().clone();
        Ok(RightFacts { intended, uid: explained.uid, right, signed, key, by })
    }

    pub(super) fn steps(&self) -> Vec<Step> {
        let who = self.uid.map_or_else(|| "a user unknown to the router".into(), |uid| format!("user {uid}"));
        let unreported = || "not reported by the router".to_owned();
        let why = |right: &ExplainedRight| right.why.clone();
        let key = self.key.as_ref().map_or_else(
            || "none: commands from here are signed by a digest, which gives no right".into(),
            |key| key.name.to_string(),
        );
        let mut steps = vec![
            Step { at: "as", found: format!("{who}, over {}", self.by) },
            Step { at: "rule", found: self.right.as_ref().map_or_else(unreported, why) },
            Step { at: "key", found: key },
        ];
        if self.key.is_some() || self.signed.is_some() {
            steps.push(Step { at: "signed", found: self.signed.as_ref().map_or_else(unreported, why) });
        }
        steps.push(Step {
            at: "unchecked",
            found: "limits and parameters are checked when the command arrives".into(),
        });
        steps
    }

    pub(super) fn verdict(&self) -> Verdict {
        let intended = &self.intended;
        let is_reserved = intended.name().is_some_and(|name| {
            [Scope::Localhost, Scope::Localhop].iter().any(|s| s.prefix().is_prefix_of(name.as_name()))
        });
        let Some(right) = self.signed.as_ref().or(self.right.as_ref()) else {
            let text = format!("whether you may {intended} is unknown before the command is sent");
            return Verdict::new("not_told", text).hint("send the command: a refusal has the reason");
        };
        if right.is_allowed {
            let verdict = Verdict::new("ok", format!("the router's policy allows you to {intended}"));
            // With a right of the user, no key is needed.
            let is_user_allowed = self.right.as_ref().is_some_and(|right| right.is_allowed);
            let key = self.key.as_ref().filter(|_| !is_user_allowed);
            return match key {
                Some(key) if !key.is_default => verdict.hint(format!(
                    "commands are signed by your default key, if it needs no passphrase: \
                     `namely key default {}` makes it this one",
                    key.name
                )),
                _ => verdict,
            };
        }
        if is_reserved {
            let text = format!("no user may {intended}: the router would refuse it");
            return Verdict::new("not_allowed", text).hint("choose another prefix");
        }
        let is_unix = matches!(self.by, FaceUri::Unix(_));
        match (&self.signed, &self.key) {
            (Some(signed), Some(key)) if key.is_chosen || !is_unix => self.key_verdict(signed, key),
            (Some(signed), None) if self.right.is_none() => Verdict::new(
                "not_signed",
                format!("the router would refuse to let you {intended}: {}", signed.why),
            )
            .hint("make a key (`namely key new IDENTITY`) and have a rule name its certificate: `[[authorization.key]]`"),
            _ => self.user_verdict(is_unix),
        }
    }

    /// Returns the verdict if the rules for users decide, and none of them allows the command.
    fn user_verdict(&self, is_unix: bool) -> Verdict {
        let intended = &self.intended;
        let unless = match (&self.key, &self.signed) {
            (Some(_), Some(signed)) => format!("; nor does its signature count: {}", signed.why),
            (Some(key), None) => format!(", unless a rule for the key {} allows it", key.name),
            (None, _) => String::new(),
        };
        let text = format!("the router would refuse to let you {intended}{unless}");
        let verdict = Verdict::new("not_allowed", text);
        // Over loopback, a rule for the user may not suffice, because authorization.loopback limits
        // the rights of all users.
        if !is_unix {
            return verdict
                .hint("use the router's Unix socket; `namely why` over it shows if a rule is missing there");
        }
        let uid = self.uid.map_or_else(|| "UID".into(), |uid| uid.to_string());
        let rule = intended.rule();
        verdict.hint(format!(
            "add to its namely.toml a rule `[[authorization.user]]` with `user = {uid}` and `{rule}`, \
             and reload it (`systemctl reload namelyd`, or SIGHUP)"
        ))
    }

    /// Returns the verdict if the signature decides: its fault, and a remedy.
    fn key_verdict(&self, signed: &ExplainedRight, key: &SigningKey) -> Verdict {
        let (intended, name) = (&self.intended, &key.name);
        let mut text = format!("the router would refuse to let you {intended}: {}", signed.why);
        let (cause, hint) = match signed.cause.as_str() {
            "need_certificate" => {
                if let Some(issuer) = &key.issuer {
                    text.push_str(&format!(
                        "; that {issuer} issued its certificate does not count: a rule has to name the key itself"
                    ));
                }
                let rule = intended.rule();
                let hint = format!(
                    "give its operator the output of `namely cert export {name} > FILE`, for a rule \
                     `[[authorization.key]]` with `certificate = \"FILE\"` and `{rule}` in namely.toml, and a reload"
                );
                ("key_unknown", hint)
            }
            "other_certificate" => (
                "other_certificate",
                format!(
                    "sign by the one that it names (`namely key default CERTIFICATE`), or give its operator the output of \
                     `namely cert export {name} > FILE`, for the rule's file and a reload"
                ),
            ),
            "key_not_allowed" => (
                "key_not_allowed",
                format!("add `{}` to its rule `[[authorization.key]]` in namely.toml, and reload it", intended.rule()),
            ),
            "expired" => (
                "expired",
                format!(
                    "make a newer certificate or have one issued, and give its operator the output of \
                     `namely cert export {name} > FILE`, for the rule's file and a reload"
                ),
            ),
            "not_yet_valid" => ("not_yet_valid", "check the router's clock, or wait until then".into()),
            "bad_signature" => (
                "other_key",
                format!(
                    "another key has this name there: give its operator the output of `namely cert export {name} > FILE`"
                ),
            ),
            "outside_grace" => {
                ("clock_skew", "set the clocks right here and there (`timedatectl` shows whether they follow a server)".into())
            }
            "before_start" => ("clock_skew", "send it again; if that does not help, set this clock right".into()),
            "replayed" => (
                "replayed",
                "this clock is behind that of the key's last command: set the clocks right, or wait until it is past".into(),
            ),
            "localhop" | "not_here" => (
                "not_here",
                "use the router's Unix socket, or have `authorization.localhop_rib` set where others may register".into(),
            ),
            _ => ("not_allowed", "send the command: a refusal has the reason".into()),
        };
        Verdict::new(cause, text).hint(hint)
    }
}

/// Queries the decision on a command with this signature; `None` if the router does not support the
/// query.
fn query_signed(
    router: &mut Client,
    intended: &IntendedCommand,
) -> Result<Option<ExplainedRight>, ClientError> {
    match router.ask_right(intended.query(), intended.name()) {
        // The router refuses the query itself, so it would refuse the command, too.
        Err(ClientError::Command(CommandError::Refused(refused))) => Ok(Some(ExplainedRight {
            why: refused.text,
            cause: "not_here".into(),
            ..ExplainedRight::default()
        })),
        // Other routers do not support the query.
        Err(ClientError::Command(CommandError::NoAnswer | CommandError::Nack(_))) => Ok(None),
        answer => answer,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(uri: &str) -> Name {
        uri.parse().unwrap()
    }

    fn refused(intended: IntendedCommand) -> RightFacts {
        let right = ExplainedRight { why: "no rule allows it".into(), ..ExplainedRight::default() };
        let by = "unix:///run/namely.sock".parse().unwrap();
        RightFacts { intended, uid: Some(1000), right: Some(right), signed: None, key: None, by }
    }

    fn key(is_chosen: bool) -> Option<SigningKey> {
        Some(SigningKey { name: name("/alice/KEY/1"), is_chosen, ..SigningKey::default() })
    }

    #[test]
    fn each_rights_answer_has_cause_and_hint() {
        let register = || refused(IntendedCommand::Register(name("/lab")));
        let keyed = RightFacts { key: key(false), ..register() };
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
            (refused(IntendedCommand::Bind(name("/lab"))), "not_allowed", "bind /lab", "`bind = [\"/lab\"]`"),
            (refused(IntendedCommand::Manage), "not_allowed", "manage the router", "`manage = true`"),
            (keyed, "not_allowed", "unless a rule for the key /alice/KEY/1 allows it", "user = 1000"),
            (far, "not_allowed", "register", "use the router's Unix socket"),
            (
                refused(IntendedCommand::Register(name("/localhop/nfd/x"))),
                "not_allowed",
                "no user",
                "another prefix",
            ),
            (untold, "not_told", "is unknown before", "send the command"),
        ] {
            is(&facts.verdict(), cause, text, next);
        }
    }

    #[track_caller]
    fn is(verdict: &Verdict, cause: &str, text: &str, next: &str) {
        assert_eq!(verdict.cause, cause, "{verdict:?}");
        assert!(verdict.text.contains(text), "{verdict:?}");
        assert!(verdict.hint.clone().unwrap_or_default().contains(next), "{verdict:?}");
    }

    #[test]
    fn each_signature_fault_has_cause_and_hint() {
        let with = |cause: &str, is_allowed| {
            let signed =
                ExplainedRight { cause: cause.into(), is_allowed, why: "of it".into(), ..Default::default() };
            let by = "tcp4://192.0.2.1:6363".parse().unwrap();
            let intended = IntendedCommand::Register(name("/lab"));
            RightFacts { intended, uid: None, right: None, signed: Some(signed), key: key(true), by }
        };
        for (reported, cause, next) in [
            ("need_certificate", "key_unknown", "`namely cert export /alice/KEY/1 > FILE`"),
            ("other_certificate", "other_certificate", "namely key default CERTIFICATE"),
            ("key_not_allowed", "key_not_allowed", "add `register = [\"/lab\"]`"),
            ("expired", "expired", "newer certificate"),
            ("not_yet_valid", "not_yet_valid", "clock"),
            ("bad_signature", "other_key", "another key has this name"),
            ("outside_grace", "clock_skew", "set the clocks right"),
            ("before_start", "clock_skew", "send it again"),
            ("replayed", "replayed", "wait until it is past"),
            ("localhop", "not_here", "localhop_rib"),
            ("not_here", "not_here", "localhop_rib"),
            ("a cause of a later router", "not_allowed", "send the command"),
        ] {
            is(&with(reported, false).verdict(), cause, "register /lab: of it", next);
        }
        is(&with("", true).verdict(), "ok", "allows you to register /lab", "namely key default /alice/KEY/1");
        let mut issued = with("need_certificate", false);
        issued.key.as_mut().unwrap().issuer = Some(name("/site/KEY/1"));
        is(&issued.verdict(), "key_unknown", "that /site/KEY/1 issued its certificate", "rule");
        let none = RightFacts { key: None, ..with("not_trusted", false) };
        is(&none.verdict(), "not_signed", "of it", "namely key new");
        // Over the Unix socket, the rules for users decide, unless a key was selected.
        let by = || "unix:///run/namely.sock".parse().unwrap();
        let user = RightFacts { by: by(), key: key(false), uid: Some(7), ..with("expired", false) };
        is(&user.verdict(), "not_allowed", "nor does its signature count: of it", "user = 7");
        is(&RightFacts { by: by(), ..with("expired", false) }.verdict(), "expired", "of it", "newer");
    }
}
