//! Traffic: a producer, consumers at a constant rate, of a list of names, by Zipf's law and of a
//! trace, a reader of objects by popularity, a file fetch with a window, a synchronization group,
//! and a hostile neighbor. Also agents that control a router: VIP, and distance vectors.

mod catalogue;
mod constant_rate;
mod data_template;
mod distance_vector;
mod file_fetch;
mod hostile;
mod object_reader;
mod producer;
mod requests;
mod sync_member;
mod trace_consumer;
mod vip_agent;
mod zipf_consumer;

pub use catalogue::{Catalogue, Load};
pub use constant_rate::ConstantRate;
pub use distance_vector::{DESTINATIONS_MAX, DistanceVector, UNREACHABLE};
pub use file_fetch::FileFetch;
pub use hostile::Hostile;
pub use object_reader::ObjectReader;
pub use producer::Producer;
pub use requests::Requests;
pub use sync_member::{MEMBERS_MAX, SyncGroup, SyncMember};
pub use trace_consumer::TraceConsumer;
pub use vip_agent::{Demand, VipAgent};
pub use zipf_consumer::{PopularNames, ZipfConsumer};
