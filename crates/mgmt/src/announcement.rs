//! Prefix Announcements (NDN wiki, PrefixAnnouncement): the Data by which `rib/announce` registers
//! a prefix.
//!
//! The command's sender needs the right to register the prefix; the announcement's own signature is
//! not looked at, because whoever may register a prefix needs nobody else's word for it.

use namely_wire::AnnouncementView;
use namely_wire::mgmt::{ControlParameters, ControlResponse, RouteOrigin, route_flags, status_code};

use crate::modules::bad;

/// Cost of an announced route, as NFD has it: any configured route is preferred.
pub(crate) const ANNOUNCED_COST: u64 = 2048;

/// Longest time that one announcement keeps a route, ms; the announcer must repeat it. NFD's
/// figure.
pub(crate) const ANNOUNCED_MS_MAX: u64 = 3_600_000;

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
