//! Converts the configured rules to management's policy: resolves user names to uids and reads
//! certificate files.

use std::path::Path;

use namely_mgmt::{Policy, Rights};
use namely_security::{CertificateFileError, read_certificate};

use super::error::{ConfigError, Step};
use super::{Authorization, User};

/// The file for looking up user names. Users of a directory service must be given by uid.
const PASSWD: &str = "/etc/passwd";

impl Authorization {
    /// The policy: these rules, and all rights for root and the user that runs the router.
    pub fn policy(&self) -> Result<Policy, PolicyError> {
        self.policy_with(Path::new(PASSWD))
    }

    fn policy_with(&self, passwd: &Path) -> Result<Policy, PolicyError> {
        let mut policy = Policy {
            localhop_rib: self.localhop_rib,
            explain_to_network: self.explain_to_network,
            loopback: self.loopback,
            bind_below_local: self.bind_below_local,
            ..Policy::default()
        };
        policy.superusers = vec![0, rustix::process::geteuid().as_raw()];
        for (index, rule) in self.user.iter().enumerate() {
            let user = match &rule.user {
                User::Any => None,
                User::Uid(uid) => Some(*uid),
                User::Name(name) => {
                    Some(uid_of(name, passwd).ok_or_else(|| PolicyError::unknown(index, name))?)
                }
            };
            policy.users.push((
                user,
                Rights { register: rule.register.clone(), bind: rule.bind.clone(), manage: rule.manage },
            ));
        }
        for (index, rule) in self.key.iter().enumerate() {
            let certificate = read_certificate(&rule.certificate)
                .map_err(|error| PolicyError::Certificate { rule: index, error })?;
            policy.keys.push((
                certificate,
                Rights { register: rule.register.clone(), bind: rule.bind.clone(), manage: rule.manage },
            ));
        }
        for (index, path) in self.announcement_anchors.iter().enumerate() {
            let certificate =
                read_certificate(path).map_err(|error| PolicyError::Anchor { entry: index, error })?;
            policy.announcement_anchors.push(certificate);
        }
        Ok(policy)
    }
}

fn uid_of(name: &str, passwd: &Path) -> Option<u32> {
    namely_host::users::uid_in(passwd, name)
}

/// An error in the configured rules or in a file that they name.
#[derive(Debug, thiserror::Error)]
pub enum PolicyError {
    /// There is no such user.
    #[error("authorization.user: {PASSWD} has no user `{name}`; name an existing user or a uid")]
    UnknownUser {
        /// The number of the rule, from 0 on.
        rule: usize,
        /// The user's name.
        name: String,
    },
    /// The certificate cannot be read.
    #[error("authorization.key: {error}")]
    Certificate {
        /// The number of the rule, from 0 on.
        rule: usize,
        /// The error of the file.
        #[source]
        error: CertificateFileError,
    },
    /// The certificate of an anchor of announcements cannot be read.
    #[error("authorization.announcement_anchors: {error}")]
    Anchor {
        /// The number of the anchor, from 0 on.
        entry: usize,
        /// The error of the file.
        #[source]
        error: CertificateFileError,
    },
}

impl PolicyError {
    fn unknown(rule: usize, name: &str) -> Self {
        PolicyError::UnknownUser { rule, name: name.to_owned() }
    }
}

impl From<PolicyError> for ConfigError {
    fn from(error: PolicyError) -> Self {
        let table = Step::from("authorization");
        let reason = error.to_string();
        match error {
            PolicyError::UnknownUser { rule, .. } => {
                ConfigError::at([table, "user".into(), rule.into(), "user".into()], &reason)
            }
            PolicyError::Certificate { rule, .. } => {
                ConfigError::at([table, "key".into(), rule.into(), "certificate".into()], &reason)
            }
            PolicyError::Anchor { entry, .. } => {
                ConfigError::at([table, "announcement_anchors".into(), entry.into()], &reason)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Config, KeyRule, UserRule};

    fn user(user: User, manage: bool) -> UserRule {
        UserRule { user, register: Vec::new(), bind: Vec::new(), manage }
    }

    #[test]
    fn user_names_resolve_to_uids() {
        let dir = tempfile::tempdir().unwrap();
        let passwd = dir.path().join("passwd");
        std::fs::write(&passwd, "root:x:0:0::/:/bin/sh\nalice:x:1007:1007:,:/home/alice:/bin/sh\nbad\n")
            .unwrap();
        let rules =
            vec![user(User::Name("alice".into()), true), user(User::Uid(5), false), user(User::Any, false)];
        let authorization = Authorization { user: rules, ..Authorization::default() };
        let policy = authorization.policy_with(&passwd).unwrap();
        let users: Vec<Option<u32>> = policy.users.iter().map(|(user, _)| *user).collect();
        assert_eq!(users, [Some(1007), Some(5), None]);
        assert!(policy.superusers.contains(&0));
        for name in ["bob", "ali", "bad", "1007"] {
            let authorization =
                Authorization { user: vec![user(User::Name(name.into()), true)], ..Authorization::default() };
            assert!(authorization.policy_with(&passwd).unwrap_err().to_string().contains(name));
        }
    }

    #[test]
    fn an_unreadable_certificate_is_named() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("ops.cert");
        let rule =
            KeyRule { certificate: path.clone(), register: Vec::new(), bind: Vec::new(), manage: true };
        let mut config = Config::default();
        config.authorization.key.push(rule);
        let message = config.authorization.policy().unwrap_err().to_string();
        assert!(message.contains("ops.cert"), "{message}");
        std::fs::write(&path, "this is no certificate").unwrap();
        let message = config.authorization.policy().unwrap_err().to_string();
        assert!(message.contains("ops.cert"), "{message}");
        config.authorization.key.clear();
        config.authorization.announcement_anchors.push(path);
        let message = config.authorization.policy().unwrap_err().to_string();
        assert!(message.contains("announcement_anchors") && message.contains("ops.cert"), "{message}");
    }
}
