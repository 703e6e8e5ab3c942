//! Signed Interests as commands (packet spec, `signed-interest.rst`): authenticates their senders
//! and detects replays.
//!
//! A command is accepted once. Its SignatureTime must be near the receiver's clock and not before
//! the start of the process. A command that another command of its key overtook is accepted if its
//! SignatureTime is only a little earlier, and new (`history`).

mod history;
mod kept;

use namely_wire::{InterestView, Name, SignatureInfoView};

use self::history::History;
pub use self::kept::{AcceptedCommand, AcceptedCommandStore, TAKEN_RECORD_OCTETS, TAKEN_RECORDS_MAX};
use crate::crypto::{constant_time_eq, sha256};
use crate::trust::{Rejection, RejectionReason, TrustPolicy};
use crate::verified::TrustReason;
use crate::verifier::{Verifier, VerifyFailure};

/// Difference of SignatureTime from the receiver's clock, in either direction.
///
/// The value is that of ndn-cxx.
///
/// # Limit
/// The command is refused.
/// - Counter: `outside_grace`
/// - Tests: `the_grace_period_is_exact`
pub(crate) const COMMAND_GRACE_MS: u64 = 120_000;

/// Keys whose last command is remembered.
///
/// # Limit
/// A command of a further key is refused until one of the last commands is older than twice the
/// grace period.
/// - Counter: `too_many_keys`
/// - Tests: `a_full_command_table_delays_new_keys`
pub const COMMAND_KEYS_MAX: usize = 1024;

/// SignatureNonces remembered of one key.
///
/// A replay with an older SignatureNonce is still detected by its SignatureTime.
///
/// # Limit
/// The oldest SignatureNonce is removed.
/// - Tests: `a_repeated_nonce_is_a_replay`
pub(crate) const COMMAND_NONCES_MAX: usize = 16;

/// Octets of a SignatureNonce in a command.
///
/// # Limit
/// The command is refused.
/// - Counter: `nonce_too_long`
/// - Tests: `a_nonce_has_at_most_32_octets`
pub const COMMAND_NONCE_OCTETS_MAX: usize = 32;

/// Verifies commands under a trust policy. Keeps bounded state about each key.
#[derive(Debug)]
pub struct CommandVerifier {
    verifier: Verifier,
    history: History,
}

/// The time on both clocks. The monotonic clock detects steps of the wall clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CommandTime {
    monotonic_ns: u64,
    unix_ms: u64,
}

impl CommandTime {
    /// `monotonic_ns` never decreases; `unix_ms` is the time since the Unix epoch.
    pub fn new(monotonic_ns: u64, unix_ms: u64) -> Self {
        CommandTime { monotonic_ns, unix_ms }
    }

    fn monotonic_ms(self) -> u64 {
        self.monotonic_ns / 1_000_000
    }

    fn unix_ms(self) -> u64 {
        self.unix_ms
    }

    fn unix_ns(self) -> u64 {
        self.unix_ms.saturating_mul(1_000_000)
    }
}

impl CommandVerifier {
    /// Creates a verifier of commands by keys that `policy` trusts. Commands signed before `start`
    /// are refused, because a former process may have accepted them. The rules apply to the
    /// Interest's name, so for commands they are usually explicit: see `docs/trust.md`.
    pub fn new(policy: TrustPolicy, start: CommandTime) -> Self {
        CommandVerifier { verifier: Verifier::new(policy), history: History::new(start) }
    }

    /// Persists accepted commands in `store`. `former` are the records of the former process in
    /// it; a new store has none. Must be called before the first command, because the keys of
    /// earlier commands get no slot in the store.
    ///
    /// # Errors
    /// The environment's: commands are then accepted without being persisted.
    pub fn record_accepted(
        &mut self,
        store: Box<dyn AcceptedCommandStore>,
        former: &[AcceptedCommand],
        now: CommandTime,
    ) -> std::io::Result<()> {
        self.history.persist_in(store, former, now)
    }

    /// Replaces the policy, as on a reload. The replay history stays.
    pub fn set_policy(&mut self, policy: TrustPolicy) {
        self.verifier.set_policy(policy);
    }

    /// The verifier of signatures, to supply certificates to.
    pub fn verifier(&mut self) -> &mut Verifier {
        &mut self.verifier
    }

    /// Verifies `interest` at `now` and returns the reason for trusting it. The same octets are
    /// accepted only once.
    ///
    /// # Errors
    /// [`CommandRefusal`] has the reason. After `NeedCertificate` the caller supplies the
    /// certificate and verifies again.
    pub fn verify(
        &mut self,
        interest: &InterestView<'_>,
        now: CommandTime,
    ) -> Result<TrustReason, CommandRefusal> {
        let (reason, info, time_ms) = self.authenticate(interest, now)?;
        if let Some(key) = reason.key_name() {
            self.history.accept(key, &info, time_ms, now)?;
        }
        Ok(reason)
    }

    /// Returns the result of [`verify`](Self::verify) for `interest` without accepting it. The
    /// history does not change.
    ///
    /// # Errors
    /// As of [`verify`](Self::verify).
    pub fn look(
        &mut self,
        interest: &InterestView<'_>,
        now: CommandTime,
    ) -> Result<TrustReason, CommandRefusal> {
        let (reason, info, time_ms) = self.authenticate(interest, now)?;
        if let Some(key) = reason.key_name() {
            self.history.check(key, &info, time_ms, now)?;
        }
        Ok(reason)
    }

    /// Verifies the signature, without regard to the key's earlier commands.
    fn authenticate<'a>(
        &mut self,
        interest: &InterestView<'a>,
        now: CommandTime,
    ) -> Result<(TrustReason, SignatureInfoView<'a>, u64), CommandRefusal> {
        let reject = |why| CommandRefusal::NotTrusted(Box::new(Rejection::of(interest.name, why)));
        let info = interest.signature_info().map_err(|e| reject(RejectionReason::Malformed(e)))?;
        let (Some(info), Some(value)) = (info, interest.signature_value) else {
            return Err(reject(RejectionReason::NotSigned));
        };
        if !has_right_parameters_digest(interest) {
            return Err(CommandRefusal::BadParametersDigest);
        }
        // The time is checked first, because the check of a signature costs much more.
        let time_ms = self.check_time(&info, now)?;
        let reason =
            self.verifier.verify_interest(interest, info, value, now.unix_ns()).map_err(|e| match e {
                VerifyFailure::Need(certificate) => CommandRefusal::NeedCertificate(certificate),
                VerifyFailure::Rejected(rejection) => CommandRefusal::NotTrusted(rejection),
            })?;
        Ok((reason, info, time_ms))
    }

    fn check_time(&self, info: &SignatureInfoView<'_>, now: CommandTime) -> Result<u64, CommandRefusal> {
        let (time_ms, now_ms) = (info.time_ms.ok_or(CommandRefusal::NoTime)?, now.unix_ms());
        if time_ms.abs_diff(now_ms) > COMMAND_GRACE_MS {
            return Err(CommandRefusal::OutsideGrace { time_ms, now_ms });
        }
        if self.history.is_before_start(time_ms, now) {
            return Err(CommandRefusal::BeforeStart);
        }
        match info.nonce {
            Some(nonce) if nonce.len() > COMMAND_NONCE_OCTETS_MAX => Err(CommandRefusal::NonceTooLong),
            _ => Ok(time_ms),
        }
    }
}

/// Returns true if the name ends in the right digest of the parameters, as required of a signed
/// Interest.
pub fn has_right_parameters_digest(interest: &InterestView<'_>) -> bool {
    interest
        .name
        .last()
        .filter(|last| last.is_parameters_digest())
        .is_some_and(|last| constant_time_eq(last.value, &sha256(interest.parameters_portion)))
}

/// The reason why a command is refused, or not accepted yet.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CommandRefusal {
    /// This certificate is missing: fetch it, [`supply`](Verifier::supply) it, and verify again.
    #[error("the certificate {0} is not known here")]
    NeedCertificate(Name),
    /// Peer: the signature or its chain is not trusted.
    #[error(transparent)]
    NotTrusted(Box<Rejection>),
    /// Peer: the name does not end in the digest of the parameters.
    #[error("the command is damaged or forged: its parameters digest does not fit")]
    BadParametersDigest,
    /// Peer: without SignatureTime a replay cannot be detected.
    #[error("the command has no SignatureTime, so it could be a replay")]
    NoTime,
    /// Peer or environment: SignatureTime is too far from the receiver's clock.
    #[error(
        "the command's SignatureTime is {} s {side} this clock: set both clocks right",
        .time_ms.abs_diff(*.now_ms) / 1000,
        side = if .time_ms < .now_ms { "behind" } else { "ahead of" }
    )]
    OutsideGrace {
        /// SignatureTime, ms since the Unix epoch.
        time_ms: u64,
        /// The receiver's clock, ms since the Unix epoch.
        now_ms: u64,
    },
    /// Peer: the command was signed before this process started. A former process may have accepted
    /// it.
    #[error(
        "the command was signed before this router started, so it could be a replay: send it \
         again with the present time"
    )]
    BeforeStart,
    /// Peer: SignatureNonce is longer than [`COMMAND_NONCE_OCTETS_MAX`].
    #[error("the command's SignatureNonce is longer than {COMMAND_NONCE_OCTETS_MAX} octets")]
    NonceTooLong,
    /// Peer: a command of this key and time was accepted, or a much later one.
    #[error(
        "a command that {key} signed at this time was accepted, or a later one: send it again with the \
         present time"
    )]
    Replayed {
        /// The key.
        key: Name,
    },
    /// Environment: the accepted command cannot be persisted for the next process.
    #[error(
        "the router cannot note that it took the command, so that its successor could take it \
         again: {0}"
    )]
    NotPersisted(std::io::ErrorKind),
    /// Environment: [`COMMAND_KEYS_MAX`] keys sent commands within the grace period.
    #[error("too many keys send commands just now: try again later")]
    TooManyKeys,
}

impl CommandRefusal {
    /// The label of the counter of refusals for this reason.
    pub fn label(&self) -> &'static str {
        match self {
            CommandRefusal::NeedCertificate(_) => "need_certificate",
            CommandRefusal::NotTrusted(_) => "not_trusted",
            CommandRefusal::BadParametersDigest => "bad_parameters_digest",
            CommandRefusal::NoTime => "no_signature_time",
            CommandRefusal::OutsideGrace { .. } => "outside_grace",
            CommandRefusal::BeforeStart => "before_start",
            CommandRefusal::NonceTooLong => "nonce_too_long",
            CommandRefusal::Replayed { .. } => "replayed",
            CommandRefusal::NotPersisted(_) => "not_kept",
            CommandRefusal::TooManyKeys => "too_many_keys",
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use namely_testkit::name;
    use namely_wire::InterestBuilder;

    use super::*;
    use crate::certificate::Certificate;
    use crate::crypto::{HmacKey, KeyType, PrivateKey};
    use crate::signer::{Signer, sign_interest};
    use crate::trust::Rule;
    use crate::validity;

    const NOW_MS: u64 = 1_800_000_000_000;

    const DAY_MS: u64 = 86_400_000;

    fn ns(ms: u64) -> u64 {
        ms * 1_000_000
    }

    /// A clock without steps. At [`NOW_MS`] the process has run for a day.
    fn at(unix_ms: u64) -> CommandTime {
        CommandTime::new(ns(unix_ms - NOW_MS + DAY_MS), unix_ms)
    }

    fn long_ago() -> CommandTime {
        CommandTime::new(0, NOW_MS - DAY_MS)
    }

    fn command(signer: &Signer, time_ms: u64) -> Vec<u8> {
        let builder = InterestBuilder::new(name("/localhost/nfd/rib/register/x"));
        sign_interest(&builder, b"", signer, time_ms).unwrap()
    }

    fn operator() -> (Signer, CommandVerifier) {
        let key = Arc::new(PrivateKey::generate(KeyType::Ed25519).unwrap());
        let key_name = name("/ops/KEY/k");
        let day = validity::days_from(ns(NOW_MS), 1);
        let anchor = Certificate::self_signed(key_name.as_name(), &key, day, 1).unwrap();
        let mut policy = TrustPolicy::with_rules(vec![Rule {
            data: "/localhost/nfd/<>*".parse().unwrap(),
            key: "/ops/KEY/<>".parse().unwrap(),
        }]);
        policy.add_anchor(anchor);
        (Signer::new(key_name, key), CommandVerifier::new(policy, long_ago()))
    }

    fn verify(
        verifier: &mut CommandVerifier,
        wire: &[u8],
        now_ms: u64,
    ) -> Result<TrustReason, CommandRefusal> {
        verifier.verify(&InterestView::parse(wire).unwrap(), at(now_ms))
    }

    #[test]
    fn a_command_is_accepted_once() {
        let (signer, mut verifier) = operator();
        let wire = command(&signer, NOW_MS);
        assert!(verify(&mut verifier, &wire, NOW_MS).unwrap().is_authentic());
        let refusal = verify(&mut verifier, &wire, NOW_MS).unwrap_err();
        assert_eq!(refusal, CommandRefusal::Replayed { key: name("/ops/KEY/k") });
        // Another command of the same time or of a much earlier one is refused, too.
        for time_ms in [NOW_MS, NOW_MS - 3000] {
            let refusal = verify(&mut verifier, &command(&signer, time_ms), NOW_MS).unwrap_err();
            assert_eq!(refusal.label(), "replayed");
        }
        verify(&mut verifier, &command(&signer, NOW_MS + 1), NOW_MS).unwrap();
    }

    #[test]
    fn the_grace_period_is_exact() {
        for (time_ms, accepted) in [
            (NOW_MS - COMMAND_GRACE_MS, true),
            (NOW_MS - COMMAND_GRACE_MS - 1, false),
            (NOW_MS + COMMAND_GRACE_MS, true),
            (NOW_MS + COMMAND_GRACE_MS + 1, false),
        ] {
            let (signer, mut verifier) = operator();
            let outcome = verify(&mut verifier, &command(&signer, time_ms), NOW_MS);
            assert_eq!(outcome.is_ok(), accepted, "{time_ms}");
        }
    }

    #[test]
    fn a_restarted_verifier_refuses_earlier_commands() {
        let (signer, mut verifier) = operator();
        let wire = command(&signer, NOW_MS);
        verify(&mut verifier, &wire, NOW_MS).unwrap();
        let restarted = CommandTime::new(ns(DAY_MS + 500), NOW_MS + 500);
        let mut verifier = CommandVerifier { history: History::new(restarted), ..verifier };
        for later_ms in [500, 1000, 60_000] {
            let replay = verify(&mut verifier, &wire, NOW_MS + later_ms);
            assert_eq!(replay, Err(CommandRefusal::BeforeStart), "{later_ms}");
        }
        verify(&mut verifier, &command(&signer, NOW_MS + 501), NOW_MS + 60_000).unwrap();
    }

    #[test]
    fn a_tampered_command_is_refused() {
        let (signer, mut verifier) = operator();
        let wire = command(&signer, NOW_MS);
        for i in 0..wire.len() {
            let mut tampered = wire.clone();
            tampered[i] ^= 0x01;
            if let Ok(interest) = InterestView::parse(&tampered) {
                assert!(verifier.verify(&interest, at(NOW_MS)).is_err(), "octet {i}");
            }
        }
        // No refused command entered the history.
        verify(&mut verifier, &wire, NOW_MS).unwrap();
    }

    #[test]
    fn unsigned_and_digest_signed_commands_are_refused() {
        let (_, mut verifier) = operator();
        let plain = InterestBuilder::new(name("/localhost/nfd/faces/list")).build();
        let CommandRefusal::NotTrusted(rejection) = verify(&mut verifier, &plain, NOW_MS).unwrap_err() else {
            panic!()
        };
        assert_eq!(rejection.why, RejectionReason::NotSigned);
        let digest = command(&Signer::digest_sha256(), NOW_MS);
        assert_eq!(verify(&mut verifier, &digest, NOW_MS).unwrap_err().label(), "not_trusted");
    }

    #[test]
    fn a_nonce_has_at_most_32_octets() {
        let info = |nonce| SignatureInfoView {
            signature_type: namely_wire::SignatureType::Ed25519,
            key_locator: None,
            nonce: Some(nonce),
            time_ms: Some(NOW_MS),
            seq_num: None,
            validity: None,
        };
        let (_, verifier) = operator();
        let nonce = [7; COMMAND_NONCE_OCTETS_MAX + 1];
        assert_eq!(verifier.check_time(&info(&nonce[1..]), at(NOW_MS)), Ok(NOW_MS));
        assert_eq!(verifier.check_time(&info(&nonce), at(NOW_MS)), Err(CommandRefusal::NonceTooLong));
    }

    #[test]
    fn a_stale_sequence_number_is_a_replay() {
        let key_name = name("/ops/KEY/k");
        let signer = Signer::hmac(key_name.clone(), HmacKey::new(b"secret"));
        let mut policy = TrustPolicy::hierarchical();
        policy.add_shared_key(key_name, HmacKey::new(b"secret"));
        let mut verifier = CommandVerifier::new(policy, long_ago());
        for (seq_num, time_ms, accepted) in [
            (Some(5), 1, true),
            (Some(5), 2, false),
            (Some(4), 3, false),
            (None, 4, true),
            (Some(5), 5, false),
            (Some(6), 6, true),
        ] {
            let mut info = signer.signature_info();
            info.seq_num = seq_num;
            info.time_ms = Some(NOW_MS + time_ms);
            let wire = InterestBuilder::new(name("/ops/do"))
                .build_signed(b"", &info, |parts| signer.sign(parts), sha256)
                .unwrap();
            assert_eq!(verify(&mut verifier, &wire, NOW_MS).is_ok(), accepted, "{seq_num:?} at {time_ms}");
        }
    }

    #[test]
    fn a_command_without_a_time_is_refused() {
        let (signer, mut verifier) = operator();
        let info = signer.signature_info();
        let wire = InterestBuilder::new(name("/localhost/nfd/x"))
            .build_signed(b"", &info, |parts| signer.sign(parts), sha256)
            .unwrap();
        assert_eq!(verify(&mut verifier, &wire, NOW_MS), Err(CommandRefusal::NoTime));
    }

    #[test]
    fn a_repeated_nonce_is_a_replay() {
        let key_name = name("/ops/KEY/k");
        let signer = Signer::hmac(key_name.clone(), HmacKey::new(b"secret"));
        let send = |verifier: &mut CommandVerifier, nonce: u64, time_ms| {
            let mut info = signer.signature_info();
            info.nonce = Some(nonce.to_be_bytes());
            info.time_ms = Some(time_ms);
            let wire = InterestBuilder::new(name("/ops/do"))
                .build_signed(b"", &info, |parts| signer.sign(parts), sha256)
                .unwrap();
            verify(verifier, &wire, NOW_MS)
        };
        let mut policy = TrustPolicy::hierarchical();
        policy.add_shared_key(key_name.clone(), HmacKey::new(b"secret"));
        let mut verifier = CommandVerifier::new(policy, long_ago());
        for n in 0..COMMAND_NONCES_MAX as u64 {
            send(&mut verifier, n, NOW_MS + n).unwrap();
        }
        assert_eq!(send(&mut verifier, 0, NOW_MS + 100).unwrap_err().label(), "replayed");
        send(&mut verifier, 99, NOW_MS + 101).unwrap();
        send(&mut verifier, 0, NOW_MS + 102).unwrap();
    }

    #[test]
    fn a_full_command_table_delays_new_keys() {
        let mut policy = TrustPolicy::hierarchical();
        let signers: Vec<Signer> = (0..=COMMAND_KEYS_MAX)
            .map(|n| {
                let key_name = name("/localhost/KEY").join_generic(n.to_string());
                policy.add_shared_key(key_name.clone(), HmacKey::new(b"secret"));
                Signer::hmac(key_name, HmacKey::new(b"secret"))
            })
            .collect();
        let mut verifier = CommandVerifier::new(policy, long_ago());
        let (last, first) = signers.split_last().unwrap();
        for signer in first {
            verify(&mut verifier, &command(signer, NOW_MS), NOW_MS).unwrap();
        }
        let early = verify(&mut verifier, &command(last, NOW_MS), NOW_MS);
        assert_eq!(early, Err(CommandRefusal::TooManyKeys));
        let soon_ms = NOW_MS + 2 * COMMAND_GRACE_MS;
        let soon = verify(&mut verifier, &command(last, soon_ms), soon_ms);
        assert_eq!(soon, Err(CommandRefusal::TooManyKeys), "one that was ahead would be new again");
        let later_ms = soon_ms + 1;
        verify(&mut verifier, &command(last, later_ms), later_ms).unwrap();
        assert_eq!(verifier.history.keys(), 1);
    }
}
