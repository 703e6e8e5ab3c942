//! The scenarios: their names, kinds and sizes.

use clap::ValueEnum;

/// One measured situation. The names on the command line and in the output are fixed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub enum Scenario {
    /// A file through one router over Unix sockets, segments of 8000 octets
    #[value(name = "unix-8000")]
    Unix8000,
    /// The same with segments of 1200 octets
    #[value(name = "unix-1200")]
    Unix1200,
    /// A file through one router over shared memory (memif), segments of 8000 octets
    #[value(name = "memif-8000")]
    Memif8000,
    /// The same with segments of 1200 octets
    #[value(name = "memif-1200")]
    Memif1200,
    /// A file through one router over TCP on loopback
    #[value(name = "tcp-8000")]
    Tcp8000,
    /// A file through two routers with UDP between them; the applications use Unix sockets
    #[value(name = "udp-2routers")]
    Udp2Routers,
    /// The same with an Ethernet link (veth) between the routers; as root only
    #[value(name = "ether-2routers")]
    Ether2Routers,
    /// A file from the router's content store over Unix sockets, its producer stopped
    #[value(name = "cache-unix")]
    CacheUnix,
    /// Several flows of generated Data through one router over Unix sockets at once
    #[value(name = "multiflow")]
    Multiflow,
    /// Round trips through one router over Unix sockets
    #[value(name = "ping-unix")]
    PingUnix,
    /// The router's resident memory, idle and after ten distinct objects
    #[value(name = "memory")]
    Memory,
    /// The router's CPU time while it is idle
    #[value(name = "idle")]
    Idle,
}

/// Kind of measurement of a scenario.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Fetch one object from its producer.
    Transfer,
    /// Fetch one object again after its producer has ended.
    Cached,
    /// Generated load in several flows.
    Flows,
    /// Round trips.
    Ping,
    /// Memory before and after the fetch of several objects.
    Memory,
    /// CPU time of an unused router.
    Idle,
}

/// Transport between the applications and their router.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transport {
    /// Unix stream sockets.
    Unix,
    /// TCP over loopback.
    Tcp,
    /// Shared memory, arranged over a Unix socket.
    Memif,
}

impl Scenario {
    /// The scenario's name on the command line and in the output.
    pub fn name(self) -> &'static str {
        match self {
            Scenario::Unix8000 => "unix-8000",
            Scenario::Unix1200 => "unix-1200",
            Scenario::Memif8000 => "memif-8000",
            Scenario::Memif1200 => "memif-1200",
            Scenario::Tcp8000 => "tcp-8000",
            Scenario::Udp2Routers => "udp-2routers",
            Scenario::Ether2Routers => "ether-2routers",
            Scenario::CacheUnix => "cache-unix",
            Scenario::Multiflow => "multiflow",
            Scenario::PingUnix => "ping-unix",
            Scenario::Memory => "memory",
            Scenario::Idle => "idle",
        }
    }

    /// Returns the kind of measurement.
    pub fn kind(self) -> Kind {
        match self {
            Scenario::Unix8000
            | Scenario::Unix1200
            | Scenario::Memif8000
            | Scenario::Memif1200
            | Scenario::Tcp8000
            | Scenario::Udp2Routers
            | Scenario::Ether2Routers => Kind::Transfer,
            Scenario::CacheUnix => Kind::Cached,
            Scenario::Multiflow => Kind::Flows,
            Scenario::PingUnix => Kind::Ping,
            Scenario::Memory => Kind::Memory,
            Scenario::Idle => Kind::Idle,
        }
    }

    /// Returns the transport between the applications and their router.
    pub fn transport(self) -> Transport {
        match self {
            Scenario::Tcp8000 => Transport::Tcp,
            Scenario::Memif8000 | Scenario::Memif1200 => Transport::Memif,
            _ => Transport::Unix,
        }
    }

    /// Returns true if two routers are between the applications.
    pub fn has_two_routers(self) -> bool {
        matches!(self, Scenario::Udp2Routers | Scenario::Ether2Routers)
    }

    /// Returns true if the link between the two routers is Ethernet, not UDP. This needs a network
    /// namespace of its own.
    pub fn is_ethernet(self) -> bool {
        self == Scenario::Ether2Routers
    }

    /// Returns the payload of one segment, in octets.
    pub fn segment_octets(self) -> u64 {
        if matches!(self, Scenario::Unix1200 | Scenario::Memif1200) { 1200 } else { 8000 }
    }

    /// Returns the minimum number of Interest-Data exchanges of an object of `octets`.
    pub fn exchanges(self, octets: u64) -> u64 {
        octets.div_ceil(self.segment_octets()).max(1)
    }

    /// Returns the maximum number of packets that each router caches. It is the same for every
    /// subject, so that memory is comparable. The cache holds a whole object in transfers, and few
    /// packets in [`Scenario::Memory`].
    pub fn cs_packets(self) -> u32 {
        if self == Scenario::Memory { 2048 } else { 65_535 }
    }
}

/// Sizes of the measurements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Plan {
    /// Object size of the file scenarios, in octets. Scenarios with small segments or many objects
    /// use a quarter of it.
    pub object_octets: u64,
    /// Number of distinct objects that [`Scenario::Memory`] fetches.
    pub memory_objects: u32,
    /// Number of round trips in one run of [`Scenario::PingUnix`].
    pub pings: u32,
    /// Duration of one run of [`Scenario::Multiflow`], in seconds.
    pub load_s: u64,
    /// Duration of one run of [`Scenario::Idle`], in milliseconds.
    pub idle_ms: u64,
}

impl Plan {
    /// Pause between two round trips, in milliseconds. It is long enough that they do not overlap.
    pub const PING_INTERVAL_MS: u64 = 2;

    /// Returns the sizes for published figures.
    pub fn full(object_mib: u64) -> Self {
        Plan { object_octets: object_mib << 20, memory_objects: 10, pings: 1000, load_s: 5, idle_ms: 5000 }
    }

    /// Returns small sizes, for a functional check only.
    pub fn quick() -> Self {
        Plan { object_octets: 8 << 20, memory_objects: 3, pings: 100, load_s: 1, idle_ms: 1000 }
    }

    /// Returns the size of each object in `scenario`, in octets.
    pub fn object_octets_of(&self, scenario: Scenario) -> u64 {
        match scenario {
            Scenario::Unix1200 | Scenario::Memif1200 | Scenario::Memory => self.object_octets.div_ceil(4),
            _ => self.object_octets,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_names_each_scenario() {
        for scenario in Scenario::value_variants() {
            let value = scenario.to_possible_value().map(|v| v.get_name().to_owned());
            assert_eq!(value.as_deref(), Some(scenario.name()));
        }
    }

    #[test]
    fn a_short_last_segment_is_an_exchange() {
        assert_eq!(Scenario::Unix8000.exchanges(8000), 1);
        assert_eq!(Scenario::Unix8000.exchanges(8001), 2);
        assert_eq!(Scenario::Unix1200.exchanges(0), 1);
    }

    #[test]
    fn the_default_object_fits_every_cache() {
        let plan = Plan::full(256);
        let packets = Scenario::CacheUnix.exchanges(plan.object_octets_of(Scenario::CacheUnix));
        assert!(packets < u64::from(Scenario::CacheUnix.cs_packets()));
    }
}
