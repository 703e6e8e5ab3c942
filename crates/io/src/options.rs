//! Settings and limits of the event loop and its sockets.

use namely_link::ReassemblyLimits;
use namely_wire::FaceUri;

/// Settings of an event loop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IoOptions {
    /// Maximum number of faces; listeners do not count. A further peer replaces an idle face, or is
    /// refused.
    pub faces_max: usize,
    /// The shares of `faces_max` that peers may use.
    pub face_shares: FaceShares,
    /// Octets of memory of frames that wait on one face.
    ///
    /// # Limit
    /// The packet is dropped.
    /// - Value: 8 MiB
    /// - Counter: `queue_full`
    /// - Tests: `a_stalled_unix_consumer_is_bounded`
    pub queue_octets_max: usize,
    /// Octets of memory of frames that wait on all faces.
    ///
    /// Each face may queue 64 KiB and one packet regardless of other faces. At the limit, 1/64 of
    /// the total is dropped at once. Frames to programs of root are dropped last.
    ///
    /// # Limit
    /// The longest queues of the user or address with the most octets drop their oldest frames.
    /// - Value: 256 MiB
    /// - Setting: `faces.queue_octets_total_max`
    /// - Counter: `queues_full` of the face whose frames are dropped
    /// - Tests: `the_limit_over_all_queues_holds`,
    ///   `idle_readers_pay_for_their_queues`
    pub queue_octets_total_max: usize,
    /// Time that a connection accepts nothing while data waits.
    ///
    /// # Limit
    /// The connection is closed.
    /// - Value: 30 s
    /// - Setting: `faces.stall_timeout_s`
    /// - Counter: `stalled` of the face
    /// - Tests: `a_stalled_connection_is_closed`
    pub stall_ns: u64,
    /// Octets read from one stream in a turn.
    ///
    /// # Limit
    /// The rest is read in the next turn, after the other faces.
    /// - Value: 256 KiB, from 32 KiB to 4 MiB
    /// - Setting: `faces.read_octets_per_turn`
    /// - Tests: `a_busy_stream_starves_no_other`,
    ///   `link_limits_have_valid_ranges`
    pub read_octets_per_turn: usize,
    /// Datagrams read from one socket in a turn.
    ///
    /// # Limit
    /// The rest is read in the next turn, after the other faces.
    /// - Value: 64, from 1 to 4096; as many more as the last system call returns
    /// - Setting: `faces.read_datagrams_per_turn`
    /// - Tests: `a_peer_flood_harms_no_other_peer`,
    ///   `link_limits_have_valid_ranges`
    pub read_datagrams_per_turn: usize,
    /// Octets of sent packets that the kernel or the device still has.
    ///
    /// It sets SO_SNDBUF of Unix and UDP sockets, and the memory of frames that AF_XDP sends. The
    /// kernel adapts the buffers of TCP to the path.
    ///
    /// # Limit
    /// Further packets wait in the queue of their face.
    /// - Value: 1 MiB; with AF_XDP for each receive queue
    /// - Tests: `frames_without_xdp_room_are_counted`
    pub send_buffer_octets: usize,
    /// SO_RCVBUF of Unix sockets, octets.
    pub stream_receive_buffer_octets: usize,
    /// Octets of received datagrams and frames that wait.
    ///
    /// It sets SO_RCVBUF of datagram sockets: the largest burst that can arrive while the loop is
    /// busy with other faces. The ring of a network device has slots of the size of its MTU.
    ///
    /// # Limit
    /// The kernel drops further ones.
    /// - Value: 8 MiB for each worker; with AF_XDP for each receive queue
    /// - Counter: `kernel_buffer_full` of the listener
    /// - Tests: `a_full_ring_counts_dropped_frames`,
    ///   `frames_without_xdp_room_are_counted`
    pub datagram_receive_buffer_octets: usize,
    /// Time for which an idle worker polls before it sleeps, and for which the kernel polls the
    /// device of a socket (SO_BUSY_POLL), us. 0 disables polling.
    pub busy_poll_us: u32,
    /// Whether the kernel is requested to refuse file descriptors from peers. Otherwise, and before
    /// Linux 6.16, a thread receives and closes them.
    pub refuses_rights: bool,
    /// Limits on the incomplete messages of each face.
    pub reassembly: ReassemblyLimits,
    /// Octets of memory of the incomplete messages of all faces.
    ///
    /// One user or host may use a quarter of it, and at most the part of three quarters that is
    /// still free. In each case it may use 32 KiB.
    ///
    /// # Limit
    /// An owner above its share drops its oldest messages at its next fragment.
    /// - Value: 64 MiB
    /// - Counter: `reassembly_evicted`
    /// - Tests: `the_reassembly_limit_spans_all_faces`,
    ///   `a_holder_reassembles_within_a_quarter`,
    ///   `full_reassembly_still_serves_small_peers`,
    ///   `a_fragment_flood_leaves_others_memory`
    pub reassembly_octets_total_max: usize,
    /// TCP.
    pub tcp: TcpOptions,
    /// UDP.
    pub udp: UdpOptions,
    /// Limits on sending to UDP addresses that have not proven that they receive.
    pub unproven: UnprovenLimits,
    /// Shared memory.
    pub memif: MemifOptions,
    /// Ethernet.
    pub ethernet: EthernetOptions,
}

impl IoOptions {
    /// Sockets of the faces of a router that forwards by the kernel.
    ///
    /// Returns the options for faces that each have a second socket of the same owner, which
    /// [`crate::Faces::open_packets`] opens.
    ///
    /// # Limit
    /// A further face is refused as other faces are; the kernel refuses one beyond its own
    /// `faces_max` with ENOSPC.
    /// - Value: twice `faces.faces_max`, two for each face
    /// - Counter: `too_many_faces`
    /// - Tests: `a_second_socket_takes_two_places`
    #[must_use]
    pub fn for_two_sockets_each(mut self) -> Self {
        // Saturates, because the configuration may set any number of faces.
        self.faces_max = self.faces_max.saturating_mul(2);
        let shares = &mut self.face_shares;
        // The value 0 is unchanged. It then means a quarter of the doubled number.
        for share in [&mut shares.per_uid_max, &mut shares.per_address_max, &mut shares.local_reserve] {
            *share = share.saturating_mul(2);
        }
        self
    }
}

/// Shares of peers in [`IoOptions::faces_max`]. The value 0 means a quarter of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FaceShares {
    /// Maximum number of faces of one user of this machine, except root.
    pub per_uid_max: usize,
    /// Maximum number of faces of one address: an IPv4 address, an IPv6 prefix of 64 bits, an
    /// Ethernet address.
    pub per_address_max: usize,
    /// Number of faces that are reserved for users of this machine.
    pub local_reserve: usize,
}

impl FaceShares {
    /// Returns the shares with each 0 replaced by a quarter of `faces_max`.
    pub(crate) fn of(self, faces_max: usize) -> Self {
        let or_quarter = |faces: usize, least: usize| match faces {
            // A quarter of a number below 4 is 0.
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
    /// Time for connecting over TCP.
    ///
    /// # Limit
    /// The face fails; a permanent face connects again.
    /// - Value: 4 s
    /// - Tests: `a_connect_without_answer_times_out`
    pub connect_timeout_ns: u64,
    /// First wait before a permanent face connects again, ns. The wait doubles after each failure.
    pub reconnect_ns_min: u64,
    /// Wait before a permanent TCP face connects again.
    ///
    /// # Limit
    /// The wait no longer doubles.
    /// - Value: 30 s
    /// - Tests: `waits_double_up_to_the_limit`
    pub reconnect_ns_max: u64,
}

/// Settings of UDP faces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UdpOptions {
    /// Silence of an on-demand UDP or Ethernet face.
    ///
    /// # Limit
    /// The face is closed.
    /// - Value: 600 s
    /// - Setting: `faces.idle_timeout_s`
    /// - Tests: `an_idle_on_demand_transport_ends`,
    ///   `an_idle_station_is_forgotten`
    pub idle_ns: u64,
    /// Silence of an on-demand face after one frame and no answer.
    ///
    /// It applies to UDP and Ethernet faces that received one frame and sent none. The source
    /// address of the one frame may be forged.
    ///
    /// # Limit
    /// The face is closed.
    /// - Value: 30 s
    /// - Setting: `faces.idle_unanswered_s`
    /// - Tests: `an_unanswered_peer_is_removed_soon`
    pub unanswered_idle_ns: u64,
    /// Time without an arrival after which a face that sends checks the address from which it
    /// sends. On-demand faces do not: they end when they are idle.
    pub silence_ns: u64,
}

/// Limits on sending to a UDP address that opened a face and has not proven that it receives, in
/// bits per second including the headers of UDP and IP. 0 means no limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnprovenLimits {
    /// Rate to one host that has not proven that it receives.
    ///
    /// A host is an IPv4 address or an IPv6 prefix of 64 bits.
    ///
    /// # Limit
    /// The packet is dropped.
    /// - Value: 10 Mbit/s, with a burst of 100 ms and one packet
    /// - Setting: `faces.unproven_address_mbit_s`
    /// - Counter: `unproven_address` of the face
    /// - Tests: `a_rate_limit_passes_its_rate`,
    ///   `a_silent_address_gets_ten_megabits`,
    ///   `silent_addresses_stay_within_the_limits`
    pub address_bps: u64,
    /// Rate to all hosts that have not proven that they receive.
    ///
    /// # Limit
    /// The packet is dropped.
    /// - Value: 100 Mbit/s
    /// - Setting: `faces.unproven_total_mbit_s`
    /// - Counter: `unproven_total` of the face
    /// - Tests: `silent_addresses_share_a_total_limit`,
    ///   `silent_addresses_stay_within_the_limits`
    pub total_bps: u64,
}

impl UnprovenLimits {
    /// No limits. No peer has to prove that it receives.
    pub const NONE: UnprovenLimits = UnprovenLimits { address_bps: 0, total_bps: 0 };
}

/// Settings of shared-memory faces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemifOptions {
    /// The limits for a peer that connects.
    pub interface: namely_memif::Options,
    /// Octets mapped here for all shared-memory faces.
    ///
    /// A face of the user with the most octets is closed. This user must have more octets than one
    /// face may have, and more than the user of the new peer would have.
    ///
    /// # Limit
    /// The idlest face of the largest user is closed; if there is none, the peer is refused.
    /// - Value: 1 GiB; for root `faces.memif.octets_max` more
    /// - Setting: `faces.memif.octets_total_max`
    /// - Counter: `memif_too_much`
    /// - Tests: `a_budget_is_charged_up_to_its_limit`,
    ///   `a_peer_is_limited_to_its_memif_ceiling`,
    ///   `mapped_memory_is_limited_over_all_peers`,
    ///   `one_user_cannot_map_all_memory`
    pub mapped_octets_total_max: usize,
}

/// Settings of Ethernet faces.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EthernetOptions {
    /// Whether AF_XDP reads network devices.
    pub xdp: Xdp,
}

/// Whether AF_XDP reads network devices, instead of AF_PACKET.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Xdp {
    /// AF_PACKET reads all devices.
    #[default]
    Off,
    /// AF_XDP reads a device if its driver supports the program and this process may load it.
    /// AF_PACKET reads the others.
    Auto,
    /// AF_XDP reads all devices, through the kernel's generic hook if the driver has none. A device
    /// that AF_XDP cannot read is not read at all.
    On,
}

/// Links whose packets are distributed: the worker that reads them passes them to other workers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DispatchedLinks {
    /// The local or remote URIs of their faces. An unspecified address stands for all local
    /// addresses with its port.
    pub links: Vec<FaceUri>,
    /// Whether the first worker reads these links and no other face. It needs at least two workers.
    pub own_worker: bool,
}

impl DispatchedLinks {
    /// Returns true if a face with these URIs is on one of the links.
    pub fn has(&self, local: &FaceUri, remote: &FaceUri) -> bool {
        self.links.iter().any(|link| link == remote || link == local || is_any_with_port(link, local))
    }
}

/// Returns true if `link` stands for every address with the port of `local`.
fn is_any_with_port(link: &FaceUri, local: &FaceUri) -> bool {
    let (Some(any), Some(address)) = (link.address(), local.address()) else { return false };
    // The IP version and the scheme must agree, because IPv6 sockets accept no IPv4 here, and TCP
    // and UDP have separate ports.
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
    /// Whether the face also exchanges frames with other processes of this machine.
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
            udp: UdpOptions {
                idle_ns: 600 * SECOND_NS,
                unanswered_idle_ns: 30 * SECOND_NS,
                silence_ns: 30 * SECOND_NS,
            },
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
    fn a_link_is_known_by_either_end() {
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
