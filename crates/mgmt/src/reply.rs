//! The Data of all answers, signed with DigestSha256. NFD's signature proves no more, because NFD's
//! key is public.

use namely_security::sha256;
use namely_wire::{Component, ContentType, DataBuilder, NameRef, SignatureInfo};

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

/// An answer that no such Data exists, so that the consumer does not wait.
pub(crate) fn no_such_data(name: NameRef<'_>) -> Vec<u8> {
    sign(DataBuilder::new(name).content_type(ContentType::Nack).freshness_ms(FRESHNESS_MS), &[])
}

fn sign(builder: DataBuilder<'_>, content: &[u8]) -> Vec<u8> {
    let unsigned = builder.build(content, &SignatureInfo::digest_sha256());
    let digest = sha256(unsigned.signed_portion());
    unsigned.finish(&digest)
}
