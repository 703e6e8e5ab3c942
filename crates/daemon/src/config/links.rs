//! Settings of links: the dispatcher, shared memory, and Ethernet.

use namely_io::{EthernetOptions, Xdp};
use namely_wire::FaceUri;
use serde::de::Error;
use serde::{Deserialize, Deserializer};

use super::values;
use namely_dataplane::{DispatchBy, DispatchedLinks, DispatcherOptions};

/// Links whose packets the router distributes to workers, because the kernel cannot.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Dispatcher {
    /// The local or remote URIs of the faces; `udp://0.0.0.0:6363` matches all addresses of that
    /// port. Empty: no link is dispatched.
    #[serde(deserialize_with = "values::uris")]
    pub links: Vec<FaceUri>,
    /// The rule that selects the worker of a packet.
    #[serde(deserialize_with = "dispatch_by")]
    pub by: DispatchBy,
    /// Whether the first worker reads these links and does nothing else.
    pub own_core: bool,
    /// Maximum number of packets queued for one worker. Further ones are dropped.
    #[serde(deserialize_with = "queue_packets")]
    pub queue_packets: usize,
}

impl Default for Dispatcher {
    fn default() -> Self {
        let DispatcherOptions { links, by, queue_packets } = DispatcherOptions::default();
        Dispatcher { links: links.links, by, own_core: links.own_worker, queue_packets }
    }
}

impl Dispatcher {
    /// The data plane's options.
    pub(crate) fn options(&self) -> DispatcherOptions {
        DispatcherOptions {
            // Without a link no worker is reserved.
            links: DispatchedLinks {
                links: self.links.clone(),
                own_worker: self.own_core && !self.links.is_empty(),
            },
            by: self.by,
            queue_packets: self.queue_packets,
        }
    }
}

fn dispatch_by<'de, D: Deserializer<'de>>(deserializer: D) -> Result<DispatchBy, D::Error> {
    values::choice(deserializer, &[("name", DispatchBy::Name), ("random", DispatchBy::Random)])
}

fn queue_packets<'de, D: Deserializer<'de>>(deserializer: D) -> Result<usize, D::Error> {
    match usize::deserialize(deserializer)? {
        packets @ 1..=1_048_576 => Ok(packets),
        packets => Err(D::Error::custom(format!("{packets} packets: use 1 to 1048576"))),
    }
}

/// Limits of an application that connects by shared memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Memif {
    /// Rings in each direction, at most 8.
    #[serde(deserialize_with = "rings")]
    pub rings_max: u16,
    /// Slots of a ring, a power of two up to 16384.
    #[serde(deserialize_with = "slots")]
    pub ring_slots_max: u16,
    /// Regions of memory.
    #[serde(deserialize_with = "regions")]
    pub regions_max: u16,
    /// Octets of memory of one application.
    #[serde(deserialize_with = "values::octets")]
    pub octets_max: u64,
    /// Octets of memory of all applications.
    #[serde(deserialize_with = "values::octets")]
    pub octets_total_max: u64,
}

impl Default for Memif {
    fn default() -> Self {
        let options = namely_io::IoOptions::default().memif;
        Memif {
            rings_max: options.interface.ring_pairs,
            ring_slots_max: 1 << options.interface.ring_size_log2,
            regions_max: options.interface.regions_max,
            octets_max: options.interface.mapped_octets_max as u64,
            octets_total_max: options.mapped_octets_total_max as u64,
        }
    }
}

impl Memif {
    /// The data plane's options.
    pub(crate) fn options(&self) -> namely_io::MemifOptions {
        let mut options = namely_io::IoOptions::default().memif;
        let octets = |octets: u64| usize::try_from(octets).unwrap_or(usize::MAX);
        options.interface.ring_pairs = self.rings_max;
        options.interface.ring_size_log2 = self.ring_slots_max.ilog2() as u8;
        options.interface.regions_max = self.regions_max;
        options.interface.mapped_octets_max = octets(self.octets_max);
        options.mapped_octets_total_max = octets(self.octets_total_max);
        options
    }
}

/// The method of reading network devices.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Ethernet {
    /// Whether to use AF_XDP, with a program at the device, instead of AF_PACKET.
    #[serde(deserialize_with = "xdp")]
    pub xdp: Xdp,
}

impl Ethernet {
    /// The data plane's options.
    pub(crate) fn options(self) -> EthernetOptions {
        EthernetOptions { xdp: self.xdp }
    }
}

fn xdp<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Xdp, D::Error> {
    values::choice(deserializer, &[("off", Xdp::Off), ("auto", Xdp::Auto), ("on", Xdp::On)])
}

fn rings<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u16, D::Error> {
    let max = namely_io::MEMIF_RINGS_MAX;
    match u16::deserialize(deserializer)? {
        rings if (1..=max).contains(&rings) => Ok(rings),
        rings => Err(D::Error::custom(format!("{rings} rings: use 1 to {max}"))),
    }
}

fn slots<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u16, D::Error> {
    let max = 1 << namely_io::MEMIF_RING_SIZE_LOG2_MAX;
    match u16::deserialize(deserializer)? {
        slots if slots.is_power_of_two() && slots <= max => Ok(slots),
        slots => Err(D::Error::custom(format!("{slots} slots: use a power of two up to {max}"))),
    }
}

fn regions<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u16, D::Error> {
    match u16::deserialize(deserializer)? {
        regions @ 1..=256 => Ok(regions),
        regions => Err(D::Error::custom(format!("{regions} regions: use 1 to 256"))),
    }
}
