//! What went through a consumer.

use std::sync::atomic::{AtomicU64, Ordering};

macro_rules! counts {
    ($($(#[$doc:meta])* $name:ident),* $(,)?) => {
        /// What went through a consumer so far.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct ConsumerStats {
            $($(#[$doc])* pub $name: u64,)*
        }

        impl ConsumerStats {
            /// Every counter with its name, in the order of the documentation: what bindings show.
            pub fn list(&self) -> Vec<(&'static str, u64)> {
                vec![$((stringify!($name), self.$name),)*]
            }
        }

        /// The same while it is being counted, by several threads.
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
    /// Interests for pieces of objects, repeated ones included.
    interests,
    /// Interests for a piece that was asked for before.
    retransmissions,
    /// Segments handed out.
    segments,
    /// Octets of their content.
    octets,
    /// Signatures verified: of manifests, of segments without manifest, of datagrams.
    signatures,
    /// Segments and manifests that were not what they should be, each copy.
    corrupt,
    /// Segments handed out although they are not believed (`on_bad_segment` is `accept`).
    unverified,
    /// Segments that did not come in their time, on an unreliable consumer.
    lost,
    /// The most pieces of one object that waited to be verified.
    backlog_most,
    /// The most threads that helped to verify at once, besides those of the fetches
    /// (`verify_threads`).
    verify_helpers_most,
    /// Certificates asked whether they are revoked.
    revocations_checked,
    /// Datagrams sent.
    datagrams_sent,
    /// Answers to them that were handed out, failures included.
    datagrams_received,
}
