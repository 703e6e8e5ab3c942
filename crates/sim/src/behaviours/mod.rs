//! Traffic: a producer, a consumer at a constant rate, a consumer of a list of names, a reader of
//! objects by popularity, a file fetch with a window, and a hostile neighbor. Also the agent that
//! controls a router: VIP.

mod catalogue;
mod constant_rate;
mod data_template;
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
