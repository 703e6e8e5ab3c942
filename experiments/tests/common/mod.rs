//! Shared parts of tests that run `namely-experiments` with the programs of the workspace.

use std::path::Path;

use namely_testkit::{Need, skip};

/// `namely-experiments`; none, with a skip, if the programs that it runs are not built beside it.
pub(crate) fn experiments_beside_programs() -> Option<&'static Path> {
    let own = Path::new(env!("CARGO_BIN_EXE_namely-experiments"));
    let built = |name| own.parent().is_some_and(|dir| dir.join(name).is_file());
    if !(built("namely") && built("namelyd")) {
        skip(
            Need::Programs,
            "namely and namelyd are not built beside this test (cargo test --workspace builds them)",
        );
        return None;
    }
    Some(own)
}
