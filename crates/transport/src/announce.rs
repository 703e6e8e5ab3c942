//! Prefix announcements of a producer: a signed Data that is attached to other packets (NDNLPv2,
//! PrefixAnnouncement). Routers with self-learned routes use it to learn the location of a whole
//! prefix (docs/strategies.md).

use std::time::Duration;

use namely_host::clock;
use namely_security::{CryptoError, Signer};
use namely_wire::{Announcement, Name, ValidityPeriod};

/// Lifetime of an announcement. Routers may keep their routes for a shorter time.
pub const ANNOUNCED: Duration = Duration::from_secs(3600);

/// An announcement is renewed after this time.
const RENEWED: Duration = Duration::from_secs(1800);

/// Maximum time by which the clocks of other hosts may be behind.
const CLOCK_SKEW_S: u64 = 60;

/// Creates the announcements of one prefix.
#[derive(Clone, Debug)]
pub struct Announcer {
    prefix: Name,
    signer: Signer,
    made: Option<(u64, Vec<u8>)>,
}

impl Announcer {
    /// Creates the announcer of `prefix`. It signs with `signer`.
    pub fn new(prefix: Name, signer: Signer) -> Self {
        Announcer { prefix, signer, made: None }
    }

    /// Returns the announcement to send now.
    ///
    /// # Errors
    /// The key fails to sign.
    pub fn announcement(&mut self) -> Result<&[u8], CryptoError> {
        let unix_ms = clock::unix_ms();
        // `abs_diff` also renews the announcement if the clock was set back by more than `RENEWED`.
        let is_new = |made_ms: u64| unix_ms.abs_diff(made_ms) < RENEWED.as_millis() as u64;
        // If signing fails, the old announcement is dropped, and the next call tries again.
        let made = match self.made.take() {
            Some(made) if is_new(made.0) => made,
            _ => (unix_ms, self.make(unix_ms)?),
        };
        Ok(&self.made.insert(made).1)
    }

    fn make(&self, unix_ms: u64) -> Result<Vec<u8>, CryptoError> {
        let unix_s = unix_ms / 1000;
        let validity = ValidityPeriod {
            // A host whose clock is behind would otherwise reject a new announcement as not yet
            // valid.
            not_before_s: unix_s.saturating_sub(CLOCK_SKEW_S),
            not_after_s: unix_s + ANNOUNCED.as_secs(),
        };
        let announcement = Announcement {
            prefix: self.prefix.clone(),
            // The version is a time, so that the versions of a prefix's announcements ascend across
            // restarts.
            version: unix_ms,
            expiration_period_ms: ANNOUNCED.as_millis() as u64,
            validity: Some(validity),
            cost: None,
        };
        let unsigned = announcement.build(&self.signer.signature_info());
        let value = self.signer.sign(&[unsigned.signed_portion()])?;
        Ok(unsigned.finish(&value))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use namely_security::{KeyType, PrivateKey};
    use namely_wire::AnnouncementView;

    use super::*;

    #[test]
    fn an_announcement_is_signed_only_once() {
        let key = Arc::new(PrivateKey::generate(KeyType::Ed25519).unwrap());
        let signer = Signer::new("/lab/KEY/1".parse().unwrap(), key.clone());
        let mut announcer = Announcer::new("/lab/data".parse().unwrap(), signer);
        let first = announcer.announcement().unwrap().to_vec();
        assert_eq!(announcer.announcement().unwrap(), first);
        let view = AnnouncementView::parse(&first).unwrap();
        assert_eq!(view.prefix.to_string(), "/lab/data");
        assert!(key.public().verify(&[view.data.signed_portion], view.data.signature_value));
        let unix_s = clock::unix_ms() / 1000;
        let left_ms = view.lifetime_ms(unix_s).unwrap();
        assert!((3_590_000..=3_600_000).contains(&left_ms), "{left_ms}");
        assert!(view.lifetime_ms(unix_s + 3_700).is_none());
    }
}
