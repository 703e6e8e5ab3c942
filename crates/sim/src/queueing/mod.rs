//! Queueing models of routers with content stores, after NB-Cache (Pan et al., ToN 2021), and
//! event simulations of the same queues that check them.
//!
//! - [`Router`]: one router as an open network of five queues (section II): the load of each stage,
//!   the bottleneck, and the router's maximum load.
//! - [`Bypass`]: routers in a row as a Markov chain (section IV). A full router passes packets on
//!   to the next. A single queue that drops packets is the case of one router.
//! - [`Stations`]: any queues with bounded room in virtual time, with a seed. [`RouterQueues`] and
//!   [`BypassQueues`] are the queues of the two models, [`Pipeline`] is the prototype of section
//!   II.B.
//!
//! Nothing here measures, reads a clock or does I/O: rates come from the caller. Load is in
//! packets a second for [`Router`] and [`Pipeline`], and in arrivals for each service for
//! [`Bypass`].
//!
//! ```
//! use namely_sim::queueing::{Bypass, Rates, Router, Shares, Stage};
//!
//! let rates = Rates { cs_lookup: 4_700.0, pit_lookup: 4_000.0, ..Rates::default() };
//! let router = Router::new(rates, Shares { cs_hit: 0.5, ..Shares::default() })?;
//! assert_eq!(router.bottleneck(), (Stage::CsLookup, 4_700.0));
//!
//! let steady = Bypass::new(2, 2)?.solve(1.0)?;
//! assert!((steady.loss() - 0.2).abs() < 1e-9);
//! # Ok::<(), namely_sim::queueing::Error>(())
//! ```

mod bypass;
mod error;
mod picture;
mod pipeline;
mod router;
mod stations;

pub use bypass::{Bypass, BypassQueues, QUEUE_STATES_MAX, STATES_MAX, Steady};
pub use error::Error;
pub use picture::{Line, bypass_svg, ring_svg};
pub use pipeline::{Pipeline, Storage};
pub use router::{Rates, Router, RouterQueues, Shares, Stage, StageLoad};
pub use stations::{Measured, Scene, Stations, exponential};
