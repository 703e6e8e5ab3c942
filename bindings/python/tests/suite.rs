//! Runs the tests of the Python package, which are written in Python: makes a virtual environment
//! under the target directory, builds the wheel and installs it there, and lets pytest run the
//! tests beside this file.
//!
//! `NAMELY_PYTHON=all` installs pandas and uproot too (large), and runs the tests that read with
//! them; `NAMELY_PYTHON=off` runs nothing. Arguments that are no option go to pytest:
//! `cargo test -p namely-python -- test_errors.py`.
#![forbid(unsafe_code)]

use std::path::Path;
use std::process::{Command, ExitCode};

use namely_testkit::{Need, or_skip};

fn main() -> ExitCode {
    let which = std::env::var("NAMELY_PYTHON").unwrap_or_default();
    if which == "off" {
        // This is a choice, not a missing need: the gate runs this suite by itself.
        println!("NAMELY_PYTHON=off: the suite is run by itself");
        return ExitCode::SUCCESS;
    }
    // The standard harness lists its tests with the same argument.
    if std::env::args().any(|argument| argument == "--list") {
        println!("suite: test");
        return ExitCode::SUCCESS;
    }
    let package = Path::new(env!("CARGO_MANIFEST_DIR"));
    let tests = package.join("tests");
    let python = namely_interop::python_package().and_then(|python| {
        if which == "all" {
            namely_interop::python_requirements(&python, &tests.join("requirements-science.txt"))?;
        }
        Ok(python)
    });
    let Some(python) = or_skip(Need::Python, python) else { return ExitCode::SUCCESS };
    let mut pytest = Command::new(python);
    // `-rs` prints the reasons of skipped tests.
    pytest
        .args(["-m", "pytest", "-rs", "--rootdir"])
        .arg(package)
        .arg("-c")
        .arg(package.join("pyproject.toml"));
    pytest.args(std::env::args().skip(1).filter(|argument| !argument.starts_with('-')));
    pytest.current_dir(&tests).env("NAMELY_BIN_DIR", namely_interop::programs());
    let status = pytest.env("PYTHONDONTWRITEBYTECODE", "1").status().expect("pytest can be started");
    if status.success() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
