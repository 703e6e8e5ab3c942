//! Tests of `namely-bench` that need no router and measure nothing.

mod usage;
