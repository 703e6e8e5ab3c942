//! Side-by-side measurements of namely, its peers, and the machine itself.
//!
//! `compare` starts each subject's own router and its own file tools, one subject at a time,
//! alternating within every round of one run and inside one network namespace, and reports medians.
//! Every fetched file is compared with its source octet by octet. A failed fetch is counted and
//! reported, never left out.
//!
//! `attacks` attacks a router and observes the effect on honest users. `links` compares the links
//! between two routers, and windows. `trees` copies many small files beside an rsync daemon.
//! `paths` compares congestion controls over simulated paths.
//!
//! `store` and `store-tables` measure the content store's disk tier alone, `saturated` the router's
//! forwarding beside it.
//!
//! `idle` measures many routers without traffic.
//!
//! `tables` measures the forwarding core alone, `instructions` counts the cost of fixed work in it.
//! The experiments of published systems are in `experiments`, on parts of this crate.
//!
//! This crate never relies on a subject's own figures: a rate is an object's size over the wall
//! time of the client process, and CPU time is that accounted by the kernel to each process.
#![forbid(unsafe_code)]

pub mod attacker;
pub mod attacks;
pub mod cli;
pub mod compare;
pub mod error;
pub mod files;
pub mod header;
pub mod idle;
pub mod instructions;
pub mod link;
pub mod links;
pub mod load;
pub mod machine;
pub mod measure;
pub mod metric;
pub mod namespace;
pub mod options;
pub mod output;
pub mod paths;
pub mod plain;
pub mod probe;
pub mod programs;
pub mod report;
pub mod rtt;
pub mod saturated;
pub mod scenario;
pub mod soak;
pub mod stats;
pub mod store;
pub mod store_tables;
pub mod subject;
pub mod tables;
pub mod trees;
