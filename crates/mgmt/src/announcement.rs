//! Prefix Announcements (NDN wiki, PrefixAnnouncement): the Data by which `rib/announce` registers
//! a prefix.
//!
//! The command's sender needs the right to register the prefix. Where the policy has anchors for
//! announcements the announcement must be signed by the key of one, whose identity is above the
//! prefix; without, its own signature is not looked at, because whoever may register a prefix needs
//! nobody else's word for it.

use namely_security::{Certificate, TrustPolicy, Verdict, Verifier};
use namely_wire::AnnouncementView;
use namely_wire::mgmt::{ControlParameters, ControlResponse, RouteOrigin, route_flags, status_code};

use crate::modules::bad;

/// Cost of an announced route, as NFD has it: any configured route is preferred.
pub(crate) const ANNOUNCED_COST: u64 = 2048;

/// Longest time that one announcement keeps a route, ms; the announcer must repeat it. NFD's
/// figure.
pub(crate) const ANNOUNCED_MS_MAX: u64 = 3_600_000;

/// Who may sign announcements.
#[derive(Debug)]
pub(crate) struct Announcers(Option<Verifier>);

impl Announcers {
    /// The holders of the keys of `anchors`; without any, everybody.
    pub(crate) fn new(anchors: &[Certificate]) -> Self {
        let mut trust = TrustPolicy::hierarchical();
        for anchor in anchors {
            trust.add_anchor(anchor.clone());
        }
        Announcers((!anchors.is_empty()).then(|| Verifier::new(trust)))
    }

    /// Whether the announcement `data` is believed at `unix_ms`.
    pub(crate) fn check(&mut self, data: &[u8], unix_ms: u64) -> Result<(), ControlResponse> {
        let Some(verifier) = &mut self.0 else { return Ok(()) };
        let why = match verifier.verify(data, unix_ms.saturating_mul(1_000_000)) {
            Verdict::Verified(_) => return Ok(()),
            Verdict::NeedCertificate(needed) => format!("its key {} is no anchor's", needed.certificate),
            Verdict::Rejected(rejection) => rejection.to_string(),
        };
        let text =
            format!("the prefix announcement is not believed: {why}; see authorization.announcement_anchors");
        Err(ControlResponse::new(status_code::UNAUTHORIZED, text))
    }
}

/// The registration that `data` announces, as seen at `unix_ms`.
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

    #[test]
    fn where_there_are_anchors_only_their_keys_announce_and_only_below_their_names() {
        use namely_security::{KeyType, PrivateKey, Signer};
        use std::sync::Arc;
        let validity = ValidityPeriod { not_before_s: 0, not_after_s: NOW_MS };
        let key = |uri: &str| {
            let name: namely_wire::Name = uri.parse().unwrap();
            let key = Arc::new(PrivateKey::generate(KeyType::Ed25519).unwrap());
            let certificate = Certificate::self_signed(name.as_name(), &key, validity, 1).unwrap();
            (certificate, Signer::new(name, key))
        };
        let ((anchor, ours), (_, stranger)) = (key("/a/KEY/1"), key("/a/KEY/2"));
        let announced = |prefix: &str, signer: &Signer| {
            let announcement = Announcement {
                prefix: prefix.parse().unwrap(),
                version: 1,
                expiration_period_ms: 1000,
                validity: None,
                cost: None,
            };
            let unsigned = announcement.build(&signer.signature_info());
            let signature = signer.sign(&[unsigned.signed_portion()]).unwrap();
            unsigned.finish(&signature)
        };
        let mut none = Announcers::new(&[]);
        let mut some = Announcers::new(&[anchor]);
        for (prefix, signer, is_believed) in
            [("/a/b", &ours, true), ("/a/b", &stranger, false), ("/b", &ours, false)]
        {
            let data = announced(prefix, signer);
            assert!(none.check(&data, NOW_MS).is_ok());
            let checked = some.check(&data, NOW_MS);
            assert_eq!(checked.is_ok(), is_believed, "{prefix} {checked:?}");
            assert!(checked.is_ok_and(|()| true) == is_believed);
        }
        let mut damaged = announced("/a/b", &ours);
        *damaged.last_mut().unwrap() ^= 1;
        let refused = some.check(&damaged, NOW_MS).unwrap_err();
        assert!(refused.code == 403 && refused.text.contains("announcement_anchors"), "{}", refused.text);
    }

    #[test]
    fn an_announcement_is_a_route_that_expires() {
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
    fn an_announcement_that_is_over_or_is_none_is_refused() {
        assert_eq!(registration(60_000, Some(NOW_MS / 1000)).unwrap().expiration_period_ms, Some(1000));
        assert_eq!(registration(60_000, Some(NOW_MS / 1000 - 1)).unwrap_err().code, 403);
        assert_eq!(parameters(b"\x06\x02\x07\x00", NOW_MS).unwrap_err().code, 400);
    }
}
