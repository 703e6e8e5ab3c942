//! How many sockets this process may have.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Descriptors that a process needs beside its faces.
const DESCRIPTORS_OTHER: u64 = 512;

/// Raises this process's limit on descriptors so that `faces` fit, as far as the system
/// allows; it is never lowered. Returns how many faces fit.
pub fn make_room_for(faces: usize) -> usize {
    let limit = getrlimit(Resource::Nofile);
    let wanted = wanted(&limit, faces as u64 + DESCRIPTORS_OTHER);
    let current = match wanted {
        // Only the soft limit changes, and not beyond the hard one; if it stays, fewer faces
        // fit.
        Some(wanted) if setrlimit(Resource::Nofile, Rlimit { current: wanted, ..limit }).is_ok() => wanted,
        _ => limit.current,
    };
    let fit = current.map_or(u64::MAX, |current| current.saturating_sub(DESCRIPTORS_OTHER));
    usize::try_from(fit).unwrap_or(usize::MAX).min(faces)
}

/// The soft limit to set, if it should change. None stands for infinity, as in [`Rlimit`].
fn wanted(limit: &Rlimit, needed: u64) -> Option<Option<u64>> {
    let current = limit.current?;
    let wanted = limit.maximum.map_or(needed, |maximum| needed.min(maximum));
    (wanted > current).then_some(Some(wanted))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_soft_limit_rises_to_what_is_needed_within_the_hard_one() {
        let limit = |current, maximum| Rlimit { current, maximum };
        assert_eq!(wanted(&limit(Some(1024), Some(524_288)), 8448), Some(Some(8448)));
        assert_eq!(wanted(&limit(Some(1024), Some(4096)), 8448), Some(Some(4096)));
        assert_eq!(wanted(&limit(Some(1024), None), 8448), Some(Some(8448)));
        assert_eq!(wanted(&limit(Some(20_000), Some(20_000)), 8448), None, "never lowered");
        assert_eq!(wanted(&limit(None, None), 8448), None);
    }
}
