//! `namely-bench`, run for real. These tests measure time and load the machine, so they run one
//! after the other in a suite of their own: `cargo test -p namely-bench --test measures`.

mod attacks;
mod compare;
mod instructions;
mod links;
mod tables;
mod trees;
