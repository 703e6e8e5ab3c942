//! The labels of counted drops. docs/counters.md is written from these declarations and from those
//! of the link service.

/// Drops of received frames, at the face.
pub mod received {
    /// The kernel dropped a frame because the socket's buffer was full: for UDP at the face, if the
    /// system reports it, and for Ethernet at the listener.
    pub const KERNEL_BUFFER_FULL: &str = "kernel_buffer_full";
    /// An Ethernet frame came to another worker than the one that makes the face, before the face
    /// was made.
    pub const NO_FACE: &str = "no_face";
    /// A frame could not be read from its socket, or the network device could not be opened.
    pub const RECEIVE_FAILED: &str = "receive_failed";
    /// A WebSocket message is text. The connection is closed.
    pub const WEBSOCKET_TEXT: &str = "websocket_text";
    /// A WebSocket frame breaks the protocol, for example without a mask. The connection is closed.
    pub const WEBSOCKET_MALFORMED: &str = "websocket_malformed";
    /// A WebSocket message has more than 9,312 octets. The connection is closed.
    pub const WEBSOCKET_TOO_LARGE: &str = "websocket_too_large";
    /// A WebSocket peer requests pongs that it does not read. The connection is closed.
    pub const WEBSOCKET_CONTROL_FULL: &str = "websocket_control_full";
}

/// Drops of frames and packets to be sent, at the face.
pub mod sent {
    /// The face's queue is full: the peer reads more slowly than it requests.
    pub const QUEUE_FULL: &str = "queue_full";
    /// A packet waited too long in the face's queue, which stayed long although packets were marked
    /// (CoDel, RFC 8289). Queues to applications of this machine drop only at `queue_octets_max`.
    pub const CODEL: &str = "codel";
    /// The queues of all faces together are full. The longest queue of the owner with the most
    /// octets drops its oldest packet, or the new packet is dropped if there is none.
    pub const QUEUES_FULL: &str = "queues_full";
    /// A packet exceeds the limit of a UDP address that has not proven that it receives.
    pub const UNPROVEN_ADDRESS: &str = "unproven_address";
    /// A packet exceeds the limit of all UDP addresses without a proof together.
    pub const UNPROVEN_TOTAL: &str = "unproven_total";
    /// The peer accepted nothing for 30 s while packets waited. The face was closed; this counts
    /// once.
    pub const STALLED: &str = "stalled";
    /// A packet was for a permanent face without its peer, or waited when the peer went down.
    pub const DOWN: &str = "down";
    /// A datagram or frame is too long for the link.
    pub const DATAGRAM_TOO_LARGE: &str = "datagram_too_large";
    /// The network or the peer is unreachable, or the network device is down. An Ethernet listener
    /// also counts the frames that AF_XDP had accepted and not sent when the device went down.
    pub const UNREACHABLE: &str = "unreachable";
    /// The system does not permit a datagram, as by a firewall.
    pub const NOT_PERMITTED: &str = "not_permitted";
    /// The system refused a datagram or frame for another reason.
    pub const SEND_FAILED: &str = "send_failed";
    /// The network device (a short queue, `tc`) accepted nothing for 200 ms. An Ethernet listener
    /// also counts the frames that AF_XDP had accepted and the device refused later.
    pub const NO_BUFFERS: &str = "no_buffers";
    /// No process has bound the peer's UDP port. This counts once for each such answer.
    pub const REFUSED: &str = "refused";
}

/// Peers and frames that a listener refuses.
pub mod listener {
    /// The configuration allows no further face, and none could be evicted for it.
    pub const TOO_MANY_TRANSPORTS: &str = "too_many_transports";
    /// The user or the address has as many faces as one may have.
    pub const TOO_MANY_OF_ONE_PEER: &str = "too_many_of_one_peer";
    /// The on-demand face that was idle for longest was evicted for a new peer.
    pub const TRANSPORT_EVICTED: &str = "transport_evicted";
    /// The system failed to accept a peer. Without file descriptors the listener pauses for 100 ms.
    pub const ACCEPT_FAILED: &str = "accept_failed";
    /// A WebSocket peer sent something else than an opening handshake of at most 8 KiB. It receives
    /// status 400 and no face.
    pub const WEBSOCKET_HANDSHAKE_FAILED: &str = "websocket_handshake_failed";
    /// A WebSocket handshake took longer than 5 s.
    pub const WEBSOCKET_HANDSHAKE_TIMEOUT: &str = "websocket_handshake_timeout";
    /// A WebSocket handshake was evicted for a further one: the oldest of its host's 64, or of the
    /// host with most of 256.
    pub const WEBSOCKET_HANDSHAKES_FULL: &str = "websocket_handshakes_full";
    /// A datagram arrived at the listener's socket faster than the worker that reads its face
    /// accepted them.
    pub const HANDOVER_FULL: &str = "handover_full";
    /// The first datagram of a peer, or an Ethernet frame, holds no whole TLV. The peer gets no
    /// face.
    pub const NOT_A_PACKET: &str = "not_a_packet";
    /// A datagram came from an address outside `faces.interests_from`. The peer gets no face.
    pub const FOREIGN_NETWORK: &str = "foreign_network";
    /// A frame is longer than the device's MTU.
    pub const ETHER_CUT: &str = "ether_cut";
    /// A frame has the tag of a VLAN, on a device that is not that VLAN's. Frames whose further
    /// tags hide the EtherType from the kernel are not counted.
    pub const ETHER_VLAN: &str = "ether_vlan";
    /// A frame has this machine's own link address as its source.
    pub const ETHER_OWN: &str = "ether_own";
    /// A frame is for another link address (AF_PACKET; the program of AF_XDP leaves such frames to
    /// the kernel).
    pub const ETHER_OTHER_STATION: &str = "ether_other_station";
    /// A frame is for a group without a face, or its sender has no face and the interface is not
    /// listened on.
    pub const ETHER_NO_FACE: &str = "ether_no_face";
    /// A memif peer broke the protocol.
    pub const MEMIF_PROTOCOL: &str = "memif_protocol";
    /// A memif peer brought memory that it could remove, or rings outside its memory.
    pub const MEMIF_MEMORY: &str = "memif_memory";
    /// A memif peer did not know the secret.
    pub const MEMIF_SECRET: &str = "memif_secret";
    /// A memif peer requested more regions, rings, slots or octets than a face, the faces of one
    /// user, or all together may have.
    pub const MEMIF_TOO_MUCH: &str = "memif_too_much";
    /// A memif peer connected while 64 descriptors of its user waited to be closed.
    pub const MEMIF_DESCRIPTORS_FULL: &str = "memif_descriptors_full";
    /// A memif peer disconnected before the handshake was complete.
    pub const MEMIF_GONE: &str = "memif_gone";
    /// A memif handshake took longer than 5 s.
    pub const MEMIF_HANDSHAKE_TIMEOUT: &str = "memif_handshake_timeout";
    /// A memif handshake was evicted for a further one: the oldest of its user's 64, or of the user
    /// with most of 256.
    pub const MEMIF_HANDSHAKES_FULL: &str = "memif_handshakes_full";
}
