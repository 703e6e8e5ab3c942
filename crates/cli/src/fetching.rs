//! Shared parts of commands that fetch: options of the socket, the progress bar, and errors.

use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use clap::Args;
use namely_files::GetError;
use namely_files::get::TreeProgress;
use namely_security::{Rejection, RejectionReason};
use namely_socket::{BindError, CallError, Consumer, ConsumerOptions, FetchError, Flow, OptionError};
use namely_transport::object::{ObjectError, Progress};
use namely_wire::{Component, Name, key_name_of_locator, types};
use rustix::io::Errno;
use serde_json::{Value, json};

use crate::context::Context;
use crate::failure::{Exit, Failure};
use crate::keys::Trust;
use crate::output::{Bar, Output, Text, octets_text};
use crate::router::{command_failure, connection_failure, nack_failure, why_hint};
use crate::silence::{SILENCE, Silence};

/// How data is fetched.
#[derive(Clone, Debug, Args)]
pub struct Transfer {
    /// Congestion control: cubic, raaqm, bbr, nbcc, aimd, fixed:N, or as published rfc9438, bbr3,
    /// raaqm-published.
    #[arg(long, value_name = "ALGORITHM", default_value = "cubic", value_parser = congestion, help_heading = "Transfer")]
    congestion: String,
    /// Largest window, packets.
    #[arg(long, value_name = "PACKETS", help_heading = "Transfer")]
    window: Option<usize>,
    /// Largest rate, octets per second: 500000, or 500k, 2M, 1G in units of 1024.
    #[arg(long, value_name = "OCTETS", value_parser = rate, help_heading = "Transfer")]
    limit_rate: Option<u64>,
    /// Lifetime of Interests, ms.
    #[arg(long, value_name = "MS", default_value_t = 2000, help_heading = "Transfer")]
    lifetime: u64,
    /// Threads that verify one object; 0: one for each processor, within limits.
    #[arg(long, value_name = "N", default_value = "0", value_parser = verify_threads, help_heading = "Transfer")]
    verify_threads: String,
    /// Check of revocation: `check` queries the status of certificates and continues without an
    /// answer, `require` continues only with an answer, `off` does not query.
    #[arg(long, value_name = "WHEN", default_value = "check", value_parser = revocation, help_heading = "Trust")]
    revocation: String,
}

fn congestion(text: &str) -> Result<String, OptionError> {
    value_of("congestion", text)
}

fn verify_threads(text: &str) -> Result<String, OptionError> {
    value_of("verify_threads", text)
}

fn revocation(text: &str) -> Result<String, OptionError> {
    value_of("revocation", text)
}

/// Parses a rate in octets per second.
fn rate(text: &str) -> Result<u64, String> {
    // `2MiB`, as the configuration writes sizes, and `2M`, as curl does.
    let text = text.strip_suffix("iB").filter(|text| text.ends_with(['K', 'M', 'G'])).unwrap_or(text);
    let (digits, shift) = match text.char_indices().next_back() {
        Some((at, 'k' | 'K')) => (&text[..at], 10),
        Some((at, 'M')) => (&text[..at], 20),
        Some((at, 'G')) => (&text[..at], 30),
        _ => (text, 0),
    };
    let octets = digits.parse::<u64>().ok().and_then(|number| number.checked_mul(1 << shift));
    octets
        .filter(|octets| *octets > 0)
        .ok_or_else(|| "give octets per second from 1 on, such as 500000, 500k, 2M or 2MiB".to_owned())
}

/// Checks a value of the socket option `key`.
fn value_of(key: &str, text: &str) -> Result<String, OptionError> {
    ConsumerOptions::default().set(key, text).map(|()| text.to_owned())
}

impl Transfer {
    fn apply(&self, options: &mut ConsumerOptions) -> Result<(), OptionError> {
        options.set("congestion", &self.congestion)?;
        options.set("lifetime_ms", &self.lifetime.to_string())?;
        options.set("verify_threads", &self.verify_threads)?;
        options.set("revocation", &self.revocation)?;
        options.read.rate_max = self.limit_rate;
        if let Some(window) = self.window {
            options.set("window_max", &window.max(1).to_string())?;
        }
        Ok(())
    }
}

/// Opens a socket for names below `prefix`, with a command's options.
pub fn consumer(
    ctx: &Context<'_>,
    prefix: Name,
    trust: namely_socket::Trust,
    transfer: Option<&Transfer>,
) -> Result<Consumer, Failure> {
    let mut options = ConsumerOptions {
        router: ctx.global.router.clone(),
        trust_router_of: ctx.global.trusted(),
        trust,
        ..ConsumerOptions::default()
    };
    if let Some(transfer) = transfer {
        transfer.apply(&mut options).map_err(|e| Failure::failed(e.to_string()))?;
    }
    Consumer::bind(prefix, options).map_err(bind_failure)
}

/// Opens a socket for any name.
pub fn consumer_of_all(ctx: &Context<'_>, trust: &Trust, transfer: &Transfer) -> Result<Consumer, Failure> {
    consumer(ctx, Name::new(), trust.of_socket(), Some(transfer))
}

/// Converts the failure to bind a socket.
pub fn bind_failure(error: BindError) -> Failure {
    match error {
        BindError::Connection(error) => connection_failure(error),
        BindError::Register(error) => command_failure(error),
        other => {
            let exit = match Errno::from_raw_os_error(other.errno()) {
                Errno::CONNREFUSED => Exit::NoRouter,
                Errno::ACCESS => Exit::Refused,
                _ => Exit::Failed,
            };
            Failure { hint: other.hint().map(Into::into), ..Failure::new(exit, other.to_string()) }
        }
    }
}

/// The progress bar at a terminal, and the flag that stops the fetch.
#[derive(Debug)]
pub struct Watch {
    bar: Option<Bar>,
    /// The part of one of several fetches in their total.
    part: Option<TotalPart>,
    pace: RefCell<Pace>,
    silence: Silence,
    stop: Arc<AtomicBool>,
}

/// The current rate of octets, and the start of a pause.
#[derive(Debug, Default)]
struct Pace {
    /// Times and total octets over the last [`PACE`].
    samples: VecDeque<(Instant, u64)>,
    /// Time of the last progress.
    moved: Option<Instant>,
    /// Whether the last text reports a pause.
    is_pause: bool,
}

/// The progress bar. The message ends at the terminal's width, so no line wraps.
const BAR: &str = "{bar:10} {percent:>3}% {wide_msg}";

/// Period over which the current rate is measured.
const PACE: Duration = Duration::from_secs(3);

impl Pace {
    /// Formats the current rate or, in a pause, its length and the silent face.
    fn text(&mut self, now: Instant, octets: u64, silence: Option<&Silence>) -> String {
        if self.samples.back().is_none_or(|(_, last)| *last != octets) {
            self.moved = Some(now);
        }
        if self.samples.back().is_none_or(|(at, _)| now - *at > PACE / 30) {
            self.samples.push_back((now, octets));
        }
        while self.samples.len() > 2 && self.samples.front().is_some_and(|(at, _)| now - *at > PACE) {
            self.samples.pop_front();
        }
        let silent = self.moved.map_or(Duration::ZERO, |moved| now - moved);
        self.is_pause = silent >= SILENCE;
        if self.is_pause {
            let face = silence.and_then(Silence::face).map_or_else(String::new, |uri| format!(" from {uri}"));
            return format!("no data for {} s{face}", silent.as_secs());
        }
        let (from, first) = self.samples.front().copied().unwrap_or((now, octets));
        let seconds = (now - from).as_secs_f64();
        let rate = if seconds > 0.0 { octets.saturating_sub(first) as f64 / seconds } else { 0.0 };
        rate_text(rate)
    }
}

impl Watch {
    /// Creates a watch for the fetch of `name`. The bar is shown only at a terminal.
    pub fn new(ctx: &Context<'_>, name: &Name) -> Result<Self, Failure> {
        Ok(Self::stopped_by(ctx, name, crate::stop::flag()?))
    }

    /// Creates a watch for one of several fetches of a command, which have one flag.
    pub fn stopped_by(ctx: &Context<'_>, name: &Name, stop: Arc<AtomicBool>) -> Self {
        Self::of_part(ctx, name, stop, None)
    }

    /// Creates a watch for one of several fetches that run at once, which have one bar.
    pub fn of_part(ctx: &Context<'_>, name: &Name, stop: Arc<AtomicBool>, part: Option<TotalPart>) -> Self {
        let bar = if part.is_none() { ctx.out.bar(BAR) } else { None };
        Watch { bar, part, pace: RefCell::default(), silence: Silence::watch(ctx, name), stop }
    }

    /// Shows the progress of a fetch. Returns `Flow::Stop` if the command is stopped.
    pub fn see(&self, label: &str, progress: &Progress) -> Flow {
        self.silence.record(progress.octets_done);
        if let Some(part) = &self.part
            && part.see(progress)
        {
            self.silence.has_bar();
        }
        if let Some(bar) = &self.bar {
            self.silence.has_bar();
            bar.set(progress.octets_done, progress.octets_total.unwrap_or(progress.octets_done));
            let mut pace = self.pace.borrow_mut();
            let text = pace.text(Instant::now(), progress.octets_done, Some(&self.silence));
            bar.set_message(format!("{label}{}", progress_text(progress, &text, pace.is_pause)));
        }
        self.flow()
    }

    /// Shows the progress of a tree's fetch, in one line. Returns `Flow::Stop` if the command is
    /// stopped.
    pub fn see_tree(&self, progress: &TreeProgress) -> Flow {
        // Arriving listings count as progress, too.
        self.silence.record(progress.octets + progress.octets_listed + progress.files_wanted);
        if let Some(bar) = &self.bar {
            self.silence.has_bar();
            bar.set(progress.octets.min(progress.octets_wanted), progress.octets_wanted);
            let pace = self.pace.borrow_mut().text(Instant::now(), progress.octets, Some(&self.silence));
            bar.set_message(tree_text(progress, &pace));
        }
        self.flow()
    }

    /// Prints a remark, above the progress bar if there is one.
    pub fn remark(&self, out: &Output, text: impl Into<Text>) {
        match &self.bar {
            Some(bar) => bar.suspend(|| out.remark(text)),
            None => out.remark(text),
        }
    }

    fn flow(&self) -> Flow {
        if self.stop.load(Ordering::Relaxed) { Flow::Stop } else { Flow::Continue }
    }
}

/// The progress of several fetches that run at once, in one bar.
#[derive(Debug)]
pub struct Total {
    bar: Option<Arc<Bar>>,
    state: Mutex<TotalState>,
    names: usize,
}

#[derive(Debug, Default)]
struct TotalState {
    pace: Pace,
    /// Octets that each fetch has, and all its octets.
    octets: BTreeMap<usize, (u64, u64)>,
    ended: usize,
}

/// One of the fetches of a total.
#[derive(Clone, Debug)]
pub struct TotalPart {
    total: Arc<Total>,
    number: usize,
}

impl Total {
    /// Creates the total of the fetches of `names`. The bar is shown only at a terminal.
    pub fn new(ctx: &Context<'_>, names: usize) -> Arc<Self> {
        Arc::new(Total { bar: ctx.out.bar(BAR).map(Arc::new), state: Mutex::default(), names })
    }

    /// The bar.
    pub fn bar(&self) -> Option<&Arc<Bar>> {
        self.bar.as_ref()
    }

    /// Returns the part of fetch `number`.
    pub fn part(self: &Arc<Self>, number: usize) -> TotalPart {
        TotalPart { total: self.clone(), number }
    }

    /// Records the end of a fetch.
    pub fn end_one(&self) {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).ended += 1;
    }
}

impl TotalPart {
    /// Shows the progress. Returns true if there is a bar.
    fn see(&self, progress: &Progress) -> bool {
        let Some(bar) = &self.total.bar else { return false };
        let mut state = self.total.state.lock().unwrap_or_else(PoisonError::into_inner);
        let all = progress.octets_total.unwrap_or(progress.octets_done);
        state.octets.insert(self.number, (progress.octets_done, all));
        let sum = |of: fn(&(u64, u64)) -> u64| state.octets.values().map(of).sum::<u64>();
        let (done, all) = (sum(|octets| octets.0), sum(|octets| octets.1));
        let pace = state.pace.text(Instant::now(), done, None);
        bar.set(done, all);
        bar.set_message(total_text(done, all, &pace, state.ended, self.total.names));
        true
    }
}

fn total_text(done: u64, all: u64, pace: &str, ended: usize, names: usize) -> String {
    format!("{} of {}+, {pace}, {ended} of {names} names", octets_text(done), octets_text(all))
}

fn tree_text(p: &TreeProgress, pace: &str) -> String {
    // More are listed later.
    let more = if p.is_all_listed { "" } else { "+" };
    let s = if p.files_wanted == 1 && p.is_all_listed { "" } else { "s" };
    format!(
        "{} of {}{more}, {pace}, {} of {}{more} file{s}",
        octets_text(p.octets),
        octets_text(p.octets_wanted),
        p.files,
        p.files_wanted,
    )
}

/// Formats a number of files: `1 file`, `2 files`.
pub fn files_text(files: u64) -> String {
    if files == 1 { "1 file".into() } else { format!("{files} files") }
}

/// Formats the progress of a fetch, the most important first.
fn progress_text(p: &Progress, pace: &str, is_pause: bool) -> String {
    let total = p.octets_total.map_or_else(|| "?".into(), octets_text);
    let done = format!("{} of {total}", octets_text(p.octets_done));
    if is_pause {
        return format!("{pace}, {done}");
    }
    let left = p.remaining_ns().map(|ns| format!(", {} left", left_text(ns.div_ceil(1_000_000_000))));
    let cached = p.cache_share().map(|share| format!(", {:.0}% cached", share * 100.0));
    let again = Some(p.fetch.retransmissions).filter(|n| *n > 0).map(|n| format!(", {n} again"));
    let more: String = [left, cached, again].into_iter().flatten().collect();
    format!("{done}, {pace}{more}")
}

fn left_text(seconds: u64) -> String {
    match seconds {
        0..120 => format!("{seconds} s"),
        120..7200 => format!("{} min", seconds / 60),
        _ => format!("{} h", seconds / 3600),
    }
}

/// Formats a rate in bits: `1.52 Gbit/s`.
pub fn rate_text(octets_per_second: f64) -> String {
    let bits = octets_per_second * 8.0;
    if bits >= 1e9 { format!("{:.2} Gbit/s", bits / 1e9) } else { format!("{:.1} Mbit/s", bits / 1e6) }
}

/// Formats the share of packets from the first router's cache.
fn cache_text(p: &Progress) -> String {
    p.cache_share().map_or_else(|| "cache share unknown".into(), |s| format!("{:.0}% from cache", s * 100.0))
}

/// Formats one line about a completed fetch.
pub fn summary_text(p: &Progress) -> String {
    format!(
        "{} in {:.2} s, {}, {} retransmissions, {}",
        octets_text(p.octets),
        p.elapsed_ns as f64 / 1e9,
        rate_text(p.octets_per_second()),
        p.fetch.retransmissions,
        cache_text(p)
    )
}

/// Returns the values of [`summary_text`] as JSON, for programs.
pub fn summary_json(p: &Progress) -> Value {
    json!({
        "octets": p.octets, "segments": p.segments, "elapsed_s": p.elapsed_ns as f64 / 1e9,
        "goodput_mbps": p.octets_per_second() * 8.0 / 1e6, "interests": p.fetch.interests,
        "retransmissions": p.fetch.retransmissions, "timeouts": p.fetch.timeouts, "nacks": p.fetch.nacks,
        "marks": p.fetch.marks, "rtt_us": p.rtt_ns / 1000, "cache_share": p.cache_share(),
    })
}

/// Converts a failed fetch.
pub fn get_failure(error: GetError) -> Failure {
    let exit = match (error.fetch_error(), &error) {
        (Some(error), _) => exit_of(error),
        (
            _,
            GetError::Older { .. }
            | GetError::TooOld { .. }
            | GetError::Future { .. }
            | GetError::Undated { .. }
            | GetError::Checksum { .. },
        ) => Exit::NotVerified,
        (_, GetError::IsDirectory { .. } | GetError::NotDirectory { .. } | GetError::Listing { .. }) => {
            Exit::NotFound
        }
        _ => Exit::Failed,
    };
    if let GetError::Fetch(FetchError::Object(ObjectError::Refused { name, reason })) = &error {
        return nack_failure(name, *reason);
    }
    if let Some(FetchError::Object(ObjectError::Untrusted(rejection))) = error.fetch_error()
        && let Some(failure) = first_failure(rejection)
    {
        return failure;
    }
    let failure = Failure::new(exit, error.to_string());
    if let Some(FetchError::Call(CallError::RouterLost)) = error.fetch_error() {
        return failure.hint("start it again with `namely up`");
    }
    let Some(hint) = error.hint() else {
        return match error.fetch_error() {
            Some(FetchError::Object(ObjectError::NoAnswer { name })) => failure.hint(why_hint(name)),
            Some(FetchError::Object(ObjectError::NotFound { name })) if name.as_name().len() > 1 => failure
                .hint(format!("`namely ls {}` lists the files beside it", name.as_name().without_last(1))),
            _ => failure,
        };
    };
    // The library's text has the remedy, and the command adds the option for it.
    let option = match &error {
        GetError::IsDirectory { .. } => " with --recursive",
        GetError::Older { .. } => ": --allow-older",
        GetError::TooOld { .. } => ": --max-age",
        GetError::TooManyRemovals { .. } => ": --max-delete",
        GetError::Busy { .. } | GetError::UntrustedFile { .. } => " with -o PATH",
        _ => "",
    };
    failure.hint(format!("{hint}{option}"))
}

/// Returns the failure of a user who has no trust anchor for the name: the usual first fetch from a
/// producer. The packet's own name, and the suspicion of a forgery, would only confuse there.
fn first_failure(rejection: &Rejection) -> Option<Failure> {
    let identity = match (&rejection.why, &rejection.key) {
        (RejectionReason::NoAnchor, Some(key)) => key_name_of_locator(key.as_name()).ok()?.without_last(2),
        _ => return None,
    };
    let packet = rejection.name.as_name();
    let is_of_packet = |c: &Component<'_>| c.typ == types::KEYWORD_COMPONENT || c.version().is_some();
    let name = packet.prefix(packet.components().position(|c| is_of_packet(&c)).unwrap_or(packet.len()));
    let message = format!("you trust no key for {name} yet: the key of {identity} signs it");
    Some(Failure::new(Exit::NotVerified, message).hint(format!(
        "`namely cert trust --from {name}` shows the fingerprint of that key; compare it with its \
         producer's `namely cert show {identity}`. `namely words` explains the terms"
    )))
}

fn exit_of(error: &FetchError) -> Exit {
    match error {
        FetchError::Object(error) => exit_of_object(error),
        FetchError::Revoked { .. } | FetchError::NotKnownGood { .. } => Exit::NotVerified,
        FetchError::Lost { .. } | FetchError::Call(CallError::TimedOut) => Exit::Timeout,
        FetchError::Call(CallError::RouterLost) => Exit::NoRouter,
        FetchError::Name(_) | FetchError::Call(_) => Exit::Failed,
    }
}

fn exit_of_object(error: &ObjectError) -> Exit {
    match error {
        ObjectError::Connection(_) => Exit::NoRouter,
        ObjectError::Refused { .. }
        | ObjectError::NotFound { .. }
        | ObjectError::IsDirectory { .. }
        | ObjectError::SourceMissing { .. } => Exit::NotFound,
        ObjectError::NoAnswer { .. } | ObjectError::Fetch { .. } => Exit::Timeout,
        ObjectError::Untrusted(_)
        | ObjectError::NoCertificate { .. }
        | ObjectError::Corrupt(_)
        | ObjectError::Manifest { .. }
        | ObjectError::Malformed { .. }
        | ObjectError::Stray { .. } => Exit::NotVerified,
        ObjectError::Stopped => Exit::Interrupted,
        ObjectError::Sink(_) | ObjectError::TooLarge { .. } => Exit::Failed,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Columns of the message beside the bar at a terminal of 80 columns.
    const MESSAGE_COLUMNS: usize = 80 - "1234567890 100% ".len();

    #[test]
    fn rates_have_units_and_limits() {
        for (text, octets) in [
            ("1", 1),
            ("500000", 500_000),
            ("500k", 512_000),
            ("2M", 2 << 20),
            ("2MiB", 2 << 20),
            ("1G", 1 << 30),
        ] {
            assert_eq!(rate(text), Ok(octets), "{text}");
        }
        assert_eq!(rate("18446744073709551615"), Ok(u64::MAX));
        for text in [
            "",
            "0",
            "0k",
            "-1",
            "1.5M",
            "M",
            "MiB",
            "2MB",
            "2kiB",
            "1iB",
            "1T",
            "18446744073709551616",
            "17179869184G",
            "1é",
        ] {
            assert!(rate(text).is_err_and(|error| error.contains("500k")), "{text}");
        }
    }

    #[test]
    fn a_partial_listing_gives_a_minimum_total() {
        let mut progress = TreeProgress {
            files: 1,
            octets: 1024,
            files_wanted: 1,
            octets_wanted: 2048,
            is_all_listed: true,
            octets_listed: 0,
        };
        assert_eq!(tree_text(&progress, "now"), "1.0 KiB of 2.0 KiB, now, 1 of 1 file");
        (progress.files_wanted, progress.is_all_listed) = (7, false);
        assert_eq!(tree_text(&progress, "now"), "1.0 KiB of 2.0 KiB+, now, 1 of 7+ files");
    }

    /// The longest texts of usual fetches, computed by hand.
    #[test]
    fn progress_fits_80_columns() {
        let mut progress = Progress {
            octets: 1023 << 20,
            octets_done: 1023 << 20,
            octets_total: Some(1_073_636_966),
            elapsed_ns: 8_600_000_000,
            origin_told: 100,
            from_cache: 45,
            ..Progress::default()
        };
        let text = progress_text(&progress, "952.1 Mbit/s", false);
        assert_eq!(text, "1023.0 MiB of 1023.9 MiB, 952.1 Mbit/s, 1 s left, 45% cached");
        assert_eq!(text.len(), 60);
        let longest = "1023.0 MiB of 1023.9 MiB, 952.1 Mbit/s, 119 min left, 45% cached";
        assert_eq!(longest.len(), MESSAGE_COLUMNS);
        assert_eq!([119, 120, 7199, 7200].map(left_text), ["119 s", "2 min", "119 min", "2 h"]);
        progress.fetch.retransmissions = 7;
        assert!(progress_text(&progress, "now", false).ends_with(", 45% cached, 7 again"));
        let text = progress_text(&progress, "no data for 21 s from udp4://192.0.2.7:6363", true);
        assert_eq!(text, "no data for 21 s from udp4://192.0.2.7:6363, 1023.0 MiB of 1023.9 MiB");
        assert!("no data for 21 s from udp6://[2001:db8::1234]:6363".len() < MESSAGE_COLUMNS);
        let total = total_text(1023 << 20, 1023 << 20, "952.1 Mbit/s", 9999, 10_000);
        assert_eq!(total, "1023.0 MiB of 1023.0 MiB+, 952.1 Mbit/s, 9999 of 10000 names");
        assert!(total.len() < MESSAGE_COLUMNS);
        let tree = "1023.0 MiB of 1023.9 MiB+, 952.1 Mbit/s, 9999 of 10000+ files";
        assert!(tree.len() < MESSAGE_COLUMNS);
    }

    #[test]
    fn progress_shows_the_recent_rate() {
        let (mut pace, start) = (Pace::default(), Instant::now());
        let at = |ms| start + Duration::from_millis(ms);
        for i in 0..=100_u64 {
            pace.text(at(i * 100), i * 1_250_000, None);
        }
        assert_eq!(pace.text(at(10_000), 125_000_000, None), "100.0 Mbit/s");
        // The rate falls to a tenth. The text soon shows the new rate, because old samples expire.
        for i in 1..=40_u64 {
            pace.text(at(10_000 + i * 100), 125_000_000 + i * 125_000, None);
        }
        assert_eq!(pace.text(at(14_000), 130_000_000, None), "10.0 Mbit/s");
        assert_eq!(pace.text(at(17_000), 130_000_000, None), "no data for 3 s");
    }
}
