//! The plain producer and consumer.

use std::fs::File;
use std::io::{self, Read, Write};
use std::path::Path;
use std::time::{Duration, Instant};

use super::endpoint::{Endpoint, Listener, READY, Stream};
use crate::output;

/// Octets of one echoed message: about an Interest.
const ECHO_OCTETS: usize = 64;

/// Serves `file` from memory in writes of `unit` octets, or echoes if there is none. It serves one
/// client at a time. Only a signal ends it.
pub fn source(listen: &Endpoint, file: Option<&Path>, unit: usize) -> io::Result<()> {
    let content = file.map(std::fs::read).transpose()?;
    let listener = Listener::bind(listen)?;
    io::stdout().write_all(READY.as_bytes())?;
    loop {
        let mut stream = listener.accept()?;
        let served = match &content {
            Some(content) => send(&mut stream, content, unit),
            None => echo(&mut stream),
        };
        if let Err(e) = served {
            output::say(format_args!("a client left early: {e}"));
        }
    }
}

/// Writes the octets from `connect` to the file `output`.
pub fn sink(connect: &Endpoint, output: &Path, unit: usize) -> io::Result<()> {
    let mut stream = Stream::connect(connect)?;
    let mut file = File::create(output)?;
    let mut buffer = vec![0; unit.max(1)];
    loop {
        match stream.read(&mut buffer)? {
            0 => return Ok(()),
            n => file.write_all(&buffer[..n])?,
        }
    }
}

/// Sends `count` messages to the echo at `connect` and prints each round trip.
pub fn ping(connect: &Endpoint, count: u32, interval_ms: u64) -> io::Result<()> {
    let mut stream = Stream::connect(connect)?;
    let mut message = [0; ECHO_OCTETS];
    let mut out = io::stdout().lock();
    for number in 0..count {
        message[..4].copy_from_slice(&number.to_be_bytes());
        let sent = Instant::now();
        stream.write_all(&message)?;
        stream.read_exact(&mut message)?;
        writeln!(out, "seq={number} time={} us", sent.elapsed().as_nanos() as f64 / 1000.0)?;
        std::thread::sleep(Duration::from_millis(interval_ms));
    }
    Ok(())
}

fn send(stream: &mut Stream, content: &[u8], unit: usize) -> io::Result<()> {
    content.chunks(unit.max(1)).try_for_each(|chunk| stream.write_all(chunk))?;
    stream.finish()
}

fn echo(stream: &mut Stream) -> io::Result<()> {
    let mut message = [0; ECHO_OCTETS];
    loop {
        match stream.read(&mut message)? {
            0 => return Ok(()),
            n => stream.write_all(&message[..n])?,
        }
    }
}
