//! The cost of verification. Two consumers fetch the same object in turn through one router, over
//! shared memory, on this machine. One accepts every segment unverified; the other verifies every
//! segment by manifest.
//!
//! `cargo run --release -p namely-socket --example throughput -- [MIB] [RUNS]`

use std::time::Instant;

use namely_daemon::Router;
use namely_daemon::config::Config;
use namely_security::validity::ALWAYS;
use namely_security::{KeyChain, KeyType, ManifestHash, NewKey};
use namely_socket::{
    Consumer, ConsumerOptions, ManifestUse, Producer, ProducerOptions, PublishOptions, Revocation,
};
use namely_wire::{FaceUri, Name};

type Failed = Box<dyn std::error::Error>;

fn main() -> Result<(), Failed> {
    let mut numbers = std::env::args().skip(1).map(|text| text.parse::<usize>());
    let mib = numbers.next().transpose()?.unwrap_or(64);
    let runs = numbers.next().transpose()?.unwrap_or(7);
    let dir = tempfile::tempdir()?;
    let memif = FaceUri::Memif { path: dir.path().join("memif").display().to_string(), id: 0 };
    let mut config = Config::default();
    config.faces.listen = vec![memif.clone()];
    config.tables.cs_packets_max = 0;
    let _router = Router::start(config).map_err(|failure| failure.to_string())?;
    let keychain = dir.path().join("keys");
    let prefix: Name = "/p".parse()?;
    let key_type = KeyType::Ed25519;
    let new = NewKey { identity: prefix.as_name(), key_type, validity: ALWAYS, version: 1, passphrase: None };
    KeyChain::open(&keychain)?.generate(&new)?;

    let (router, chain) = (Some(memif.to_string()), Some(keychain));
    let mut options =
        ProducerOptions { router: router.clone(), keychain: chain.clone(), ..ProducerOptions::default() };
    options.set("buffer_octets", &((mib + mib / 4 + 16) << 20).to_string())?;
    let producer = Producer::bind(prefix.clone(), options)?;
    let options = ConsumerOptions {
        router,
        keychain: chain,
        revocation: Revocation::Off,
        ..ConsumerOptions::default()
    };
    let mut believing = options.clone();
    believing.set("trust", "insecure")?;
    let believing = Consumer::bind(prefix.clone(), believing)?;
    let verifying = Consumer::bind(prefix.clone(), options)?;
    let content: Vec<u8> = (0..mib << 20).map(|i| (i * 31 + i / 257) as u8).collect();
    for (hash, manifest) in [("sha256", ManifestHash::Sha256), ("blake3", ManifestHash::Blake3)] {
        let object = prefix.join_generic(hash);
        let how = PublishOptions { manifest: Some(ManifestUse::By(manifest)), ..PublishOptions::default() };
        producer.publish(&object, &content, &how)?;
        let mut rates = [Vec::new(), Vec::new()];
        for run in 0..2 * runs {
            let consumer = if run % 2 == 0 { &believing } else { &verifying };
            let started = Instant::now();
            let fetched = consumer.fetch(&object)?;
            let seconds = started.elapsed().as_secs_f64();
            assert!(fetched == content, "what was fetched is what was published");
            rates[run % 2].push(content.len() as f64 * 8.0 / 1e9 / seconds);
        }
        let [unverified, verified] = rates.map(median);
        println!(
            "{hash}: unverified {unverified:.2} Gbit/s, verified {verified:.2} Gbit/s, ratio {:.2}",
            verified / unverified
        );
    }
    println!("{:?}", verifying.stats());
    Ok(())
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}
