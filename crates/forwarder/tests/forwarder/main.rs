//! Tests of the forwarding core's behavior, observed at its faces.

mod asf;
mod asked;
mod baselines;
mod batches;
mod bench;
mod caching;
mod congestion;
mod control;
mod draining;
mod exchange;
mod explain;
mod hops;
mod hostile;
mod learning;
mod limits;
mod objects;
mod pipelines;
mod shares;
mod simulation;
mod strategies;
mod tier;
mod trace;
mod vip;
