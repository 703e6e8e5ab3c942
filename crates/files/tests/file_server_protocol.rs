//! The ndn6-file-server protocol, as its other implementations expect it.

use crate::common;

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};

use common::{connection_to, key_of, name};
use namely_files::{FileServer, ServeOptions};
use namely_transport::connection::{Answer, Connection};
use namely_wire::rdr::{LISTING_COMPONENT, METADATA_COMPONENT, Metadata};
use namely_wire::{DataView, InterestBuilder, NackReason, Name};

fn data(connection: &mut Connection, interest: &InterestBuilder) -> Vec<u8> {
    match connection.express(&interest.clone().lifetime_ms(30_000)).unwrap() {
        Answer::Data(reply) => reply.wire.to_vec(),
        other => panic!("{other:?}"),
    }
}

fn metadata(connection: &mut Connection, object: &Name) -> Metadata {
    let mut discovery = object.clone();
    discovery.push(METADATA_COMPONENT);
    let wire = data(connection, &InterestBuilder::new(discovery).can_be_prefix().must_be_fresh());
    Metadata::decode(DataView::parse(&wire).unwrap().content).unwrap()
}

#[test]
fn directory_metadata_names_its_listing() {
    let dir = tempfile::tempdir().unwrap();
    fs::create_dir(dir.path().join("d")).unwrap();
    fs::write(dir.path().join("d/file"), "x").unwrap();
    let (signer, _) = key_of("/p");
    let server = FileServer::new(dir.path(), ServeOptions::new(name("/p")), signer).unwrap();
    let mut connection = connection_to(server);
    let mut listing = name("/p/d");
    listing.push(LISTING_COMPONENT);
    let of_directory = metadata(&mut connection, &name("/p/d"));
    let of_listing = metadata(&mut connection, &listing);
    assert_eq!(of_directory.name, of_listing.name);
    assert!(listing.as_name().is_prefix_of(of_directory.name.as_name()));
    let first = data(&mut connection, &InterestBuilder::new(of_directory.name.join_segment(0)));
    assert_eq!(DataView::parse(&first).unwrap().content, b"file\0");
}

/// VI-06: the metadata of a file agrees with stat(2).
#[test]
fn file_metadata_matches_the_file_system() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("f");
    for (octets, mode) in [(0, 0o600), (1, 0o755), (100, 0o644), (1001, 0o444)] {
        fs::write(&path, vec![7; octets]).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        let (signer, _) = key_of("/p");
        let options = ServeOptions { segment_octets: 100, ..ServeOptions::new(name("/p")) };
        let server = FileServer::new(dir.path(), options, signer).unwrap();
        let served = metadata(&mut connection_to(server), &name("/p/f"));
        let stat = fs::metadata(&path).unwrap();
        let ns = |s: i64, ns: i64| Some((s * 1_000_000_000 + ns) as u64);
        assert_eq!(served.size_octets, Some(octets as u64));
        assert_eq!(served.mode, Some(u64::from(stat.mode())), "{served:?}");
        assert_eq!(served.mtime_ns, ns(stat.mtime(), stat.mtime_nsec()), "{served:?}");
        assert_eq!(served.ctime_ns, ns(stat.ctime(), stat.ctime_nsec()), "{served:?}");
        assert_eq!(served.segment_size_octets, Some(100));
        assert_eq!(served.last_segment, Some((octets as u64).div_ceil(100).max(1) - 1));
        fs::remove_file(&path).unwrap();
    }
}

#[test]
fn impossible_names_are_refused_at_once() {
    let directory = tempfile::tempdir().unwrap();
    fs::write(directory.path().join("f"), vec![7; 1000]).unwrap();
    let (signer, _) = key_of("/p");
    let options = ServeOptions { segment_octets: 100, ..ServeOptions::new(name("/p")) };
    let server = FileServer::new(directory.path(), options, signer).unwrap();
    let mut connection = connection_to(server);
    let mut answer_to = |requested: Name| {
        let interest = InterestBuilder::new(requested).lifetime_ms(30_000).can_be_prefix();
        connection.express(&interest).unwrap()
    };
    let Answer::Data(found) = answer_to(name("/p/f/32=metadata")) else { panic!("no metadata") };
    let data = DataView::parse(&found.wire).unwrap();
    let object = Metadata::decode(data.content).unwrap().name;
    assert!(matches!(answer_to(object.join_segment(9)), Answer::Data(_)));
    for absent in [
        object.join_segment(10),
        object.join_segment(u64::MAX),
        namely_security::manifest_name(object.as_name(), 1),
        name("/p/f/v=1/seg=0"),
        name("/p/nothing/v=1/seg=0"),
        name("/p/...../f/v=1/seg=0"),
    ] {
        assert_eq!(answer_to(absent.clone()), Answer::Nack(NackReason::NoRoute), "{absent}");
    }
}
