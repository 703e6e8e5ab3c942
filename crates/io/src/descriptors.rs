//! The limit on the open descriptors of this process.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Descriptors that a process needs beside its faces.
const DESCRIPTORS_OTHER: u64 = 512;

/// Raises this process's limit on descriptors so that `faces` fit, as far as the system allows. It
/// never lowers the limit. Returns the number of faces that fit, at most `faces`.
pub fn make_room_for(faces: usize) -> usize {
    let limit = getrlimit(Resource::Nofile);
    let wanted = wanted(&limit, faces as u64 + DESCRIPTORS_OTHER);
    let current = match wanted {
        // Only the soft limit changes, up to the hard one. If the call fails, fewer faces fit.
        Some(wanted) if setrlimit(Resource::Nofile, Rlimit { current: wanted, ..limit }).is_ok() => wanted,
        _ => limit.current,
    };
    // Saturates, because no face fits when the limit is below the reserve.
    let fit = current.map_or(u64::MAX, |current| current.saturating_sub(DESCRIPTORS_OTHER));
    usize::try_from(fit).unwrap_or(usize::MAX).min(faces)
}

/// Returns the soft limit to set, or `None` if it should not change. An inner `None` stands for
/// infinity, as in [`Rlimit`].
fn wanted(limit: &Rlimit, needed: u64) -> Option<Option<u64>> {
    // An infinite soft limit has room for every face.
    let current = limit.current?;
    let wanted = limit.maximum.map_or(needed, |maximum| needed.min(maximum));
    (wanted > current).then_some(Some(wanted))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_soft_limit_rises_as_needed() {
        let limit = |current, maximum| Rlimit { current, maximum };
        assert_eq!(wanted(&limit(Some(1024), Some(524_288)), 8448), Some(Some(8448)));
        assert_eq!(wanted(&limit(Some(1024), Some(4096)), 8448), Some(Some(4096)));
        assert_eq!(wanted(&limit(Some(1024), None), 8448), Some(Some(8448)));
        assert_eq!(wanted(&limit(Some(20_000), Some(20_000)), 8448), None, "never lowered");
        assert_eq!(wanted(&limit(None, None), 8448), None);
    }
}
