//! Traffic: a producer, a consumer at a constant rate, and a fetch of a file with a window.

mod constant_rate;
mod file_fetch;
mod producer;

pub use constant_rate::ConstantRate;
pub use file_fetch::FileFetch;
pub use producer::Producer;
