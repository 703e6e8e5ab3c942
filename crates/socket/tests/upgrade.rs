//! Stores that a released version wrote are published by this one. `fixtures/VERSION` holds the
//! store and the key chain of each release.

use std::fs;
use std::path::{Path, PathBuf};

use namely_socket::{Consumer, ConsumerOptions, Producer, ProducerOptions, PublishOptions};

use crate::common::{World, content, name};

/// The releases whose files are kept.
const VERSIONS: [&str; 1] = ["0.1.0"];

const OCTETS: usize = 20_000;

fn fixture(version: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures").join(version)
}

/// A producer's options with the store and the key chain in `folder`.
fn reliable(world: &World, folder: &Path) -> ProducerOptions {
    ProducerOptions {
        reliable: true,
        store: Some(folder.join("store")),
        keychain: Some(folder.join("keys")),
        ..world.producer_options()
    }
}

#[test]
fn a_store_of_each_release_is_published() {
    for version in VERSIONS {
        let world = World::without_cache();
        let folder = world.dir.path().join("release");
        namely_testkit::copy_private(&fixture(version), &folder);
        let producer = Producer::bind(name("/p"), reliable(&world, &folder)).unwrap();
        let keychain = Some(folder.join("keys"));
        let options = ConsumerOptions { keychain, ..world.consumer_options() };
        let consumer = Consumer::bind(name("/p"), options).unwrap();
        assert_eq!(consumer.fetch(&name("/p/object")).unwrap(), content(OCTETS), "{version}");
        assert!(producer.stats().hits_disk > 0, "{:?}", producer.stats());
    }
}

#[test]
#[ignore = "writes the fixture of a release into NAMELY_FIXTURE"]
fn write_a_store() {
    let folder = PathBuf::from(std::env::var_os("NAMELY_FIXTURE").expect("a folder"));
    let world = World::without_cache();
    fs::create_dir_all(&folder).unwrap();
    namely_testkit::copy_private(&world.keychain(), &folder.join("keys"));
    let producer = Producer::bind(name("/p"), reliable(&world, &folder)).unwrap();
    producer.publish(&name("/p/object"), &content(OCTETS), &PublishOptions::default()).unwrap();
}
