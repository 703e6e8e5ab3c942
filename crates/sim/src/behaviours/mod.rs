//! Traffic: a producer, a consumer at a constant rate, one with a list of names, one that reads
//! objects by popularity, a fetch of a file with a window, a neighbour who means harm; and what
//! governs a router: VIP.

mod catalogue;
mod constant_rate;
mod file_fetch;
mod hostile;
mod object_reader;
mod producer;
mod vip_agent;

pub use catalogue::{Catalogue, Load};
pub use constant_rate::ConstantRate;
pub use file_fetch::FileFetch;
pub use hostile::Hostile;
pub use object_reader::ObjectReader;
pub use producer::Producer;
pub use vip_agent::{Demand, VipAgent};
