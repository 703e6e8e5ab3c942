//! The integration tests of this crate, as one program: linking dominates the cost of a test
//! program.

mod certificates;
mod datas;
mod dissecting;
mod hostile;
mod interests;
mod link_packets;
mod management;
mod names;
mod objects;
mod placed;
mod texts;
