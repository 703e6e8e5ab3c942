//! The simulated experiments: their output does not depend on the machine.

mod ndise;
mod sim;
