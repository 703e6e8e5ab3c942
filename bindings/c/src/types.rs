//! The constants and structures of `namely.h`, shared by C programs and the library. Only values;
//! no function here reads a pointer.
#![allow(non_camel_case_types, reason = "the names are those that C programs write")]

use libc::{c_char, c_int, c_short, c_void, iovec, socklen_t};

/// Family of names as addresses.
pub const AF_ICN: c_int = 0x4e44;

/// Type of a consumer socket: it requests content.
pub const SOCK_CONS: c_int = 0x11;
/// Type of a producer socket: it publishes content.
pub const SOCK_PROD: c_int = 0x12;

/// Protocol of a consumer that fetches whole objects and retransmits lost Interests.
pub const CONS_REL: c_int = 1;
/// Protocol of a consumer that sends each Interest once.
pub const CONS_UNREL: c_int = 2;
/// Protocol of a producer that retains its publications in a store (option ICN_OPT_STORE).
pub const PROD_REL: c_int = 3;
/// Protocol of a producer that retains its publications in memory, as long as there is room.
pub const PROD_UNREL: c_int = 4;

/// Level of the options, for icn_setsockopt and icn_getsockopt.
pub const SOL_ICN: c_int = 0x4e44;

/// Option: address of the router, text: unix:///path, memif:///path, tcp://host:port,
/// udp://host:port, ether://[address%interface], kernel://, ndndpdk://host:port. Before bind.
pub const ICN_OPT_ROUTER: c_int = 1;
/// Option: users whose routers on this machine are trusted, besides one's own and root's: names or
/// numbers, with commas between them, text. Before bind.
pub const ICN_OPT_TRUST_ROUTER_OF: c_int = 33;
/// Option: folder of the key chain, text. Before bind.
pub const ICN_OPT_KEYCHAIN: c_int = 2;
/// Option of a producer: the signing identity, text: a name. Before bind.
pub const ICN_OPT_IDENTITY: c_int = 3;
/// Option of a consumer: the trust rules, text. Before bind.
pub const ICN_OPT_TRUST: c_int = 4;
/// Option of a consumer: congestion control of fetches, text.
pub const ICN_OPT_CONGESTION: c_int = 5;
/// Option of a consumer: largest window of a fetch in packets.
pub const ICN_OPT_WINDOW_MAX: c_int = 6;
/// Option of a consumer: octets of packets that all fetches together request per second; 0: no
/// limit.
pub const ICN_OPT_RATE_MAX: c_int = 35;
/// Option of a consumer: InterestLifetime in milliseconds.
pub const ICN_OPT_LIFETIME_MS: c_int = 7;
/// Option of a consumer: number of requests for metadata and certificates before a call fails.
pub const ICN_OPT_RETRIES: c_int = 8;
/// Option of a consumer: maximum age of cached metadata that is accepted if the producer does not
/// answer, in seconds; 0: none.
pub const ICN_OPT_STALE_S: c_int = 36;
/// Option: maximum wait of a call, in milliseconds; 0: as long as the fetch continues.
pub const ICN_OPT_TIMEOUT_MS: c_int = 9;
/// Option of a consumer: largest object that is fetched whole, in octets.
pub const ICN_OPT_OBJECT_OCTETS_MAX: c_int = 12;
/// Option of a consumer: the reaction to a segment that does not verify, text: refetch, accept,
/// abort.
pub const ICN_OPT_ON_BAD_SEGMENT: c_int = 10;
/// Option of a consumer: whether revoked certificates are refused, text: check, off, require.
pub const ICN_OPT_REVOCATION: c_int = 11;
/// Option of a consumer: as ICN_OPT_BACKLOG_OCTETS, in packets of 8,800 octets.
pub const ICN_OPT_BACKLOG_SEGMENTS: c_int = 13;
/// Option of a consumer: octets of an object that may be requested and not verified.
pub const ICN_OPT_BACKLOG_OCTETS: c_int = 37;
/// Option of a consumer: threads that verify an object, its own included; 0: one for each
/// processor, 4 at most.
pub const ICN_OPT_VERIFY_THREADS: c_int = 31;
/// Option of a consumer, a switch: whether stale Data may not answer datagrams; on by default.
pub const ICN_OPT_MUST_BE_FRESH: c_int = 14;
/// Option of a consumer, a switch: whether Data with longer names may answer datagrams.
pub const ICN_OPT_CAN_BE_PREFIX: c_int = 15;
/// Option of a consumer: octets that icn_recvfrom requests beyond those it has returned; as many
/// again may wait verified.
pub const ICN_OPT_READ_AHEAD_OCTETS: c_int = 28;
/// Option of a producer: whether manifests authenticate segments, text: off, sha256, blake3.
pub const ICN_OPT_MANIFEST: c_int = 17;
/// Option of a producer: largest packet made, in octets.
pub const ICN_OPT_PACKET_OCTETS_MAX: c_int = 18;
/// Option of a producer: whether packets are limited to the size that the path to the router
/// carries whole, text: off, path.
pub const ICN_OPT_MTU: c_int = 29;
/// Read-only option of a producer: the largest packet that the path to the router carries whole, in
/// octets.
pub const ICN_OPT_PATH_OCTETS: c_int = 30;
/// Read-only option of a producer: the end of its session's certificate, in seconds since the Unix
/// epoch (read it as an int64_t); 0: not bound, or no key signs.
pub const ICN_OPT_CERTIFICATE_ENDS_S: c_int = 32;
/// Option of a producer: FreshnessPeriod of segments in milliseconds.
pub const ICN_OPT_FRESHNESS_MS: c_int = 19;
/// Option of a producer: how it signs, text: digest-sha256, hmac, ed25519, ecdsa-p256, rsa-2048.
pub const ICN_OPT_SUITE: c_int = 16;
/// Option of a producer: memory of its output buffer in octets. Before bind.
pub const ICN_OPT_BUFFER_OCTETS: c_int = 20;
/// Option of a producer: which packets leave memory first, text: fifo, lru, lfu. Before bind.
pub const ICN_OPT_BUFFER_POLICY: c_int = 21;
/// Option of a producer: directory behind the output buffer, text. Before bind.
pub const ICN_OPT_STORE: c_int = 22;
/// Option of a producer: limit of the store in octets. Before bind.
pub const ICN_OPT_STORE_OCTETS: c_int = 23;
/// Option of a producer: number of requests that wait for the application. Before bind.
pub const ICN_OPT_REQUESTS_MAX: c_int = 24;
/// Option of a producer: maximum time for which an Interest waits for the application, in
/// milliseconds; 0: its lifetime. Before bind.
pub const ICN_OPT_PENDING_MS: c_int = 25;
/// Option of a producer: maximum content of a segment, in octets.
pub const ICN_OPT_SEGMENT_OCTETS: c_int = 27;
/// Option of a producer, a switch: whether metadata, first segments and replies announce the whole
/// prefix to routers that learn routes. Before bind.
pub const ICN_OPT_ANNOUNCE: c_int = 34;
/// Option, a switch: whether a consumer retransmits lost Interests, and a producer retains its
/// publications. The protocol sets it.
pub const ICN_OPT_RELIABLE: c_int = 26;

/// Or'ed to the type of a socket: no call on it waits.
pub const ICN_NONBLOCK: c_int = 0o4000;

/// Flag of a call: does not wait.
pub const ICN_DONTWAIT: c_int = 0x40;
/// Flag of icn_recvfrom: returns when the buffer is full or the object ends.
pub const ICN_WAITALL: c_int = 0x100;
/// Flag of icn_recvmsg. Set in msg_flags: the content is longer than the buffers. Given: the whole
/// length is returned.
pub const ICN_TRUNC: c_int = 0x20;
/// Flag of icn_sendmsg on a producer: denies, signed, that the object of msg_request exists (ENOENT
/// at the consumer).
pub const ICN_DENY: c_int = 0x800;
/// Flag of icn_sendmsg on a producer: refuses the request msg_request without a signature
/// (ENETUNREACH at the consumer).
pub const ICN_REFUSE: c_int = 0x1000;
/// Flag of icn_recvmsg on a producer: receives offers that are pushed to it; icn_pull then fetches
/// one.
pub const ICN_PUSH: c_int = 0x2000;

/// Flag of icn_read_at: also requests the octets for the next read, as many as
/// ICN_OPT_READ_AHEAD_OCTETS sets.
pub const ICN_AHEAD: c_int = 0x4000;

/// Event of icn_poll: icn_recvmsg would not block, or an object begun by icn_recvfrom has octets.
pub const ICN_POLLIN: c_short = 0x1;
/// Event of icn_poll: the socket is closed, or lost its router.
pub const ICN_POLLERR: c_short = 0x8;
/// Event of icn_poll: there is no such socket.
pub const ICN_POLLNVAL: c_short = 0x20;

/// Octets of a name in an address: its components as packets carry them.
pub const ICN_NAME_OCTETS_MAX: usize = 2048;

/// Sockets of a process.
pub const ICN_SOCKETS_MAX: usize = 1024;

/// Objects that icn_recvfrom has begun on one socket and not read to their end.
pub const ICN_OBJECTS_MAX: usize = 16;

/// Objects that icn_open has opened in a process.
pub const ICN_OPEN_MAX: usize = 16384;

/// Ranges of one icn_readv_at.
pub const ICN_RANGES_MAX: usize = 1024;

/// Octets of all ranges of one icn_readv_at.
pub const ICN_RANGES_OCTETS_MAX: usize = 1 << 30;

/// Requests of one socket that wait for the program's answer; a further one replaces the oldest.
pub const ICN_REQUESTS_MAX: usize = 1024;

/// A name as an address. icn_pton makes one of text, icn_ntop text of one.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct sockaddr_icn {
    /// AF_ICN.
    pub sicn_family: libc::sa_family_t,
    /// Octets of sicn_name that are in use.
    pub sicn_octets: u16,
    /// The components, as packets carry them (TLV, without the header of the Name).
    pub sicn_name: [u8; ICN_NAME_OCTETS_MAX],
}

impl Default for sockaddr_icn {
    fn default() -> Self {
        sockaddr_icn {
            sicn_family: AF_ICN as libc::sa_family_t,
            sicn_octets: 0,
            sicn_name: [0; ICN_NAME_OCTETS_MAX],
        }
    }
}

/// A datagram: an Interest or its Data. Zero the fields that you do not use.
#[repr(C)]
pub struct icn_msghdr {
    /// The name; icn_recvmsg writes it, unless it is null.
    pub msg_name: *mut sockaddr_icn,
    /// Octets at msg_name; icn_recvmsg writes the number in use.
    pub msg_namelen: socklen_t,
    /// Buffers of the content (an Interest's: its ApplicationParameters).
    pub msg_iov: *mut iovec,
    /// Number of buffers.
    pub msg_iovlen: libc::size_t,
    /// On a producer: the number of the request that is received or answered. 0: none; the content
    /// is published.
    pub msg_request: u64,
    /// Consumer: lifetime of the Interest in milliseconds; 0: that of the socket.
    pub msg_lifetime_ms: u32,
    /// Flags set by icn_recvmsg: ICN_TRUNC.
    pub msg_flags: c_int,
    /// On a producer: options of icn_sendmsg for this publication ("suite=ecdsa-p256
    /// manifest=off"); null: those of the socket.
    pub msg_options: *const c_char,
    /// Set by icn_recvmsg on a consumer: the ContentType of the Data; 0: octets.
    pub msg_content_type: u64,
}

/// A publication.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct icn_published {
    /// The name with its version.
    pub pub_name: sockaddr_icn,
    /// Number of packets of the content.
    pub pub_segments: u64,
}

/// The properties of an object before it is fetched.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct icn_stat {
    /// Octets; -1 if not known before the end.
    pub st_octets: i64,
    /// Segments; -1 if not known before the end.
    pub st_segments: i64,
    /// The version in its name; 0 if it has none.
    pub st_version: u64,
    /// Time of the last change, in nanoseconds since the Unix epoch; -1 if it is not known.
    pub st_changed_ns: i64,
    /// 1 for a directory, with entries that icn_listdir lists; else 0.
    pub st_is_directory: i32,
}

/// A range of an object for icn_readv_at.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct icn_range {
    /// Offset of its first octet.
    pub rng_offset: i64,
    /// The buffer.
    pub rng_base: *mut c_void,
    /// Number of octets requested.
    pub rng_len: libc::size_t,
    /// Number of octets read: fewer at the object's end only.
    pub rng_read: libc::size_t,
}

/// The callback of icn_listdir for each entry of a directory: with `arg`, the entry's name, which
/// ends with a zero, its length, and whether it is a directory. Any value but 0 ends the listing.
pub type icn_entry_fn = Option<
    unsafe extern "C" fn(
        arg: *mut c_void,
        name: *const c_char,
        len: libc::size_t,
        is_directory: c_int,
    ) -> c_int,
>;

/// A socket or a descriptor that icn_poll waits for.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct icn_pollfd {
    /// A socket of icn_socket, or -1: `fd` is waited for.
    pub socket: c_int,
    /// Any descriptor, or -1.
    pub fd: c_int,
    /// ICN_POLLIN; for `fd` any events of poll(2).
    pub events: c_short,
    /// The events that occurred.
    pub revents: c_short,
}
