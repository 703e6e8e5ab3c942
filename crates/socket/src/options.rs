//! Options: fields in Rust, names and text elsewhere. One table ([`OPTIONS`]) serves all bindings.
//! An option is a field of [`ConsumerOptions`] or [`ProducerOptions`] and a line of the table that
//! names that field.

mod error;
mod fields;
mod publish;
mod table;
mod text;
mod values;

pub use namely_transport::object::OnBadSegment;

pub use self::error::OptionError;
pub use self::fields::{ConsumerOptions, ProducerOptions};
pub use self::publish::PublishOptions;
pub(crate) use self::table::find;
pub use self::table::{For, Kind, OPTIONS, OptionSpec};
pub use self::values::{ManifestUse, Revocation, Suite, Trust};
pub use self::values::{READ_AHEAD_OCTETS, STREAM_OCTETS_FIRST, VERIFY_THREADS_MAX};
pub use crate::buffer::BufferPolicy;

#[cfg(test)]
mod tests;
