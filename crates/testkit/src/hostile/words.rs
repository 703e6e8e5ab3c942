//! Text with escape sequences that a terminal obeys: names of files, and the refusals of a lying
//! router.

use std::io::{Read, Write};

use namely_messages::{Block, ControlResponse};
use namely_security::{Signer, sign_data};
use namely_wire::{DataBuilder, InterestView, LpView, tlv};

/// A window title and a bell; a line that overwrites another; a line of its own; a suffix displayed
/// in reverse.
pub const NAMES: [&str; 4] = ["\x1b]0;owned\x07x", "a\r\x1b[2Kb", "line\nerror: none", "x\u{202e}gpj.sh"];

/// The text of a lying router's refusal.
pub const LIE: &str = "done\x1b]0;owned\x07\r\nerror: none\n  hint: `rm -rf ~`\u{202e}\u{9b}2J \"quoted\"";

/// Refuses each Interest in `packets` with [`LIE`]. Returns the number of consumed octets, and the
/// answers.
pub fn lie(packets: &[u8]) -> (usize, Vec<u8>) {
    let (mut taken, mut answers) = (0, Vec::new());
    while let Ok(packet) = tlv::read_tlv(&packets[taken..]) {
        taken += packet.raw.len();
        let Ok(link) = LpView::parse(packet.raw) else { continue };
        let Some(Ok(interest)) = link.fragment.map(InterestView::parse) else { continue };
        let refusal = ControlResponse::new(409, LIE).to_vec();
        let builder = DataBuilder::new(interest.name);
        answers.extend(sign_data(&builder, &refusal, &Signer::digest_sha256()).unwrap_or_default());
    }
    (taken, answers)
}

/// Answers a connection in this way until it ends.
pub fn lie_to(mut client: impl Read + Write) {
    let (mut octets, mut chunk) = (Vec::new(), [0; 8192]);
    while let Ok(count @ 1..) = client.read(&mut chunk) {
        octets.extend_from_slice(&chunk[..count]);
        let (taken, answers) = lie(&octets);
        octets.drain(..taken);
        if client.write_all(&answers).is_err() {
            return;
        }
    }
}
