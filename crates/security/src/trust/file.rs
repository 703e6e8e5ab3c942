//! The file form of a trust policy (TOML); described with examples in `docs/trust.md`.

use std::fmt;
use std::path::{Path, PathBuf};

use namely_host::disk::read_named;
use namely_wire::Name;
use serde::Deserialize;

use super::pattern::PatternError;
use super::{Rule, TrustPolicy};
use crate::certificate::Certificate;
use crate::text::{CertificateFileError, read_certificate};

/// Maximum octets of a policy file.
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
    /// Reads a policy file and the anchors that it names, whose paths are relative to the file's
    /// folder.
    ///
    /// # Errors
    /// [`PolicyFileError::In`], which names the file and what is wrong with it.
    pub fn load(path: &Path) -> Result<Self, PolicyFileError> {
        let text = read_named(path, POLICY_FILE_OCTETS_MAX)
            .map_err(std::io::Error::from)
            .and_then(|octets| String::from_utf8(octets).map_err(std::io::Error::other))
            .map_err(|e| PolicyFileError::Read(path.to_owned(), e))?;
        let folder = path.parent().unwrap_or(Path::new("."));
        Self::from_toml(&text, |anchor| read_certificate(&folder.join(anchor)))
            .map_err(|e| PolicyFileError::In(path.to_owned(), Box::new(e)))
    }

    /// Reads a policy from `text`; `anchor` reads the certificate that a path under `anchors`
    /// names.
    ///
    /// Without rules, the policy is hierarchical unless the text says otherwise; with rules, it is
    /// not.
    ///
    /// # Errors
    /// [`PolicyFileError`]: not TOML, an unknown key, a rule that is no pattern, or an anchor that
    /// cannot be read.
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trust::CHAIN_DEPTH_MAX;

    fn parse(text: &str) -> Result<TrustPolicy, PolicyFileError> {
        TrustPolicy::from_toml(text, read_certificate)
    }

    fn name(uri: &str) -> Name {
        uri.parse().unwrap()
    }

    fn allows(policy: &TrustPolicy, data: &str, key: &str) -> bool {
        policy.allows(name(data).as_name(), name(key).as_name())
    }

    #[test]
    fn an_empty_file_is_the_hierarchical_policy_without_anchors() {
        let policy = parse("").unwrap();
        assert!(allows(&policy, "/p/x", "/p/KEY/k"));
        assert!(!allows(&policy, "/q/x", "/p/KEY/k"));
        assert!(policy.anchors().is_empty());
        assert_eq!(policy.depth_max(), CHAIN_DEPTH_MAX);
    }

    #[test]
    fn rules_replace_the_hierarchy_unless_the_file_wants_both() {
        let rule = "[[rule]]\ndata = \"/cms/<>*\"\nkey = \"/ops/KEY/<>\"\n";
        let alone = parse(rule).unwrap();
        assert!(allows(&alone, "/cms/x", "/ops/KEY/k"));
        assert!(!allows(&alone, "/ops/x", "/ops/KEY/k"));
        let both = parse(&format!("hierarchical = true\n{rule}")).unwrap();
        assert!(allows(&both, "/cms/x", "/ops/KEY/k"));
        assert!(allows(&both, "/ops/x", "/ops/KEY/k"));
    }

    #[test]
    fn a_file_names_its_anchors_relative_to_itself() {
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
    fn mistakes_are_named_with_file_and_place() {
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
    fn a_file_larger_than_the_limit_is_not_read() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("trust.toml");
        for (octets, accepted) in [(POLICY_FILE_OCTETS_MAX, true), (POLICY_FILE_OCTETS_MAX + 1, false)] {
            std::fs::write(&path, vec![b'\n'; octets as usize]).unwrap();
            assert_eq!(TrustPolicy::load(&path).is_ok(), accepted);
        }
    }

    /// The policies shown in docs/trust.md are policies.
    #[test]
    fn the_documented_examples_are_right() {
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
