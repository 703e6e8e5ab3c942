//! The integration tests of this crate, as one program: linking dominates the cost of a test
//! program.

/// False in this suite, which runs beside other work. The daemon's suite `measures` runs `shares`
/// too, and judges time.
const MEASURES: bool = false;

mod dataplane;
mod dispatcher;
mod hostile;
mod shares;
mod support;
mod workers;
