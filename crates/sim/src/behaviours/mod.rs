//! Traffic: a producer, a consumer at a constant rate, one with a list of names, a fetch of a file
//! with a window, and a neighbour who means harm.

mod catalogue;
mod constant_rate;
mod file_fetch;
mod hostile;
mod producer;

pub use catalogue::{Catalogue, Load};
pub use constant_rate::ConstantRate;
pub use file_fetch::FileFetch;
pub use hostile::Hostile;
pub use producer::Producer;
