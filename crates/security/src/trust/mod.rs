//! Trust policy: which keys may sign which names, and from which anchors their certificates must
//! come.
//!
//! A policy is configuration: it holds no state and verifies nothing itself (the
//! [`Verifier`](crate::Verifier) does). The rules and their file form are described in
//! `docs/trust.md`.

mod file;
mod pattern;
mod rejection;

use namely_wire::{Name, NameRef};

use crate::certificate::{Certificate, identity_of};
use crate::crypto::HmacKey;

pub use self::file::PolicyFileError;
pub use self::pattern::{Pattern, PatternError};
pub use self::rejection::{Rejection, RejectionReason};

/// Longest chain of certificates, the signing key's included and the anchor not, unless a policy
/// sets another.
pub(crate) const CHAIN_DEPTH_MAX: usize = 5;

/// What is believed.
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

/// What counts as verification.
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
    /// Signatures must lead to an anchor, and a key of identity `/a/b` may sign names below `/a/b`,
    /// certificates included. Without an anchor, this believes nothing.
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

    /// Signatures must lead to an anchor, and only what `rules` say may be signed.
    pub fn with_rules(rules: Vec<Rule>) -> Self {
        TrustPolicy { rules, hierarchical: false, ..Self::hierarchical() }
    }

    /// Only DigestSha256 is checked: data is intact, but of unknown origin
    /// ([`TrustReason::Digest`](crate::TrustReason::Digest)).
    pub fn digest_only() -> Self {
        TrustPolicy { mode: Mode::DigestOnly, ..Self::hierarchical() }
    }

    /// Nothing is checked ([`TrustReason::Unchecked`](crate::TrustReason::Unchecked)). For
    /// diagnosis only.
    pub fn insecure_accept_all() -> Self {
        TrustPolicy { mode: Mode::AcceptAll, ..Self::hierarchical() }
    }

    /// Adds a trust anchor: believed without looking at who signed it, while it is valid.
    pub fn add_anchor(&mut self, anchor: Certificate) -> &mut Self {
        if !self.anchors.contains(&anchor) {
            self.anchors.push(anchor);
        }
        self
    }

    /// Adds a key shared with signers, who name it `key_name`. The rules apply to it as to other
    /// keys.
    pub fn add_shared_key(&mut self, key_name: Name, key: HmacKey) -> &mut Self {
        self.shared_keys.push((key_name, key));
        self
    }

    /// Allows what `rule` says, besides what is allowed already.
    pub(crate) fn add_rule(&mut self, rule: Rule) -> &mut Self {
        self.rules.push(rule);
        self
    }

    /// Sets whether a key may sign below its own identity, besides what the rules say.
    pub(crate) fn set_hierarchical(&mut self, hierarchical: bool) -> &mut Self {
        self.hierarchical = hierarchical;
        self
    }

    /// Sets the longest chain of certificates, the anchor not counted.
    pub(crate) fn set_depth_max(&mut self, depth_max: usize) -> &mut Self {
        self.depth_max = depth_max;
        self
    }

    /// Stops believing a certificate, or with the name of a key all certificates of that key.
    pub fn revoke(&mut self, name: Name) -> &mut Self {
        self.revoked.push(name);
        self
    }

    /// Returns true if what is believed is known to come from its producer: only where signatures
    /// are checked.
    pub fn is_authenticating(&self) -> bool {
        self.mode == Mode::Signatures
    }

    /// Returns true if some key may sign `name`, as far as can be told without the key.
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

    /// Longest chain of certificates, the anchor not counted.
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

    /// Returns true if some anchor could lead to `name`. Explicit rules may lead anywhere; without
    /// them an anchor must be of an identity above it.
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
