//! The experiments that are simulated: no machine changes what they print.

mod ndise;
