//! Traffic: a producer, a consumer at a constant rate, a fetch of a file with a window, and a
//! neighbour who means harm.

mod constant_rate;
mod file_fetch;
mod hostile;
mod producer;

pub use constant_rate::ConstantRate;
pub use file_fetch::FileFetch;
pub use hostile::Hostile;
pub use producer::Producer;
