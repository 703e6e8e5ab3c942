//! Counters of a consumer.

use std::sync::atomic::{AtomicU64, Ordering};

macro_rules! counts {
    ($($(#[$doc:meta])* $name:ident),* $(,)?) => {
        /// Counters of a consumer.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct ConsumerStats {
            $($(#[$doc])* pub $name: u64,)*
        }

        impl ConsumerStats {
            /// Every counter with its name, in the order of the documentation, for bindings.
            pub fn list(&self) -> Vec<(&'static str, u64)> {
                vec![$((stringify!($name), self.$name),)*]
            }
        }

        /// The counters of [`ConsumerStats`] while several threads update them.
        #[derive(Debug, Default)]
        pub(super) struct Counts {
            $(pub(super) $name: AtomicU64,)*
        }

        impl Counts {
            pub(super) fn read(&self) -> ConsumerStats {
                ConsumerStats { $($name: self.$name.load(Ordering::Relaxed),)* }
            }
        }
    };
}

counts! {
    /// Interests for pieces of objects, including retransmissions.
    interests,
    /// Interests for a piece that was requested before.
    retransmissions,
    /// Segments delivered.
    segments,
    /// Octets of their content.
    octets,
    /// Signatures verified: of manifests, of segments without manifest, of datagrams.
    signatures,
    /// Segments and manifests that failed verification, each copy.
    corrupt,
    /// Segments delivered although they failed verification (`on_bad_segment` is `accept`).
    unverified,
    /// Segments that did not arrive in time, on an unreliable consumer.
    lost,
    /// The largest number of pieces of one object that waited for verification.
    backlog_most,
    /// The largest number of helper threads that verified at once, besides those of the fetches
    /// (`verify_threads`).
    verify_helpers_most,
    /// Certificates whose revocation status was requested.
    revocations_checked,
    /// Datagrams sent.
    datagrams_sent,
    /// Answers delivered, including failures.
    datagrams_received,
}
