//! Memory that holds keys stays in the process.

use rustix::process::{DumpableBehavior, Resource, Rlimit, getrlimit, set_dumpable_behavior, setrlimit};

/// The variable of the environment that leaves core dumps on, for debugging.
const VARIABLE: &str = "NAMELY_CORE_DUMPS";

/// From now on no crash writes this process's memory to a file, and no process of the same user
/// reads it. Returns false if [`core_dumps_are_wanted`], or the system refuses. After a change of
/// user it is to be called again.
pub fn keep_from_dumps() -> bool {
    if core_dumps_are_wanted() {
        return false;
    }
    let limit = Rlimit { current: Some(0), ..getrlimit(Resource::Core) };
    setrlimit(Resource::Core, limit).is_ok() && set_dumpable_behavior(DumpableBehavior::NotDumpable).is_ok()
}

/// Returns true if the environment has `NAMELY_CORE_DUMPS=1`.
pub fn core_dumps_are_wanted() -> bool {
    std::env::var_os(VARIABLE).is_some_and(|value| value == "1")
}

#[cfg(test)]
mod tests {
    use namely_skip::{Need, skip};
    use rustix::process::dumpable_behavior;

    use super::*;

    #[test]
    fn a_process_that_keeps_its_secrets_leaves_no_core_and_is_read_by_nobody_else() {
        if core_dumps_are_wanted() {
            skip(Need::Kernel, format_args!("{VARIABLE} is set"));
            return;
        }
        assert!(keep_from_dumps());
        assert_eq!(getrlimit(Resource::Core).current, Some(0));
        assert_eq!(dumpable_behavior().unwrap(), DumpableBehavior::NotDumpable);
    }
}
