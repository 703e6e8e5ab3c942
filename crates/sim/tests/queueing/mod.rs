//! The queueing models of NB-Cache against its figures, closed forms and simulations.

mod bypass;
mod page;
mod router;
mod simulated;
