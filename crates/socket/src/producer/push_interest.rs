//! The Interest of a push: `<server>/32=push/<parameters digest>`.

use namely_wire::types::KEYWORD_COMPONENT;
use namely_wire::{Component, InterestView, NameRef};

/// The component after a server's prefix.
pub(super) const PUSH: Component<'static> = Component { typ: KEYWORD_COMPONENT, value: b"push" };

/// Returns true if `interest` is a push to a producer bound to `prefix`.
pub(super) fn is_push(interest: &InterestView<'_>, prefix: NameRef<'_>) -> bool {
    interest.application_parameters.is_some()
        && interest.name.component(prefix.len()) == Some(PUSH)
        && interest.name.len() == prefix.len() + 2
}
