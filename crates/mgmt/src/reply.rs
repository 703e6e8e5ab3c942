//! The Data that carries every answer: signed with SHA-256, as NFD's are in effect (its key is
//! anyone's).

use namely_security::sha256;
use namely_wire::{Component, ContentType, DataBuilder, NameRef, SignatureInfo};

/// FreshnessPeriod of answers, ms: what NFD's clients expect. The router does not cache answers
/// (they are sent with CachePolicy NoCache), so each request sees the present state all the same.
pub(crate) const FRESHNESS_MS: u64 = 1000;

/// A Data named `name` with `content`.
pub(crate) fn data(name: NameRef<'_>, final_block: Option<Component<'_>>, content: &[u8]) -> Vec<u8> {
    let mut builder = DataBuilder::new(name).freshness_ms(FRESHNESS_MS);
    if let Some(component) = final_block {
        builder = builder.final_block_id(component);
    }
    sign(builder, content)
}

/// A Data that says that there is no such data, so that nobody waits for it.
pub(crate) fn no_such_data(name: NameRef<'_>) -> Vec<u8> {
    sign(DataBuilder::new(name).content_type(ContentType::Nack).freshness_ms(FRESHNESS_MS), &[])
}

fn sign(builder: DataBuilder<'_>, content: &[u8]) -> Vec<u8> {
    let unsigned = builder.build(content, &SignatureInfo::digest_sha256());
    let digest = sha256(unsigned.signed_portion());
    unsigned.finish(&digest)
}
