//! The experiments, run for real, once and small. They measure time and load the machine, so they
//! run one after the other in a suite of their own: `cargo test -p namely-experiments --test
//! measures`.

mod common;
mod emulated;
mod istack;
mod linear_video;
mod nb_cache;
mod ndise_ping;
mod ndise_routers;
mod ndp;
mod topology;
