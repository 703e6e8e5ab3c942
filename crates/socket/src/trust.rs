//! The trust policy of option `trust`, and the key chain.

use std::path::PathBuf;

use namely_security::{KeyChain, TrustPolicy, read_certificate};

use crate::error::BindError;
use crate::options::Trust;

/// Returns the policy of `trust`; `keychain` is the folder of the key chain, if not the user's.
pub(crate) fn policy(trust: &Trust, keychain: Option<&PathBuf>) -> Result<TrustPolicy, BindError> {
    match trust {
        Trust::User => users(keychain),
        Trust::PolicyFile(path) => TrustPolicy::load(path).map_err(BindError::Policy),
        Trust::AnchorFiles { beside, files } => {
            let mut policy = policy(beside, keychain)?;
            for path in files {
                policy.add_anchor(read_certificate(path).map_err(BindError::Anchor)?);
            }
            Ok(policy)
        }
        Trust::Policy(policy) => Ok((**policy).clone()),
    }
}

pub(crate) fn key_chain(folder: Option<&PathBuf>) -> Result<KeyChain, BindError> {
    match folder {
        Some(folder) => Ok(KeyChain::open(folder)?),
        None => Ok(KeyChain::open_default()?),
    }
}

fn users(keychain: Option<&PathBuf>) -> Result<TrustPolicy, BindError> {
    let (policy, problems) = key_chain(keychain)?.hierarchical_policy()?;
    for problem in problems {
        tracing::warn!(%problem, "a part of the key chain is left out");
    }
    Ok(policy)
}
