//! The file form of a trust policy (TOML); described with examples in `docs/trust.md`.

use std::fmt;
use std::path::{Path, PathBuf};

use namely_wire::Name;
use serde::Deserialize;

use super::pattern::PatternError;
use super::{Rule, TrustPolicy};
use crate::certificate::Certificate;
use crate::text::{CertificateFileError, read_bounded, read_certificate};

/// Most octets of a policy file.
pub const POLICY_FILE_OCTETS_MAX: u64 = 1 << 20;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PolicyFile {
    #[serde(default)]
    anchors: Vec<PathBuf>,
    hierarchical: Option<bool>,
    depth_max: Option<usize>,
    #[serde(default)]
    revoked: Vec<String>,
    #[serde(default)]
    rule: Vec<RuleText>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RuleText {
    data: String,
    key: String,
}

impl TrustPolicy {
    /// Reads a policy file and the anchors that it names, whose paths are relative to the file's folder.
    pub fn load(path: &Path) -> Result<Self, PolicyFileError> {
        let text = read_bounded(path, POLICY_FILE_OCTETS_MAX)
            .and_then(|octets| String::from_utf8(octets).map_err(std::io::Error::other))
            .map_err(|e| PolicyFileError::Read(path.to_owned(), e))?;
        let folder = path.parent().unwrap_or(Path::new("."));
        Self::from_toml(&text, |anchor| read_certificate(&folder.join(anchor)))
            .map_err(|e| PolicyFileError::In(path.to_owned(), Box::new(e)))
    }

    /// Reads a policy from `text`; `anchor` reads the certificate that a path under `anchors` names.
    ///
    /// Without rules, the policy is hierarchical unless the text says otherwise; with rules, it is not.
    pub fn from_toml(
        text: &str,
        mut anchor: impl FnMut(&Path) -> Result<Certificate, CertificateFileError>,
    ) -> Result<Self, PolicyFileError> {
        let file: PolicyFile = toml::from_str(text).map_err(|e| PolicyFileError::Syntax(e.to_string()))?;
        let mut policy = TrustPolicy::hierarchical();
        policy.set_hierarchical(file.hierarchical.unwrap_or(file.rule.is_empty()));
        for rule in &file.rule {
            policy.add_rule(rule.parse()?);
        }
        if let Some(depth_max) = file.depth_max {
            policy.set_depth_max(depth_max);
        }
        for path in file.anchors {
            let certificate = anchor(&path).map_err(PolicyFileError::Anchor)?;
            policy.add_anchor(certificate);
        }
        for name in file.revoked {
            let parsed: Name = name.parse().map_err(|_| PolicyFileError::Revoked(name))?;
            policy.revoke(parsed);
        }
        Ok(policy)
    }
}

impl RuleText {
    fn parse(&self) -> Result<Rule, PolicyFileError> {
        let rule = Rule { data: self.data.parse()?, key: self.key.parse()? };
        // A variable of the key that the data does not bind would match anything: a typing mistake.
        match rule.key.variable_not_in(&rule.data) {
            Some(variable) => Err(PolicyFileError::Unbound(variable.to_owned(), self.key.clone())),
            None => Ok(rule),
        }
    }
}

/// Why a policy file could not be used.
#[derive(Debug)]
pub enum PolicyFileError {
    /// Environment: the file cannot be read.
    Read(PathBuf, std::io::Error),
    /// Caller: not TOML, or an unknown key; the text says line and column.
    Syntax(String),
    /// Caller: an anchor is not a usable certificate.
    Anchor(CertificateFileError),
    /// Caller: a rule's text is not a pattern.
    Pattern(PatternError),
    /// Caller: a rule's key pattern has a variable that its data pattern has not; both are given.
    Unbound(String, String),
    /// Caller: an entry of `revoked` is not a name.
    Revoked(String),
    /// One of the above, in this file.
    In(PathBuf, Box<PolicyFileError>),
}

impl From<PatternError> for PolicyFileError {
    fn from(e: PatternError) -> Self {
        PolicyFileError::Pattern(e)
    }
}

impl fmt::Display for PolicyFileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PolicyFileError::Read(path, e) => write!(f, "cannot read trust policy {}: {e}", path.display()),
            PolicyFileError::Syntax(e) => f.write_str(e.trim_end()),
            PolicyFileError::Anchor(e) => write!(f, "trust anchor: {e}"),
            PolicyFileError::Pattern(e) => e.fmt(f),
            PolicyFileError::Unbound(variable, key) => {
                write!(
                    f,
                    "in key = \"{key}\": <{variable}> does not stand in the rule's data pattern; use <>"
                )
            }
            PolicyFileError::Revoked(name) => write!(f, "in revoked: \"{name}\" is not a name"),
            PolicyFileError::In(path, e) => write!(f, "trust policy {}: {e}", path.display()),
        }
    }
}

impl std::error::Error for PolicyFileError {}
