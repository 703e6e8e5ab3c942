//! The conformance test of the bindings: cases as text, drivers as processes that do what the steps
//! say, and the comparison of what they answer (README.md says how both are written).
//!
//! Never knows a binding: what it sees of one is the lines that its driver prints.
#![forbid(unsafe_code)]

pub mod answer;
pub mod case;
pub mod certify;
pub mod content;
pub mod driver;
pub mod faults;
pub mod run;
