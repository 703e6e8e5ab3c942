//! Interoperability with programs of others, which come from package registries or are installed:
//! the gate's suite `peers`, `cargo test -p namely-interop --test peers`.

mod behaviour;
mod ethernet;
mod marks;
mod memif;
mod nb_cache;
mod ndn_cxx_and_ndnd;
mod ndndpdk;
mod ndnts;
mod python_ndn;
mod routing;
mod signatures;
mod udp_limits;
mod xrootd;
