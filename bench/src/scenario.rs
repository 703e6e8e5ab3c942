//! What is measured: the scenarios, their names, and how large each one is.

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
    /// The router's CPU time while nothing happens
    #[value(name = "idle")]
    Idle,
}

/// What kind of measurement a scenario is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Fetch one object from its producer.
    Transfer,
    /// Fetch one object again after its producer has gone.
    Cached,
    /// Generated load in several flows.
    Flows,
    /// Round trips.
    Ping,
    /// Memory before and after objects.
    Memory,
    /// CPU time of a router that nobody uses.
    Idle,
}

/// What the applications speak to their router.
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

    /// What kind of measurement it is.
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

    /// What the applications speak to their router.
    pub fn transport(self) -> Transport {
        match self {
            Scenario::Tcp8000 => Transport::Tcp,
            Scenario::Memif8000 | Scenario::Memif1200 => Transport::Memif,
            _ => Transport::Unix,
        }
    }

    /// Whether two routers stand between the applications.
    pub fn has_two_routers(self) -> bool {
        matches!(self, Scenario::Udp2Routers | Scenario::Ether2Routers)
    }

    /// Whether the two routers speak over Ethernet, not UDP. It takes a network namespace of its
    /// own.
    pub fn is_ethernet(self) -> bool {
        self == Scenario::Ether2Routers
    }

    /// Payload of one segment, in octets.
    pub fn segment_octets(self) -> u64 {
        if matches!(self, Scenario::Unix1200 | Scenario::Memif1200) { 1200 } else { 8000 }
    }

    /// How many Interest-Data exchanges an object of `octets` takes at least.
    pub fn exchanges(self, octets: u64) -> u64 {
        octets.div_ceil(self.segment_octets()).max(1)
    }

    /// How many packets each router may cache. One number for every subject, so that memory is
    /// comparable: room for a whole object in transfers, little in [`Scenario::Memory`].
    pub fn cs_packets(self) -> u32 {
        if self == Scenario::Memory { 2048 } else { 65_535 }
    }
}

/// How large the measurements are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Plan {
    /// Object size of the file scenarios, in octets; a quarter of it where segments are small or
    /// objects many.
    pub object_octets: u64,
    /// How many distinct objects [`Scenario::Memory`] fetches.
    pub memory_objects: u32,
    /// Round trips in one run of [`Scenario::PingUnix`].
    pub pings: u32,
    /// How long one run of [`Scenario::Multiflow`] lasts, in seconds.
    pub load_s: u64,
    /// How long one run of [`Scenario::Idle`] watches, in milliseconds.
    pub idle_ms: u64,
}

impl Plan {
    /// Pause between two round trips: long enough that they do not overlap, in milliseconds.
    pub const PING_INTERVAL_MS: u64 = 2;

    /// The sizes that published figures use.
    pub fn full(object_mib: u64) -> Self {
        Plan { object_octets: object_mib << 20, memory_objects: 10, pings: 1000, load_s: 5, idle_ms: 5000 }
    }

    /// Sizes that show only that everything works.
    pub fn quick() -> Self {
        Plan { object_octets: 8 << 20, memory_objects: 3, pings: 100, load_s: 1, idle_ms: 1000 }
    }

    /// The size of each object in `scenario`, in octets.
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
    fn the_command_line_knows_each_scenario_by_its_name() {
        for scenario in Scenario::value_variants() {
            let value = scenario.to_possible_value().map(|v| v.get_name().to_owned());
            assert_eq!(value.as_deref(), Some(scenario.name()));
        }
    }

    #[test]
    fn a_last_short_segment_is_an_exchange_too() {
        assert_eq!(Scenario::Unix8000.exchanges(8000), 1);
        assert_eq!(Scenario::Unix8000.exchanges(8001), 2);
        assert_eq!(Scenario::Unix1200.exchanges(0), 1);
    }

    #[test]
    fn a_default_object_fits_every_content_store_where_it_is_fetched_again() {
        let plan = Plan::full(256);
        let packets = Scenario::CacheUnix.exchanges(plan.object_octets_of(Scenario::CacheUnix));
        assert!(packets < u64::from(Scenario::CacheUnix.cs_packets()));
    }
}
