//! Congestion controls over forty simulated paths.
//!
//! The real fetch, forwarder and links run in virtual time, so the machine's load changes nothing
//! but the duration. Each run is a line of the file of results; a repeated command skips the runs
//! that the file has.

use std::fs;
use std::io::{self, Write};
use std::path::PathBuf;
use std::sync::Mutex;

use clap::Args;
use namely_sim::paths::{CELLS, Cell};

use crate::error::Error;
use crate::output;

/// Options of `paths`.
#[derive(Debug, Args)]
pub struct Paths {
    /// File of the results; its runs are not repeated
    #[arg(long, default_value = "paths.txt")]
    results: PathBuf,
    /// Only runs with this text in path, rule and seed, as in '400M-100ms-0%-1BDP-tail bbr'
    #[arg(long, default_value = "")]
    only: String,
    /// Runs at once
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=64))]
    threads: u16,
}

/// Makes the runs that the file of results lacks, and prints the table of all results.
///
/// # Errors
/// No run has the text of `--only`; the file cannot be read or written.
pub fn run(options: &Paths) -> Result<(), Error> {
    // A wrong filter must not leave an empty file behind.
    if !namely_sim::paths::has_run(&options.only) {
        let paths: Vec<String> = CELLS.iter().map(Cell::name).collect();
        let why = format!("no run has '{}'; the paths are:\n  {}", options.only, paths.join("\n  "));
        return Err(Error::Usage(why));
    }
    let failed = |error| Error::environment(options.results.display().to_string(), error);
    let read = || match fs::read_to_string(&options.results) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(String::new()),
        read => read.map_err(failed),
    };
    let known = read()?;
    let mut output =
        fs::OpenOptions::new().create(true).append(true).open(&options.results).map_err(failed)?;
    if !known.is_empty() && !known.ends_with('\n') {
        // An interrupted write has cut the last line.
        output.write_all(b"\n").map_err(failed)?;
    }
    let (output, failure) = (Mutex::new(output), Mutex::new(None));
    namely_sim::paths::run(&known, &options.only, usize::from(options.threads), |line| {
        output::say(line);
        let (Ok(mut output), Ok(mut failure)) = (output.lock(), failure.lock()) else { return };
        if let Err(error) = writeln!(output, "{line}") {
            *failure = Some(error);
        }
    });
    if let Some(error) = failure.into_inner().ok().flatten() {
        return Err(failed(error));
    }
    output::lines(namely_sim::paths::table(&read()?));
    Ok(())
}
