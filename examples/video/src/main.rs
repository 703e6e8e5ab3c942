//! A video in segments, as in HLS, by names (IS-42). Each segment is an object below the video's
//! name. The sender publishes all of them at once, or each when it is made. The player requests
//! them in order, keeps a buffer of some seconds, and plays in real time. It reports the time at
//! which playback began and the number of stalls. Pictures are not part of it: a segment's octets
//! follow from its number, so that the player can verify them.
#![forbid(unsafe_code)]

mod playback;

use std::error::Error;
use std::process::ExitCode;
use std::thread::sleep;
use std::time::{Duration, Instant};

use clap::{Parser, Subcommand};
use namely_socket::{Consumer, ConsumerOptions, FetchError, Producer, ProducerOptions, PublishOptions};
use namely_wire::Name;

use playback::{Playback, Quality};

/// Delay after a failure until a segment is requested again.
const AGAIN: Duration = Duration::from_millis(50);

/// A video in segments by names: a sender, and a player that counts stalls.
///
/// Example: `video send /lab/video --live &` and, whenever you like, `video play /lab/video`
#[derive(Debug, Parser)]
struct Args {
    #[command(subcommand)]
    role: Role,
}

#[derive(Debug, Subcommand)]
enum Role {
    /// Publishes segments, from number 0 on.
    Send {
        /// The video's name; a key of yours must be for it (`namely key new`).
        prefix: Name,
        #[command(flatten)]
        video: Video,
        /// The video's rate, kbit/s.
        #[arg(long, default_value_t = 4000, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
        kbit_per_s: u32,
        /// Publishes each segment when it is made, and not all at once.
        #[arg(long)]
        live: bool,
        /// Time for which the video stays available after its last segment, ms.
        #[arg(long, default_value_t = 10_000)]
        linger_ms: u64,
    },
    /// Plays segments, and reports how it went.
    Play {
        /// The video's name.
        prefix: Name,
        #[command(flatten)]
        video: Video,
        /// Segments that have to be there before playing begins.
        #[arg(long, default_value_t = 2)]
        first: u64,
        /// Segments in the buffer at most: no more are requested ahead of the one that plays.
        #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u64).range(1..))]
        buffer: u64,
        /// Time for which a segment is awaited before the next one is requested, ms.
        #[arg(long, default_value_t = 10_000)]
        timeout_ms: u64,
        /// Prints JSON.
        #[arg(long)]
        json: bool,
    },
}

#[derive(Clone, Copy, Debug, clap::Args)]
struct Video {
    /// Number of segments.
    #[arg(long, default_value_t = 30)]
    segments: u32,
    /// Duration of each segment, ms.
    #[arg(long, default_value_t = 2000, value_parser = clap::value_parser!(u32).range(1..=60_000))]
    segment_ms: u32,
}

fn main() -> ExitCode {
    match run(Args::parse().role) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("video: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(role: Role) -> Result<(), Box<dyn Error>> {
    match role {
        Role::Send { prefix, video, kbit_per_s, live, linger_ms } => {
            let producer = send(&prefix, video, kbit_per_s, live)?;
            sleep(Duration::from_millis(linger_ms));
            producer.close();
            Ok(())
        }
        Role::Play { prefix, video, first, buffer, timeout_ms, json } => {
            let consumer = Consumer::bind(prefix.clone(), ConsumerOptions::default())?;
            let timeout = Duration::from_millis(timeout_ms);
            let quality = play(&consumer, &prefix, video, first.min(buffer), buffer, timeout);
            if json {
                println!("{}", serde_json::to_string(&quality)?)
            } else {
                print(&quality)
            }
            if quality.segments == 0 { Err("no segment came".into()) } else { Ok(()) }
        }
    }
}

fn named(prefix: &Name, segment: u32) -> Name {
    prefix.join_generic(segment.to_string())
}

/// A segment's octets, which depend on the number of the segment and the position of the octet.
fn content(segment: u32, octets: usize) -> Vec<u8> {
    (0..octets).map(|at| (at as u32 ^ (at as u32 >> 8) ^ segment.wrapping_mul(0x9e37_79b9)) as u8).collect()
}

/// Publishes each segment at its time after the first, even if publishing takes long, or all at
/// once.
fn send(prefix: &Name, video: Video, kbit_per_s: u32, is_live: bool) -> Result<Producer, Box<dyn Error>> {
    let octets = (u64::from(kbit_per_s) * u64::from(video.segment_ms) / 8) as usize;
    let options = ProducerOptions {
        // The whole video, with room for names and signatures.
        buffer_octets: (octets + octets / 4 + (1 << 16)).saturating_mul(video.segments as usize),
        ..ProducerOptions::default()
    };
    let producer = Producer::bind(prefix.clone(), options)?;
    let started = Instant::now();
    for segment in 0..video.segments {
        if is_live {
            let due = Duration::from_millis(u64::from(video.segment_ms)) * segment;
            sleep(due.saturating_sub(started.elapsed()));
        }
        producer.publish(&named(prefix, segment), &content(segment, octets), &PublishOptions::default())?;
        if segment == 0 {
            println!("sending below {prefix}");
        }
    }
    Ok(producer)
}

/// Plays all segments. Requests the next one as soon as the buffer has room for it.
fn play(
    consumer: &Consumer,
    prefix: &Name,
    video: Video,
    first: u64,
    buffer: u64,
    timeout: Duration,
) -> Quality {
    let started = Instant::now();
    let now_ms = || started.elapsed().as_secs_f64() * 1e3;
    let segment_ms = f64::from(video.segment_ms);
    let mut playback = Playback::new(segment_ms, first);
    for segment in 0..video.segments {
        let too_much_ms = playback.ahead_ms(now_ms()) - segment_ms * (buffer - 1) as f64;
        sleep(Duration::from_secs_f64(too_much_ms.max(0.0) / 1e3));
        let asked_ms = now_ms();
        match fetch(consumer, &named(prefix, segment), timeout) {
            Ok(octets) => {
                let is_right = octets == content(segment, octets.len());
                playback.came(now_ms(), now_ms() - asked_ms, octets.len(), is_right);
            }
            Err(error) => {
                eprintln!("video: segment {segment}: {error}");
                playback.missed();
            }
        }
    }
    playback.quality()
}

/// Fetches a segment, which may not be published yet.
fn fetch(consumer: &Consumer, name: &Name, timeout: Duration) -> Result<Vec<u8>, FetchError> {
    let end = Instant::now() + timeout;
    loop {
        let left = end.saturating_duration_since(Instant::now());
        match consumer.fetch_timeout(name, left) {
            Err(_) if left > AGAIN => sleep(AGAIN),
            done => return done,
        }
    }
}

fn print(quality: &Quality) {
    println!("segments  {:>8}  {:.1} MB", quality.segments, quality.octets as f64 / 1e6);
    println!("missed    {:>8}", quality.missed);
    println!("wrong     {:>8}", quality.wrong);
    println!("start-up  {:>8.0}  ms", quality.startup_ms);
    println!("slowest   {:>8.0}  ms a segment", quality.slowest_ms);
    let (all_ms, longest_ms) = (quality.stalled_ms, quality.longest_stall_ms);
    println!("stalls    {:>8}  {all_ms:.0} ms, the longest {longest_ms:.0} ms", quality.stalls);
}
