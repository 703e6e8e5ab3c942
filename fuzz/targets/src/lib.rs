//! The checks of the fuzz targets: each is a function from any octets to nothing, which panics when
//! the code under test breaks a promise.
//!
//! The fuzzers (`fuzz/run`) and the ordinary tests (`tests/replay.rs`, over the corpora under
//! `fuzz/corpus`) call the same functions. Beside panics, a target checks that views lie inside
//! their input, that a decoded value survives encoding and decoding, that limits hold, and that
//! forgeries fail. One target has state from packet to packet: `forwarder`.
#![forbid(unsafe_code)]

mod cms;
mod config;
mod dissection;
mod forwarder;
mod group;
mod inside;
mod link;
mod management;
mod memif;
mod names;
mod objects;
mod packets;
mod security;
pub mod seeds;
mod vip;

/// One fuzz target.
#[derive(Clone, Copy, Debug)]
pub struct Target {
    /// Its name for `fuzz/run`, and that of its corpus folder.
    pub name: &'static str,
    /// Checks one input.
    pub run: fn(&[u8]),
}

/// Every target.
pub const TARGETS: &[Target] = &[
    Target { name: "interest", run: packets::interest },
    Target { name: "data", run: packets::data },
    Target { name: "lp", run: packets::link_packet },
    Target { name: "name_uri", run: names::name_uri },
    Target { name: "management", run: management::management },
    Target { name: "metadata", run: objects::metadata },
    Target { name: "certificate", run: objects::certificate },
    Target { name: "dissect", run: dissection::dissect },
    Target { name: "link", run: link::link },
    Target { name: "forwarder", run: forwarder::forwarder },
    Target { name: "stream", run: link::stream },
    Target { name: "verifier", run: security::verifier },
    Target { name: "security_files", run: security::files },
    Target { name: "config", run: config::config },
    Target { name: "memif_messages", run: memif::messages },
    Target { name: "memif_rings", run: memif::rings },
    Target { name: "byte_range", run: cms::byte_range },
    Target { name: "catalogue", run: cms::catalogue },
    Target { name: "vip", run: vip::vip },
];

/// Runs the target called `name` on one input.
///
/// # Panics
/// When the input shows a fault, and when there is no such target.
pub fn run(name: &str, octets: &[u8]) {
    let target = TARGETS.iter().find(|t| t.name == name).expect("a name from TARGETS");
    (target.run)(octets);
}
