//! The NFD management protocol's formats: command and dataset names, [`ControlParameters`],
//! [`ControlResponse`], the entries of every dataset, and face event notifications.
//!
//! Management is not the forwarding path, so these are owned values. Nothing here decides whether a
//! command is allowed, and nothing acts: that is `namely-mgmt`'s work.
//!
//! Follows NFD's management protocol as ndn-cxx encodes it (ControlCommand, StatusDataset, and the
//! pages of each manager).

pub(crate) mod numbers;

mod block;
mod cs_disk;
mod cs_list;
mod explain;
mod faces;
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

pub use block::{Block, Blocks, blocks, encode_blocks};
pub use cs_disk::CsDiskStatus;
pub use cs_list::{CsList, CsListQuery, CsPacket};
pub use explain::{
    Explained, ExplainedData, ExplainedHop, ExplainedInterest, ExplainedRight, ExplainedRoute,
    ExplainedSending, explain_name,
};
pub use faces::{ChannelStatus, FaceEventNotification, FaceQueryFilter, FaceStatus};
pub use hop::{HOP_LIMIT_MAX, HopAnswer, HopNext, asked_of_hop, hop_name};
pub use neighbors::{NeighborState, NeighborStatus};
pub use parameters::ControlParameters;
pub use request::{
    Command, CommandParameters, CommandRequest, Dataset, DatasetRequest, EventRequest, Request, RequestError,
    Scope,
};
pub use response::ControlResponse;
pub use status::{Counter, GeneralStatus};
pub use tables::{
    Binding, CsInfo, FibEntry, NextHop, RibEntry, Route, STRATEGY_PREFIX, StrategyChoice, strategy_name,
};
pub use trace::{TraceEntry, TraceSent, TraceStep, TracedKind};
pub use values::{
    FaceEventKind, FacePersistency, FaceScope, LinkType, RouteOrigin, bind_flags, cs_flags, face_flags,
    route_flags, status_code,
};
pub use vip::{VipNeighbour, VipObject, VipStatus};
