//! RTP over names (HT-33). A stream is a name, and each packet a version of it. The sender
//! publishes the packets as they are made. The receiver keeps Interests for the next ones
//! outstanding, so that a packet is sent to all waiting receivers the moment it exists. A receiver
//! that joins late requests the newest version, as of any object, and continues from there. There
//! are no retransmissions: a packet that does not arrive in time is lost, as with RTP over UDP.
#![forbid(unsafe_code)]

mod packet;
mod quality;

use std::error::Error;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::{Parser, Subcommand};
use namely_socket::{
    Consumer, ConsumerOptions, DATAGRAMS_MAX, Datagram, ManifestUse, Producer, ProducerOptions,
    PublishOptions, RecvError, errno_name,
};
use namely_wire::Name;

use packet::{CLOCK_HZ, HEADER_OCTETS, Header};
use quality::{Meter, Quality};

/// RTP packets over names: a sender in real time, and a receiver that measures loss, jitter and
/// lateness.
///
/// Example: `rtp send /lab/camera --packets 1500 &` and, whenever you like,
/// `rtp receive /lab/camera --packets 500`
#[derive(Debug, Parser)]
struct Args {
    #[command(subcommand)]
    role: Role,
}

#[derive(Debug, Subcommand)]
enum Role {
    /// Publishes packets at a steady rate, from number 0 on.
    Send {
        /// The stream's name, of which packets are versions; a key of yours must be for it
        /// (`namely key new`).
        prefix: Name,
        /// Number of packets.
        #[arg(long, default_value_t = 1500)]
        packets: u64,
        /// Time between two packets, ms.
        #[arg(long, default_value_t = 20)]
        interval_ms: u64,
        /// Octets of payload in each.
        #[arg(long, default_value_t = 1000)]
        payload: usize,
        /// Creates one of this number of packets without publishing it: a loss that the receiver
        /// detects. 0: none.
        #[arg(long, default_value_t = 0)]
        drop_every: u64,
        /// Time for which the last packets stay available, ms.
        #[arg(long, default_value_t = 2000)]
        linger_ms: u64,
    },
    /// Requests packets and reports how they arrived.
    Receive {
        /// The stream's name.
        prefix: Name,
        /// The first packet to request; by default the one after the newest.
        #[arg(long, value_name = "NUMBER")]
        from: Option<u64>,
        /// Number of packets.
        #[arg(long, default_value_t = 1500)]
        packets: u64,
        /// Interests outstanding: at least the round trip in packets.
        #[arg(long, default_value_t = 16, value_parser = clap::value_parser!(u64).range(1..=DATAGRAMS_MAX as u64))]
        ahead: u64,
        /// Time for which an Interest waits for its packet, ms; a packet that takes longer is lost.
        #[arg(long, default_value_t = 2000)]
        lifetime_ms: u64,
        /// Maximum delay of a packet, relative to its time after the first one, with which it is
        /// still played, ms.
        #[arg(long, default_value_t = 100.0)]
        playout_ms: f64,
        /// Prints JSON.
        #[arg(long)]
        json: bool,
    },
}

fn main() -> ExitCode {
    match run(Args::parse().role) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("rtp: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(role: Role) -> Result<(), Box<dyn Error>> {
    match role {
        Role::Send { prefix, packets, interval_ms, payload, drop_every, linger_ms } => {
            let producer = Producer::bind(prefix.clone(), ProducerOptions::default())?;
            println!("sending below {prefix}");
            let lost = |number: u64| drop_every > 0 && number % drop_every == drop_every - 1;
            send(&producer, &prefix, packets, Duration::from_millis(interval_ms), payload, &lost)?;
            std::thread::sleep(Duration::from_millis(linger_ms));
            producer.close();
            Ok(())
        }
        Role::Receive { prefix, from, packets, ahead, lifetime_ms, playout_ms, json } => {
            let consumer = Consumer::bind(prefix.clone(), ConsumerOptions::default())?;
            let lifetime = Duration::from_millis(lifetime_ms);
            let from = match from {
                Some(from) => from,
                None => newest(&consumer, &prefix)? + 1,
            };
            let quality = receive(&consumer, &prefix, from..from + packets, ahead, lifetime, playout_ms)?;
            if json {
                println!("{}", serde_json::to_string(&quality)?)
            } else {
                print(&quality)
            }
            Ok(())
        }
    }
}

/// The whole name of a packet, which a receiver knows before the packet exists.
fn named(prefix: &Name, number: u64) -> Name {
    prefix.join_version(number).join_segment(0)
}

/// The number of the newest packet. A cache answers with it at most for the time between two
/// packets. Afterwards it is stale, and the Interest waits for the next packet.
fn newest(consumer: &Consumer, prefix: &Name) -> Result<u64, Box<dyn Error>> {
    let newest = consumer.stat(prefix)?.name;
    let number = newest.as_name().last().and_then(|last| last.version());
    number.ok_or_else(|| format!("{newest} is no packet of a stream: it has no version").into())
}

/// Sends at a steady rate. Each packet is due at a fixed time after the first, even if publishing
/// takes long.
fn send(
    producer: &Producer,
    prefix: &Name,
    packets: u64,
    interval: Duration,
    payload_octets: usize,
    is_lost: &dyn Fn(u64) -> bool,
) -> Result<(), Box<dyn Error>> {
    let started = Instant::now();
    for number in 0..packets {
        let due = interval * u32::try_from(number)?;
        std::thread::sleep(due.saturating_sub(started.elapsed()));
        let ticks = due.as_millis() as u64 * CLOCK_HZ / 1000;
        // Both wrap, as in RFC 3550.
        let header = Header { sequence: number as u16, timestamp: ticks as u32, ssrc: 1 };
        if !is_lost(number) {
            let each = PublishOptions {
                manifest: Some(ManifestUse::Off),
                version: Some(number),
                expires: Some(interval),
                ..PublishOptions::default()
            };
            producer.publish(prefix, &header.packet(payload_octets), &each)?;
        }
    }
    Ok(())
}

/// Keeps `ahead` Interests outstanding until every packet has arrived or is lost.
fn receive(
    consumer: &Consumer,
    prefix: &Name,
    numbers: std::ops::Range<u64>,
    ahead: u64,
    lifetime: Duration,
    playout_ms: f64,
) -> Result<Quality, Box<dyn Error>> {
    let mut meter = Meter::new(playout_ms, numbers.start);
    let (started, mut next, mut outstanding) = (Instant::now(), numbers.start, 0);
    while next < numbers.end || outstanding > 0 {
        while next < numbers.end && outstanding < ahead {
            // The packet of a number never changes, so a stale one is as good.
            let wanted = Datagram {
                lifetime: Some(lifetime),
                must_be_fresh: Some(false),
                ..Datagram::new(named(prefix, next))
            };
            consumer.send(&wanted)?;
            meter.asked();
            (next, outstanding) = (next + 1, outstanding + 1);
        }
        let received = consumer.recv();
        outstanding -= 1;
        match received {
            Ok(received) => match Header::parse(&received.content) {
                Some(header) if is_of(&received.name, prefix, header.sequence) => {
                    meter.received(&header, started.elapsed().as_secs_f64() * 1e3);
                }
                _ => meter.strange(),
            },
            Err(RecvError::Failed { error, .. }) if errno_name(error.errno()) == Some("ETIMEDOUT") => {
                meter.lost()
            }
            Err(error) => return Err(error.into()),
        }
    }
    Ok(meter.quality())
}

/// Returns true if a packet of this sequence number matches the name.
fn is_of(name: &Name, prefix: &Name, sequence: u16) -> bool {
    let number = name.as_name().component(prefix.len()).and_then(|part| part.version());
    number.is_some_and(|number| number as u16 == sequence)
}

fn print(quality: &Quality) {
    let share = |count: u64| count as f64 * 100.0 / quality.asked.max(1) as f64;
    println!("packets   {:>8}  from {} on", quality.asked, quality.first);
    println!("received  {:>8}  {:>6.2} %", quality.received, share(quality.received));
    println!("lost      {:>8}  {:>6.2} %", quality.lost, share(quality.lost));
    println!("late      {:>8}  {:>6.2} %", quality.late, share(quality.late));
    println!("strange   {:>8}  {:>6.2} %", quality.strange, share(quality.strange));
    println!(
        "jitter    {:>8.3}  ms, at most {:.3} ms; header of {HEADER_OCTETS} octets",
        quality.jitter_ms, quality.jitter_max_ms
    );
}
