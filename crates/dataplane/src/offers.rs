//! What applications have announced by command (`rib/announce`): it goes along with their Data that
//! answers the discoveries of other hosts, as at NFD.

use std::collections::BTreeMap;
use std::sync::Arc;

use namely_forwarder::FaceId;
use namely_wire::{Name, NameRef};

/// Announcements that are kept of all applications; a further one is a route and nothing more.
const OFFERS_MAX: usize = 1024;

/// The announcements of applications that are there.
#[derive(Debug, Default)]
pub(super) struct Offers {
    by_face: BTreeMap<FaceId, BTreeMap<Name, Offer>>,
    count: usize,
}

#[derive(Debug)]
struct Offer {
    announcement: Arc<[u8]>,
    /// When its route ends, ns.
    ends_ns: u64,
}

impl Offers {
    /// Keeps what a face has announced. False if there is no room.
    pub(super) fn keep(
        &mut self,
        face: FaceId,
        prefix: &Name,
        announcement: &[u8],
        ends_ns: u64,
        now_ns: u64,
    ) -> bool {
        self.forget(face, prefix);
        if self.count >= OFFERS_MAX {
            self.by_face.values_mut().for_each(|of_face| of_face.retain(|_, offer| offer.ends_ns > now_ns));
            self.by_face.retain(|_, of_face| !of_face.is_empty());
            self.count = self.by_face.values().map(BTreeMap::len).sum();
        }
        if self.count >= OFFERS_MAX {
            return false;
        }
        let offer = Offer { announcement: announcement.into(), ends_ns };
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
        let holds = |(prefix, offer): &(&Name, &Offer)| prefix.is_prefix_of(data) && offer.ends_ns > now_ns;
        let longest = of_face.iter().filter(holds).max_by_key(|(prefix, _)| prefix.as_name().len());
        longest.map(|(_, offer)| offer.announcement.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FACE: FaceId = FaceId(300);

    fn name(uri: &str) -> Name {
        uri.parse().unwrap()
    }

    #[test]
    fn data_finds_the_longest_announcement_of_its_own_face_while_that_holds() {
        let mut offers = Offers::default();
        for (prefix, ends_ns) in [("/a", 100), ("/a/b", 50)] {
            assert!(offers.keep(FACE, &name(prefix), prefix.as_bytes(), ends_ns, 0));
        }
        let data = name("/a/b/c");
        let find = |offers: &Offers, face, now_ns| offers.find(face, data.as_name(), now_ns);
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
    fn announcements_are_kept_up_to_their_limit_and_those_that_are_over_make_room() {
        let mut offers = Offers::default();
        for n in 0..OFFERS_MAX {
            assert!(offers.keep(FACE, &name(&format!("/{n}")), b"a", 10 + n as u64, 0));
        }
        assert!(offers.keep(FACE, &name("/0"), b"b", 10, 0), "again is none more");
        assert!(!offers.keep(FACE, &name("/more"), b"a", 100, 9));
        assert!(offers.keep(FACE, &name("/more"), b"a", 100, 10));
        assert_eq!(offers.count, OFFERS_MAX);
    }
}
