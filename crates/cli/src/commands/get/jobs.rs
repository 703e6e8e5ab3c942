//! The names of a command line, and the files or directories that they are fetched to.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use namely_wire::types::GENERIC_COMPONENT;
use namely_wire::{ByteRange, Name};

use super::Get;
use crate::failure::{Exit, Failure, io_failure};
use crate::options;

/// A name to fetch.
#[derive(Debug)]
pub(super) struct Job {
    pub(super) name: Name,
    pub(super) to: Destination,
}

/// The destination of content.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Destination {
    Stdout,
    Path(PathBuf),
}

impl Get {
    /// Returns the names with their destinations. With `--output` all arguments are names;
    /// otherwise the last of several is the path.
    pub(super) fn jobs(&self) -> Result<Vec<Job>, Failure> {
        let (more, local) = match (&self.output, self.path.split_last()) {
            (Some(output), _) => (&self.path[..], Some(output.as_path())),
            (None, Some((last, names))) => (names, Some(last.as_path())),
            (None, None) => (&[][..], None),
        };
        let parsed = more.iter().map(|word| parse(word));
        let names = std::iter::once(Ok(self.name.clone())).chain(parsed).collect::<Result<Vec<Name>, _>>()?;
        if local == Some(Path::new("-")) && !self.recursive {
            return Ok(names.into_iter().map(|name| Job { name, to: Destination::Stdout }).collect());
        }
        if let [name] = &names[..] {
            let path = if self.recursive { tree_target(name, local)? } else { self.target(name, local)? };
            return Ok(vec![Job { name: name.clone(), to: Destination::Path(path) }]);
        }
        let directory = local.unwrap_or(Path::new("."));
        if !ends_in_slash(directory) && !directory.is_dir() {
            let message = format!("{} names do not fit the file {}", names.len(), directory.display());
            let hint = format!("name a directory, with a slash at its end: -o {}/", directory.display());
            return Err(Failure::new(Exit::Usage, message).hint(hint));
        }
        self.jobs_in(directory, names)
    }

    /// Returns several names, each with a destination in `directory`.
    fn jobs_in(&self, directory: &Path, names: Vec<Name>) -> Result<Vec<Job>, Failure> {
        let mut taken: HashMap<PathBuf, Name> = HashMap::new();
        let mut jobs = Vec::new();
        for name in names {
            let path = directory.join(last_part(&name, self.range)?);
            if let Some(other) = taken.insert(path.clone(), name.clone()) {
                let message = format!("{other} and {name} would both be {}", path.display());
                return Err(Failure::new(Exit::Usage, message).hint("fetch them to different directories"));
            }
            jobs.push(Job { name, to: Destination::Path(path) });
        }
        std::fs::create_dir_all(directory).map_err(|e| io_failure("make", directory, e))?;
        Ok(jobs)
    }

    /// Returns the path for one file: the argument, or, if the argument is a directory, the last
    /// part of the name in it.
    fn target(&self, name: &Name, local: Option<&Path>) -> Result<PathBuf, Failure> {
        let Some(local) = local else { return last_part(name, self.range) };
        if !ends_in_slash(local) && !local.is_dir() {
            self.check_second_name(name, local)?;
            return Ok(local.to_owned());
        }
        std::fs::create_dir_all(local).map_err(|e| io_failure("make", local, e))?;
        Ok(local.join(last_part(name, self.range)?))
    }

    /// Refuses a second name that would be taken as the path of a file.
    fn check_second_name(&self, name: &Name, local: &Path) -> Result<(), Failure> {
        let is_above = local.parent().is_some_and(Path::exists);
        if self.output.is_some() || !local.is_absolute() || is_above {
            return Ok(());
        }
        let local = local.display();
        Err(Failure::failed(format!("cannot write {local}: its folder is not there")).hint(format!(
            "the last argument is the path; for two names: `namely get {name} {local} -o DIR/`"
        )))
    }
}

fn parse(word: &Path) -> Result<Name, Failure> {
    let text = word.to_str().ok_or_else(|| "a name is text: other octets are %XX in it".to_owned());
    text.and_then(options::name).map_err(|why| {
        Failure::new(Exit::Usage, why)
            .hint("all arguments but the last are names, and with -o the last one, too")
    })
}

fn ends_in_slash(path: &Path) -> bool {
    path.as_os_str().as_encoded_bytes().ends_with(b"/")
}

/// Returns the path for one tree: the argument, or the last plain component of the name.
fn tree_target(name: &Name, local: Option<&Path>) -> Result<PathBuf, Failure> {
    local.map_or_else(|| last_part(name, None), |local| Ok(local.to_owned()))
}

/// Returns the last plain component of the name, and the range of it.
fn last_part(name: &Name, range: Option<ByteRange>) -> Result<PathBuf, Failure> {
    let last = name.components().filter(|c| c.typ == GENERIC_COMPONENT).last();
    let text = last.and_then(|c| std::str::from_utf8(c.value).ok());
    match text.filter(|t| !t.is_empty() && *t != "." && *t != ".." && !t.contains(['/', '\0'])) {
        Some(text) => Ok(match range {
            Some(range) => PathBuf::from(format!("{text}.{range}")),
            None => PathBuf::from(text),
        }),
        None => Err(Failure::new(Exit::Failed, format!("{name} does not end in a file name"))
            .hint("give a path with -o PATH")),
    }
}
