//! `namely why --register`, `--bind` and `--manage`: what the router's policy would say to a
//! command, asked of the router before the command is sent.

use std::fmt;

use namely_client::{Client, ClientError, default_signer};
use namely_security::{KeyEntry, Signer};
use namely_transport::connection::CommandError;
use namely_wire::mgmt::{Command, Explained, ExplainedRight, Scope};
use namely_wire::{FaceUri, Name, key_name_of_locator};

use super::{Step, Verdict};
use crate::failure::Failure;
use crate::keys::{command_signer, key_chain};

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

/// What would sign the command.
#[derive(Debug)]
pub(super) struct Signing {
    pub(super) signer: Signer,
    key: Option<SigningKey>,
}

/// A key of the user's.
#[derive(Clone, Debug, Default)]
struct SigningKey {
    name: Name,
    /// Who issued its certificate, where that is another key.
    issuer: Option<Name>,
    /// It was asked for, whatever commands are signed by.
    is_chosen: bool,
    /// Commands are signed by it.
    is_default: bool,
}

/// What the router tells of it.
#[derive(Debug)]
pub(super) struct RightFacts {
    pub(super) asked: Asked,
    uid: Option<u64>,
    /// What rules for users say.
    right: Option<ExplainedRight>,
    /// What comes of a command that is signed as it would be.
    signed: Option<ExplainedRight>,
    key: Option<SigningKey>,
    by: FaceUri,
}

impl Asked {
    fn name(&self) -> Option<&Name> {
        match self {
            Asked::Register(name) | Asked::Bind(name) => Some(name),
            Asked::Manage => None,
        }
    }

    /// The command that asks.
    fn asks(&self) -> Command {
        match self {
            Asked::Register(_) => Command::RightsRegister,
            Asked::Bind(_) => Command::RightsBind,
            Asked::Manage => Command::RightsManage,
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

impl Signing {
    /// By the key that `which` means, or by what signs commands anyway.
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
    pub(super) fn ask(router: &mut Client, asked: Asked, signing: Signing) -> Result<Self, ClientError> {
        let about = asked.name().cloned().unwrap_or_default();
        let explained = match router.explain(&about) {
            // From another machine only signatures count.
            Err(ClientError::NotForYou) => Explained::default(),
            explained => explained?,
        };
        let command = asked.asks().asks_about().map(|command| command.to_string());
        let right = explained.rights.into_iter().find(|right| Some(&right.command) == command.as_ref());
        let key = signing.key;
        let signed = match (&key, &right) {
            // A digest says nothing beyond the user, who is known.
            (None, Some(_)) => None,
            _ => ask_signed(router, &asked)?,
        };
        let by = router.connection().uri().clone();
        Ok(RightFacts { asked, uid: explained.uid, right, signed, key, by })
    }

    pub(super) fn steps(&self) -> Vec<Step> {
        let who = self.uid.map_or_else(|| "nobody whom the router knows".into(), |uid| format!("user {uid}"));
        let untold = || "the router does not tell".to_owned();
        let why = |right: &ExplainedRight| right.why.clone();
        let key = self.key.as_ref().map_or_else(
            || "none: commands from here are signed by a digest, which gives no right".into(),
            |key| key.name.to_string(),
        );
        let mut steps = vec![
            Step { at: "as", found: format!("{who}, over {}", self.by) },
            Step { at: "rule", found: self.right.as_ref().map_or_else(untold, why) },
            Step { at: "key", found: key },
        ];
        if self.key.is_some() || self.signed.is_some() {
            steps.push(Step { at: "signed", found: self.signed.as_ref().map_or_else(untold, why) });
        }
        steps.push(Step {
            at: "not told",
            found: "limits and parameters are looked at when the command comes".into(),
        });
        steps
    }

    pub(super) fn verdict(&self) -> Verdict {
        let asked = &self.asked;
        let is_reserved = asked.name().is_some_and(|name| {
            [Scope::Localhost, Scope::Localhop].iter().any(|s| s.prefix().is_prefix_of(name.as_name()))
        });
        let Some(right) = self.signed.as_ref().or(self.right.as_ref()) else {
            let text = format!("whether you may {asked} cannot be told before the command is sent");
            return Verdict::new("not_told", text).hint("send the command: a refusal says why");
        };
        if right.is_allowed {
            let verdict = Verdict::new("ok", format!("the router's policy allows you to {asked}"));
            // What users may do they may without a key.
            let key = self.key.as_ref().filter(|_| !self.right.as_ref().is_some_and(|it| it.is_allowed));
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
            let text = format!("the router would refuse to {asked} to everybody");
            return Verdict::new("not_allowed", text).hint("choose another prefix");
        }
        let is_unix = matches!(self.by, FaceUri::Unix(_));
        match (&self.signed, &self.key) {
            (Some(signed), Some(key)) if key.is_chosen || !is_unix => self.of_key(signed, key),
            (Some(signed), None) if self.right.is_none() => Verdict::new(
                "not_signed",
                format!("the router would refuse to let you {asked}: {}", signed.why),
            )
            .hint("make a key (`namely key new IDENTITY`) and have its certificate named by a rule `[[authorization.key]]`"),
            _ => self.of_user(is_unix),
        }
    }

    /// No rule for the user lets it through, which is what counts.
    fn of_user(&self, is_unix: bool) -> Verdict {
        let asked = &self.asked;
        let unless = match (&self.key, &self.signed) {
            (Some(_), Some(signed)) => format!("; nor does its signature count: {}", signed.why),
            (Some(key), None) => format!(", unless a rule for the key {} allows it", key.name),
            (None, _) => String::new(),
        };
        let text = format!("the router would refuse to let you {asked}{unless}");
        let verdict = Verdict::new("not_allowed", text);
        // Over loopback a rule for the user may not be enough: authorization.loopback limits it.
        if !is_unix {
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

    /// What is wrong with the signature, and what to do about it.
    fn of_key(&self, signed: &ExplainedRight, key: &SigningKey) -> Verdict {
        let (asked, name) = (&self.asked, &key.name);
        let mut text = format!("the router would refuse to let you {asked}: {}", signed.why);
        let (cause, hint) = match signed.cause.as_str() {
            "need_certificate" => {
                if let Some(issuer) = &key.issuer {
                    text.push_str(&format!(
                        "; that {issuer} issued its certificate does not count: a rule has to name the key itself"
                    ));
                }
                let rule = asked.rule();
                let hint = format!(
                    "give its operator what `namely cert export {name} > FILE` writes: a rule \
                     `[[authorization.key]]` with `certificate = \"FILE\"` and `{rule}` in namely.toml, and a reload"
                );
                ("key_unknown", hint)
            }
            "other_certificate" => (
                "other_certificate",
                format!(
                    "sign by the one that it names (`namely key default CERTIFICATE`), or give its operator what \
                     `namely cert export {name} > FILE` writes: the rule's file, and a reload"
                ),
            ),
            "key_not_allowed" => (
                "key_not_allowed",
                format!("add `{}` to its rule `[[authorization.key]]` in namely.toml, and reload it", asked.rule()),
            ),
            "expired" => (
                "expired",
                format!(
                    "make or have issued a newer certificate, and give its operator what \
                     `namely cert export {name} > FILE` writes then: the rule's file, and a reload"
                ),
            ),
            "not_yet_valid" => ("not_yet_valid", "look at the router's clock, or wait until then".into()),
            "bad_signature" => (
                "other_key",
                format!(
                    "another key has this name there: give its operator what `namely cert export {name} > FILE` writes"
                ),
            ),
            "outside_grace" => {
                ("clock_skew", "set the clocks right here and there (`timedatectl` says whether they follow a server)".into())
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
            _ => ("not_allowed", "send the command: a refusal says why".into()),
        };
        Verdict::new(cause, text).hint(hint)
    }
}

/// What comes of a command that is signed as it would be; `None` if the router cannot tell.
fn ask_signed(router: &mut Client, asked: &Asked) -> Result<Option<ExplainedRight>, ClientError> {
    match router.ask_right(asked.asks(), asked.name()) {
        // Not even a question is taken from there.
        Err(ClientError::Command(CommandError::Refused(refused))) => Ok(Some(ExplainedRight {
            why: refused.text,
            cause: "not_here".into(),
            ..ExplainedRight::default()
        })),
        // Other routers have no such question.
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

    fn refused(asked: Asked) -> RightFacts {
        let right = ExplainedRight { why: "no rule allows it".into(), ..ExplainedRight::default() };
        let by = "unix:///run/namely.sock".parse().unwrap();
        RightFacts { asked, uid: Some(1000), right: Some(right), signed: None, key: None, by }
    }

    fn key(is_chosen: bool) -> Option<SigningKey> {
        Some(SigningKey { name: name("/alice/KEY/1"), is_chosen, ..SigningKey::default() })
    }

    #[test]
    fn each_answer_about_rights_has_its_cause_and_its_next_step() {
        let register = || refused(Asked::Register(name("/lab")));
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
            (refused(Asked::Bind(name("/lab"))), "not_allowed", "bind /lab", "`bind = [\"/lab\"]`"),
            (refused(Asked::Manage), "not_allowed", "manage the router", "`manage = true`"),
            (keyed, "not_allowed", "unless a rule for the key /alice/KEY/1 allows it", "user = 1000"),
            (far, "not_allowed", "register", "use the router's Unix socket"),
            (refused(Asked::Register(name("/localhop/nfd/x"))), "not_allowed", "everybody", "another prefix"),
            (untold, "not_told", "cannot be told before", "send the command"),
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
    fn each_fault_of_a_signature_has_its_cause_and_its_next_step() {
        let with = |cause: &str, is_allowed| {
            let signed =
                ExplainedRight { cause: cause.into(), is_allowed, why: "of it".into(), ..Default::default() };
            let by = "tcp4://192.0.2.1:6363".parse().unwrap();
            let asked = Asked::Register(name("/lab"));
            RightFacts { asked, uid: None, right: None, signed: Some(signed), key: key(true), by }
        };
        for (told, cause, next) in [
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
            ("what a later router may say", "not_allowed", "send the command"),
        ] {
            is(&with(told, false).verdict(), cause, "register /lab: of it", next);
        }
        is(&with("", true).verdict(), "ok", "allows you to register /lab", "namely key default /alice/KEY/1");
        let mut issued = with("need_certificate", false);
        issued.key.as_mut().unwrap().issuer = Some(name("/site/KEY/1"));
        is(&issued.verdict(), "key_unknown", "that /site/KEY/1 issued its certificate", "rule");
        let none = RightFacts { key: None, ..with("not_trusted", false) };
        is(&none.verdict(), "not_signed", "of it", "namely key new");
        // Over the Unix socket rules for users come first, unless a key was asked for.
        let by = || "unix:///run/namely.sock".parse().unwrap();
        let user = RightFacts { by: by(), key: key(false), uid: Some(7), ..with("expired", false) };
        is(&user.verdict(), "not_allowed", "nor does its signature count: of it", "user = 7");
        is(&RightFacts { by: by(), ..with("expired", false) }.verdict(), "expired", "of it", "newer");
    }
}
