//! Fetching of a named object, without I/O: [`Discovery`] finds its newest version,
//! [`SegmentRequester`] decides which Interests to send and when, [`SegmentVerifier`] verifies the
//! received pieces.
//!
//! Discovery follows RDR (`<name>/32=metadata`); an object without metadata is found by its prefix.
//! Verification is by manifest if the producer has them, otherwise packet by packet. Certificates
//! that the verifier lacks are fetched by name. `namely_socket::Consumer` drives these; nothing
//! here waits, writes or starts a thread.

mod descriptor;
mod discovery;
mod error;
mod layout;
mod progress;
mod report;
mod requester;
mod verifier;

pub use self::descriptor::{Object, PAUSES_MAX, Part, ReadOptions, SignatureMode, again_after_ns};
pub use self::discovery::{Discovery, Express};
pub use self::error::ObjectError;
pub use self::progress::Progress;
pub use self::report::{full_name, report_refused};
pub use self::requester::SegmentRequester;
pub use self::verifier::{OnBadSegment, PieceOutcome, SegmentVerifier};
