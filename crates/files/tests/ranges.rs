//! Byte ranges of served files (VI-02): each is an object of its own, cut at the source.

use crate::common;

use std::fs;

use common::{believing, connect, connection_to, content, key_of, name, unwatched};
use namely_files::get::find_file;
use namely_files::{FileServer, GetError, GetOptions, ServeOptions, get_object, get_to_writer};
use namely_socket::{Consumer, FetchError};
use namely_transport::connection::Answer;
use namely_transport::object::ObjectError;
use namely_transport::publish::Signing;
use namely_wire::rdr::{Metadata, discovery_name};
use namely_wire::{ByteRange, ContentType, DataView, InterestBuilder, NackReason, Name};

/// A served directory with a file `f` of this content, and a directory `d`.
fn served(file: &[u8], segment_octets: usize, signing: Signing) -> (tempfile::TempDir, Consumer) {
    let directory = tempfile::tempdir().unwrap();
    fs::write(directory.path().join("f"), file).unwrap();
    fs::create_dir(directory.path().join("d")).unwrap();
    let (signer, anchor) = key_of("/p");
    let options = ServeOptions { segment_octets, signing, ..ServeOptions::new(name("/p")) };
    let server = FileServer::new(directory.path(), options, signer).unwrap();
    (directory, connect(server, believing(anchor)))
}

fn range(text: &str) -> ByteRange {
    text.parse().unwrap()
}

fn fetched(consumer: &Consumer, object: &Name) -> Result<Vec<u8>, GetError> {
    let found = find_file(consumer, object)?;
    let mut octets = Vec::new();
    get_to_writer(consumer, &found, &mut octets, &mut unwatched)?;
    assert_eq!(found.octets(), Some(octets.len() as u64), "as its metadata says");
    assert!(object.is_prefix_of(found.name.as_name()));
    Ok(octets)
}

#[test]
fn a_file_range_arrives_verified() {
    let file = content(25_000, 3);
    for signing in [Signing::Manifest(namely_security::ManifestHash::Sha256), Signing::PerPacket] {
        let (_directory, consumer) = served(&file, 50, signing);
        let at = |text: &str| fetched(&consumer, &range(text).name_of(name("/p/f").as_name())).unwrap();
        for (first, last) in
            [(0, 0), (0, 49), (0, 50), (49, 51), (100, 12_100), (24_999, 24_999), (1, 24_998)]
        {
            assert!(at(&format!("{first}-{last}")) == file[first..=last], "{signing:?} {first}-{last}");
        }
        assert!(at("24000-") == file[24_000..], "to the end");
        assert!(at("24000-25000") == file[24_000..], "cut at the end");
        assert!(at("24999-18446744073709551615") == file[24_999..], "cut at the end");
        assert!(at("0-") == file);
    }
}

#[test]
fn an_invalid_range_is_denied() {
    let directory = tempfile::tempdir().unwrap();
    fs::write(directory.path().join("f"), content(1000, 1)).unwrap();
    fs::write(directory.path().join("empty"), "").unwrap();
    fs::create_dir(directory.path().join("d")).unwrap();
    let (signer, anchor) = key_of("/p");
    let options = ServeOptions { segment_octets: 100, ..ServeOptions::new(name("/p")) };
    let server = FileServer::new(directory.path(), options, signer).unwrap();
    let mut connection = connection_to(server);
    let mut query = |requested: Name, discovers: bool| {
        let interest = InterestBuilder::new(requested).lifetime_ms(30_000);
        let interest = if discovers { interest.can_be_prefix().must_be_fresh() } else { interest };
        connection.express(&interest).unwrap()
    };
    let of = |path: &str, range: &str| name(&format!("/p/{path}/32=range")).join_generic(range);
    for (path, range) in [
        ("f", ""),
        ("f", "-"),
        ("f", "-5"),
        ("f", "9-8"),
        ("f", "00-5"),
        ("f", "0-05"),
        ("f", "1000-"),
        ("f", "1000-1001"),
        ("f", "18446744073709551616-"),
        ("f", "0-18446744073709551616"),
        ("f", "18446744073709551615-"),
        ("f", "all"),
        ("empty", "0-"),
        ("empty", "0-0"),
        ("d", "0-9"),
        ("nothing", "0-9"),
        (".....", "0-9"),
    ] {
        let object = of(path, range);
        let Answer::Data(reply) = query(discovery_name(object.as_name()), true) else { panic!("{object}") };
        let data = DataView::parse(&reply.wire).unwrap();
        assert_eq!(data.content_type, ContentType::Nack, "{object}");
        // No signature is made for an Interest for a packet of such a range.
        let segment = object.join_version(1).join_segment(0);
        assert_eq!(query(segment, false), Answer::Nack(NackReason::NoRoute), "{object}");
    }
    // The packets of a range are of the file's version, and end with the file.
    let object = of("f", "950-2000");
    let Answer::Data(reply) = query(discovery_name(object.as_name()), true) else { panic!("no metadata") };
    let metadata = Metadata::decode(DataView::parse(&reply.wire).unwrap().content).unwrap();
    assert_eq!((metadata.size_octets, metadata.last_segment), (Some(50), Some(0)));
    let Answer::Data(reply) = query(metadata.name.join_segment(0), false) else { panic!("no segment") };
    assert_eq!(DataView::parse(&reply.wire).unwrap().content, &content(1000, 1)[950..]);
    assert_eq!(query(metadata.name.join_segment(1), false), Answer::Nack(NackReason::NoRoute));
    drop(anchor);
}

#[test]
fn a_range_never_mixes_two_versions() {
    let (directory, consumer) = served(&content(5000, 1), 100, Signing::PerPacket);
    let object = range("100-4099").name_of(name("/p/f").as_name());
    let found = find_file(&consumer, &object).unwrap();
    let target = directory.path().join("part");
    let got = get_object(&consumer, &found, &target, GetOptions::default(), &mut unwatched).unwrap();
    assert_eq!(got.progress.octets, 4000);
    assert!(fs::read(&target).unwrap() == content(5000, 1)[100..4100]);
    // The file changed between: no packet of the old version is sent any more.
    let found = find_file(&consumer, &object).unwrap();
    fs::write(directory.path().join("f"), content(5000, 2)).unwrap();
    let got = get_object(&consumer, &found, &target, GetOptions::default(), &mut unwatched);
    assert!(got.is_err(), "{got:?}");
    assert!(fetched(&consumer, &object).unwrap() == content(5000, 2)[100..4100]);
    let past = find_file(&consumer, &range("5000-").name_of(name("/p/f").as_name()));
    let err = past.unwrap_err();
    assert!(matches!(err.fetch_error(), Some(FetchError::Object(ObjectError::NotFound { .. }))), "{err:?}");
}
