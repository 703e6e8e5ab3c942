//! Matches Data with Interests (packet spec, `interest.rst`). Names and digests are compared, never
//! PIT tokens, because a router may deliver any packet.

use namely_security::sha256;
use namely_wire::{DataView, InterestView};

/// Returns true if `data` may answer `interest`. MustBeFresh is checked by caches only, because a
/// Data does not contain its age.
pub fn answers(interest: &InterestView<'_>, data: &DataView<'_>) -> bool {
    let Some(digest) = interest.implicit_digest() else {
        return match interest.can_be_prefix {
            true => interest.name.is_prefix_of(data.name),
            false => interest.name == data.name,
        };
    };
    // The implicit digest is a component of the full name only (packet spec, name.rst).
    let bare = interest.name.without_last(1);
    let named = if interest.can_be_prefix { bare.is_prefix_of(data.name) } else { bare == data.name };
    // The names are compared first, because a digest costs far more.
    named && sha256(data.wire) == digest
}

#[cfg(test)]
mod tests {
    use super::*;
    use namely_security::{Signer, sign_data};
    use namely_wire::types::IMPLICIT_DIGEST_COMPONENT;
    use namely_wire::{Component, DataBuilder, InterestBuilder, Name};

    fn answered(interest: &InterestBuilder, data: &[u8]) -> bool {
        answers(&InterestView::parse(&interest.build()).unwrap(), &DataView::parse(data).unwrap())
    }

    #[test]
    fn only_a_matching_name_or_digest_answers() {
        let name: Name = "/a/b".parse().unwrap();
        let data = sign_data(&DataBuilder::new(name.as_name()), b"x", &Signer::digest_sha256()).unwrap();
        let interest = |uri: &str| InterestBuilder::new(uri.parse().unwrap());
        assert!(answered(&interest("/a/b"), &data));
        assert!(!answered(&interest("/a"), &data));
        assert!(answered(&interest("/a").can_be_prefix(), &data));
        assert!(!answered(&interest("/a/b/c").can_be_prefix(), &data));
        assert!(!answered(&interest("/a/x"), &data));

        let digest = sha256(&data);
        let full = name.join(Component { typ: IMPLICIT_DIGEST_COMPONENT, value: &digest });
        assert!(answered(&InterestBuilder::new(full), &data));
        let wrong = name.join(Component { typ: IMPLICIT_DIGEST_COMPONENT, value: &[7; 32] });
        assert!(!answered(&InterestBuilder::new(wrong), &data));
    }
}
