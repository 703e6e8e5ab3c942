//! The integration tests of this crate, as one program: linking is most of what a program costs.

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
