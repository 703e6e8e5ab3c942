//! The conformance test of the bindings: cases as text, drivers as processes that perform the
//! steps, and the comparison of their answers (README.md describes both formats).
//!
//! The crate knows no binding: it sees only the lines that a driver prints.
#![forbid(unsafe_code)]

pub mod answer;
pub mod case;
pub mod certify;
pub mod content;
pub mod driver;
pub mod faults;
pub mod run;
