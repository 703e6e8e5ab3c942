//! An Ethernet link between two routers: a pair of virtual devices in the run's own network
//! namespace.

use crate::error::Error;
use crate::namespace::run;

/// The devices: of the consumer's router, and of the producer's.
pub const DEVICES: [&str; 2] = ["nbench0", "nbench1"];

/// Their addresses.
pub const ADDRESSES: [&str; 2] = ["02:00:00:00:00:0a", "02:00:00:00:00:0b"];

/// Octets of an Ethernet payload: one frame carries a segment of 8000 octets.
const MTU: &str = "9300";

/// The link. It is removed when dropped.
#[derive(Debug)]
pub struct Link;

impl Link {
    /// Creates the two devices and brings them up.
    pub fn make() -> Result<Self, Error> {
        let ([near, far], [near_address, far_address]) = (DEVICES, ADDRESSES);
        run(&[
            "ip",
            "link",
            "add",
            near,
            "address",
            near_address,
            "mtu",
            MTU,
            "type",
            "veth",
            "peer",
            "name",
            far,
            "address",
            far_address,
            "mtu",
            MTU,
        ])?;
        let link = Link;
        for device in DEVICES {
            run(&["ip", "link", "set", device, "up"])?;
        }
        Ok(link)
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        // The kernel removes the other device, too. If this fails, the end of the run's namespace
        // removes both.
        let _ = run(&["ip", "link", "del", DEVICES[0]]);
    }
}
