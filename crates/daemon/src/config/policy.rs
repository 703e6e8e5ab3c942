//! From rules in the configuration to the policy that management enforces: user names become uids,
//! and certificate files are read.

use std::fmt;
use std::path::Path;

use namely_mgmt::{Policy, Rights};
use namely_security::{CertificateFileError, read_certificate};

use super::{Authorization, User};

/// Where user names are looked up. Users of a directory service are named by uid.
const PASSWD: &str = "/etc/passwd";

impl Authorization {
    /// The policy: these rules, and all rights for root and the user who runs the router.
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
        for rule in &self.user {
            let who = match &rule.user {
                User::Any => None,
                User::Uid(uid) => Some(*uid),
                User::Name(name) => Some(uid_of(name, passwd)?),
            };
            policy.users.push((
                who,
                Rights { register: rule.register.clone(), bind: rule.bind.clone(), manage: rule.manage },
            ));
        }
        for rule in &self.key {
            let certificate = read_certificate(&rule.certificate).map_err(PolicyError::Certificate)?;
            policy.keys.push((
                certificate,
                Rights { register: rule.register.clone(), bind: rule.bind.clone(), manage: rule.manage },
            ));
        }
        for path in &self.announcement_anchors {
            let certificate = read_certificate(path).map_err(PolicyError::Anchor)?;
            policy.announcement_anchors.push(certificate);
        }
        Ok(policy)
    }
}

fn uid_of(name: &str, passwd: &Path) -> Result<u32, PolicyError> {
    namely_host::users::uid_in(passwd, name).ok_or_else(|| PolicyError::UnknownUser(name.to_owned()))
}

/// Why rules cannot be enforced; the fault of the configuration or of a file that it names.
#[derive(Debug)]
pub enum PolicyError {
    /// There is no such user.
    UnknownUser(String),
    /// The certificate cannot be read.
    Certificate(CertificateFileError),
    /// The certificate of an anchor of announcements cannot be read.
    Anchor(CertificateFileError),
}

impl fmt::Display for PolicyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PolicyError::UnknownUser(name) => {
                write!(f, "authorization.user: {PASSWD} has no user `{name}`; name an existing user or a uid")
            }
            PolicyError::Certificate(error) => write!(f, "authorization.key: {error}"),
            PolicyError::Anchor(error) => write!(f, "authorization.announcement_anchors: {error}"),
        }
    }
}

impl std::error::Error for PolicyError {}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Config, KeyRule, UserRule};

    fn user(user: User, manage: bool) -> UserRule {
        UserRule { user, register: Vec::new(), bind: Vec::new(), manage }
    }

    #[test]
    fn names_become_uids_and_root_needs_no_rule() {
        let dir = tempfile::tempdir().unwrap();
        let passwd = dir.path().join("passwd");
        std::fs::write(&passwd, "root:x:0:0::/:/bin/sh\nalice:x:1007:1007:,:/home/alice:/bin/sh\nbad\n")
            .unwrap();
        let rules =
            vec![user(User::Name("alice".into()), true), user(User::Uid(5), false), user(User::Any, false)];
        let authorization = Authorization { user: rules, ..Authorization::default() };
        let policy = authorization.policy_with(&passwd).unwrap();
        let who: Vec<Option<u32>> = policy.users.iter().map(|(who, _)| *who).collect();
        assert_eq!(who, [Some(1007), Some(5), None]);
        assert!(policy.superusers.contains(&0));
        for name in ["bob", "ali", "bad", "1007"] {
            let authorization =
                Authorization { user: vec![user(User::Name(name.into()), true)], ..Authorization::default() };
            assert!(authorization.policy_with(&passwd).unwrap_err().to_string().contains(name));
        }
    }

    #[test]
    fn a_certificate_that_cannot_be_read_is_named() {
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
