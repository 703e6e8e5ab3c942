//! Trust policy: the keys that may sign each name, and the anchors of their certificates.
//!
//! A policy is configuration and holds no state. The [`Verifier`](crate::Verifier) applies it.
//! `docs/trust.md` describes the rules and their file form.

mod file;
mod pattern;
mod rejection;

use namely_wire::{Name, NameRef};

use crate::certificate::{Certificate, identity_of};
use crate::crypto::HmacKey;

pub use self::file::PolicyFileError;
pub use self::pattern::{Pattern, PatternError};
pub use self::rejection::{Rejection, RejectionReason};

/// Certificates of a chain.
///
/// The signing key's certificate counts, and the anchor does not. The value is the default of
/// `depth_max` in a policy file.
///
/// # Limit
/// The packet is rejected as `TooDeep`.
/// - Tests: `a_chain_is_limited_by_the_policy`
pub(crate) const CHAIN_DEPTH_MAX: usize = 5;

/// A trust policy.
#[derive(Clone, Debug)]
pub struct TrustPolicy {
    pub(crate) mode: Mode,
    anchors: Vec<Certificate>,
    shared_keys: Vec<(Name, HmacKey)>,
    rules: Vec<Rule>,
    hierarchical: bool,
    depth_max: usize,
    revoked: Vec<Name>,
}

/// The kind of verification.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    Signatures,
    DigestOnly,
    AcceptAll,
}

/// Keys that match `key` may sign names that match `data`, with equal variables.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    /// The names that may be signed.
    pub data: Pattern,
    /// The names of the keys (`/Identity/KEY/KeyId`) that may sign them.
    pub key: Pattern,
}

impl TrustPolicy {
    /// Requires signatures that lead to an anchor. A key of identity `/a/b` may sign names below
    /// `/a/b`, certificates included. Without an anchor, all packets are rejected.
    pub fn hierarchical() -> Self {
        TrustPolicy {
            mode: Mode::Signatures,
            anchors: Vec::new(),
            shared_keys: Vec::new(),
            rules: Vec::new(),
            hierarchical: true,
            depth_max: CHAIN_DEPTH_MAX,
            revoked: Vec::new(),
        }
    }

    /// Requires signatures that lead to an anchor, and signing allowed by `rules`.
    pub fn with_rules(rules: Vec<Rule>) -> Self {
        TrustPolicy { rules, hierarchical: false, ..Self::hierarchical() }
    }

    /// Checks only DigestSha256, which shows that data is intact, but not its origin
    /// ([`TrustReason::Digest`](crate::TrustReason::Digest)).
    pub fn digest_only() -> Self {
        TrustPolicy { mode: Mode::DigestOnly, ..Self::hierarchical() }
    }

    /// Checks nothing ([`TrustReason::Unchecked`](crate::TrustReason::Unchecked)). For diagnosis
    /// only.
    pub fn insecure_accept_all() -> Self {
        TrustPolicy { mode: Mode::AcceptAll, ..Self::hierarchical() }
    }

    /// Adds a trust anchor, which is trusted regardless of its signer while it is valid.
    pub fn add_anchor(&mut self, anchor: Certificate) -> &mut Self {
        if !self.anchors.contains(&anchor) {
            self.anchors.push(anchor);
        }
        self
    }

    /// Adds a key shared with signers under the name `key_name`. The rules apply to this key as to
    /// other keys.
    pub fn add_shared_key(&mut self, key_name: Name, key: HmacKey) -> &mut Self {
        self.shared_keys.push((key_name, key));
        self
    }

    /// Adds a rule to those that allow signing.
    pub(crate) fn add_rule(&mut self, rule: Rule) -> &mut Self {
        self.rules.push(rule);
        self
    }

    /// Sets whether a key may sign below its own identity, in addition to the rules.
    pub(crate) fn set_hierarchical(&mut self, hierarchical: bool) -> &mut Self {
        self.hierarchical = hierarchical;
        self
    }

    /// Sets the limit of a chain of certificates, the anchor not counted.
    pub(crate) fn set_depth_max(&mut self, depth_max: usize) -> &mut Self {
        self.depth_max = depth_max;
        self
    }

    /// Revokes the certificate `name`, or all certificates of the key `name`.
    pub fn revoke(&mut self, name: Name) -> &mut Self {
        self.revoked.push(name);
        self
    }

    /// Returns true if verification proves the producer of a packet, because signatures are
    /// checked.
    pub fn is_authenticating(&self) -> bool {
        self.mode == Mode::Signatures
    }

    /// Returns true if the policy may allow some key to sign `name`. The result is false only if no
    /// key can.
    pub fn may_vouch_for(&self, name: NameRef<'_>) -> bool {
        let is_above = |anchor: &Certificate| anchor.identity().is_prefix_of(name);
        match self.mode {
            Mode::Signatures => {
                self.rules.iter().any(|rule| rule.data.matches(name))
                    || !self.shared_keys.is_empty()
                    || (self.hierarchical && self.anchors.iter().any(is_above))
            }
            Mode::DigestOnly | Mode::AcceptAll => true,
        }
    }

    /// Returns true if nothing is checked at all.
    pub fn accepts_all(&self) -> bool {
        self.mode == Mode::AcceptAll
    }

    /// The trust anchors.
    pub fn anchors(&self) -> &[Certificate] {
        &self.anchors
    }

    /// The limit of a chain of certificates, the anchor not counted.
    pub fn depth_max(&self) -> usize {
        self.depth_max
    }

    /// Returns true if a key named `key_name` may sign `name`.
    pub(crate) fn allows(&self, name: NameRef<'_>, key_name: NameRef<'_>) -> bool {
        self.allows_by_hierarchy(name, key_name)
            || self.rules.iter().any(|rule| {
                let mut bindings = pattern::Bindings::new();
                rule.data.bind(name, &mut bindings) && rule.key.bind(key_name, &mut bindings)
            })
    }

    fn allows_by_hierarchy(&self, name: NameRef<'_>, key_name: NameRef<'_>) -> bool {
        self.hierarchical && identity_of(key_name).is_prefix_of(name)
    }

    /// Returns true if a chain for `name` may end at some anchor. With explicit rules, each anchor
    /// is possible. Without rules, the anchor's identity must be a prefix of the name.
    pub(crate) fn has_anchor_for(&self, name: NameRef<'_>) -> bool {
        if self.rules.is_empty() {
            self.anchors.iter().any(|anchor| anchor.identity().is_prefix_of(name))
        } else {
            !self.anchors.is_empty()
        }
    }

    pub(crate) fn shared_key(&self, key_name: NameRef<'_>) -> Option<&HmacKey> {
        self.shared_keys.iter().find(|(name, _)| name.as_name() == key_name).map(|(_, key)| key)
    }

    pub(crate) fn has_revoked(&self, certificate: &Certificate) -> bool {
        self.revoked.iter().any(|name| certificate.answers_to(name.as_name()))
    }
}
