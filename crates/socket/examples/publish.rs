//! Publishes a file on a producer socket and serves it until standard input ends:
//! `publish <router> <key chain> <prefix> <name> <file>`.

use std::io::Read;

use namely_socket::{Producer, ProducerOptions, PublishOptions};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [router, keychain, prefix, name, file] = &arguments[..] else {
        return Err("publish <router> <key chain> <prefix> <name> <file>".into());
    };
    let content = std::fs::read(file)?;
    let options = ProducerOptions {
        router: Some(router.clone()),
        keychain: Some(keychain.into()),
        // All of it stays in memory, with room for names and signatures.
        buffer_octets: content.len() + content.len() / 4 + (1 << 20),
        ..ProducerOptions::default()
    };
    let producer = Producer::bind(prefix.parse()?, options)?;
    let started = std::time::Instant::now();
    let published = producer.publish(&name.parse()?, &content, &PublishOptions::default())?;
    println!("{} in {} segments, {:?}", published.name, published.segments, started.elapsed());
    std::io::stdin().read_to_end(&mut Vec::new())?;
    println!("{:?}", producer.stats());
    Ok(())
}
