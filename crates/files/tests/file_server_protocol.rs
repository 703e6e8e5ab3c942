//! The ndn6-file-server protocol as its other implementations expect it.

mod common;

use std::fs;

use common::{connection_to, key_of, name};
use namely_files::{FileServer, ServeOptions};
use namely_transport::connection::{Answer, Connection};
use namely_wire::rdr::{LISTING_COMPONENT, METADATA_COMPONENT, Metadata};
use namely_wire::{DataView, InterestBuilder, Name};

fn data(connection: &mut Connection, interest: &InterestBuilder) -> Vec<u8> {
    match connection.express(interest).unwrap() {
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
fn a_directorys_metadata_leads_to_its_listing() {
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
