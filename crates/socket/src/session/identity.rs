//! The identity that certifies session keys, from the key chain.

use std::path::PathBuf;

use namely_security::validity::ALWAYS;
use namely_security::{Certificate, Signer};
use namely_wire::{Name, NameRef, ValidityPeriod, key_name_of_locator};

use super::check;
use crate::error::BindError;
use crate::options::ProducerOptions;
use crate::trust;

/// The location of an identity.
#[derive(Clone, Debug)]
pub(super) struct Source {
    keychain: Option<PathBuf>,
    /// None: the longest identity above the socket's prefix.
    identity: Option<Name>,
}

impl Source {
    pub(super) fn of(options: &ProducerOptions) -> Self {
        Source { keychain: options.keychain.clone(), identity: options.identity.clone() }
    }
}

/// The identity that certifies session keys.
#[derive(Debug)]
pub(super) struct Identity {
    /// Its KeyLocator names the first of the certificates, if there is one.
    pub(super) issuer: Signer,
    pub(super) certificates: Vec<Certificate>,
}

impl Identity {
    /// Returns the configured identity, or the longest one above the prefix, with its certificates.
    /// The first is the one for `now_ms` ([`namely_security::KeyEntry::certificates_at`]).
    pub(super) fn find(prefix: &Name, source: &Source, now_ms: u64) -> Result<Self, BindError> {
        let chain = trust::key_chain(source.keychain.as_ref())?;
        let entry = match &source.identity {
            Some(identity) => chain.key(Some(identity.as_name()))?,
            None => chain
                .key_above(prefix.as_name())?
                .ok_or_else(|| BindError::NoKey { prefix: prefix.clone() })?,
        };
        let key_name = entry.name.clone();
        let certificates = entry.certificates_at(now_ms / 1_000);
        let which = certificates.first().map_or(key_name.as_name(), Certificate::name);
        let issuer = chain.signer(Some(which), None)?;
        Ok(Identity { issuer, certificates })
    }

    /// The validity of certificates that it issues.
    pub(super) fn validity(&self) -> ValidityPeriod {
        self.certificates.first().map_or(ALWAYS, Certificate::validity)
    }

    pub(super) fn ends_s(&self) -> u64 {
        self.validity().not_after_s
    }

    /// Returns an error if its certificate has ended.
    pub(super) fn check(&self, now_ms: u64) -> Result<(), BindError> {
        self.certificates.first().map_or(Ok(()), |certificate| check(certificate, now_ms))
    }

    pub(super) fn is_key(&self, locator: NameRef<'_>) -> bool {
        let own = self.issuer.key_name().and_then(|name| key_name_of_locator(name.as_name()).ok());
        own.is_some() && key_name_of_locator(locator).ok() == own
    }
}
