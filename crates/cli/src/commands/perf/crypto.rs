//! `namely perf crypto`: the cost of signing, verifying and hashing a packet, in a loop and alone
//! (HT-29, HT-31).

use std::hint::black_box;
use std::sync::Arc;
use std::thread::sleep;
use std::time::{Duration, Instant};

use clap::Args;
use namely_security::{CryptoError, KeyType, PrivateKey, Signer, blake3, sha256, sign_data};
use namely_wire::{DataBuilder, DataView, Name};
use serde_json::json;

use super::sample::Sample;
use super::signing::payload;
use crate::context::Context;
use crate::failure::Failure;
use crate::output::Cell;

/// Octets of the two packets of the paper: an Ethernet frame and a jumbo frame.
const PACKET_OCTETS: [usize; 2] = [1500, 9000];

/// Octets of content in a signed packet, which fits an Ethernet frame with name and signature.
const CONTENT_OCTETS: usize = 1200;

/// Pause before a single operation, in which caches are filled with other data.
const PAUSE: Duration = Duration::from_millis(20);

/// Octets that are written in the pause, more than a second-level cache has.
const OTHER_OCTETS: usize = 8 << 20;

/// Measure the cost of signatures and hashes on this processor.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  namely perf crypto --runs 30")]
pub struct Crypto {
    /// Runs of each operation.
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=1000))]
    runs: u32,
}

impl Crypto {
    /// Measures and prints a table.
    pub fn run(&self, ctx: &Context<'_>) -> Result<(), Failure> {
        let operations = operations().map_err(|e| Failure::failed(e.to_string()))?;
        let mut rows = Vec::new();
        for operation in operations {
            let vector = Sample::of(&self.vector_us(&operation));
            let single = Sample::of(&self.single_us(&operation));
            let (Some(vector), Some(single)) = (vector, single) else { continue };
            if ctx.out.is_json() {
                let value = json!({
                    "kind": "crypto", "operation": operation.what, "octets": operation.octets,
                    "vector_us": vector.json(), "single_us": single.json(), "runs": self.runs,
                });
                ctx.out.answer(String::new, || value);
            }
            rows.push(vec![
                Cell::from(operation.what),
                Cell::from(operation.octets as u64),
                Cell::from(vector.text(2)),
                Cell::from(single.text(2)),
                Cell::from(format!("{:.2}", vector.mean * 1000.0 / operation.octets as f64)),
            ]);
        }
        if !ctx.out.is_json() {
            let columns =
                ["operation", "octets", "in a loop us [99 %]", "alone us [99 %]", "in a loop ns/octet"];
            ctx.out.table(&columns, &rows);
        }
        Ok(())
    }

    /// Microseconds of one operation among many: each value is the mean of a run of about 20 ms.
    fn vector_us(&self, operation: &Operation) -> Vec<f64> {
        let started = Instant::now();
        (operation.work)();
        let once = started.elapsed().max(Duration::from_nanos(100));
        let times = (PAUSE.as_nanos() / once.as_nanos()).clamp(4, 20_000) as u32;
        let run = |_| {
            let started = Instant::now();
            (0..times).for_each(|_| (operation.work)());
            started.elapsed().as_secs_f64() * 1e6 / f64::from(times)
        };
        (0..self.runs).map(run).collect()
    }

    /// Microseconds of one operation after a pause in which the processor did something else.
    fn single_us(&self, operation: &Operation) -> Vec<f64> {
        let mut other = vec![0_u8; OTHER_OCTETS];
        let run = |n: u32| {
            sleep(PAUSE);
            other.iter_mut().step_by(64).for_each(|octet| *octet = n as u8);
            black_box(&mut other);
            let started = Instant::now();
            (operation.work)();
            started.elapsed().as_secs_f64() * 1e6
        };
        (0..self.runs).map(run).collect()
    }
}

struct Operation {
    what: &'static str,
    octets: usize,
    work: Box<dyn Fn()>,
}

fn operations() -> Result<Vec<Operation>, CryptoError> {
    let mut operations = Vec::new();
    for (key_type, sign, verify) in [
        (KeyType::Rsa, "sign RSA-2048", "verify RSA-2048"),
        (KeyType::EcdsaP256, "sign ECDSA P-256", "verify ECDSA P-256"),
        (KeyType::Ed25519, "sign Ed25519", "verify Ed25519"),
    ] {
        let key = Arc::new(PrivateKey::generate(key_type)?);
        let name: Name = "/perf/KEY/1".parse().unwrap_or_default();
        let signer = Signer::new(name.clone(), key.clone());
        let content = payload(CONTENT_OCTETS);
        let wire = sign_data(&DataBuilder::new(name.as_name()), &content, &signer)?;
        let octets = wire.len();
        operations.push(Operation {
            what: sign,
            octets,
            work: Box::new(move || {
                let _ = black_box(sign_data(&DataBuilder::new(name.as_name()), &content, &signer));
            }),
        });
        let public = key.public().clone();
        operations.push(Operation {
            what: verify,
            octets,
            work: Box::new(move || {
                if let Ok(data) = DataView::parse(&wire) {
                    black_box(public.verify(&[data.signed_portion], data.signature_value));
                }
            }),
        });
    }
    for octets in PACKET_OCTETS {
        let packet = payload(octets);
        let again = packet.clone();
        let sha: Box<dyn Fn()> = Box::new(move || {
            black_box(sha256(&packet));
        });
        let blake: Box<dyn Fn()> = Box::new(move || {
            black_box(blake3(&again));
        });
        operations.push(Operation { what: "SHA-256", octets, work: sha });
        operations.push(Operation { what: "BLAKE3", octets, work: blake });
    }
    Ok(operations)
}
