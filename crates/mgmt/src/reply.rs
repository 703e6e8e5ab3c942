//! The Data of all answers, signed with DigestSha256. NFD's signature proves no more, because NFD's
//! key is public.

use namely_messages::{Block, ControlParameters, ControlResponse, status_code};
use namely_security::sha256;
use namely_wire::{Component, ContentType, DataBuilder, NameRef, PACKET_OCTETS_MAX, SignatureInfo};

/// FreshnessPeriod of answers, ms, as NFD's clients expect. Answers carry CachePolicy NoCache, so
/// the router does not cache them, and each request still receives the present state.
pub(crate) const FRESHNESS_MS: u64 = 1000;

/// A Data named `name` with `content`.
pub(crate) fn data(name: NameRef<'_>, final_block: Option<Component<'_>>, content: &[u8]) -> Vec<u8> {
    let mut builder = DataBuilder::new(name).freshness_ms(FRESHNESS_MS);
    if let Some(component) = final_block {
        builder = builder.final_block_id(component);
    }
    sign(builder, content)
}

/// Octets of the answer to a command in addition to its name and the echoed parameters: the
/// elements of Data, and the values that the router adds.
const ANSWER_OCTETS: usize = 256;

/// Replaces the text of a refusal that does not fit into an answer.
const TEXT_TOO_LONG: &str = "refused; the reason is too long for a packet with this name";

/// Refuses a command whose answer would exceed a packet, before it is executed. An answer repeats
/// the name of the command, which contains the parameters, and the parameters.
pub(crate) fn check_room(name: NameRef<'_>, parameters: &ControlParameters) -> Result<(), ControlResponse> {
    let octets = name.as_bytes().len() + parameters.to_vec().len() + ANSWER_OCTETS;
    if octets <= PACKET_OCTETS_MAX {
        return Ok(());
    }
    let text = "the answer, which repeats the parameters, would be longer than a packet: use a shorter name";
    Err(ControlResponse::new(status_code::NAME_TOO_LONG, text))
}

/// The answer to a command. If it exceeds a packet, it has neither the echoed parameters nor a text
/// with names.
pub(crate) fn response(name: NameRef<'_>, response: &ControlResponse) -> Vec<u8> {
    let whole = data(name, None, &response.to_vec());
    if whole.len() <= PACKET_OCTETS_MAX {
        return whole;
    }
    let text = if response.is_ok() { "OK" } else { TEXT_TOO_LONG };
    data(name, None, &ControlResponse::new(response.code, text).to_vec())
}

/// An answer that no such Data exists, so that the consumer does not wait.
pub(crate) fn no_such_data(name: NameRef<'_>) -> Vec<u8> {
    sign(DataBuilder::new(name).content_type(ContentType::Nack).freshness_ms(FRESHNESS_MS), &[])
}

fn sign(builder: DataBuilder<'_>, content: &[u8]) -> Vec<u8> {
    let unsigned = builder.build(content, &SignatureInfo::digest_sha256());
    let digest = sha256(unsigned.signed_portion());
    unsigned.finish(&digest)
}
