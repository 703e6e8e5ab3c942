//! Proof that a peer receives packets at the address that it sends from. The source address of a
//! datagram proves nothing: a host that forges it directs the answers to another host.
//!
//! The proof is an answer that only a receiver can send, because it repeats random octets:
//!
//! - an Ack of a random TxSequence (NDNLPv2, link layer reliability). namely acknowledges the IDLE
//!   link packet even if the service is off; NFD with the service on acknowledges the packet with a
//!   Fragment;
//! - a Nack of an Interest with a name that ends in random octets, or Data of that name. NFD
//!   answers an Interest without a route by a Nack. The name is below `/localhop` and HopLimit is
//!   1, so that the Interest is not forwarded and matches no default route.
//!
//! If the face requires the proof, the link sends both questions with a packet for the peer. It
//! repeats them with later packets after a pause that doubles. A host that forges the address
//! receives neither question: it would have to guess 63 bits of the first and 128 of the second.

use alloc::vec::Vec;

use namely_wire::{DataView, InterestBuilder, InterestView, LpFraming, LpView, Name, types};

use crate::frame::Frame;

/// Number of random octets of a [`Proof`]: those of the name, of TxSequence and of the Nonce.
pub const PROOF_RANDOM_OCTETS: usize = NAME_OCTETS + 8 + 4;

const NAME_OCTETS: usize = 16;

/// Maximum octets of the two link packets of one question.
pub const PROOF_QUESTION_OCTETS_MAX: usize = 128;

/// Pause between the first question and the second, ns. It doubles each time.
const PAUSE_NS_MIN: u64 = 250_000_000;

/// Pause between two questions to an unproven UDP address.
///
/// # Limit
/// The pause no longer doubles.
/// - Value: 16 s; 250 ms after the first question
/// - Tests: `pauses_between_questions_double`
const PAUSE_NS_MAX: u64 = 16_000_000_000;

/// InterestLifetime of the question, ms.
const LIFETIME_MS: u64 = 1000;

/// The evidence in a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Evidence {
    /// None: the peer may not receive packets sent to it.
    Nothing,
    /// The peer receives. The frame may carry other content as well.
    ByAck,
    /// The peer receives. The frame carries only the answer.
    ByAnswer,
}

/// The questions to one peer, and their expected answers.
#[derive(Debug)]
pub struct Proof {
    name: Name,
    tx_sequence: u64,
    nonce: u32,
    /// The earliest time of the next question, ns.
    next_ns: u64,
    pause_ns: u64,
}

impl Proof {
    /// Creates questions from `random` octets, which must be secret.
    pub fn new(random: [u8; PROOF_RANDOM_OCTETS]) -> Self {
        let (name, numbers) = random.split_at(NAME_OCTETS);
        let (tx_sequence, nonce) = numbers.split_at(8);
        let fold = |octets: &[u8]| octets.iter().fold(0, |sum, octet| sum << 8 | u64::from(*octet));
        Proof {
            name: Name::new()
                .join_generic("localhop")
                .join_generic("namely")
                .join_generic("proof")
                .join_generic(name),
            // The reliability service uses the lower numbers for its frames (see `Path`).
            tx_sequence: fold(tx_sequence) | 1 << 63,
            nonce: fold(nonce) as u32,
            next_ns: 0,
            pause_ns: PAUSE_NS_MIN,
        }
    }

    /// Returns true if a question may be sent at this time.
    #[inline]
    pub fn is_due(&self, now_ns: u64) -> bool {
        now_ns >= self.next_ns
    }

    /// Sends the question. `emit` receives its frames, at most [`PROOF_QUESTION_OCTETS_MAX`].
    pub fn send_question<P>(&mut self, now_ns: u64, emit: &mut impl FnMut(Frame<P>)) {
        self.next_ns = now_ns.saturating_add(self.pause_ns);
        self.pause_ns = self.pause_ns.saturating_mul(2).min(PAUSE_NS_MAX);
        // Each Interest has a new Nonce, because a repeated one looks like a loop.
        self.nonce = self.nonce.wrapping_add(1);
        let interest = InterestBuilder::new(self.name.clone())
            .nonce(self.nonce.to_be_bytes())
            .lifetime_ms(LIFETIME_MS)
            .hop_limit(1)
            .build();
        let framing = LpFraming { tx_sequence: Some(self.tx_sequence), ..LpFraming::default() };
        let mut scratch = Vec::new();
        for fragment in [None, Some(&interest[..])] {
            // Without memory the question is skipped until the next pause ends.
            if let Some(frame) = Frame::complete(&framing, fragment, &mut scratch) {
                emit(frame);
            }
        }
    }

    /// Returns the evidence in a received frame.
    pub fn evidence_in(&self, view: &LpView<'_>) -> Evidence {
        if view.acks().any(|ack| ack == self.tx_sequence) {
            return Evidence::ByAck;
        }
        let Some(fragment) = view.fragment.filter(|_| view.frag_count == 1) else { return Evidence::Nothing };
        // Network Nack: the Fragment is the Interest as it was sent.
        let is_answer = match fragment.first().map(|octet| u32::from(*octet)) {
            Some(types::INTEREST) if view.headers.nack.is_some() => {
                InterestView::parse(fragment).is_ok_and(|interest| interest.name == self.name.as_name())
            }
            Some(types::DATA) => {
                DataView::parse(fragment).is_ok_and(|data| self.name.is_prefix_of(data.name))
            }
            _ => false,
        };
        if is_answer { Evidence::ByAnswer } else { Evidence::Nothing }
    }
}

/// Returns true if a frame may answer a question. This check is fast, because it sees every frame
/// and most cannot.
#[inline]
pub fn may_answer(view: &LpView<'_>) -> bool {
    view.headers.nack.is_some()
        || view
            .fragment
            .is_none_or(|fragment| fragment.first().is_some_and(|octet| u32::from(*octet) == types::DATA))
        || view.acks().next().is_some()
}

#[cfg(test)]
mod tests {
    use super::*;
    use namely_wire::{LpHeaders, NackReason, encode_lp_packet};
    use proptest::prelude::*;

    const RANDOM: [u8; PROOF_RANDOM_OCTETS] = [0xa7; PROOF_RANDOM_OCTETS];

    fn question(proof: &mut Proof, now_ns: u64) -> Vec<Vec<u8>> {
        let mut frames = Vec::new();
        proof.send_question(now_ns, &mut |frame: Frame<Vec<u8>>| frames.push(frame.slices().concat()));
        frames
    }

    fn shown(proof: &Proof, frame: &[u8]) -> Evidence {
        let view = LpView::parse(frame).unwrap();
        let shown = proof.evidence_in(&view);
        assert!(may_answer(&view) || shown == Evidence::Nothing);
        shown
    }

    fn nack(interest: &[u8]) -> Vec<u8> {
        let headers = LpHeaders { nack: Some(NackReason::NoRoute), ..LpHeaders::default() };
        encode_lp_packet(&headers, interest)
    }

    fn ack(tx_sequence: u64) -> Vec<u8> {
        let framing = LpFraming { acks: &[tx_sequence], ..LpFraming::default() };
        let frame: Frame<Vec<u8>> = Frame::complete(&framing, None, &mut Vec::new()).unwrap();
        frame.slices().concat()
    }

    #[test]
    fn an_answer_proves_the_address() {
        let mut proof = Proof::new(RANDOM);
        let frames = question(&mut proof, 0);
        assert!(frames.concat().len() <= PROOF_QUESTION_OCTETS_MAX, "{}", frames.concat().len());
        let views: Vec<_> = frames.iter().map(|frame| LpView::parse(frame).unwrap()).collect();
        assert_eq!((views.len(), views[0].fragment), (2, None));
        let interest = views[1].fragment.unwrap();
        let parsed = InterestView::parse(interest).unwrap();
        assert_eq!((parsed.hop_limit, parsed.lifetime_ms), (Some(1), Some(LIFETIME_MS)));
        for view in &views {
            assert_eq!(shown(&proof, &ack(view.tx_sequence.unwrap())), Evidence::ByAck);
        }
        assert_eq!(shown(&proof, &nack(interest)), Evidence::ByAnswer);
        let longer = parsed.name.to_name().join_generic("more");
        assert_eq!(shown(&proof, &data(&longer)), Evidence::ByAnswer);
    }

    fn data(name: &Name) -> Vec<u8> {
        let builder = namely_wire::DataBuilder::new(name.as_name());
        builder.build(b"", &namely_wire::SignatureInfo::null()).finish(&[])
    }

    #[test]
    fn answers_without_the_random_octets_prove_nothing() {
        let mut proof = Proof::new(RANDOM);
        let frames = question(&mut proof, 0);
        let mut other = Proof::new([0xa8; PROOF_RANDOM_OCTETS]);
        let others = question(&mut other, 0);
        let interest = LpView::parse(&frames[1]).unwrap().fragment.unwrap();
        let foreign = LpView::parse(&others[1]).unwrap().fragment.unwrap();
        let prefix: Name = "/localhop/namely/proof".parse().unwrap();
        for frame in [
            // The question itself, sent back.
            frames[0].clone(),
            frames[1].clone(),
            interest.to_vec(),
            nack(foreign),
            nack(&InterestBuilder::new(prefix.clone()).build()),
            data(&prefix),
            ack(proof.tx_sequence.wrapping_add(1)),
            ack(0),
        ] {
            assert_eq!(shown(&proof, &frame), Evidence::Nothing, "{frame:x?}");
        }
    }

    #[test]
    fn pauses_between_questions_double() {
        let mut proof = Proof::new(RANDOM);
        let mut now_ns = 0;
        for pause_ms in [250, 500, 1000, 2000, 4000, 8000, 16_000, 16_000] {
            assert!(proof.is_due(now_ns));
            question(&mut proof, now_ns);
            now_ns += pause_ms * 1_000_000;
            assert!(!proof.is_due(now_ns - 1), "{pause_ms}");
        }
    }

    proptest! {
        #[test]
        fn a_stranger_cannot_prove_an_address(
            secret in any::<[u8; PROOF_RANDOM_OCTETS]>(),
            guess in any::<[u8; PROOF_RANDOM_OCTETS]>(),
            octets in prop::collection::vec(any::<u8>(), 0..200),
            kind in 0..4usize,
        ) {
            let proof = Proof::new(secret);
            // The guess must differ in the name and in TxSequence.
            prop_assume!(secret[..16] != guess[..16] && secret[16..24] != guess[16..24]);
            let mut guessed = Proof::new(guess);
            let frames = question(&mut guessed, 0);
            let interest = LpView::parse(&frames[1]).unwrap().fragment.unwrap();
            let frame = match kind {
                0 => octets,
                1 => nack(interest),
                2 => ack(guessed.tx_sequence ^ 1),
                _ => frames[1].clone(),
            };
            if let Ok(view) = LpView::parse(&frame) {
                prop_assert_eq!(proof.evidence_in(&view), Evidence::Nothing);
            }
        }
    }
}
