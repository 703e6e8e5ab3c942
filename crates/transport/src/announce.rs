//! Prefix announcements of a producer: a signed Data that goes along with others (NDNLPv2,
//! PrefixAnnouncement), by which routers that learn their routes know where a whole prefix is
//! (docs/strategies.md).

use std::time::Duration;

use namely_host::clock;
use namely_security::{CryptoError, Signer};
use namely_wire::{Announcement, Name, ValidityPeriod};

/// How long an announcement holds. Routers keep their routes no longer than they please.
pub const ANNOUNCED: Duration = Duration::from_secs(3600);

/// An announcement is made anew after this time.
const RENEWED: Duration = Duration::from_secs(1800);

/// How far behind other hosts' clocks may be.
const CLOCK_SKEW_S: u64 = 60;

/// Makes the announcements of one prefix.
#[derive(Clone, Debug)]
pub struct Announcer {
    prefix: Name,
    signer: Signer,
    made: Option<(u64, Vec<u8>)>,
}

impl Announcer {
    /// Announces `prefix` under the name of who has the key of `signer`.
    pub fn new(prefix: Name, signer: Signer) -> Self {
        Announcer { prefix, signer, made: None }
    }

    /// The announcement to send now.
    ///
    /// # Errors
    /// The key does not sign.
    pub fn announcement(&mut self) -> Result<&[u8], CryptoError> {
        let unix_ms = clock::unix_ms();
        let is_new = |made_ms: u64| unix_ms.abs_diff(made_ms) < RENEWED.as_millis() as u64;
        let made = match self.made.take() {
            Some(made) if is_new(made.0) => made,
            _ => (unix_ms, self.make(unix_ms)?),
        };
        Ok(&self.made.insert(made).1)
    }

    fn make(&self, unix_ms: u64) -> Result<Vec<u8>, CryptoError> {
        let unix_s = unix_ms / 1000;
        let validity = ValidityPeriod {
            not_before_s: unix_s.saturating_sub(CLOCK_SKEW_S),
            not_after_s: unix_s + ANNOUNCED.as_secs(),
        };
        let announcement = Announcement {
            prefix: self.prefix.clone(),
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
    fn an_announcement_is_made_once_and_holds_for_its_time() {
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
