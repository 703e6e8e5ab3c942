//! Settings and limits of the event loop and its sockets.

use namely_link::ReassemblyLimits;
use namely_wire::FaceUri;

/// Settings of an event loop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IoOptions {
    /// Maximum number of faces, listeners not counted; a further peer has one that was idle for
    /// long, or none.
    pub faces_max: usize,
    /// Whose these are.
    pub face_shares: FaceShares,
    /// Maximum number of octets of memory that frames waiting on one face take; further frames
    /// are dropped.
    pub queue_octets_max: usize,
    /// The same over all faces: the longest queues of the holder with most lose what waited
    /// longest. Each face has 64 KiB whatever others take.
    pub queue_octets_total_max: usize,
    /// A connection whose peer has taken nothing for this long while something waited is closed,
    /// ns.
    pub stall_ns: u64,
    /// Maximum number of octets that are read from one stream in a turn, before others have theirs.
    pub read_octets_per_turn: usize,
    /// Maximum number of datagrams that are read from one socket in a turn, before others have
    /// theirs.
    pub read_datagrams_per_turn: usize,
    /// SO_SNDBUF of Unix and UDP sockets, octets. The kernel fits those of TCP to the path.
    pub send_buffer_octets: usize,
    /// SO_RCVBUF of Unix sockets, octets.
    pub stream_receive_buffer_octets: usize,
    /// SO_RCVBUF of datagram sockets, octets: what a burst may hold while the loop is busy
    /// elsewhere.
    pub datagram_receive_buffer_octets: usize,
    /// How long a worker that has nothing to do looks again and again before it sleeps, and the
    /// kernel looks at a socket's device (SO_BUSY_POLL), us; 0: not at all.
    pub busy_poll_us: u32,
    /// Whether the kernel is asked to refuse descriptors that nobody asked for. Where it cannot
    /// (before Linux 6.16) or is not asked, they are taken and closed by a thread.
    pub refuses_rights: bool,
    /// Limits on the incomplete messages of each face.
    pub reassembly: ReassemblyLimits,
    /// Maximum number of octets that the incomplete messages of all faces take.
    pub reassembly_octets_total_max: usize,
    /// TCP.
    pub tcp: TcpOptions,
    /// UDP.
    pub udp: UdpOptions,
    /// What is sent to UDP addresses that have not proven that they receive it.
    pub unproven: UnprovenLimits,
    /// Shared memory.
    pub memif: MemifOptions,
    /// Ethernet.
    pub ethernet: EthernetOptions,
}

impl IoOptions {
    /// The same for faces of which each has another socket of the same holder, as by
    /// [`crate::Faces::open_packets`].
    #[must_use]
    pub fn for_two_sockets_each(mut self) -> Self {
        self.faces_max = self.faces_max.saturating_mul(2);
        let shares = &mut self.face_shares;
        for share in [&mut shares.per_uid_max, &mut shares.per_address_max, &mut shares.local_reserve] {
            *share = share.saturating_mul(2);
        }
        self
    }
}

/// Who may have how many of the faces that peers open. What is 0 is a quarter of all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FaceShares {
    /// Maximum number of faces of one user of this machine, root apart.
    pub per_uid_max: usize,
    /// Maximum number of faces of one address: an IPv4 address, an IPv6 prefix of 64 bits, an
    /// Ethernet address.
    pub per_address_max: usize,
    /// Faces that only users of this machine may have.
    pub local_reserve: usize,
}

impl FaceShares {
    /// The same, with numbers in the place of 0.
    pub(crate) fn of(self, faces_max: usize) -> Self {
        let or_quarter = |faces: usize, least: usize| match faces {
            0 => (faces_max / 4).max(least),
            faces => faces,
        };
        FaceShares {
            per_uid_max: or_quarter(self.per_uid_max, 1),
            per_address_max: or_quarter(self.per_address_max, 1),
            local_reserve: or_quarter(self.local_reserve, 0),
        }
    }
}

/// Settings of TCP faces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TcpOptions {
    /// How long connecting may take, ns.
    pub connect_timeout_ns: u64,
    /// First wait before a permanent face connects again, ns; doubled after each failure.
    pub reconnect_ns_min: u64,
    /// Longest wait before a permanent face connects again, ns.
    pub reconnect_ns_max: u64,
}

/// Settings of UDP faces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UdpOptions {
    /// An on-demand face that receives nothing for this long is closed, ns.
    pub idle_ns: u64,
    /// The same where one frame came and nothing was ever sent, ns: whose address that was is not
    /// known.
    pub unanswered_idle_ns: u64,
}

/// Most of what is sent to UDP addresses that came to a port and have not proven that they receive
/// what is sent to them, bits per second with the headers of UDP and IP; 0: no limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnprovenLimits {
    /// To one host: an IPv4 address, an IPv6 prefix of 64 bits.
    pub address_bps: u64,
    /// To all of them.
    pub total_bps: u64,
}

impl UnprovenLimits {
    /// No limits, and nobody is asked for a proof.
    pub const NONE: UnprovenLimits = UnprovenLimits { address_bps: 0, total_bps: 0 };
}

/// Settings of shared-memory faces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemifOptions {
    /// What a peer that connects may have.
    pub interface: namely_memif::Options,
    /// Maximum number of octets that the memory of all peers together may have, mapped here.
    pub mapped_octets_total_max: usize,
}

/// Settings of Ethernet faces.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EthernetOptions {
    /// Whether devices are read by AF_XDP.
    pub xdp: Xdp,
}

/// Whether network devices are read by AF_XDP instead of AF_PACKET.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Xdp {
    /// No.
    #[default]
    Off,
    /// Where the driver has a place for the program and this process may load it, otherwise by
    /// AF_PACKET.
    Auto,
    /// All of them, through the kernel's generic place where the driver has none. A device that
    /// cannot be read so is not read.
    On,
}

/// Links whose packets the worker that reads them hands to others.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DispatchedLinks {
    /// The local or remote ends of their faces. An unspecified address stands for all with its
    /// port.
    pub links: Vec<FaceUri>,
    /// The first worker reads these links and no other face, if there are at least two
    /// workers.
    pub own_worker: bool,
}

impl DispatchedLinks {
    /// Returns true if a face with these ends is on one of them.
    pub fn has(&self, local: &FaceUri, remote: &FaceUri) -> bool {
        self.links.iter().any(|link| link == remote || link == local || is_any_with_port(link, local))
    }
}

/// Returns true if `link` stands for every address with the port of `local`.
fn is_any_with_port(link: &FaceUri, local: &FaceUri) -> bool {
    let (Some(any), Some(address)) = (link.address(), local.address()) else { return false };
    any.ip().is_unspecified()
        && any.port() == address.port()
        && any.is_ipv4() == address.is_ipv4()
        && std::mem::discriminant(link) == std::mem::discriminant(local)
}

/// A UDP multicast face.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MulticastOptions {
    /// Group and port, such as 224.0.23.170:56363.
    pub group: std::net::SocketAddr,
    /// Interface name.
    pub interface: String,
    /// Whether other processes of this machine hear what is sent, and are heard.
    pub same_host: bool,
}

const SECOND_NS: u64 = 1_000_000_000;

impl Default for IoOptions {
    fn default() -> Self {
        IoOptions {
            faces_max: 8192,
            face_shares: FaceShares::default(),
            queue_octets_max: 8 << 20,
            queue_octets_total_max: 256 << 20,
            stall_ns: 30 * SECOND_NS,
            read_octets_per_turn: 256 << 10,
            read_datagrams_per_turn: 64,
            send_buffer_octets: 1 << 20,
            stream_receive_buffer_octets: 1 << 20,
            datagram_receive_buffer_octets: 8 << 20,
            busy_poll_us: 0,
            refuses_rights: true,
            tcp: TcpOptions {
                connect_timeout_ns: 4 * SECOND_NS,
                reconnect_ns_min: SECOND_NS / 4,
                reconnect_ns_max: 30 * SECOND_NS,
            },
            reassembly: ReassemblyLimits::default(),
            reassembly_octets_total_max: 64 << 20,
            udp: UdpOptions { idle_ns: 600 * SECOND_NS, unanswered_idle_ns: 30 * SECOND_NS },
            unproven: UnprovenLimits { address_bps: 10_000_000, total_bps: 100_000_000 },
            memif: MemifOptions {
                interface: namely_memif::Options { ring_pairs: 4, ring_size_log2: 11, ..Default::default() },
                mapped_octets_total_max: 1 << 30,
            },
            ethernet: EthernetOptions::default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_is_known_by_either_end_and_an_unspecified_address_by_its_port() {
        let uri = |text: &str| -> FaceUri { text.parse().unwrap() };
        let links = |link: &str| DispatchedLinks { links: vec![uri(link)], own_worker: false };
        let has = |link: &str, local: &str, remote: &str| links(link).has(&uri(local), &uri(remote));
        let (local, remote) = ("udp4://192.0.2.1:6363", "udp4://192.0.2.9:7000");
        assert!(has(local, local, remote) && has(remote, local, remote));
        assert!(has("udp4://0.0.0.0:6363", local, remote));
        assert!(!has("udp4://0.0.0.0:7000", local, remote), "only one's own port");
        assert!(!has("tcp4://0.0.0.0:6363", local, remote));
        assert!(!has("udp6://[::]:6363", local, remote));
        assert!(!has("udp4://192.0.2.2:6363", local, remote));
        assert!(has("dev://eth0", "dev://eth0", "ether://[02:00:00:00:00:01]"));
        assert!(!has("dev://eth1", "dev://eth0", "ether://[02:00:00:00:00:01]"));
        assert!(has("unix:///a", "unix:///a", "fd://7"));
    }
}
