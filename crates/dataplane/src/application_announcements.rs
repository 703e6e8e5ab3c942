//! Prefixes that applications have announced by command (`rib/announce`). As in NFD, the
//! announcement is attached to their Data that answers discoveries of other hosts.

use std::collections::BTreeMap;
use std::sync::Arc;

use namely_forwarder::FaceId;
use namely_wire::{Name, NameRef};

/// Announcements of applications (`rib/announce`) that accompany their Data.
///
/// # Limit
/// A further announcement makes a route only.
/// - Counter: `announced_prefixes_full`
/// - Tests: `expired_announcements_make_room`
const OFFERS_MAX: usize = 1024;

/// The stored announcements of applications, by face and prefix.
#[derive(Debug, Default)]
pub(super) struct ApplicationAnnouncements {
    by_face: BTreeMap<FaceId, BTreeMap<Name, ApplicationAnnouncement>>,
    count: usize,
}

#[derive(Debug)]
struct ApplicationAnnouncement {
    announcement: Arc<[u8]>,
    /// When its route expires, ns.
    ends_ns: u64,
}

impl ApplicationAnnouncements {
    /// Stores the announcement of a face until its route expires. Returns false if the table is
    /// full.
    pub(super) fn keep(
        &mut self,
        face: FaceId,
        prefix: &Name,
        announcement: &[u8],
        ends_ns: u64,
        now_ns: u64,
    ) -> bool {
        // A renewed announcement replaces the former one.
        self.forget(face, prefix);
        if self.count >= OFFERS_MAX {
            self.by_face.values_mut().for_each(|of_face| of_face.retain(|_, offer| offer.ends_ns > now_ns));
            self.by_face.retain(|_, of_face| !of_face.is_empty());
            self.count = self.by_face.values().map(BTreeMap::len).sum();
        }
        if self.count >= OFFERS_MAX {
            return false;
        }
        let offer = ApplicationAnnouncement { announcement: announcement.into(), ends_ns };
        self.by_face.entry(face).or_default().insert(prefix.clone(), offer);
        self.count += 1;
        true
    }

    pub(super) fn forget(&mut self, face: FaceId, prefix: &Name) {
        if let Some(of_face) = self.by_face.get_mut(&face)
            && of_face.remove(prefix).is_some()
        {
            self.count -= 1;
        }
    }

    pub(super) fn forget_face(&mut self, face: FaceId) {
        self.count -= self.by_face.remove(&face).map_or(0, |of_face| of_face.len());
    }

    /// The announcement of the longest prefix of `data` that the face has announced.
    pub(super) fn find(&self, face: FaceId, data: NameRef<'_>, now_ns: u64) -> Option<Arc<[u8]>> {
        let of_face = self.by_face.get(&face)?;
        let holds = |(prefix, offer): &(&Name, &ApplicationAnnouncement)| {
            prefix.is_prefix_of(data) && offer.ends_ns > now_ns
        };
        let longest = of_face.iter().filter(holds).max_by_key(|(prefix, _)| prefix.as_name().len());
        longest.map(|(_, offer)| offer.announcement.clone())
    }
}

#[cfg(test)]
mod tests {
    use namely_testkit::name;

    use super::*;

    const FACE: FaceId = FaceId(300);

    #[test]
    fn data_finds_its_longest_valid_announcement() {
        let mut offers = ApplicationAnnouncements::default();
        for (prefix, ends_ns) in [("/a", 100), ("/a/b", 50)] {
            assert!(offers.keep(FACE, &name(prefix), prefix.as_bytes(), ends_ns, 0));
        }
        let data = name("/a/b/c");
        let find =
            |offers: &ApplicationAnnouncements, face, now_ns| offers.find(face, data.as_name(), now_ns);
        assert_eq!(find(&offers, FACE, 0).as_deref(), Some(&b"/a/b"[..]));
        assert_eq!(find(&offers, FACE, 50).as_deref(), Some(&b"/a"[..]));
        assert_eq!(find(&offers, FaceId(301), 0), None);
        assert_eq!(offers.find(FACE, name("/ab").as_name(), 0), None);
        offers.forget(FACE, &name("/a"));
        assert_eq!(find(&offers, FACE, 50), None);
        offers.forget_face(FACE);
        assert_eq!((find(&offers, FACE, 0), offers.count), (None, 0));
    }

    #[test]
    fn expired_announcements_make_room() {
        let mut offers = ApplicationAnnouncements::default();
        for n in 0..OFFERS_MAX {
            assert!(offers.keep(FACE, &name(&format!("/{n}")), b"a", 10 + n as u64, 0));
        }
        assert!(offers.keep(FACE, &name("/0"), b"b", 10, 0), "again is none more");
        assert!(!offers.keep(FACE, &name("/more"), b"a", 100, 9));
        assert!(offers.keep(FACE, &name("/more"), b"a", 100, 10));
        assert_eq!(offers.count, OFFERS_MAX);
    }
}
