//! Authorization of commands: first by the sender's user id, then by the signature.

use std::collections::BTreeMap;

use namely_messages::{Command, ControlResponse};
use namely_security::validity::UtcTime;
use namely_security::{
    AcceptedCommand, AcceptedCommandStore, CommandRefusal, CommandTime, CommandVerifier, Pattern,
    RejectionReason, Rule, TrustPolicy, TrustReason,
};
use namely_wire::{InterestView, Name, NameRef, key_name_of_locator};

use crate::announcement::{ANNOUNCEMENT_NOT_BELIEVED, Announced, AnnouncementRefusal, Announcers};
use crate::management::Now;
use crate::policy::{Act, Loopback, Policy, Requester, is_reserved};

/// The user has no right to the command.
const USER_NOT_ALLOWED: &str = "user_not_allowed";

/// The key has no right to the command.
const KEY_NOT_ALLOWED: &str = "key_not_allowed";

/// Octets of the text about a right in a response.
///
/// With this text, the response fits into one packet.
///
/// # Limit
/// The text is cut.
/// - Tests: `long_refusal_reasons_are_cut`
pub(crate) const RIGHT_WHY_OCTETS_MAX: usize = 2_000;

/// Marks a shortened text.
const MORE: &str = " ...";

#[derive(Debug)]
pub(crate) struct Authenticator {
    policy: Policy,
    verifier: CommandVerifier,
    announcers: Announcers,
    refusals: BTreeMap<&'static str, u64>,
}

impl Authenticator {
    pub(crate) fn new(policy: Policy, start: Now) -> Self {
        let verifier = CommandVerifier::new(trust(&policy), time(start));
        let announcers = Announcers::new(&policy.announcement_anchors);
        Authenticator { policy, verifier, announcers, refusals: BTreeMap::new() }
    }

    pub(crate) fn record_accepted(
        &mut self,
        store: Box<dyn AcceptedCommandStore>,
        former: &[AcceptedCommand],
        now: Now,
    ) -> std::io::Result<()> {
        self.verifier.record_accepted(store, former, time(now))
    }

    /// Replaces the policy. The replay state stays, because the new policy may have the same keys.
    pub(crate) fn set_policy(&mut self, policy: Policy) {
        self.verifier.set_policy(trust(&policy));
        self.announcers = Announcers::new(&policy.announcement_anchors);
        self.policy = policy;
    }

    /// Verifies the prefix announcement `data`.
    pub(crate) fn believe(&mut self, data: &[u8], now: Now) -> Result<(), ControlResponse> {
        self.announcers.check(data, now.unix_ms).inspect_err(|_| self.count(ANNOUNCEMENT_NOT_BELIEVED))
    }

    /// Returns the prefix of an announcement that came with Data of `object`; `None` if the
    /// announcement is not trusted. With anchors, the reason is counted.
    pub(crate) fn shown(&mut self, announcement: &[u8], object: &Name, now: Now) -> Option<Announced> {
        match self.announcers.shown(announcement, object, now.unix_ms) {
            Ok(announced) => return Some(announced),
            Err(AnnouncementRefusal::NoAnchors) => {}
            Err(AnnouncementRefusal::Counted(why)) => self.count(why),
        }
        None
    }

    /// Refused commands by reason.
    pub(crate) fn refusals(&self) -> &BTreeMap<&'static str, u64> {
        &self.refusals
    }

    /// Returns true for root and the router's own user.
    pub(crate) fn is_superuser(&self, requester: &Requester) -> bool {
        matches!(requester, Requester::User(uid) if self.policy.superusers.contains(uid))
    }

    /// Returns true if the requester may register or bind `name` without a signature. The first
    /// `routed` components of `name` have a route to the face `local`.
    pub(crate) fn may_serve(&self, name: NameRef<'_>, routed: Option<usize>, requester: &Requester) -> bool {
        let is_below_local = routed.is_some_and(|n| n < name.len());
        let acts = [Act::RegisterOwn(name), Act::BindOwn { name, is_below_local }];
        !is_reserved(name) && acts.iter().any(|act| self.policy.user_allows(requester, *act))
    }

    /// Returns the rule that allows `act` to a user without a signature, or the reason for a
    /// refusal.
    pub(crate) fn ground(&self, act: Act<'_>, requester: &Requester) -> Result<String, String> {
        if let Some(ground) = self.policy.user_ground(requester, act) {
            return Ok(ground.to_string());
        }
        Err(match requester {
            Requester::User(uid) => format!("user {uid} may not {}: no rule allows it", describe(act)),
            Requester::Loopback(uid) if self.policy.user_allows(&Requester::User(*uid), act) => {
                format!("user {uid} may not {} over loopback, but by the Unix socket", describe(act))
            }
            Requester::Loopback(uid) => {
                format!("user {uid} may not {} over loopback: no rule allows it", describe(act))
            }
            Requester::Nameless(_) | Requester::Unknown => "only a signature counts from there".into(),
        })
    }

    /// Returns true if `/localhop/nfd` answers other machines.
    pub(crate) fn has_localhop(&self) -> bool {
        self.policy.localhop_rib
    }

    /// Returns true if hop-by-hop queries about a name are answered.
    pub(crate) fn explains_to_network(&self) -> bool {
        self.policy.explain_to_network
    }

    /// Returns true if `command` is accepted under `/localhop/nfd`. The rights of local users do
    /// not depend on the prefix that their library uses.
    pub(crate) fn answers_localhop(&self, command: Command, requester: &Requester) -> bool {
        matches!(requester, Requester::Loopback(_))
            || self.policy.localhop_rib
                && matches!(command, Command::RibRegister | Command::RibUnregister | Command::RibAnnounce)
    }

    /// Allows `act`, or returns the reason for the refusal.
    pub(crate) fn allow(
        &mut self,
        act: Act<'_>,
        interest: &InterestView<'_>,
        requester: &Requester,
        now: Now,
    ) -> Result<(), String> {
        if self.policy.user_allows(requester, act) {
            return Ok(());
        }
        let verified = self.verifier.verify(interest, time(now));
        let by_key = self.key_ground(act, verified).map(drop);
        by_key.map_err(|Refusal { label, text, .. }| match requester {
            // Applications sign with any key they have. The error for a user therefore refers to
            // the rules for users.
            Requester::User(uid) => {
                self.count(USER_NOT_ALLOWED);
                format!(
                    "user {uid} may not {}: below a prefix that leads to `local` names may be bound, anything \
                     else is up to [authorization] in the router's configuration",
                    describe(act)
                )
            }
            Requester::Loopback(uid) if self.policy.loopback != Loopback::Nothing => {
                self.count(USER_NOT_ALLOWED);
                let unix = Requester::User(*uid);
                let (may, what) = (self.policy.user_allows(&unix, act), describe(act));
                let refused = format!("user {uid} may not {what}");
                if may {
                    format!(
                        "{refused} over loopback: use the router's Unix socket, or see authorization.loopback; and as \
                         for its signature: {text}"
                    )
                } else {
                    format!(
                        "{refused}: see [authorization] in the router's configuration; and as for its \
                         signature: {text}"
                    )
                }
            }
            Requester::Nameless(why) => {
                self.count(label);
                format!("{text}; and the user of this connection is unknown: {why}")
            }
            Requester::Loopback(_) | Requester::Unknown => {
                self.count(label);
                text
            }
        })
    }

    /// Returns the rule by which [`allow`](Self::allow) would accept a command that is signed like
    /// `interest`, or the reason for a refusal. The signature is verified, but the history of
    /// commands does not change.
    pub(crate) fn look(
        &mut self,
        act: Act<'_>,
        interest: &InterestView<'_>,
        requester: &Requester,
        now: Now,
    ) -> Result<String, Refusal> {
        if let Some(ground) = self.policy.user_ground(requester, act) {
            return Ok(ground.to_string());
        }
        let verified = self.verifier.look(interest, time(now));
        self.key_ground(act, verified)
    }

    /// Returns the rule that allows `act` to the key of a verified signature.
    fn key_ground(
        &self,
        act: Act<'_>,
        verified: Result<TrustReason, CommandRefusal>,
    ) -> Result<String, Refusal> {
        let reason = verified.map_err(|refusal| self.refusal(&refusal))?;
        let key = reason.key_name().map(|name| name.as_name()).unwrap_or_default();
        if let Some(ground) = self.policy.key_ground(key, act) {
            return Ok(ground.to_string());
        }
        let rules: Vec<_> = self.policy.key_rules(key).map(ToString::to_string).collect();
        let text = format!("{key} may not {}: its rules allow {}", describe(act), rules.join("; "));
        Err(Refusal { label: KEY_NOT_ALLOWED, cause: KEY_NOT_ALLOWED, text: shortened(text) })
    }

    fn refusal(&self, refusal: &CommandRefusal) -> Refusal {
        let (label, cause, text) = (label(refusal), cause(refusal), text(refusal));
        if let CommandRefusal::NeedCertificate(name) = refusal
            && let Ok(key) = key_name_of_locator(name.as_name())
            && self.policy.key_rules(key).next().is_some()
        {
            // The configured certificate is not named, because the sender has not proved that it
            // owns the key.
            let text =
                format!("the router's configuration names the key {key}, by another certificate than {name}");
            return Refusal { label, cause: "other_certificate", text };
        }
        Refusal { label, cause, text }
    }

    fn count(&mut self, label: &'static str) {
        *self.refusals.entry(label).or_default() += 1;
    }
}

fn time(now: Now) -> CommandTime {
    CommandTime::new(now.ns, now.unix_ms)
}

/// The trust policy for commands. Keys of the authorization rules may sign commands. Certificates
/// that these keys issued are not trusted.
fn trust(policy: &Policy) -> TrustPolicy {
    let pattern = |text: &str| text.parse::<Pattern>().ok();
    let rule = |data, key| Some(Rule { data: pattern(data)?, key: pattern(key)? });
    let rules = ["/localhost/nfd/<>*", "/localhop/nfd/<>*"];
    let mut trust =
        TrustPolicy::with_rules(rules.iter().filter_map(|data| rule(data, "/<>*/KEY/<>")).collect());
    for (certificate, _) in &policy.keys {
        trust.add_anchor(certificate.clone());
    }
    trust
}

fn describe(act: Act<'_>) -> String {
    match act {
        Act::RegisterOwn(name) => format!("register {name}"),
        Act::BindOwn { name, .. } => format!("bind {name}"),
        Act::UnbindOwn(name) => format!("unbind {name}"),
        Act::ChooseOwn(name) => format!("choose the strategy of {name}"),
        Act::Report => "report Data".into(),
        Act::Manage => "manage this router".into(),
    }
}

/// The reason why a signature does not authorize an act.
#[derive(Debug)]
pub(crate) struct Refusal {
    /// The label of the counter.
    label: &'static str,
    /// The kind of the fault. Several kinds can share one counter.
    pub(crate) cause: &'static str,
    /// The text of the response.
    pub(crate) text: String,
}

/// `text`, cut to [`RIGHT_WHY_OCTETS_MAX`].
pub(crate) fn shortened(mut text: String) -> String {
    if text.len() > RIGHT_WHY_OCTETS_MAX {
        let end = text.floor_char_boundary(RIGHT_WHY_OCTETS_MAX - MORE.len());
        text.truncate(end);
        text.push_str(MORE);
    }
    text
}

fn cause(refusal: &CommandRefusal) -> &'static str {
    let CommandRefusal::NotTrusted(rejection) = refusal else { return label(refusal) };
    match rejection.why {
        RejectionReason::Expired { .. } => "expired",
        RejectionReason::NotYetValid { .. } => "not_yet_valid",
        RejectionReason::BadSignature | RejectionReason::KeyTypeMismatch => "bad_signature",
        // No rule for keys is configured.
        RejectionReason::NoAnchor => "need_certificate",
        _ => label(refusal),
    }
}

fn label(refusal: &CommandRefusal) -> &'static str {
    match refusal {
        CommandRefusal::NotTrusted(rejection) if rejection.why == RejectionReason::NotSigned => "not_signed",
        refusal => refusal.label(),
    }
}

fn text(refusal: &CommandRefusal) -> String {
    match refusal {
        // The text leaves out the name of the command, which ends in unreadable octets.
        CommandRefusal::NotTrusted(rejection) if rejection.why == RejectionReason::NotSigned => {
            "the command is not signed: sign it with a key that the router's configuration names, or \
             use its Unix socket"
                .into()
        }
        CommandRefusal::NotTrusted(rejection) => {
            // The name of a certificate is not secret. Its owner needs it to renew the certificate.
            let named = |what: String| {
                let certificate = rejection.failed();
                format!("the certificate {certificate} of the router's configuration {what}")
            };
            match rejection.why {
                RejectionReason::Expired { not_after_s } => {
                    return named(format!("ended on {}", UtcTime(not_after_s)));
                }
                RejectionReason::NotYetValid { not_before_s } => {
                    return named(format!("is not valid before {}", UtcTime(not_before_s)));
                }
                _ => {}
            }
            let signer = rejection.key.as_ref().map_or_else(|| "no key".into(), ToString::to_string);
            format!("the command's signature, by {signer}, is not one that the router's configuration trusts")
        }
        CommandRefusal::NeedCertificate(name) => {
            format!("the router's configuration does not name the key {name}")
        }
        refusal => refusal.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use namely_security::{Certificate, KeyType, PrivateKey, Signer, sign_interest};
    use namely_wire::{InterestBuilder, Name, ValidityPeriod};

    use super::*;
    use crate::policy::Rights;

    const NOW: Now = Now { ns: 0, unix_ms: 1_800_000_000_000 };

    fn name(uri: &str) -> Name {
        uri.parse().unwrap()
    }

    fn key(uri: &str) -> (Signer, Certificate) {
        let key = Arc::new(PrivateKey::generate(KeyType::Ed25519).unwrap());
        let key_name = name(uri);
        let validity = ValidityPeriod { not_before_s: 0, not_after_s: 2 * NOW.unix_ms / 1000 };
        let certificate = Certificate::self_signed(key_name.as_name(), &key, validity, 1).unwrap();
        (Signer::new(key_name, key), certificate)
    }

    fn authenticator(certificate: Certificate) -> Authenticator {
        let rights = Rights { register: vec![name("/alice")], ..Rights::default() };
        Authenticator::new(Policy { keys: vec![(certificate, rights)], ..Policy::default() }, NOW)
    }

    fn command(signer: &Signer, time_ms: u64) -> Vec<u8> {
        let builder = InterestBuilder::new(name("/localhost/nfd/rib/register/x"));
        sign_interest(&builder, b"", signer, time_ms).unwrap()
    }

    fn try_to(
        authenticator: &mut Authenticator,
        wire: &[u8],
        uri: &str,
        requester: Requester,
    ) -> Result<(), String> {
        let interest = InterestView::parse(wire).unwrap();
        authenticator.allow(Act::RegisterOwn(name(uri).as_name()), &interest, &requester, NOW)
    }

    #[test]
    fn a_configured_key_has_limited_rights() {
        let (signer, certificate) = key("/alice/KEY/1");
        let mut authenticator = authenticator(certificate);
        let at = |n| command(&signer, NOW.unix_ms + n);
        // A command that `look` has verified is accepted later.
        let requester = &Requester::Unknown;
        let wire = at(1);
        let interest = InterestView::parse(&wire).unwrap();
        let mut look = |uri: &str| {
            let of = name(uri);
            authenticator.look(Act::RegisterOwn(of.as_name()), &interest, requester, NOW)
        };
        assert_eq!(
            look("/alice/x").unwrap(),
            "[[authorization.key]] of /alice/KEY/1, register = [\"/alice\"]"
        );
        assert_eq!(look("/bob").unwrap_err().cause, "key_not_allowed");
        try_to(&mut authenticator, &at(1), "/alice/x", Requester::Unknown).unwrap();
        let text = try_to(&mut authenticator, &at(2), "/bob", Requester::Unknown).unwrap_err();
        assert!(text.contains("/alice/KEY/1 may not register /bob"), "{text}");
        let text = try_to(&mut authenticator, &at(2), "/alice/x", Requester::Unknown).unwrap_err();
        assert!(text.contains("was accepted"), "a replay: {text}");
        assert_eq!(authenticator.refusals(), &BTreeMap::from([("key_not_allowed", 1), ("replayed", 1)]));
    }

    #[test]
    fn long_refusal_reasons_are_cut() {
        let whole = "ä".repeat(RIGHT_WHY_OCTETS_MAX / 2);
        assert_eq!(shortened(whole.clone()), whole);
        let cut = shortened(whole + "x");
        assert!(cut.len() <= RIGHT_WHY_OCTETS_MAX && cut.ends_with("ä ..."), "{}", cut.len());
    }

    #[test]
    fn commands_of_other_keys_are_refused() {
        let (_, certificate) = key("/alice/KEY/1");
        let (impostor, _) = key("/alice/KEY/1");
        let (stranger, _) = key("/alice/KEY/2");
        let mut authenticator = authenticator(certificate);
        let digest = command(&Signer::digest_sha256(), NOW.unix_ms);
        let unsigned = InterestBuilder::new(name("/localhost/nfd/rib/register/x")).build();
        for (wire, hint) in [
            (&command(&impostor, NOW.unix_ms), "/alice/KEY/1"),
            (&command(&stranger, NOW.unix_ms), "/alice/KEY/2"),
            (&digest, "no key"),
            (&unsigned, "not signed"),
        ] {
            let text = try_to(&mut authenticator, wire, "/alice", Requester::Unknown).unwrap_err();
            assert!(text.contains(hint), "{text}");
        }
        assert_eq!(authenticator.refusals().values().sum::<u64>(), 4);
        assert_eq!(authenticator.refusals()["not_signed"], 1);
    }

    #[test]
    fn issued_certificates_inherit_no_rights() {
        let (signer, certificate) = key("/alice/KEY/1");
        let (other, request) = key("/alice/sub/KEY/2");
        let validity = ValidityPeriod { not_before_s: 0, not_after_s: 2 * NOW.unix_ms / 1000 };
        let issued =
            Certificate::issue(request.key_name(), request.public_key(), &signer, "alice", validity, 1)
                .unwrap();
        let mut authenticator = authenticator(certificate);
        authenticator.verifier.verifier().supply_certificate(issued);
        let wire = command(&other, NOW.unix_ms);
        assert!(try_to(&mut authenticator, &wire, "/alice/sub", Requester::Unknown).is_err());
    }

    #[test]
    fn a_user_without_rights_may_sign() {
        let (signer, certificate) = key("/alice/KEY/1");
        let mut authenticator = authenticator(certificate);
        let user = Requester::User(1001);
        try_to(&mut authenticator, &command(&signer, NOW.unix_ms), "/alice", user.clone()).unwrap();
        let digest = command(&Signer::digest_sha256(), NOW.unix_ms);
        let text = try_to(&mut authenticator, &digest, "/alice", user).unwrap_err();
        assert!(text.contains("user 1001 may not register /alice"), "{text}");
    }

    #[test]
    fn loopback_refusals_suggest_a_remedy() {
        let (_, certificate) = key("/alice/KEY/1");
        let mut authenticator = authenticator(certificate);
        let digest = command(&Signer::digest_sha256(), NOW.unix_ms);
        let mut refused = |requester| try_to(&mut authenticator, &digest, "/x", requester).unwrap_err();
        assert!(refused(Requester::Loopback(7)).contains("user 7 may not register /x: see [authorization]"));
        let text = refused(Requester::Nameless("it was closed".into()));
        assert!(text.contains("no key") && text.contains("it was closed"), "{text}");
        let rights = Rights { register: vec![Name::new()], ..Rights::default() };
        let policy = Policy { users: vec![(None, rights)], ..Policy::default() };
        authenticator.set_policy(policy.clone());
        let interest = InterestView::parse(&digest).unwrap();
        let user = Requester::Loopback(7);
        let text = authenticator.allow(Act::Manage, &interest, &user, NOW).unwrap_err();
        assert!(text.contains("Unix socket") || text.contains("[authorization]"), "{text}");
        authenticator.set_policy(Policy { loopback: Loopback::Nothing, ..policy });
        let text = try_to(&mut authenticator, &digest, "/x", user).unwrap_err();
        assert!(text.contains("no key") && !text.contains("user 7"), "{text}");
    }

    #[test]
    fn a_new_policy_remembers_replays() {
        let (signer, certificate) = key("/alice/KEY/1");
        let mut authenticator = authenticator(certificate.clone());
        let wire = command(&signer, NOW.unix_ms);
        try_to(&mut authenticator, &wire, "/alice", Requester::Unknown).unwrap();
        authenticator.set_policy(Policy::default());
        let later = command(&signer, NOW.unix_ms + 1);
        assert!(try_to(&mut authenticator, &later, "/alice", Requester::Unknown).is_err());
        let rights = Rights { manage: true, ..Rights::default() };
        authenticator.set_policy(Policy { keys: vec![(certificate, rights)], ..Policy::default() });
        assert!(try_to(&mut authenticator, &wire, "/alice", Requester::Unknown).is_err(), "a replay");
        try_to(&mut authenticator, &later, "/alice", Requester::Unknown).unwrap();
    }
}
