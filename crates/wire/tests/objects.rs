//! Metadata, directory listings and prefix announcements: octets written by hand, and errors.

use namely_wire::rdr::{self, ListingEntry, Metadata};
use namely_wire::tlv::Writer;
use namely_wire::{
    Announcement, AnnouncementView, ContentType, DataBuilder, DecodeError, Name, SignatureInfo,
    ValidityPeriod,
};
use proptest::prelude::*;

fn name(uri: &str) -> Name {
    uri.parse().unwrap()
}

#[test]
fn discovery_and_listing_have_their_names() {
    let object = name("/p/f");
    assert_eq!(rdr::discovery_name(object.as_name()).to_string(), "/p/f/32=metadata");
    assert_eq!(rdr::metadata_name(object.as_name(), 7).to_string(), "/p/f/32=metadata/v=7/seg=0");
    assert_eq!(rdr::listing_name(object.as_name()).to_string(), "/p/f/32=ls");
}

#[test]
fn metadata_matches_the_protocol() {
    let metadata = Metadata {
        last_segment: Some(300),
        segment_size_octets: Some(6144),
        size_octets: Some(1_844_000),
        mode: Some(0o100_644),
        mtime_ns: Some(1_636_050_600_000_000_000),
        manifest_entries: Some(240),
        ..Metadata::new(name("/f/v=1"))
    };
    let octets = [
        &[7, 6, 8, 1, b'f', 54, 1, 1][..],
        &[26, 4, 50, 2, 1, 44],
        &[253, 0xf5, 0x00, 2, 0x18, 0x00],
        &[253, 0xf5, 0x02, 4, 0x00, 0x1c, 0x23, 0x20],
        &[253, 0xf5, 0x04, 2, 0x81, 0xa4],
        &[253, 0xf5, 0x0c, 8],
        &1_636_050_600_000_000_000u64.to_be_bytes(),
        &[253, 0xf6, 0x00, 1, 240],
    ]
    .concat();
    assert_eq!(metadata.to_vec(), octets);
    assert_eq!(Metadata::decode(&octets), Ok(metadata.clone()));
    assert!(metadata.is_regular_file() && !metadata.is_directory());
}

#[test]
fn metadata_elements_come_in_any_order() {
    let mut w = Writer::new();
    w.tlv(201, b"critical elsewhere").nni(rdr::MODE, 0o040_755).nni(0xf5fe, 1);
    name("/d/32=ls/v=5").as_name().encode(&mut w);
    let metadata = Metadata::decode(w.as_bytes()).unwrap();
    assert_eq!(metadata.name, name("/d/32=ls/v=5"));
    assert!(metadata.is_directory() && !metadata.is_regular_file());
    assert_eq!(metadata.size_octets, None);
}

#[test]
fn malformed_metadata_is_refused() {
    assert_eq!(Metadata::decode(&[]), Err(DecodeError::Missing(7)));
    assert_eq!(Metadata::decode(&[7, 0, 26, 3, 8, 1, 9]), Err(DecodeError::OutOfRange(26)));
    assert_eq!(Metadata::decode(&[7, 0, 26, 0]), Err(DecodeError::Truncated));
    assert_eq!(Metadata::decode(&[7, 0, 26]), Err(DecodeError::Truncated));
    assert!(!Metadata::decode(&[7, 0]).unwrap().is_directory());
}

fn entries(octets: &[u8]) -> Result<Vec<ListingEntry<'_>>, DecodeError> {
    rdr::listing(octets).collect()
}

#[test]
fn listed_names_end_with_zero_octets() {
    let entry = |name, is_directory| ListingEntry::new(name, is_directory).unwrap();
    let listed = [entry(b"a.txt", false), entry(b"sub dir", true), entry(b"\xff...", false)];
    let octets = b"a.txt\0sub dir/\0\xff...\0";
    assert_eq!(rdr::encode_listing(listed), octets);
    assert_eq!(entries(octets), Ok(listed.to_vec()));
    assert_eq!(entries(b""), Ok(vec![]));
}

#[test]
fn an_escaping_listing_is_refused() {
    for octets in [&b"..\0"[..], b"../\0", b".\0", b"./\0", b"a/b\0", b"/etc\0", b"\0", b"/\0", b"a//\0"] {
        assert_eq!(entries(octets), Err(DecodeError::BadText), "{}", octets.escape_ascii());
    }
    assert_eq!(entries(b"a\0b"), Err(DecodeError::Truncated));
    assert_eq!(rdr::listing(b"a\0..\0b\0").count(), 2);
}

fn announcement() -> Announcement {
    Announcement {
        prefix: name("/a"),
        version: 3,
        expiration_period_ms: 86_400_000,
        validity: Some(ValidityPeriod { not_before_s: 1_700_000_000, not_after_s: 1_700_000_009 }),
        cost: Some(5),
    }
}

fn announce(announcement: &Announcement) -> Vec<u8> {
    announcement.build(&SignatureInfo::digest_sha256()).finish(&[0; 32])
}

#[test]
fn an_announcement_matches_the_protocol() {
    let wire = announce(&Announcement { validity: None, cost: None, ..announcement() });
    let start = [6, 67, 7, 13, 8, 1, b'a', 32, 2, b'P', b'A', 54, 1, 3, 50, 1, 0, 20, 3, 24, 1, 5];
    let content = [21, 6, 109, 4, 0x05, 0x26, 0x5c, 0x00];
    assert_eq!(wire[..22], start);
    assert_eq!(wire[22..30], content);
}

#[test]
fn an_announcement_survives_a_round_trip() {
    let wire = announce(&announcement());
    let view = AnnouncementView::parse(&wire).unwrap();
    let seen = Announcement {
        prefix: view.prefix.to_name(),
        version: view.version,
        expiration_period_ms: view.expiration_period_ms,
        validity: view.validity,
        cost: view.cost,
    };
    assert_eq!(seen, announcement());
}

#[test]
fn the_tighter_announcement_period_counts() {
    let wire = announce(&announcement());
    let view = AnnouncementView::parse(&wire).unwrap();
    assert_eq!(view.lifetime_ms(1_699_999_999), None);
    assert_eq!(view.lifetime_ms(1_700_000_000), Some(10_000));
    assert_eq!(view.lifetime_ms(1_700_000_009), Some(1_000));
    assert_eq!(view.lifetime_ms(1_700_000_010), None);

    let short = announce(&Announcement { expiration_period_ms: 2_000, ..announcement() });
    assert_eq!(AnnouncementView::parse(&short).unwrap().lifetime_ms(1_700_000_000), Some(2_000));
    let open = announce(&Announcement { validity: None, ..announcement() });
    assert_eq!(AnnouncementView::parse(&open).unwrap().lifetime_ms(5), Some(86_400_000));
}

#[test]
fn malformed_announcements_are_refused() {
    let refused = |uri: &str, content_type, content: &[u8]| {
        let wire = DataBuilder::new(name(uri).as_name())
            .content_type(content_type)
            .build(content, &SignatureInfo::digest_sha256())
            .finish(&[0; 32]);
        AnnouncementView::parse(&wire).unwrap_err()
    };
    let announces = ContentType::PrefixAnnouncement;
    let content = &[109, 1, 9][..];
    assert_eq!(refused("/a/32=PA/v=1", announces, content), DecodeError::BadName);
    assert_eq!(refused("/a/32=PA/v=1/seg=1", announces, content), DecodeError::BadName);
    assert_eq!(refused("/a/PA/v=1/seg=0", announces, content), DecodeError::BadName);
    assert_eq!(refused("/a/32=PA/v=1/seg=0", ContentType::Blob, content), DecodeError::OutOfRange(24));
    assert_eq!(refused("/a/32=PA/v=1/seg=0", announces, &[]), DecodeError::Missing(109));
    assert_eq!(
        refused("/a/32=PA/v=1/seg=0", announces, &[109, 1, 9, 201, 0]),
        DecodeError::UnknownCritical(201)
    );
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn metadata_survives_a_round_trip(numbers in prop::array::uniform10(prop::option::of(any::<u64>()))) {
        let metadata = Metadata {
            name: name("/x/v=1"),
            last_segment: numbers[0],
            segment_size_octets: numbers[1],
            size_octets: numbers[2],
            mode: numbers[3],
            atime_ns: numbers[4],
            btime_ns: numbers[5],
            ctime_ns: numbers[6],
            mtime_ns: numbers[7],
            manifest_entries: numbers[8],
            index_format: numbers[9],
        };
        prop_assert_eq!(Metadata::decode(&metadata.to_vec()), Ok(metadata));
    }

    #[test]
    fn a_listing_survives_a_round_trip(octets in prop::collection::vec(any::<u8>(), 0..40)) {
        if let Ok(listed) = entries(&octets) {
            prop_assert_eq!(rdr::encode_listing(listed), octets);
        }
    }
}
