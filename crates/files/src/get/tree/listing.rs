//! The listing of a directory, as served by producers without an index.

use namely_wire::Name;
use namely_wire::rdr::listing;

use super::super::GetError;

/// The entries of a listing: its octets, and the position of each entry, so that a long listing
/// takes little more memory than itself.
pub(super) struct Entries {
    octets: Vec<u8>,
    /// Start and end of each name, and whether it is a directory; sorted by name.
    spans: Vec<(u32, u32, bool)>,
    pub(super) directories: usize,
    pub(super) duplicates: u64,
}

impl Entries {
    pub(super) fn new(name: Name, octets: Vec<u8>) -> Result<Self, GetError> {
        let refused = |error| GetError::Listing { name: name.clone(), error };
        let mut spans = Vec::new();
        let mut at = 0;
        for entry in listing(&octets) {
            let entry = entry.map_err(refused)?;
            let end = at + entry.name.len();
            // The positions fit 32 bits: a listing has at most `LISTING_OCTETS_MAX`.
            spans.push((at as u32, end as u32, entry.is_directory));
            at = end + if entry.is_directory { 2 } else { 1 };
        }
        let name_at = |span: &(u32, u32, bool)| &octets[span.0 as usize..span.1 as usize];
        spans.sort_by(|a, b| name_at(a).cmp(name_at(b)));
        let listed = spans.len();
        spans.dedup_by(|a, b| name_at(a) == name_at(b));
        let duplicates = (listed - spans.len()) as u64;
        let directories = spans.iter().filter(|(_, _, is_directory)| *is_directory).count();
        Ok(Entries { octets, spans, directories, duplicates })
    }

    /// Returns true if there is an entry of this name.
    pub(super) fn contains(&self, name: &[u8]) -> bool {
        let at = |span: &(u32, u32, bool)| self.octets.get(span.0 as usize..span.1 as usize);
        self.spans.binary_search_by(|span| at(span).cmp(&Some(name))).is_ok()
    }

    /// Names, each with whether it is a directory.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&[u8], bool)> {
        self.spans.iter().filter_map(|(start, end, is_directory)| {
            let name = self.octets.get(*start as usize..*end as usize)?;
            Some((name, *is_directory))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::root::LISTING_OCTETS_MAX;

    #[test]
    fn a_listing_counts_duplicates_within_its_memory() {
        let octets = b"b\0a/\0b\0c\0a\0".to_vec();
        let entries = Entries::new(Name::new(), octets).unwrap();
        let first = |name: &[u8]| entries.iter().find(|(entry, _)| *entry == name).unwrap().1;
        assert_eq!(entries.iter().map(|(name, _)| name).collect::<Vec<_>>(), [b"a", b"b", b"c"]);
        assert!(first(b"a"), "the first of two entries counts");
        assert_eq!((entries.duplicates, entries.directories), (2, 1));

        // The longest listing of the shortest names.
        let octets: Vec<u8> = [b'x', 0].repeat(LISTING_OCTETS_MAX / 2);
        let entries = Entries::new(Name::new(), octets).unwrap();
        assert_eq!(entries.duplicates, LISTING_OCTETS_MAX as u64 / 2 - 1);
        assert!(size_of::<(u32, u32, bool)>() <= 12);
        assert!(Entries::new(Name::new(), b"../x\0".to_vec()).is_err());
    }
}
