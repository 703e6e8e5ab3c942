//! The viewers: the channel of each, drawn by popularity and switched now and then, and their
//! playback.

use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use super::live;

/// The behavior of an audience.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Habits {
    /// Channels on air.
    pub(crate) channels: usize,
    /// Exponent of the popularity of channels (Zipf).
    pub(crate) zipf: f64,
    /// Time for which a viewer stays with a channel.
    pub(crate) stay: Duration,
    /// Time for which all viewers watch.
    pub(crate) length: Duration,
    /// Factor of bit rates.
    pub(crate) scale: f64,
    /// Number of qualities, from the best one down, of which a viewer picks one when it tunes in.
    /// With 1, every viewer has the bandwidth for the best.
    pub(crate) qualities: usize,
}

/// The counters of the viewers.
#[derive(Clone, Copy, Debug, Default, Deserialize, Serialize)]
pub(crate) struct ViewerCounters {
    /// Playlists and segments that were requested.
    pub(crate) requests: u64,
    /// Octets of both.
    pub(crate) octets: u64,
    /// Segments played.
    pub(crate) segments: u64,
    /// Segments that arrived after their due time of playback.
    pub(crate) stalls: u64,
    /// Requests that failed.
    pub(crate) failed: u64,
    /// Segments with other octets than the channel sent.
    pub(crate) wrong: u64,
    /// Channels tuned in to, by all viewers.
    pub(crate) tuned: u64,
    /// Sum of the times from tuning in to the first picture, ms.
    pub(crate) tuning_ms: u64,
}

impl ViewerCounters {
    pub(crate) fn add(&mut self, other: &ViewerCounters) {
        self.requests += other.requests;
        self.octets += other.octets;
        self.segments += other.segments;
        self.stalls += other.stalls;
        self.failed += other.failed;
        self.wrong += other.wrong;
        self.tuned += other.tuned;
        self.tuning_ms += other.tuning_ms;
    }
}

/// The source of a viewer's playlists and segments.
pub(crate) trait Source {
    /// Fetches `path` of channel `channel`. Returns `None` if it is unavailable.
    fn get(&mut self, channel: usize, path: &str) -> Option<Vec<u8>>;
}

/// Random numbers by seed: an audience does the same over TCP and over names.
#[derive(Clone, Debug)]
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    /// From 0 up to, not including, 1.
    pub(crate) fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1_u64 << 53) as f64
    }

    fn below(&mut self, n: usize) -> usize {
        (self.unit() * n as f64) as usize
    }
}

/// A channel by popularity: channel `k` is watched in proportion to `1 / (k + 1)^zipf`.
pub(crate) fn channel(random: &mut Random, channels: usize, zipf: f64) -> usize {
    let weight = |k: usize| ((k + 1) as f64).powf(-zipf);
    let mut point = random.unit() * (0..channels).map(weight).sum::<f64>();
    for k in 0..channels {
        point -= weight(k);
        if point < 0.0 {
            return k;
        }
    }
    channels - 1
}

/// Watches until the time is over.
pub(crate) fn watch(viewer: u64, habits: &Habits, source: &mut dyn Source) -> ViewerCounters {
    let mut random = Random::new(viewer + 1);
    let mut seen = ViewerCounters::default();
    let end = Instant::now() + habits.length;
    // Viewers do not all press the button at once.
    pause(habits.stay.min(habits.length).mul_f64(random.unit() / 4.0), end);
    while Instant::now() < end {
        let channel = channel(&mut random, habits.channels, habits.zipf);
        let quality = live::RATES.len() - 1 - random.below(habits.qualities);
        let until = end.min(Instant::now() + habits.stay);
        stay(channel, quality, habits, until, source, &mut seen);
    }
    seen
}

/// Plays one channel until `until`. The first segment plays when it arrives, and each further one a
/// segment's length later. A segment that arrives late stalls the picture.
fn stay(
    channel: usize,
    quality: usize,
    habits: &Habits,
    until: Instant,
    source: &mut dyn Source,
    seen: &mut ViewerCounters,
) {
    let length = Duration::from_millis(live::SEGMENT_MS);
    let tuned = Instant::now();
    let mut next = None;
    let mut due = None;
    seen.tuned += 1;
    while Instant::now() < until {
        let Some(playlist) = get(channel, &format!("{quality}/live.m3u8"), source, seen) else {
            pause(length / 4, until);
            continue;
        };
        let numbers = live::listed(&String::from_utf8_lossy(&playlist));
        // A live player begins one segment before the newest, so that it has a reserve.
        let first = next.unwrap_or_else(|| numbers.iter().rev().nth(1).copied().unwrap_or(0));
        for number in numbers.into_iter().filter(|number| *number >= first) {
            if Instant::now() >= until {
                return;
            }
            let Some(content) = get(channel, &format!("{quality}/{number}.ts"), source, seen) else {
                continue;
            };
            seen.wrong += u64::from(content != live::segment(channel, quality, number, habits.scale));
            seen.segments += 1;
            let now = Instant::now();
            due = Some(match due {
                None => {
                    seen.tuning_ms += (now - tuned).as_millis() as u64;
                    now + length
                }
                Some(due) if now > due => {
                    seen.stalls += 1;
                    now + length
                }
                Some(due) => due + length,
            });
            next = Some(number + 1);
        }
        pause(length / 2, until);
    }
}

fn get(channel: usize, path: &str, source: &mut dyn Source, seen: &mut ViewerCounters) -> Option<Vec<u8>> {
    seen.requests += 1;
    let content = source.get(channel, path);
    match &content {
        Some(content) => seen.octets += content.len() as u64,
        None => seen.failed += 1,
    }
    content
}

fn pause(time: Duration, until: Instant) {
    std::thread::sleep(time.min(until.saturating_duration_since(Instant::now())));
}

#[cfg(test)]
mod tests {
    use namely_testkit::until;

    use super::*;

    #[test]
    fn popularity_follows_zipf() {
        let mut random = Random::new(1);
        let mut watched = [0_u32; 48];
        for _ in 0..20_000 {
            watched[channel(&mut random, 48, 1.4)] += 1;
        }
        let total: f64 = (1..=48).map(|k| f64::from(k).powf(-1.4)).sum();
        for k in [0, 1, 9] {
            let expected = 20_000.0 * (k as f64 + 1.0).powf(-1.4) / total;
            assert!(
                (f64::from(watched[k]) - expected).abs() < expected * 0.2,
                "{k}: {} {expected}",
                watched[k]
            );
        }
    }

    struct OnAir {
        late: bool,
    }

    impl Source for OnAir {
        fn get(&mut self, channel: usize, path: &str) -> Option<Vec<u8>> {
            let (quality, file) = path.split_once('/')?;
            let Some(number) = file.strip_suffix(".ts") else {
                return Some(live::playlist(live::now_ms()).into_bytes());
            };
            if self.late {
                std::thread::sleep(Duration::from_millis(live::SEGMENT_MS + 300));
            }
            Some(live::segment(channel, quality.parse().ok()?, number.parse().ok()?, 0.001))
        }
    }

    #[test]
    fn a_viewer_stalls_on_late_segments() {
        let habits = Habits {
            channels: 3,
            zipf: 1.0,
            stay: Duration::from_secs(20),
            length: Duration::from_secs(7),
            scale: 0.001,
            qualities: 4,
        };
        // On a busy machine the viewer itself may be late, and then watches again.
        let stalls = move |late: bool| {
            until(format_args!("a viewer, late {late}"), || {
                let seen = watch(1, &habits, &mut OnAir { late });
                assert!(seen.wrong == 0 && seen.failed == 0, "{seen:?}");
                println!("{seen:?}");
                let is_enough = seen.segments >= if late { 1 } else { 3 };
                (is_enough && (seen.stalls > 0) == late).then_some(())
            });
        };
        let late = std::thread::spawn(move || stalls(true));
        stalls(false);
        late.join().unwrap();
    }
}
