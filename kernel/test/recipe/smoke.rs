//! Runs the core under the conditions of a kernel, and measures its cost. The work is: exchanges
//! one packet at a time, exchanges in batches, answers of the content store, the first packets of a
//! forwarder in a context where an allocation may not wait, and a panic. The same object runs in a
//! kernel (`module.c`) and in a program (`program.c`); `kernel/test/recipe/run` compares their
//! results.
//!
//! Memory, locks and packets are those of the kernel module's core. This file is not part of the
//! module.
#![no_std]

extern crate alloc;

use alloc::boxed::Box;
use alloc::vec::Vec;

use namely_forwarder::{
    Batch, Config, FaceId, FaceProperties, Forwarder, Outgoing, Output, PacketBuf, Received,
};
use namely_kernel::{Lock, Skb, sha256};
use namely_wire::{DataBuilder, InterestBuilder, Name, SignatureInfo};

unsafe extern "C" {
    /// Returns the time of a monotonic clock, ns.
    fn rc_now() -> u64;
    /// Begins a section in which callers cannot wait, as in a softirq.
    fn rc_begin();
    /// Ends the section.
    fn rc_end();
    /// Reports the time since the last mark, and starts anew.
    fn rc_mark(what: *const u8, octets: usize);
}

/// Packets of a batch: the maximum that the module passes to the core at a time.
const BATCH: usize = Batch::<Skb>::PACKETS_MAX;

/// Octets of content of each Data.
const CONTENT_OCTETS: usize = 1024;

/// Maximum number of Data in the content store, and of pending Interests.
const ENTRIES: usize = 65_536;

/// Advance of the core's clock for each batch, ns.
const BATCH_NS: u64 = 100_000;

type Core = Forwarder<Skb, Lock>;

fn mark(what: &str) {
    // SAFETY: `rc_mark` reads `what.len()` octets at the pointer.
    unsafe { rc_mark(what.as_ptr(), what.len()) }
}

/// The router's output: the number of packets, and the face of the last one.
#[derive(Default)]
struct Sink {
    sent: u64,
    last: Option<FaceId>,
}

impl Output<Skb> for Sink {
    type Tier = ();
    type Tracer = ();

    fn send(&mut self, face: FaceId, _: Outgoing<Skb>) {
        self.sent += 1;
        self.last = Some(face);
    }
}

fn name_of(number: u64) -> Name {
    let prefix = Name::new().join_generic("namely").join_generic("kernel").join_generic("recipe");
    prefix.join_segment(number)
}

fn skb(packet: &[u8]) -> Option<Skb> {
    Skb::build(packet.len(), |octets| octets.copy_from_slice(packet))
}

/// Returns an Interest, and its Data if `is_answered`.
fn packets_of(number: u64, nonce: u32, is_answered: bool) -> Option<(Skb, Option<Skb>)> {
    let name = name_of(number);
    let data = if is_answered {
        let builder = DataBuilder::new(name.as_name()).freshness_ms(10_000);
        let info = SignatureInfo::digest_sha256();
        Some(skb(&builder.build(&[b'x'; CONTENT_OCTETS], &info).finish(&[0; 32]))?)
    } else {
        None
    };
    Some((skb(&InterestBuilder::new(name).nonce(nonce.to_be_bytes()).build())?, data))
}

/// Creates the core and allocates its tables, as the module does.
#[inline(never)]
fn make() -> Option<Box<Core>> {
    let mut config = Config::new(sha256);
    config.pit.entries_max = ENTRIES;
    config.pit.entries_per_face_max = ENTRIES;
    config.pit.entries_per_holder_max = ENTRIES;
    config.cs.packets_max = ENTRIES;
    config.cs.entries_max = 8 * ENTRIES;
    config.fib.entries_max = ENTRIES;
    config.faces_max = 1024;
    let core = Box::new(Core::new(config, 42).ok()?);
    core.prepare().ok()?;
    Some(core)
}

struct Recipe {
    core: Box<Core>,
    consumer: FaceId,
    producer: FaceId,
    batch: Batch<Skb>,
    /// The Data of a batch. They are sent after its Interests.
    answers: Vec<Skb>,
    now_ns: u64,
    nonce: u32,
    /// Packets that did not reach the expected face, or that could not be allocated.
    bad: u64,
}

/// Processes one batch of Interests, each with its Data if it has an answer.
type Turn = fn(&mut Recipe, &mut Vec<(Skb, Option<Skb>)>);

impl Recipe {
    fn new() -> Option<Self> {
        let core = make()?;
        let consumer = core.face_register(FaceProperties::application()).ok()?;
        let producer = core.face_register(FaceProperties::remote()).ok()?;
        let prefix = Name::new().join_generic("namely").join_generic("kernel");
        core.fib().add_nexthop(prefix.as_name(), producer, 0).ok()?;
        let batch = Batch::with_room(BATCH).ok()?;
        let answers = Vec::with_capacity(BATCH);
        Some(Recipe { core, consumer, producer, batch, answers, now_ns: 1 << 30, nonce: 1, bad: 0 })
    }

    /// Returns the time of `turn` for each of `count` names from number `first`, ns. The packets
    /// are created outside of the measured time. They are processed in a section where callers
    /// cannot wait, unless `may_wait`.
    #[inline(never)]
    fn measure(&mut self, first: u64, count: u64, is_answered: bool, may_wait: bool, turn: Turn) -> u64 {
        let (mut spent_ns, mut packets) = (0, Vec::with_capacity(BATCH));
        let mut next = first;
        while next < first + count {
            while packets.len() < BATCH && next < first + count {
                self.nonce = self.nonce.wrapping_add(0x9e37_79b9);
                match packets_of(next, self.nonce, is_answered) {
                    Some(made) => packets.push(made),
                    None => self.bad += 1,
                }
                next += 1;
            }
            spent_ns += self.timed(&mut packets, may_wait, turn);
            self.now_ns += BATCH_NS;
        }
        spent_ns / count.max(1)
    }

    #[inline(never)]
    fn timed(&mut self, packets: &mut Vec<(Skb, Option<Skb>)>, may_wait: bool, turn: Turn) -> u64 {
        if !may_wait {
            // SAFETY: the call has no arguments, and `rc_end` follows.
            unsafe { rc_begin() }
        }
        // SAFETY: the call has no arguments.
        let start_ns = unsafe { rc_now() };
        turn(self, packets);
        // SAFETY: the call has no arguments.
        let spent_ns = unsafe { rc_now() } - start_ns;
        self.core.expire_within(self.now_ns, 4 * BATCH, &mut Sink::default());
        if !may_wait {
            // SAFETY: the call has no arguments, and `rc_begin` precedes it.
            unsafe { rc_end() }
        }
        spent_ns
    }
}

/// Processes the Interests one by one, each followed by its Data.
fn exchanges(recipe: &mut Recipe, packets: &mut Vec<(Skb, Option<Skb>)>) {
    for (interest, data) in packets.drain(..) {
        let mut out = Sink::default();
        recipe.core.receive(recipe.consumer, Received::bare(interest), recipe.now_ns, &mut out);
        recipe.bad += u64::from(out.last != Some(recipe.producer));
        let Some(data) = data else { continue };
        recipe.core.receive(recipe.producer, Received::bare(data), recipe.now_ns, &mut out);
        recipe.bad += u64::from(out.last != Some(recipe.consumer));
    }
}

/// Processes all Interests as a batch, then all Data as a batch.
fn batches(recipe: &mut Recipe, packets: &mut Vec<(Skb, Option<Skb>)>) {
    let (mut out, expected) = (Sink::default(), 2 * packets.len() as u64);
    for (interest, data) in packets.drain(..) {
        let _ = recipe.batch.push(recipe.consumer, Received::bare(interest));
        recipe.answers.extend(data);
    }
    recipe.core.receive_batch(&mut recipe.batch, recipe.now_ns, &mut out);
    for data in recipe.answers.drain(..) {
        let _ = recipe.batch.push(recipe.producer, Received::bare(data));
    }
    recipe.core.receive_batch(&mut recipe.batch, recipe.now_ns, &mut out);
    recipe.bad += expected.abs_diff(out.sent);
}

/// Processes Interests that the content store should answer.
fn hits(recipe: &mut Recipe, packets: &mut Vec<(Skb, Option<Skb>)>) {
    for (interest, _) in packets.drain(..) {
        let mut out = Sink::default();
        recipe.core.receive(recipe.consumer, Received::bare(interest), recipe.now_ns, &mut out);
        recipe.bad += u64::from(out.last != Some(recipe.consumer));
    }
}

/// The results: `struct result` of recipe.h.
#[repr(C)]
pub struct Measured {
    exchange_ns: u64,
    batched_ns: u64,
    hit_ns: u64,
    bad: u64,
    /// Data that a new forwarder received in a section where callers cannot wait, and did not
    /// cache.
    cold_misses: u64,
}

/// Returns 0, or -12 (ENOMEM) if a forwarder could not be allocated.
///
/// # Safety
///
/// `measured` is valid for writes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rc_smoke(exchanges_count: u64, measured: *mut Measured) -> i32 {
    let Some(recipe) = Recipe::new() else { return -12 };
    mark("made");
    let Some(mut result) = warm(recipe, exchanges_count) else { return -12 };
    mark("gone");
    let Some(recipe) = Recipe::new() else { return -12 };
    mark("made anew");
    result.cold_misses = cold(recipe);
    mark("gone again");
    // SAFETY: the caller guarantees that `measured` is valid for writes.
    unsafe { measured.write(result) };
    0
}

/// Measures with full tables.
#[inline(never)]
fn warm(mut recipe: Recipe, count: u64) -> Option<Measured> {
    recipe.measure(1 << 40, ENTRIES as u64, true, true, exchanges);
    mark("filled");
    let exchange_ns = recipe.measure(0, count, true, false, exchanges);
    mark("exchanges");
    let batched_ns = recipe.measure(1 << 41, count, true, false, batches);
    mark("batches");
    let kept = count.min(ENTRIES as u64 / 2);
    let hit_ns = recipe.measure((1 << 41) + count - kept, kept, false, false, hits);
    mark("hits");
    Some(Measured { exchange_ns, batched_ns, hit_ns, bad: recipe.bad, cold_misses: 0 })
}

/// Returns the number of Data that a new forwarder does not cache, of as many as its content store
/// has room for.
#[inline(never)]
fn cold(mut recipe: Recipe) -> u64 {
    recipe.measure(0, ENTRIES as u64, true, false, batches);
    mark("first packets");
    recipe.bad = 0;
    recipe.measure(0, ENTRIES as u64, false, false, hits);
    mark("hits of these");
    recipe.bad
}

/// Panics by an index out of bounds.
#[unsafe(no_mangle)]
pub extern "C" fn rc_planted() {
    let octets = core::hint::black_box([0u8; 4]);
    core::hint::black_box(octets[core::hint::black_box(9)]);
}
