//! `namely migrate`: translates NFD's configuration to namelyd's.

use std::io::Read;
use std::path::{Path, PathBuf};

use clap::Args;
use serde_json::json;

use crate::context::Context;
use crate::failure::{Failure, io_failure};
use crate::nfd_conf::{Note, info, migrate};
use crate::output::Text;

/// Octets of an nfd.conf.
///
/// # Limit
/// A longer file is refused.
/// - Tests: `an_nfd_conf_may_have_a_mebibyte`
const NFD_CONF_OCTETS_MAX: u64 = 1 << 20;

/// Translate an nfd.conf of NFD to namely.toml, and list the settings without an equivalent.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  namely migrate /etc/ndn/nfd.conf > namely.toml\n  ssh HOST cat /etc/ndn/nfd.conf | namely migrate -\n  namelyd --config namely.toml --check\n\nSettings without an equivalent are listed on standard error, and in the file as comments."
)]
pub struct Migrate {
    /// NFD's configuration; `-` is standard input.
    #[arg(value_name = "NFD.CONF")]
    file: PathBuf,
}

impl Migrate {
    /// Prints the configuration.
    pub fn run(&self, ctx: &Context<'_>) -> Result<(), Failure> {
        let text = read(&self.file)?;
        let path = std::path::absolute(&self.file).unwrap_or_else(|_| self.file.clone());
        let folder = path.parent().unwrap_or(Path::new("."));
        let source =
            if is_stdin(&self.file) { "standard input".to_owned() } else { path.display().to_string() };
        let config = info::parse(&text).map_err(|error| {
            Failure::failed(format!("{source} is not an nfd.conf: {error}"))
                .hint("`nfd --config FILE` shows whether NFD accepts it")
        })?;
        let migrated = migrate(&config, &source, folder);
        let mut toml = migrated.toml;
        if !migrated.notes.is_empty() {
            toml.push_str("\n# Settings of nfd.conf without an exact equivalent:\n");
            for note in &migrated.notes {
                toml.push_str(&format!("# {}\n", said(note)));
            }
        }
        let notes = || -> Vec<_> {
            let notes = migrated.notes.iter();
            notes.map(|note| json!({"line": note.line, "key": note.key, "note": note.text})).collect()
        };
        ctx.out.answer(|| Text::laid_out(toml.trim_end()), || json!({"toml": toml, "notes": notes()}));
        for note in &migrated.notes {
            ctx.out.remark(said(note));
        }
        Ok(())
    }
}

fn said(note: &Note) -> String {
    format!("line {}, {}: {}", note.line, note.key, note.text)
}

fn is_stdin(path: &Path) -> bool {
    path == Path::new("-")
}

fn read(path: &Path) -> Result<String, Failure> {
    let file: Box<dyn Read> = if is_stdin(path) {
        Box::new(std::io::stdin())
    } else {
        Box::new(std::fs::File::open(path).map_err(|error| io_failure("read", path, error))?)
    };
    let mut text = String::new();
    let read = file.take(NFD_CONF_OCTETS_MAX + 1).read_to_string(&mut text);
    read.map_err(|error| io_failure("read", path, error))?;
    if text.len() as u64 > NFD_CONF_OCTETS_MAX {
        return Err(Failure::failed(format!("{} is longer than 1 MiB: not an nfd.conf", path.display())));
    }
    Ok(text)
}
