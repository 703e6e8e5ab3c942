//! Input from a stream, published and fetched.

use crate::common;

use std::path::Path;

use common::{believing, connect, content, key_of, name};
use namely_files::{Input, Put, PutOptions, ServeError};
use namely_security::ManifestHash;
use namely_socket::FetchError;
use namely_transport::object::ObjectError;
use namely_transport::publish::Signing;

const MEMORY_OCTETS_MAX: usize = 10_000;

fn input(octets: &[u8]) -> Input {
    Input::read(&mut &octets[..], MEMORY_OCTETS_MAX, &std::env::temp_dir()).unwrap()
}

#[test]
fn large_input_goes_to_an_unnamed_file() {
    let directory = tempfile::tempdir().unwrap();
    for (octets, in_memory) in [(0, true), (MEMORY_OCTETS_MAX, true), (MEMORY_OCTETS_MAX + 1, false)] {
        let octets = content(octets, 1);
        let input = Input::read(&mut &octets[..], MEMORY_OCTETS_MAX, directory.path()).unwrap();
        assert_eq!((input.octets(), input.is_in_memory()), (octets.len() as u64, in_memory));
        assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0);
    }
    let missing = Path::new("/nonexistent");
    assert!(Input::read(&mut &content(MEMORY_OCTETS_MAX + 1, 1)[..], MEMORY_OCTETS_MAX, missing).is_err());
}

#[test]
fn a_put_object_is_fetched_unchanged() {
    for signing in
        [Signing::Manifest(ManifestHash::Sha256), Signing::Manifest(ManifestHash::Blake3), Signing::PerPacket]
    {
        // In memory, and spooled over several manifests.
        for octets in [0, 1, 5_000, 60_000] {
            let (signer, anchor) = key_of("/p");
            let octets = content(octets, 5);
            let options = PutOptions { segment_octets: 100, signing, ..PutOptions::new(name("/p/o"), 3) };
            let put = Put::new(input(&octets), options, signer).unwrap();
            assert_eq!(put.object().to_string(), "/p/o/v=3");
            let consumer = connect(put, believing(anchor));
            assert!(consumer.fetch(&name("/p/o")).unwrap() == octets, "{signing:?}");
            // Nobody answers for another version.
            consumer.set_option("lifetime_ms", "100").unwrap();
            let other = consumer.fetch(&name("/p/o/v=4")).unwrap_err();
            assert!(matches!(other, FetchError::Object(ObjectError::NoAnswer { .. })), "{other}");
        }
    }
}

#[test]
fn an_invalid_segment_size_is_refused() {
    let (signer, _) = key_of("/p");
    let options = PutOptions { segment_octets: 8800, ..PutOptions::new(name("/p/o"), 3) };
    let refused = Put::new(input(b"x"), options, signer).unwrap_err();
    assert!(matches!(refused, ServeError::SegmentSize { octets: 8800, .. }), "{refused}");
}
