//! Prefix Announcements (NDN wiki, PrefixAnnouncement): the Data by which `rib/announce` registers
//! a prefix.
//!
//! The command's sender needs the right to register the prefix. If the policy has anchors for
//! announcements, the announcement must be signed by the key of an anchor, and the identity of that
//! key must be above the prefix. Without anchors the announcement's own signature is not checked:
//! the right to register the prefix is sufficient.

use std::collections::BTreeMap;

use namely_messages::{ControlParameters, ControlResponse, RouteOrigin, route_flags, status_code};
use namely_security::{Certificate, TrustPolicy, Verdict, Verifier};
use namely_wire::{AnnouncementView, Name};

use crate::modules::bad;

/// Cost of an announced route, as in NFD. It is high, so that configured routes are preferred.
pub(crate) const ANNOUNCED_COST: u64 = 2048;

/// Lifetime of a route from one announcement.
///
/// The announcer must repeat the announcement. The limit is that of NFD.
///
/// # Limit
/// A longer lifetime is reduced to it.
/// - Tests: `an_announcement_lasts_an_hour_at_most`
pub(crate) const ANNOUNCED_MS_MAX: u64 = 3_600_000;

/// Announced prefixes whose newest version is remembered.
///
/// An older version of an announcement is refused.
///
/// # Limit
/// A further announcement is not accepted until another one has ended.
/// - Counter: refusal `announcements_full`
/// - Tests: `remembered_announcements_have_a_limit`
pub const ANNOUNCED_PREFIXES_MAX: usize = 1024;

/// A prefix from a trusted announcement that came with Data.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Announced {
    /// The prefix.
    pub prefix: Name,
    /// Its lifetime from now, ms.
    pub lifetime_ms: u64,
}

/// The reason why an announcement that came with Data adds no route.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AnnouncementRefusal {
    /// There are no anchors, so no announcement is trusted.
    NoAnchors,
    Counted(&'static str),
}

/// The announcement is malformed, not valid now, or not for a prefix of the Data's name.
const ANNOUNCEMENT_NOT_VALID: &str = "announcement_not_valid";

/// The key of the announcement belongs to no anchor, or its identity is not above the prefix.
pub(crate) const ANNOUNCEMENT_NOT_BELIEVED: &str = "announcement_not_believed";

/// A newer version of the announcement was accepted before.
const ANNOUNCEMENT_OLD: &str = "announcement_old";

/// The table of announced prefixes is full.
const ANNOUNCEMENTS_FULL: &str = "announcements_full";

/// Verifies announcements and retains their newest versions.
#[derive(Debug)]
pub(crate) struct Announcers {
    verifier: Option<Verifier>,
    newest: BTreeMap<Name, Newest>,
}

/// The newest accepted version of an announcement.
#[derive(Debug)]
struct Newest {
    version: u64,
    /// The end of its lifetime.
    end_ms: u64,
}

impl Announcers {
    /// Trusts the keys of `anchors`. Without anchors, `check` accepts any announcement.
    pub(crate) fn new(anchors: &[Certificate]) -> Self {
        let mut trust = TrustPolicy::hierarchical();
        for anchor in anchors {
            trust.add_anchor(anchor.clone());
        }
        let verifier = (!anchors.is_empty()).then(|| Verifier::new(trust));
        Announcers { verifier, newest: BTreeMap::new() }
    }

    /// Verifies the announcement `data` at `unix_ms`.
    pub(crate) fn check(&mut self, data: &[u8], unix_ms: u64) -> Result<(), ControlResponse> {
        let Some(verifier) = &mut self.verifier else { return Ok(()) };
        let why = match verifier.verify(data, unix_ms.saturating_mul(1_000_000)) {
            Verdict::Verified(_) => return Ok(()),
            Verdict::NeedCertificate(needed) => format!("its key {} is no anchor's", needed.certificate),
            Verdict::Rejected(rejection) => rejection.to_string(),
        };
        let text =
            format!("the prefix announcement is not believed: {why}; see authorization.announcement_anchors");
        Err(ControlResponse::new(status_code::UNAUTHORIZED, text))
    }

    /// Returns the prefix of the announcement `octets`, which came with Data of `object`. The route
    /// leads to the upstream of that Data. Only the announcement's signature can authorize the
    /// route, because the sender of the Data has no right of its own.
    pub(crate) fn shown(
        &mut self,
        octets: &[u8],
        object: &Name,
        unix_ms: u64,
    ) -> Result<Announced, AnnouncementRefusal> {
        if self.verifier.is_none() {
            return Err(AnnouncementRefusal::NoAnchors);
        }
        let not_valid = AnnouncementRefusal::Counted(ANNOUNCEMENT_NOT_VALID);
        let view = AnnouncementView::parse(octets).map_err(|_| not_valid)?;
        let lifetime_ms = view.lifetime_ms(unix_ms / 1000).ok_or(not_valid)?.min(ANNOUNCED_MS_MAX);
        if view.prefix.is_empty() || !view.prefix.is_prefix_of(object.as_name()) {
            return Err(not_valid);
        }
        self.check(octets, unix_ms).map_err(|_| AnnouncementRefusal::Counted(ANNOUNCEMENT_NOT_BELIEVED))?;
        let prefix = view.prefix.to_name();
        let newest = Newest { version: view.version, end_ms: unix_ms.saturating_add(lifetime_ms) };
        self.remember(&prefix, newest, unix_ms).map_err(AnnouncementRefusal::Counted)?;
        Ok(Announced { prefix, lifetime_ms })
    }

    /// Retains the version `new`. A version older than the retained one is refused.
    fn remember(&mut self, prefix: &Name, new: Newest, unix_ms: u64) -> Result<(), &'static str> {
        if let Some(known) = self.newest.get_mut(prefix) {
            if known.version > new.version && known.end_ms > unix_ms {
                return Err(ANNOUNCEMENT_OLD);
            }
            *known = new;
            return Ok(());
        }
        if self.newest.len() >= ANNOUNCED_PREFIXES_MAX {
            self.newest.retain(|_, known| known.end_ms > unix_ms);
        }
        if self.newest.len() >= ANNOUNCED_PREFIXES_MAX {
            return Err(ANNOUNCEMENTS_FULL);
        }
        self.newest.insert(prefix.clone(), new);
        Ok(())
    }
}

/// The parameters of the registration that `data` announces, at the time `unix_ms`.
pub(crate) fn parameters(data: &[u8], unix_ms: u64) -> Result<ControlParameters, ControlResponse> {
    let announcement =
        AnnouncementView::parse(data).map_err(|error| bad(format!("not a prefix announcement: {error}")))?;
    let Some(lifetime_ms) = announcement.lifetime_ms(unix_ms / 1000) else {
        let text = "the prefix announcement is not valid at this time";
        return Err(ControlResponse::new(status_code::UNAUTHORIZED, text));
    };
    Ok(ControlParameters {
        name: Some(announcement.prefix.to_name()),
        origin: Some(RouteOrigin::PREFIX_ANNOUNCEMENT),
        cost: Some(announcement.cost.unwrap_or(ANNOUNCED_COST)),
        flags: Some(route_flags::CHILD_INHERIT),
        expiration_period_ms: Some(lifetime_ms.min(ANNOUNCED_MS_MAX)),
        ..Default::default()
    })
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use namely_security::{KeyType, PrivateKey, Signer};
    use namely_wire::{Announcement, SignatureInfo, ValidityPeriod};

    use super::*;

    const NOW_MS: u64 = 864_000_000;

    fn registration(period_ms: u64, valid_to_s: Option<u64>) -> Result<ControlParameters, ControlResponse> {
        let announcement = Announcement {
            prefix: "/a/b".parse().unwrap(),
            version: 1,
            expiration_period_ms: period_ms,
            validity: valid_to_s.map(|not_after_s| ValidityPeriod { not_before_s: 0, not_after_s }),
            cost: None,
        };
        let data = announcement.build(&SignatureInfo::digest_sha256()).finish(&[0; 32]);
        parameters(&data, NOW_MS)
    }

    /// A key and its self-signed certificate.
    fn key(uri: &str) -> (Certificate, Signer) {
        let validity = ValidityPeriod { not_before_s: 0, not_after_s: NOW_MS };
        let name: Name = uri.parse().unwrap();
        let key = Arc::new(PrivateKey::generate(KeyType::Ed25519).unwrap());
        let certificate = Certificate::self_signed(name.as_name(), &key, validity, 1).unwrap();
        (certificate, Signer::new(name, key))
    }

    fn announced(prefix: &str, version: u64, expiration_period_ms: u64, signer: &Signer) -> Vec<u8> {
        let announcement = Announcement {
            prefix: prefix.parse().unwrap(),
            version,
            expiration_period_ms,
            validity: Some(ValidityPeriod { not_before_s: 0, not_after_s: NOW_MS / 1000 + 60 }),
            cost: None,
        };
        let unsigned = announcement.build(&signer.signature_info());
        let signature = signer.sign(&[unsigned.signed_portion()]).unwrap();
        unsigned.finish(&signature)
    }

    #[test]
    fn anchors_announce_only_below_their_names() {
        let ((anchor, ours), (_, stranger)) = (key("/a/KEY/1"), key("/a/KEY/2"));
        let mut none = Announcers::new(&[]);
        let mut some = Announcers::new(&[anchor]);
        for (prefix, signer, is_believed) in
            [("/a/b", &ours, true), ("/a/b", &stranger, false), ("/b", &ours, false)]
        {
            let data = announced(prefix, 1, 1000, signer);
            assert!(none.check(&data, NOW_MS).is_ok());
            let checked = some.check(&data, NOW_MS);
            assert_eq!(checked.is_ok(), is_believed, "{prefix} {checked:?}");
        }
        let mut damaged = announced("/a/b", 1, 1000, &ours);
        *damaged.last_mut().unwrap() ^= 1;
        let refused = some.check(&damaged, NOW_MS).unwrap_err();
        assert!(refused.code == 403 && refused.text.contains("announcement_anchors"), "{}", refused.text);
    }

    #[test]
    fn announcements_with_data_need_an_anchor() {
        let ((anchor, ours), (of_all, root)) = (key("/a/KEY/1"), key("/KEY/1"));
        let stranger = key("/a/KEY/2").1;
        let object: Name = "/a/b/c".parse().unwrap();
        let data = announced("/a/b", 1, 1000, &ours);
        assert_eq!(Announcers::new(&[]).shown(&data, &object, NOW_MS), Err(AnnouncementRefusal::NoAnchors));
        let mut anchors = Announcers::new(&[anchor, of_all]);
        let taken = anchors.shown(&data, &object, NOW_MS).unwrap();
        assert_eq!((taken.prefix.to_string().as_str(), taken.lifetime_ms), ("/a/b", 1000));
        let mut refused = |data: &[u8], why| {
            assert_eq!(anchors.shown(data, &object, NOW_MS), Err(AnnouncementRefusal::Counted(why)));
        };
        refused(&announced("/a/b", 2, 1000, &stranger), ANNOUNCEMENT_NOT_BELIEVED);
        refused(&announced("/a/x", 2, 1000, &ours), ANNOUNCEMENT_NOT_VALID);
        refused(&announced("/", 2, 1000, &root), ANNOUNCEMENT_NOT_VALID);
        refused(b"\x06\x02\x07\x00", ANNOUNCEMENT_NOT_VALID);
    }

    #[test]
    fn a_replayed_announcement_never_outlives_its_validity() {
        let (anchor, ours) = key("/a/KEY/1");
        let object: Name = "/a/b/c".parse().unwrap();
        let mut anchors = Announcers::new(&[anchor]);
        let [old, new] = [1, 2].map(|version| announced("/a/b", version, u64::MAX, &ours));
        let lifetime_ms = |taken: Result<Announced, AnnouncementRefusal>| taken.unwrap().lifetime_ms;
        assert_eq!(lifetime_ms(anchors.shown(&old, &object, NOW_MS)), 61_000);
        assert_eq!(lifetime_ms(anchors.shown(&old, &object, NOW_MS + 50_000)), 11_000);
        let over = anchors.shown(&old, &object, NOW_MS + 61_000);
        assert_eq!(over, Err(AnnouncementRefusal::Counted(ANNOUNCEMENT_NOT_VALID)));
        lifetime_ms(anchors.shown(&new, &object, NOW_MS));
        let replayed = anchors.shown(&old, &object, NOW_MS);
        assert_eq!(replayed, Err(AnnouncementRefusal::Counted(ANNOUNCEMENT_OLD)));
    }

    #[test]
    fn remembered_announcements_have_a_limit() {
        let (mut announcers, prefix) =
            (Announcers::new(&[]), |n: usize| -> Name { Name::new().join_segment(n as u64) });
        let newest = |end_ms| Newest { version: 1, end_ms };
        for n in 0..ANNOUNCED_PREFIXES_MAX {
            announcers.remember(&prefix(n), newest(NOW_MS + 1), NOW_MS).unwrap();
        }
        let more = prefix(ANNOUNCED_PREFIXES_MAX);
        assert_eq!(announcers.remember(&more, newest(NOW_MS + 1), NOW_MS), Err(ANNOUNCEMENTS_FULL));
        announcers.remember(&prefix(0), newest(NOW_MS + 9), NOW_MS).unwrap();
        announcers.remember(&more, newest(NOW_MS + 9), NOW_MS + 1).unwrap();
        assert_eq!(announcers.newest.len(), 2);
    }

    #[test]
    fn an_announcement_makes_an_expiring_route() {
        let parameters = registration(60_000, None).unwrap();
        assert_eq!(parameters.name.unwrap().to_string(), "/a/b");
        assert_eq!(parameters.expiration_period_ms, Some(60_000));
        assert_eq!((parameters.origin, parameters.cost), (Some(RouteOrigin(129)), Some(ANNOUNCED_COST)));
    }

    #[test]
    fn an_announcement_lasts_an_hour_at_most() {
        for (asked, given) in [(ANNOUNCED_MS_MAX, ANNOUNCED_MS_MAX), (ANNOUNCED_MS_MAX + 1, ANNOUNCED_MS_MAX)]
        {
            assert_eq!(registration(asked, None).unwrap().expiration_period_ms, Some(given));
        }
    }

    #[test]
    fn an_invalid_announcement_is_refused() {
        assert_eq!(registration(60_000, Some(NOW_MS / 1000)).unwrap().expiration_period_ms, Some(1000));
        assert_eq!(registration(60_000, Some(NOW_MS / 1000 - 1)).unwrap_err().code, 403);
        assert_eq!(parameters(b"\x06\x02\x07\x00", NOW_MS).unwrap_err().code, 400);
    }
}
