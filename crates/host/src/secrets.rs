//! Memory that holds keys stays in the process.

use rustix::process::{DumpableBehavior, Resource, Rlimit, getrlimit, set_dumpable_behavior, setrlimit};

/// The variable of the environment that leaves core dumps on, for debugging.
const VARIABLE: &str = "NAMELY_CORE_DUMPS";

/// From now on no crash writes this process's memory to a file, and no process of the same user can
/// read it. Returns false if [`core_dumps_enabled`] returns true, or the system refuses. It must be
/// called again after a change of user.
pub fn keep_from_dumps() -> bool {
    if core_dumps_enabled() {
        return false;
    }
    let limit = Rlimit { current: Some(0), ..getrlimit(Resource::Core) };
    setrlimit(Resource::Core, limit).is_ok() && set_dumpable_behavior(DumpableBehavior::NotDumpable).is_ok()
}

/// Returns true if the environment has `NAMELY_CORE_DUMPS=1`.
pub fn core_dumps_enabled() -> bool {
    std::env::var_os(VARIABLE).is_some_and(|value| value == "1")
}

#[cfg(test)]
mod tests {
    use namely_testkit::{Need, skip};
    use rustix::process::dumpable_behavior;

    use super::*;

    #[test]
    fn a_process_with_secrets_leaves_no_core() {
        if core_dumps_enabled() {
            skip(Need::Kernel, format_args!("{VARIABLE} is set"));
            return;
        }
        assert!(keep_from_dumps());
        assert_eq!(getrlimit(Resource::Core).current, Some(0));
        assert_eq!(dumpable_behavior().unwrap(), DumpableBehavior::NotDumpable);
    }
}
