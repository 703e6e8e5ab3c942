//! The file form of a trust policy (TOML); described with examples in `docs/trust.md`.

use std::path::{Path, PathBuf};

use namely_host::disk::read_named;
use namely_wire::Name;
use serde::Deserialize;

use super::pattern::PatternError;
use super::{Rule, TrustPolicy};
use crate::certificate::Certificate;
use crate::text::{CertificateFileError, read_certificate};

/// Octets of a trust policy file.
///
/// # Limit
/// The file is refused.
/// - Value: 1 MiB
/// - Tests: `an_oversized_policy_file_is_refused`
pub(crate) const POLICY_FILE_OCTETS_MAX: u64 = 1 << 20;

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
    /// Reads a policy file and its anchors, whose paths are relative to the file's folder.
    ///
    /// # Errors
    /// [`PolicyFileError::In`] with the file and its fault, or the file cannot be read.
    pub fn load(path: &Path) -> Result<Self, PolicyFileError> {
        let text = read_named(path, POLICY_FILE_OCTETS_MAX)
            .map_err(std::io::Error::from)
            .and_then(|octets| String::from_utf8(octets).map_err(std::io::Error::other))
            .map_err(|e| PolicyFileError::Read(path.to_owned(), e))?;
        let folder = path.parent().unwrap_or(Path::new("."));
        Self::from_toml(&text, |anchor| read_certificate(&folder.join(anchor)))
            .map_err(|e| PolicyFileError::In(path.to_owned(), Box::new(e)))
    }

    /// Reads a policy from `text`; `anchor` reads the certificate of a path under `anchors`.
    ///
    /// The policy is hierarchical by default if the text has no rules, and not hierarchical if it
    /// has some.
    ///
    /// # Errors
    /// [`PolicyFileError`]: not TOML, an unknown key, a rule with an invalid pattern, or an anchor
    /// that cannot be read.
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
        // A variable of the key pattern that the data pattern does not bind would match any key. It
        // is a typing mistake.
        match rule.key.variable_not_in(&rule.data) {
            Some(variable) => Err(PolicyFileError::Unbound(variable.to_owned(), self.key.clone())),
            None => Ok(rule),
        }
    }
}

/// The reason why a policy file could not be used.
#[derive(Debug, thiserror::Error)]
pub enum PolicyFileError {
    /// Environment: the file cannot be read.
    #[error("cannot read trust policy {path}: {1}", path = .0.display())]
    Read(PathBuf, #[source] std::io::Error),
    /// Caller: not TOML, or an unknown key; the text includes line and column.
    #[error("{}", .0.trim_end())]
    Syntax(String),
    /// Caller: an anchor is not a usable certificate.
    #[error("trust anchor: {0}")]
    Anchor(#[source] CertificateFileError),
    /// Caller: a rule's text is not a pattern.
    #[error(transparent)]
    Pattern(#[from] PatternError),
    /// Caller: a rule's key pattern has a variable that its data pattern lacks; both are given.
    #[error("in key = \"{1}\": <{0}> does not stand in the rule's data pattern; use <>")]
    Unbound(String, String),
    /// Caller: an entry of `revoked` is not a name.
    #[error("in revoked: \"{0}\" is not a name")]
    Revoked(String),
    /// One of the above, in this file.
    #[error("trust policy {path}: {1}", path = .0.display())]
    In(PathBuf, #[source] Box<PolicyFileError>),
}

#[cfg(test)]
mod tests {
    use namely_testkit::name;

    use super::*;
    use crate::trust::CHAIN_DEPTH_MAX;

    fn parse(text: &str) -> Result<TrustPolicy, PolicyFileError> {
        TrustPolicy::from_toml(text, read_certificate)
    }

    fn allows(policy: &TrustPolicy, data: &str, key: &str) -> bool {
        policy.allows(name(data).as_name(), name(key).as_name())
    }

    #[test]
    fn an_empty_policy_file_is_hierarchical() {
        let policy = parse("").unwrap();
        assert!(allows(&policy, "/p/x", "/p/KEY/k"));
        assert!(!allows(&policy, "/q/x", "/p/KEY/k"));
        assert!(policy.anchors().is_empty());
        assert_eq!(policy.depth_max(), CHAIN_DEPTH_MAX);
    }

    #[test]
    fn rules_replace_the_hierarchy_by_default() {
        let rule = "[[rule]]\ndata = \"/cms/<>*\"\nkey = \"/ops/KEY/<>\"\n";
        let alone = parse(rule).unwrap();
        assert!(allows(&alone, "/cms/x", "/ops/KEY/k"));
        assert!(!allows(&alone, "/ops/x", "/ops/KEY/k"));
        let both = parse(&format!("hierarchical = true\n{rule}")).unwrap();
        assert!(allows(&both, "/cms/x", "/ops/KEY/k"));
        assert!(allows(&both, "/ops/x", "/ops/KEY/k"));
    }

    #[test]
    fn anchor_paths_are_relative_to_their_file() {
        let folder = tempfile::tempdir().unwrap();
        let certificate = include_str!("../../tests/data/ndnsec-ecdsa.ndncert");
        std::fs::write(folder.path().join("root.ndncert"), certificate).unwrap();
        let path = folder.path().join("trust.toml");
        std::fs::write(&path, "anchors = [\"root.ndncert\"]\ndepth_max = 2\nrevoked = [\"/a/KEY/b\"]\n")
            .unwrap();
        let policy = TrustPolicy::load(&path).unwrap();
        assert_eq!(policy.anchors()[0].identity(), name("/fixture/ec").as_name());
        assert_eq!(policy.depth_max(), 2);
    }

    #[test]
    fn policy_mistakes_are_reported_with_their_place() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("trust.toml");
        for (text, complaint) in [
            ("depth = 3", "unknown field `depth`, expected one of `anchors`"),
            ("depth = 3", "line 1"),
            ("anchors = [", "line 1"),
            ("anchors = [\"none.ndncert\"]", "none.ndncert"),
            ("revoked = [\"/v=x\"]", "\"/v=x\" is not a name"),
            ("[[rule]]\ndata = \"/a\"\n", "missing field `key`"),
            ("[[rule]]\ndata = \"a\"\nkey = \"/b\"\n", "\"a\" is not a name pattern"),
            ("[[rule]]\ndata = \"/a/<x>\"\nkey = \"/<y>/KEY/<>\"\n", "<y> does not stand in the rule's data"),
        ] {
            std::fs::write(&path, text).unwrap();
            let message = TrustPolicy::load(&path).unwrap_err().to_string();
            assert!(message.contains(complaint), "{text}: {message}");
            assert!(message.contains("trust.toml"), "{message}");
        }
        let absent = TrustPolicy::load(&folder.path().join("absent.toml")).unwrap_err().to_string();
        assert!(absent.contains("absent.toml"), "{absent}");
    }

    #[test]
    fn an_oversized_policy_file_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("trust.toml");
        for (octets, accepted) in [(POLICY_FILE_OCTETS_MAX, true), (POLICY_FILE_OCTETS_MAX + 1, false)] {
            std::fs::write(&path, vec![b'\n'; octets as usize]).unwrap();
            assert_eq!(TrustPolicy::load(&path).is_ok(), accepted);
        }
    }

    /// Checks that the policies in docs/trust.md are valid.
    #[test]
    fn the_documented_policy_examples_are_right() {
        let documented = include_str!("../../../../docs/trust.md");
        let examples: Vec<&str> = documented
            .split("```toml\n")
            .skip(1)
            .filter_map(|rest| rest.split_once("```"))
            .map(|(example, _)| example)
            .collect();
        assert!(examples.len() >= 2);
        let certificate = include_bytes!("../../tests/data/ndnsec-ecdsa.ndncert");
        for example in examples {
            let policy =
                TrustPolicy::from_toml(example, |_| Ok(Certificate::from_file_octets(certificate).unwrap()));
            policy.unwrap_or_else(|e| panic!("{example}\n{e}"));
        }
    }
}
