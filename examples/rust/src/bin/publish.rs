//! Publishes standard input as NAME for SECONDS: `publish /lab/run7 60 < file`

use std::io::Read;
use std::time::Duration;

use namely_socket::{Failure, Name, Producer, ProducerOptions, PublishOptions};

fn main() -> Result<(), Failure> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let (name, seconds) = match &arguments[..] {
        [name, seconds] if seconds.parse::<u64>().is_ok() => (name, seconds),
        _ => {
            eprintln!("usage: publish NAME SECONDS < FILE");
            std::process::exit(2);
        }
    };
    let name: Name = name.parse()?;
    let mut content = Vec::new();
    std::io::stdin().read_to_end(&mut content)?;
    let producer = Producer::bind(name.clone(), ProducerOptions::default())?;
    println!("{}", producer.publish(&name, &content, &PublishOptions::default())?.name);
    std::thread::sleep(Duration::from_secs(seconds.parse().unwrap_or(0)));
    Ok(())
}
