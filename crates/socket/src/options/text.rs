//! Values of options as text.

use std::path::PathBuf;
use std::time::Duration;

use namely_security::{ManifestHash, TrustPolicy};
use namely_transport::congestion::Algorithm;
use namely_transport::object::OnBadSegment;
use namely_wire::Name;

use super::values::{ManifestUse, Revocation, Suite, Trust};
use crate::buffer::BufferPolicy;

/// The type of an option's field.
pub(super) trait OptionText: Sized {
    /// Parses `text`.
    fn of_text(text: &str) -> Option<Self>;

    /// Formats the value.
    fn text(&self) -> String;
}

/// A value with a fixed set of words.
pub(super) trait Words: 'static {
    /// The accepted words.
    const WORDS: &'static [&'static str];
}

macro_rules! as_parsed {
    ($($type:ty),*) => {
        $(impl OptionText for $type {
            fn of_text(text: &str) -> Option<Self> {
                text.parse().ok()
            }

            fn text(&self) -> String {
                self.to_string()
            }
        })*
    };
}

as_parsed!(u32, u64, usize, bool, String);

/// Empty text means none.
macro_rules! optional {
    ($($type:ty: |$value:ident| $text:expr),* $(,)?) => {
        $(impl OptionText for Option<$type> {
            fn of_text(text: &str) -> Option<Self> {
                match text {
                    "" => Some(None),
                    text => text.parse().ok().map(Some),
                }
            }

            fn text(&self) -> String {
                self.as_ref().map_or_else(String::new, |$value| $text)
            }
        })*
    };
}

optional! {
    String: |text| text.clone(),
    PathBuf: |path| path.display().to_string(),
    Name: |name| name.to_string(),
}

/// Milliseconds; 0 means none.
impl OptionText for Option<Duration> {
    fn of_text(text: &str) -> Option<Self> {
        text.parse().ok().map(|ms: u64| (ms > 0).then(|| Duration::from_millis(ms)))
    }

    fn text(&self) -> String {
        self.map_or(0, |time| time.as_millis()).to_string()
    }
}

/// 0 means none.
impl OptionText for Option<u64> {
    fn of_text(text: &str) -> Option<Self> {
        text.parse().ok().map(|number: u64| (number > 0).then_some(number))
    }

    fn text(&self) -> String {
        self.unwrap_or(0).to_string()
    }
}

macro_rules! words {
    ($($type:ty { $($value:path = $word:literal),* $(,)? })*) => {
        $(impl Words for $type {
            const WORDS: &'static [&'static str] = &[$($word),*];
        }

        impl OptionText for $type {
            fn of_text(text: &str) -> Option<Self> {
                match text {
                    $($word => Some($value),)*
                    _ => None,
                }
            }

            fn text(&self) -> String {
                let known = [$(($value, $word)),*];
                known.iter().find(|(value, _)| value == self).map_or("", |(_, word)| word).into()
            }
        })*
    };
}

const SHA256: ManifestUse = ManifestUse::By(ManifestHash::Sha256);
const BLAKE3: ManifestUse = ManifestUse::By(ManifestHash::Blake3);

words! {
    BufferPolicy { BufferPolicy::Fifo = "fifo", BufferPolicy::Lru = "lru", BufferPolicy::Lfu = "lfu" }
    Suite {
        Suite::DigestSha256 = "digest-sha256",
        Suite::Hmac = "hmac",
        Suite::Ed25519 = "ed25519",
        Suite::EcdsaP256 = "ecdsa-p256",
        Suite::Rsa2048 = "rsa-2048",
    }
    OnBadSegment {
        OnBadSegment::Refetch = "refetch",
        OnBadSegment::Accept = "accept",
        OnBadSegment::Abort = "abort",
    }
    Revocation { Revocation::Check = "check", Revocation::Off = "off", Revocation::Require = "require" }
    ManifestUse { ManifestUse::Off = "off", self::SHA256 = "sha256", self::BLAKE3 = "blake3" }
}

impl OptionText for Trust {
    fn of_text(text: &str) -> Option<Self> {
        match text.split_once(':') {
            None if text == "user" => Some(Trust::User),
            None if text == "digest" => Some(Trust::Policy(TrustPolicy::digest_only().into())),
            None if text == "insecure" => Some(Trust::Policy(TrustPolicy::insecure_accept_all().into())),
            Some(("policy", path)) => Some(Trust::PolicyFile(path.into())),
            Some(("anchor", path)) => {
                Some(Trust::AnchorFiles { beside: Box::new(Trust::User), files: vec![path.into()] })
            }
            _ => None,
        }
    }

    fn text(&self) -> String {
        match self {
            Trust::User => "user".into(),
            Trust::PolicyFile(path) => format!("policy:{}", path.display()),
            Trust::AnchorFiles { files, .. } => {
                let files: Vec<_> = files.iter().map(|path| path.display().to_string()).collect();
                format!("anchor:{}", files.join(":"))
            }
            Trust::Policy(policy) if policy.is_authenticating() => "policy".into(),
            Trust::Policy(policy) if policy.accepts_all() => "insecure".into(),
            Trust::Policy(_) => "digest".into(),
        }
    }
}

impl OptionText for Algorithm {
    fn of_text(text: &str) -> Option<Self> {
        text.parse().ok()
    }

    fn text(&self) -> String {
        match self {
            Algorithm::Fixed(window) => format!("fixed:{window}"),
            Algorithm::Aimd => "aimd".into(),
            Algorithm::Cubic => "cubic".into(),
            Algorithm::Rfc9438 => "rfc9438".into(),
            Algorithm::Raaqm => "raaqm".into(),
            Algorithm::PublishedRaaqm => "raaqm-published".into(),
            Algorithm::Bbr => "bbr".into(),
            Algorithm::Bbr3 => "bbr3".into(),
            Algorithm::NbCc => "nbcc".into(),
        }
    }
}
