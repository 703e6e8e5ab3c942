//! Finds installed programs: first by an environment variable, then in this program's own
//! directory, then on the `PATH`.

use std::env;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Maximum time until a router or a producer is ready.
pub const READY_LIMIT: Duration = Duration::from_secs(60);

/// A program that a subject needs.
#[derive(Clone, Debug)]
pub struct Program {
    /// Names to search for. The first match wins.
    names: &'static [&'static str],
    /// The environment variable that names the file, or the directory that holds it.
    variable: &'static str,
    found: Option<PathBuf>,
}

impl Program {
    /// Searches for any of `names`. `variable` names the file itself or a directory. `beside_self`
    /// adds the directory of this program.
    pub fn find(names: &'static [&'static str], variable: &'static str, beside_self: bool) -> Self {
        let named = env::var_os(variable).map(PathBuf::from);
        let own = env::current_exe().ok().and_then(|exe| exe.parent().map(Path::to_path_buf));
        let path = env::var_os("PATH").unwrap_or_default();
        let dirs = own.filter(|_| beside_self).into_iter().chain(env::split_paths(&path));
        let found = match named {
            // An explicitly named program is not silently replaced by another.
            Some(named) if named.is_dir() => search(names, [named]),
            Some(named) => named.is_file().then_some(named),
            None => search(names, dirs),
        };
        Program { names, variable, found }
    }

    /// Returns the program's path. If it was not found, this is its name, and starting it fails
    /// with a message.
    pub fn path(&self) -> &Path {
        self.found.as_deref().unwrap_or_else(|| Path::new(self.names[0]))
    }

    /// Returns advice if it was not found.
    pub fn missing(&self) -> Option<String> {
        let names = self.names.join(" or ");
        match self.found {
            Some(_) => None,
            None => Some(format!("no {names}: put it on PATH or name it in {}", self.variable)),
        }
    }
}

fn search(names: &[&str], dirs: impl IntoIterator<Item = PathBuf>) -> Option<PathBuf> {
    let dirs: Vec<PathBuf> = dirs.into_iter().collect();
    names.iter().flat_map(|name| dirs.iter().map(move |dir| dir.join(name))).find(|path| path.is_file())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_on_the_path_is_found() {
        let program = Program::find(&["no-such-program", "sh"], "NAMELY_BENCH_TEST_UNSET", false);
        assert!(program.missing().is_none());
        assert!(program.path().ends_with("sh"));
    }

    #[test]
    fn a_missing_program_is_reported_with_help() {
        let program = Program::find(&["no-such-program"], "NAMELY_BENCH_TEST_UNSET", false);
        let message = program.missing().expect("absent");
        assert!(message.contains("no-such-program") && message.contains("NAMELY_BENCH_TEST_UNSET"));
    }
}
