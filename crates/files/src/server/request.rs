//! Requests to a file server, parsed from Interests.

use namely_wire::rdr::{LISTING_COMPONENT, METADATA_COMPONENT};
use namely_wire::tree_index::{INDEX_COMPONENT, PACK_COMPONENT};
use namely_wire::{Component, InterestView, NameRef, RANGE_COMPONENT, types};

use crate::published::is_manifest_keyword;

/// The requested facet of a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Facet {
    /// A file's content; a directory's metadata.
    Plain,
    /// A directory's listing.
    Listing,
    /// A directory's index.
    Index,
    /// The small files that an index lists.
    Pack,
    /// A byte range of a file: see [`Request::range`].
    Range,
}

impl Facet {
    /// Returns the component after the path.
    pub(crate) fn component(self) -> Option<Component<'static>> {
        match self {
            Facet::Plain => None,
            Facet::Listing => Some(LISTING_COMPONENT),
            Facet::Index => Some(INDEX_COMPONENT),
            Facet::Pack => Some(PACK_COMPONENT),
            Facet::Range => Some(RANGE_COMPONENT),
        }
    }
}

/// A request below the server's prefix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Request<'a> {
    /// `<path>/32=metadata`, or the same with `32=ls`, `32=index` or `32=range` and a range
    /// between.
    Discovery {
        /// The path's components.
        path: NameRef<'a>,
        facet: Facet,
        /// The component after [`Facet::Range`].
        range: Option<Component<'a>>,
    },
    /// A packet of a version of a file, or of a directory's listing, index or pack.
    Packet {
        /// The path's components.
        path: NameRef<'a>,
        facet: Facet,
        /// The component after [`Facet::Range`].
        range: Option<Component<'a>>,
        /// The versioned name, prefix included.
        object: NameRef<'a>,
        version: u64,
        /// The packet.
        part: Part,
    },
}

/// A packet of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    /// A segment, by its number.
    Segment(u64),
    /// A manifest, by its index.
    Manifest(u64),
}

impl<'a> Request<'a> {
    /// Parses the name of `interest`. A trailing implicit digest is ignored: routers on the path of
    /// the Data check it.
    pub(crate) fn parse(interest: &InterestView<'a>, prefix: NameRef<'_>) -> Option<Self> {
        let name = match interest.implicit_digest() {
            Some(_) => interest.name.without_last(1),
            None => interest.name,
        };
        if !prefix.is_prefix_of(name) {
            return None;
        }
        let below = prefix.len();
        let rest = || name.components().skip(below);
        let depth = rest().take_while(|component| component.typ == types::GENERIC_COMPONENT).count();
        let path = below_prefix(name.prefix(below + depth), prefix)?;
        let mut tail = rest().skip(depth).peekable();
        let facets = [Facet::Listing, Facet::Index, Facet::Pack, Facet::Range];
        let meant = facets.into_iter().find(|facet| tail.peek().copied() == facet.component());
        let facet = meant.unwrap_or(Facet::Plain);
        if meant.is_some() {
            tail.next();
        }
        // The range is not validated here: an invalid one is answered as absent.
        let range = if facet == Facet::Range { Some(tail.next()?) } else { None };
        let Some(first) = tail.next() else {
            // An Interest for the name itself with CanBePrefix is answered with metadata.
            let discovers = meant.is_none() && interest.can_be_prefix;
            return discovers.then_some(Request::Discovery { path, facet, range });
        };
        if first == METADATA_COMPONENT {
            // The name of the metadata packet is longer, so the packet would not match an Interest
            // without CanBePrefix.
            let discovers = tail.next().is_none() && interest.can_be_prefix && facet != Facet::Pack;
            return discovers.then_some(Request::Discovery { path, facet, range });
        }
        let version = first.version()?;
        let before = usize::from(meant.is_some()) + usize::from(range.is_some());
        let object = name.prefix(below + depth + before + 1);
        let under_manifest = tail.next_if(is_manifest_keyword).is_some();
        let number = tail.next()?.segment()?;
        let part = if under_manifest { Part::Manifest(number) } else { Part::Segment(number) };
        tail.next().is_none().then_some(Request::Packet { path, facet, range, object, version, part })
    }

    /// The path's components.
    pub(crate) fn path_name(&self) -> NameRef<'a> {
        let (Request::Discovery { path, .. } | Request::Packet { path, .. }) = self;
        *path
    }

    /// The path's components, one by one.
    pub(crate) fn path(&self) -> impl Iterator<Item = Component<'a>> + use<'a> {
        self.path_name().components()
    }

    /// Returns the component with the range of a file, if there is one; it may be invalid.
    pub(crate) fn range(&self) -> Option<Component<'a>> {
        let (Request::Discovery { range, .. } | Request::Packet { range, .. }) = self;
        *range
    }

    pub(crate) fn facet(&self) -> Facet {
        let (Request::Discovery { facet, .. } | Request::Packet { facet, .. }) = self;
        *facet
    }
}

/// Returns the part of `name` below `prefix`.
fn below_prefix<'a>(name: NameRef<'a>, prefix: NameRef<'_>) -> Option<NameRef<'a>> {
    NameRef::parse_value(name.as_bytes().strip_prefix(prefix.as_bytes())?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use namely_wire::{InterestBuilder, Name};

    /// Path, facet, and version and packet.
    type Parsed = (String, Facet, Option<(u64, Part)>);

    fn parsed(uri: &str) -> Option<Parsed> {
        let prefix: Name = "/p/q".parse().unwrap();
        let wire = InterestBuilder::new(uri.parse().unwrap()).can_be_prefix().build();
        let interest = InterestView::parse(&wire).unwrap();
        let request = Request::parse(&interest, prefix.as_name())?;
        let packet = match request {
            Request::Packet { version, part, .. } => Some((version, part)),
            Request::Discovery { .. } => None,
        };
        Some((request.path_name().to_string(), request.facet(), packet))
    }

    #[test]
    fn file_server_names_are_parsed() {
        let file = |packet| Some(("/a/b".to_owned(), Facet::Plain, packet));
        assert_eq!(parsed("/p/q/a/b/32=metadata"), file(None));
        assert_eq!(parsed("/p/q/a/b/v=7/seg=3"), file(Some((7, Part::Segment(3)))));
        assert_eq!(parsed("/p/q/a/b/v=7/32=manifest/seg=1"), file(Some((7, Part::Manifest(1)))));
        let digest = format!("/p/q/a/b/v=7/seg=3/sha256digest={}", "00".repeat(32));
        assert_eq!(parsed(&digest), file(Some((7, Part::Segment(3)))));

        let listing = |packet| Some(("/d".to_owned(), Facet::Listing, packet));
        assert_eq!(parsed("/p/q/d/32=ls/32=metadata"), listing(None));
        assert_eq!(parsed("/p/q/d/32=ls/v=7/seg=0"), listing(Some((7, Part::Segment(0)))));
        assert_eq!(parsed("/p/q/d/32=ls/v=7/32=manifest/seg=0"), listing(Some((7, Part::Manifest(0)))));
        let of = |facet, packet| Some(("/d".to_owned(), facet, packet));
        assert_eq!(parsed("/p/q/d/32=index/32=metadata"), of(Facet::Index, None));
        assert_eq!(parsed("/p/q/d/32=index/v=7/seg=0"), of(Facet::Index, Some((7, Part::Segment(0)))));
        assert_eq!(
            parsed("/p/q/d/32=pack/v=7/32=manifest/seg=0"),
            of(Facet::Pack, Some((7, Part::Manifest(0))))
        );
        let range = |packet| Some(("/a/b".to_owned(), Facet::Range, packet));
        assert_eq!(parsed("/p/q/a/b/32=range/0-99/32=metadata"), range(None));
        assert_eq!(parsed("/p/q/a/b/32=range/no/32=metadata"), range(None));
        assert_eq!(parsed("/p/q/a/b/32=range/5-/v=7/seg=3"), range(Some((7, Part::Segment(3)))));
        assert_eq!(parsed("/p/q/a/b/32=range/5-/v=7/32=manifest/seg=0"), range(Some((7, Part::Manifest(0)))));
        assert_eq!(parsed("/p/q/a/b"), file(None));
        assert_eq!(parsed("/p/q"), Some(("/".to_owned(), Facet::Plain, None)));
        assert_eq!(parsed("/p/q/32=metadata"), Some(("/".to_owned(), Facet::Plain, None)));
    }

    #[test]
    fn other_file_server_names_are_rejected() {
        for uri in [
            "/p",
            "/p/x/a/32=metadata",
            "/p/q/a/32=metadata/v=1/seg=0",
            "/p/q/a/32=ls",
            "/p/q/a/32=range",
            "/p/q/a/32=range/0-1",
            "/p/q/a/32=range/0-1/32=range/0-1/32=metadata",
            "/p/q/a/32=ls/32=range/0-1/32=metadata",
            "/p/q/a/32=range/0-1/2-3/v=7/seg=0",
            "/p/q/a/32=pack/32=metadata",
            "/p/q/a/32=other/v=1/seg=0",
            "/p/q/a/v=7",
            "/p/q/a/v=7/32=manifest",
            "/p/q/a/v=7/seg=0/x",
            "/p/q/a/v=7/x",
            "/p/q/a/seg=0",
            "/p/q/a/32=ls/32=ls/v=7/seg=0",
        ] {
            assert_eq!(parsed(uri), None, "{uri}");
        }
    }
}
