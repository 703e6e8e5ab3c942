//! The NFD management protocol's formats: command and dataset names, [`ControlParameters`],
//! [`ControlResponse`], the entries of every dataset, and face event notifications.
//!
//! Management is not on the forwarding path, so these are owned values. This crate neither decides
//! whether a command is allowed nor executes it; `namely-mgmt` does both.
//!
//! Follows NFD's management protocol as ndn-cxx encodes it (ControlCommand, StatusDataset, and the
//! pages of each manager).
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

pub mod numbers;

mod block;
mod cs_disk;
mod cs_list;
mod explain;
mod faces;
mod field;
mod hop;
mod neighbors;
mod parameters;
mod request;
mod response;
mod status;
mod tables;
mod trace;
mod values;
mod vip;

/// Makes a table of counters: an enum whose variants have the labels that `status/counters` shows,
/// and a struct with a count of each.
///
/// ```
/// namely_messages::counters! {
///     /// An event that is counted.
///     Event in Events;
///     /// Packets that are malformed.
///     Malformed => "malformed",
/// }
/// assert_eq!(Event::ALL.map(Event::label), ["malformed"]);
/// assert_eq!(Events::default().get(Event::Malformed), 0);
/// ```
#[macro_export]
macro_rules! counters {
    ($(#[$meta:meta])* $name:ident in $counts:ident; $($(#[$doc:meta])* $variant:ident => $label:literal),* $(,)?) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum $name {
            $($(#[$doc])* $variant),*
        }

        impl $name {
            /// All of them, in the order of their numbers.
            pub const ALL: [$name; [$($label),*].len()] = [$($name::$variant),*];

            /// Its name among the router's counters.
            pub fn label(self) -> &'static str {
                match self {
                    $($name::$variant => $label),*
                }
            }
        }

        #[doc = concat!("Counts, by [`", stringify!($name), "`].")]
        #[derive(Clone, Debug, PartialEq, Eq)]
        pub struct $counts([u64; $name::ALL.len()]);

        impl Default for $counts {
            fn default() -> Self {
                $counts([0; $name::ALL.len()])
            }
        }

        impl $counts {
            pub(crate) fn count(&mut self, counter: $name) {
                if let Some(count) = self.0.get_mut(counter as usize) {
                    *count += 1;
                }
            }

            /// Returns the count of one counter.
            pub fn get(&self, counter: $name) -> u64 {
                self.0.get(counter as usize).copied().unwrap_or(0)
            }

            /// All counts, by label.
            pub fn iter(&self) -> impl Iterator<Item = (&'static str, u64)> + '_ {
                $name::ALL.iter().map(|counter| (counter.label(), self.get(*counter)))
            }
        }
    };
}

pub use block::{Block, Blocks, blocks, encode_blocks};
pub use cs_disk::CsDiskStatus;
pub use cs_list::{CsList, CsListQuery, CsPacket};
pub use explain::{
    Explained, ExplainedData, ExplainedHop, ExplainedInterest, ExplainedRight, ExplainedRoute,
    ExplainedSending, explain_name,
};
pub use faces::{
    ChannelStatus, FaceDetails, FaceEventNotification, FaceQueryFilter, FaceStatus, FaceUnanswered,
};
pub use hop::{HOP_LIMIT_MAX, HopAnswer, HopNext, hop_name, hop_query_name};
pub use neighbors::{NeighborState, NeighborStatus};
pub use parameters::ControlParameters;
pub use request::{
    Command, CommandParameters, CommandRequest, Dataset, DatasetRequest, EventRequest, Request, RequestError,
    RequestOrigin, Scope,
};
pub use response::ControlResponse;
pub use status::{Counter, GeneralStatus, RouterDetails};
pub use tables::{
    Binding, CsInfo, FibEntry, NextHop, RibEntry, Route, STRATEGY_PREFIX, StrategyChoice, strategy_name,
};
pub use trace::{TraceEntry, TraceSent, TraceStep, TracedKind};
pub use values::{
    FaceEventKind, FacePersistency, FaceScope, FaceState, LinkType, RouteOrigin, bind_flags, cs_flags,
    face_flags, route_flags, status_code,
};
pub use vip::{VipNeighbour, VipObject, VipStatus};
