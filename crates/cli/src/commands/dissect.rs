//! `namely dissect`: packets as text, from hex, from a file of concatenated packets, or from a
//! capture (pcap and pcapng; Ethernet 0x8624, UDP and TCP).

use std::io::Read;
use std::path::{Path, PathBuf};

use clap::Args;
use namely_dissect::Node;
use serde_json::{Value, json};

use crate::context::Context;
use crate::failure::{Exit, Failure, io_failure};
use crate::output::Text;

mod capture;

/// Maximum octets of the input. Longer captures must be cut first.
pub const INPUT_OCTETS_MAX: u64 = 1 << 30;

/// Show packets as text.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  namely dissect --hex '05 0c 07 03 08 01 61 0a 04 01 02 03 04'\n  namely dissect trace.pcap\n  namely peek /a/b --wire | namely dissect -"
)]
pub struct Dissect {
    /// A file with packets one after another, or a pcap or pcapng capture; `-` is standard input.
    #[arg(required_unless_present = "hex", conflicts_with = "hex")]
    file: Option<PathBuf>,
    /// The packets as hexadecimal digits; spaces and colons are skipped.
    #[arg(long, value_name = "DIGITS")]
    hex: Option<String>,
}

impl Dissect {
    /// Prints all packets of the input. Fails if there is none.
    pub fn run(&self, ctx: &Context<'_>) -> Result<(), Failure> {
        let octets = match (&self.hex, &self.file) {
            (Some(digits), _) => parse_hex(digits)?,
            (None, Some(path)) => read_input(path)?,
            (None, None) => Vec::new(),
        };
        let mut count = 0;
        let mut show = |packet: &capture::Packet<'_>| {
            count += 1;
            ctx.out.answer(
                || Text::laid_out(&format!("{}{}", packet.heading(), namely_dissect::to_text(packet.octets))),
                || packet_json(packet),
            );
        };
        if capture::is_capture(&octets) {
            capture::each_packet(&octets, &mut show).map_err(Failure::failed)?;
        } else {
            capture::each_in_stream(&octets, &mut show);
        }
        if count == 0 {
            return Err(Failure::new(Exit::NotFound, "no packet in the input")
                .hint("give hexadecimal digits with --hex, a file of packets, or a pcap capture"));
        }
        Ok(())
    }
}

fn packet_json(packet: &capture::Packet<'_>) -> Value {
    let nodes: Vec<Value> = namely_dissect::dissect(packet.octets).iter().map(node_json).collect();
    let mut value = json!({"packet": nodes});
    if let (Some(object), Some(origin)) = (value.as_object_mut(), &packet.origin) {
        object.insert("time_us".into(), json!(origin.time_us));
        object.insert("from".into(), json!(origin.from));
        object.insert("to".into(), json!(origin.to));
    }
    value
}

fn node_json(node: &Node) -> Value {
    json!({
        "type": node.typ,
        "offset": node.offset,
        "name": node.name,
        "length": node.length,
        "text": node.text,
        "children": node.children.iter().map(node_json).collect::<Vec<_>>(),
    })
}

fn parse_hex(digits: &str) -> Result<Vec<u8>, Failure> {
    let clean: Vec<u8> = digits.bytes().filter(|b| !b.is_ascii_whitespace() && *b != b':').collect();
    let digit = |b: u8| char::from(b).to_digit(16).map(|d| d as u8);
    let octets = clean.chunks(2).map(|pair| Some(digit(*pair.first()?)? << 4 | digit(*pair.get(1)?)?));
    octets
        .collect::<Option<Vec<u8>>>()
        .ok_or_else(|| Failure::failed("--hex takes an even number of hexadecimal digits"))
}

fn read_input(path: &Path) -> Result<Vec<u8>, Failure> {
    let mut octets = Vec::new();
    let read = |mut from: Box<dyn Read>, octets: &mut Vec<u8>| {
        from.by_ref().take(INPUT_OCTETS_MAX).read_to_end(octets)
    };
    let source: Box<dyn Read> = if path == Path::new("-") {
        Box::new(std::io::stdin())
    } else {
        Box::new(std::fs::File::open(path).map_err(|e| io_failure("open", path, e))?)
    };
    read(source, &mut octets).map_err(|e| io_failure("read", path, e))?;
    Ok(octets)
}
