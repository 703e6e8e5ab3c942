//! The integration tests of this crate, as one program: linking dominates the cost of a test
//! program.

mod certificates;
mod datas;
mod hostile;
mod interests;
mod link_packets;
mod names;
mod objects;
mod placed;
mod texts;
