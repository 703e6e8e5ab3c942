//! Fetch and publish state machines, and the client's connection to a router.

pub mod paths;
