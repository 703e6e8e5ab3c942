/* Sockets on which a name replaces an address. See docs/c.md; made from the Rust
 * sources, do not edit.
 *
 * SPDX-License-Identifier: MIT OR Apache-2.0
 */

#ifndef NAMELY_H
#define NAMELY_H

#include <poll.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <sys/uio.h>

// Family of names as addresses.
#define AF_ICN 20036

// Type of a consumer socket: it requests content.
#define SOCK_CONS 17

// Type of a producer socket: it publishes content.
#define SOCK_PROD 18

// Protocol of a consumer that fetches whole objects and retransmits lost Interests.
#define CONS_REL 1

// Protocol of a consumer that sends each Interest once.
#define CONS_UNREL 2

// Protocol of a producer that retains its publications in a store (option ICN_OPT_STORE).
#define PROD_REL 3

// Protocol of a producer that retains its publications in memory, as long as there is room.
#define PROD_UNREL 4

// Level of the options, for icn_setsockopt and icn_getsockopt.
#define SOL_ICN 20036

// Option: address of the router, text: unix:///path, memif:///path, tcp://host:port,
// udp://host:port, ether://[address%interface], kernel://, ndndpdk://host:port. Before bind.
#define ICN_OPT_ROUTER 1

// Option: users whose routers on this machine are trusted, besides one's own and root's: names or
// numbers, with commas between them, text. Before bind.
#define ICN_OPT_TRUST_ROUTER_OF 33

// Option: folder of the key chain, text. Before bind.
#define ICN_OPT_KEYCHAIN 2

// Option of a producer: the signing identity, text: a name. Before bind.
#define ICN_OPT_IDENTITY 3

// Option of a consumer: the trust rules, text. Before bind.
#define ICN_OPT_TRUST 4

// Option of a consumer: congestion control of fetches, text.
#define ICN_OPT_CONGESTION 5

// Option of a consumer: largest window of a fetch in packets.
#define ICN_OPT_WINDOW_MAX 6

// Option of a consumer: octets of packets that all fetches together request per second; 0: no
// limit.
#define ICN_OPT_RATE_MAX 35

// Option of a consumer: InterestLifetime in milliseconds.
#define ICN_OPT_LIFETIME_MS 7

// Option of a consumer: number of requests for metadata and certificates before a call fails.
#define ICN_OPT_RETRIES 8

// Option of a consumer: maximum age of cached metadata that is accepted if the producer does not
// answer, in seconds; 0: none.
#define ICN_OPT_STALE_S 36

// Option: maximum wait of a call, in milliseconds; 0: as long as the fetch continues.
#define ICN_OPT_TIMEOUT_MS 9

// Option of a consumer: largest object that is fetched whole, in octets.
#define ICN_OPT_OBJECT_OCTETS_MAX 12

// Option of a consumer: the reaction to a segment that does not verify, text: refetch, accept,
// abort.
#define ICN_OPT_ON_BAD_SEGMENT 10

// Option of a consumer: whether revoked certificates are refused, text: check, off, require.
#define ICN_OPT_REVOCATION 11

// Option of a consumer: as ICN_OPT_BACKLOG_OCTETS, in packets of 8,800 octets.
#define ICN_OPT_BACKLOG_SEGMENTS 13

// Option of a consumer: octets of an object that may be requested and not verified.
#define ICN_OPT_BACKLOG_OCTETS 37

// Option of a consumer: threads that verify an object, its own included; 0: one for each
// processor, 4 at most.
#define ICN_OPT_VERIFY_THREADS 31

// Option of a consumer, a switch: whether stale Data may not answer datagrams; on by default.
#define ICN_OPT_MUST_BE_FRESH 14

// Option of a consumer, a switch: whether Data with longer names may answer datagrams.
#define ICN_OPT_CAN_BE_PREFIX 15

// Option of a consumer: octets that icn_recvfrom requests beyond those it has returned; as many
// again may wait verified.
#define ICN_OPT_READ_AHEAD_OCTETS 28

// Option of a producer: whether manifests authenticate segments, text: off, sha256, blake3.
#define ICN_OPT_MANIFEST 17

// Option of a producer: largest packet made, in octets.
#define ICN_OPT_PACKET_OCTETS_MAX 18

// Option of a producer: whether packets are limited to the size that the path to the router
// carries whole, text: off, path.
#define ICN_OPT_MTU 29

// Read-only option of a producer: the largest packet that the path to the router carries whole, in
// octets.
#define ICN_OPT_PATH_OCTETS 30

// Read-only option of a producer: the end of its session's certificate, in seconds since the Unix
// epoch (read it as an int64_t); 0: not bound, or no key signs.
#define ICN_OPT_CERTIFICATE_ENDS_S 32

// Option of a producer: FreshnessPeriod of segments in milliseconds.
#define ICN_OPT_FRESHNESS_MS 19

// Option of a producer: how it signs, text: digest-sha256, hmac, ed25519, ecdsa-p256, rsa-2048.
#define ICN_OPT_SUITE 16

// Option of a producer: memory of its output buffer in octets. Before bind.
#define ICN_OPT_BUFFER_OCTETS 20

// Option of a producer: which packets leave memory first, text: fifo, lru, lfu. Before bind.
#define ICN_OPT_BUFFER_POLICY 21

// Option of a producer: directory behind the output buffer, text. Before bind.
#define ICN_OPT_STORE 22

// Option of a producer: limit of the store in octets. Before bind.
#define ICN_OPT_STORE_OCTETS 23

// Option of a producer: number of requests that wait for the application. Before bind.
#define ICN_OPT_REQUESTS_MAX 24

// Option of a producer: maximum time for which an Interest waits for the application, in
// milliseconds; 0: its lifetime. Before bind.
#define ICN_OPT_PENDING_MS 25

// Option of a producer: maximum content of a segment, in octets.
#define ICN_OPT_SEGMENT_OCTETS 27

// Option of a producer, a switch: whether metadata, first segments and replies announce the whole
// prefix to routers that learn routes. Before bind.
#define ICN_OPT_ANNOUNCE 34

// Option, a switch: whether a consumer retransmits lost Interests, and a producer retains its
// publications. The protocol sets it.
#define ICN_OPT_RELIABLE 26

// Or'ed to the type of a socket: no call on it waits.
#define ICN_NONBLOCK 2048

// Flag of a call: does not wait.
#define ICN_DONTWAIT 64

// Flag of icn_recvfrom: returns when the buffer is full or the object ends.
#define ICN_WAITALL 256

// Flag of icn_recvmsg. Set in msg_flags: the content is longer than the buffers. Given: the whole
// length is returned.
#define ICN_TRUNC 32

// Flag of icn_sendmsg on a producer: denies, signed, that the object of msg_request exists (ENOENT
// at the consumer).
#define ICN_DENY 2048

// Flag of icn_sendmsg on a producer: refuses the request msg_request without a signature
// (ENETUNREACH at the consumer).
#define ICN_REFUSE 4096

// Flag of icn_recvmsg on a producer: receives offers that are pushed to it; icn_pull then fetches
// one.
#define ICN_PUSH 8192

// Flag of icn_read_at: also requests the octets for the next read, as many as
// ICN_OPT_READ_AHEAD_OCTETS sets.
#define ICN_AHEAD 16384

// Event of icn_poll: icn_recvmsg would not block, or an object begun by icn_recvfrom has octets.
#define ICN_POLLIN 1

// Event of icn_poll: the socket is closed, or lost its router.
#define ICN_POLLERR 8

// Event of icn_poll: there is no such socket.
#define ICN_POLLNVAL 32

// Octets of a name in an address: its components as packets carry them.
#define ICN_NAME_OCTETS_MAX 2048

// Sockets of a process.
#define ICN_SOCKETS_MAX 1024

// Objects that icn_recvfrom has begun on one socket and not read to their end.
#define ICN_OBJECTS_MAX 16

// Objects that icn_open has opened in a process.
#define ICN_OPEN_MAX 16384

// Ranges of one icn_readv_at.
#define ICN_RANGES_MAX 1024

// Octets of all ranges of one icn_readv_at.
#define ICN_RANGES_OCTETS_MAX (1 << 30)

// Requests of one socket that wait for the program's answer; a further one replaces the oldest.
#define ICN_REQUESTS_MAX 1024

// A name as an address. icn_pton makes one of text, icn_ntop text of one.
struct sockaddr_icn {
    // AF_ICN.
    sa_family_t sicn_family;
    // Octets of sicn_name that are in use.
    uint16_t sicn_octets;
    // The components, as packets carry them (TLV, without the header of the Name).
    uint8_t sicn_name[ICN_NAME_OCTETS_MAX];
};

// A publication.
struct icn_published {
    // The name with its version.
    struct sockaddr_icn pub_name;
    // Number of packets of the content.
    uint64_t pub_segments;
};

// The properties of an object before it is fetched.
struct icn_stat {
    // Octets; -1 if not known before the end.
    int64_t st_octets;
    // Segments; -1 if not known before the end.
    int64_t st_segments;
    // The version in its name; 0 if it has none.
    uint64_t st_version;
    // Time of the last change, in nanoseconds since the Unix epoch; -1 if it is not known.
    int64_t st_changed_ns;
    // 1 for a directory, with entries that icn_listdir lists; else 0.
    int32_t st_is_directory;
};

// A range of an object for icn_readv_at.
struct icn_range {
    // Offset of its first octet.
    int64_t rng_offset;
    // The buffer.
    void *rng_base;
    // Number of octets requested.
    size_t rng_len;
    // Number of octets read: fewer at the object's end only.
    size_t rng_read;
};

// The callback of icn_listdir for each entry of a directory: with `arg`, the entry's name, which
// ends with a zero, its length, and whether it is a directory. Any value but 0 ends the listing.
typedef int (*icn_entry_fn)(void *arg, const char *name, size_t len, int is_directory);

// A datagram: an Interest or its Data. Zero the fields that you do not use.
struct icn_msghdr {
    // The name; icn_recvmsg writes it, unless it is null.
    struct sockaddr_icn *msg_name;
    // Octets at msg_name; icn_recvmsg writes the number in use.
    socklen_t msg_namelen;
    // Buffers of the content (an Interest's: its ApplicationParameters).
    struct iovec *msg_iov;
    // Number of buffers.
    size_t msg_iovlen;
    // On a producer: the number of the request that is received or answered. 0: none; the content
    // is published.
    uint64_t msg_request;
    // Consumer: lifetime of the Interest in milliseconds; 0: that of the socket.
    uint32_t msg_lifetime_ms;
    // Flags set by icn_recvmsg: ICN_TRUNC.
    int msg_flags;
    // On a producer: options of icn_sendmsg for this publication ("suite=ecdsa-p256
    // manifest=off"); null: those of the socket.
    const char *msg_options;
    // Set by icn_recvmsg on a consumer: the ContentType of the Data; 0: octets.
    uint64_t msg_content_type;
};

// A socket or a descriptor that icn_poll waits for.
struct icn_pollfd {
    // A socket of icn_socket, or -1: `fd` is waited for.
    int socket;
    // Any descriptor, or -1.
    int fd;
    // ICN_POLLIN; for `fd` any events of poll(2).
    short events;
    // The events that occurred.
    short revents;
};

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

// Makes a socket that is not bound yet. `domain` is AF_ICN, `type` SOCK_CONS or SOCK_PROD (or'ed
// with ICN_NONBLOCK), `protocol` CONS_REL, CONS_UNREL, PROD_REL or PROD_UNREL.
//
// Returns its number, which is no descriptor (see icn_fileno), or -1: EAFNOSUPPORT,
// EPROTONOSUPPORT (no such type or protocol), EPROTOTYPE (a protocol of the other type), EMFILE.
int icn_socket(int domain, int type, int protocol);

// Connects the socket to the router and binds it to the prefix, below which its names lie. The
// router adds a route from a producer's prefix to the socket.
//
// Returns 0, or -1: ECONNREFUSED, EADDRINUSE, EACCES, ENAMETOOLONG, EINVAL, EISCONN (bound
// already).
int icn_bind(int socket, const struct sockaddr_icn *addr, socklen_t addrlen);

// Closes the socket. Calls that wait on it end with ECANCELED; a producer's publications are gone,
// except those in its store.
//
// Returns 0, or -1: EBADF, EBADFD.
int icn_close(int socket);

// Producer: publishes `len` octets as the object `name` with the options of the socket, and
// answers the Interests that wait for it. icn_publish also returns the versioned name.
//
// Returns `len`, or -1: EADDRNOTAVAIL, ENAMETOOLONG, EMSGSIZE, ENOKEY, ENOBUFS, ENOSPC, ENOTCONN,
// EOPNOTSUPP (a consumer).
ssize_t icn_sendto(int socket,
                   const void *buf,
                   size_t len,
                   int flags,
                   const struct sockaddr_icn *name,
                   socklen_t namelen);

// Producer: as icn_sendto; `options` (may be null) apply to this object only ("suite=ecdsa-p256
// manifest=off"), and `published` (may be null) receives its name and number of segments.
//
// Returns 0, or -1 as icn_sendto; EINVAL and ENOPROTOOPT for `options`.
int icn_publish(int socket,
                const struct sockaddr_icn *name,
                socklen_t namelen,
                const void *buf,
                size_t len,
                const char *options,
                struct icn_published *published);

// Consumer: reads the object `name` like a stream, verified and in order. The first call starts
// the fetch and waits for octets; each further call with the name continues where the last one
// ended. After the end, which is 0, the next call starts the object again. With ICN_WAITALL a call
// returns when the buffer is full or the object ends. `name` becomes the name with the fetched
// version, if `*namelen` has room for it. Calls for several objects may alternate; icn_forget
// abandons one.
//
// Returns the number of octets, 0 at the end, or -1: EAGAIN (nothing has arrived yet, with
// ICN_DONTWAIT; the fetch continues), EINTR (the same), ENODATA (unreliable: a segment was lost,
// the next call continues after it), ENETUNREACH, ENOENT, EISDIR, ETIMEDOUT, ENOKEY,
// EKEYREJECTED, EKEYEXPIRED, EKEYREVOKED, EBADMSG, EFBIG, EADDRNOTAVAIL, ENAMETOOLONG, ENOBUFS
// (ICN_OBJECTS_MAX begun), ENOTCONN, ECANCELED, EOPNOTSUPP.
ssize_t icn_recvfrom(int socket,
                     void *buf,
                     size_t len,
                     int flags,
                     struct sockaddr_icn *name,
                     socklen_t *namelen);

// Consumer: abandons an object that icn_recvfrom began.
//
// Returns 0, or -1: ENOENT (none was begun).
int icn_forget(int socket, const struct sockaddr_icn *name, socklen_t namelen);

// Consumer: sets the position of the next icn_recvfrom of the object; `whence` is SEEK_SET,
// SEEK_CUR or SEEK_END.
//
// Returns the position in octets, or -1 as icn_recvfrom; EINVAL for a position before the object.
int64_t icn_seek(int socket, const struct sockaddr_icn *name, socklen_t namelen, int64_t offset, int whence);

// Consumer: `len` octets of the object from `offset` on, independent of icn_recvfrom's position.
// Only the segments that hold them are requested. It waits even on a non-blocking socket. Until
// icn_forget each call reads the same version, and the object counts toward ICN_OBJECTS_MAX.
//
// Returns the number of octets, fewer than `len` at the object's end only, or -1 as icn_recvfrom;
// EINVAL for an offset before the object.
ssize_t icn_pread(int socket,
                  void *buf,
                  size_t len,
                  int64_t offset,
                  const struct sockaddr_icn *name,
                  socklen_t namelen);

// Consumer: the properties of the object `name`, such as its size, without fetching it. It waits
// even on a non-blocking socket.
//
// Returns 0, or -1 as icn_recvfrom.
int icn_stat(int socket, const struct sockaddr_icn *name, socklen_t namelen, struct icn_stat *stat);

// Consumer: opens one version of the object `name`, which stays the same when others are
// published. No content is requested. The object has a number of its own. This call and all calls
// with the number wait, even on a non-blocking socket. Threads may share the number.
//
// Returns the number, or -1 as icn_recvfrom; EMFILE (ICN_OPEN_MAX are open).
int icn_open(int socket, const struct sockaddr_icn *name, socklen_t namelen);

// Closes an object that icn_open opened. Calls with it that are under way go on to their end.
//
// Returns 0, or -1: EBADF, EBADFD.
int icn_shut(int object);

// The properties of an open object; never waits.
//
// Returns 0, or -1: EBADF.
int icn_fstat(int object, struct icn_stat *stat);

// `len` octets of an open object from `offset` on, verified. Only the segments that hold them are
// requested. With ICN_AHEAD the octets after them are requested, too; the next read with ICN_AHEAD
// finds them if it continues where this one ended. Reads with ICN_AHEAD of one object run one
// after the other.
//
// Returns the number of octets, fewer than `len` at the object's end only, or -1 as icn_recvfrom;
// EINVAL for an offset before the object, ENOBUFS if the socket's limit of requests under way is
// reached.
ssize_t icn_read_at(int object, void *buf, size_t len, int64_t offset, int flags);

// Stops reading ahead on an open object, and frees the octets read ahead.
//
// Returns 0, or -1: EBADF.
int icn_calm(int object);

// Reads octets of an open object from many positions, requested in parallel. `rng_read` of each
// range becomes the number of octets read: fewer than requested only at the object's end.
//
// Returns the number of octets in all, or -1 as icn_read_at, and then no range is read; EINVAL for
// more than ICN_RANGES_MAX ranges or ICN_RANGES_OCTETS_MAX octets.
ssize_t icn_readv_at(int object, struct icn_range *ranges, size_t count);

// Consumer: calls `entry` with `arg` for each entry of the directory `name`, verified. It waits
// even on a non-blocking socket.
//
// Returns 0, the value of `entry` if that ended the listing, or -1 as icn_recvfrom.
int icn_listdir(int socket,
                const struct sockaddr_icn *name,
                socklen_t namelen,
                icn_entry_fn entry,
                void *arg);

// Consumer: sends one Interest for msg_name, with the content as ApplicationParameters if
// msg_iovlen is not 0; icn_recvmsg receives its Data. Producer: answers the request msg_request
// with the content, denies that the object exists (ICN_DENY), or refuses it (ICN_REFUSE); if
// msg_request is 0, publishes the content as msg_name.
//
// Returns the octets of content, or -1: EMSGSIZE, ENOBUFS, EADDRNOTAVAIL, ENAMETOOLONG, EINVAL (no
// such request), ENOTCONN, ECANCELED.
ssize_t icn_sendmsg(int socket, const struct icn_msghdr *msg, int flags);

// Consumer: receives the next Data that answers an icn_sendmsg, verified; if an Interest stays
// unanswered, the call fails and msg_name has its name. Producer: receives the next request that
// no publication answers: its name, its parameters, and in msg_request its number, with which
// icn_sendmsg answers. With ICN_PUSH: receives a consumer's offer: its name, and in msg_request
// the number for icn_pull. The call then returns the number of octets offered.
//
// Returns the octets that were written. Content that does not fit is cut, and ICN_TRUNC is set in
// msg_flags; with the flag ICN_TRUNC the whole length is returned. -1: EAGAIN, EINTR, ETIMEDOUT,
// ENETUNREACH, ENOKEY, EKEYREJECTED, …, ENOTCONN, ECANCELED.
ssize_t icn_recvmsg(int socket, struct icn_msghdr *msg, int flags);

// Producer: publishes the content as `name`, lets the producer bound to `server` fetch it (reverse
// pull), and waits until that producer confirms the object.
//
// Returns 0, or -1 as icn_sendto; ENETUNREACH (no producer accepts it), ETIMEDOUT, EKEYREJECTED,
// EBADMSG (it confirms other content).
int icn_push(int socket,
             const struct sockaddr_icn *server,
             const struct sockaddr_icn *name,
             const void *buf,
             size_t len);

// Producer: fetches the object of `request`, which icn_recvmsg received with ICN_PUSH. The prefix
// and options of the consumer socket `consumer` limit the names that are fetched and the keys that
// are trusted. Confirms the object to the client.
//
// Returns the octets of the object, or -1 as icn_recvfrom; EINVAL (no such request), EMSGSIZE
// (`len` is too small; it may be called again).
ssize_t icn_pull(int socket, uint64_t request, int consumer, void *buf, size_t len);

// Sets an option: `level` is SOL_ICN, `optname` one of ICN_OPT_…. Options that are text take text
// of `optlen` octets (a zero at its end may be counted); numbers and switches take an int or an
// int64_t.
//
// Returns 0, or -1: ENOPROTOOPT (no such option for this socket), EINVAL (no such value), EISCONN
// (only before icn_bind).
int icn_setsockopt(int socket, int level, int optname, const void *optval, socklen_t optlen);

// Reads an option: words as text that ends with a zero; numbers and switches as an int64_t if
// `*optlen` is 8, else as an int. `*optlen` becomes the length of the value.
//
// Returns 0, or -1: ENOPROTOOPT, EINVAL (no room for the value).
int icn_getsockopt(int socket, int level, int optname, void *optval, socklen_t *optlen);

// The prefix of a bound socket.
//
// Returns 0, or -1: ENOTCONN.
int icn_getsockname(int socket, struct sockaddr_icn *addr, socklen_t *addrlen);

// Waits until one of `count` sockets and descriptors is ready, at most `timeout_ms` milliseconds
// (-1: without limit).
//
// Returns the number of ready ones, or -1: EINTR, EINVAL.
int icn_poll(struct icn_pollfd *fds, nfds_t count, int timeout_ms);

// A descriptor that is readable when the socket is ready (ICN_POLLIN), for poll, select and epoll.
// It belongs to the socket: only wait for it.
//
// Returns it, or -1: ENOTCONN.
int icn_fileno(int socket);

// Makes an address of a name's URI ("/a/b/v=1").
//
// Returns 0, or -1: EINVAL, ENAMETOOLONG.
int icn_pton(const char *uri, struct sockaddr_icn *addr);

// Writes the URI of an address's name to `buf`, which ends with a zero.
//
// Returns `buf`, or null: ENOSPC (`size` is too small), EINVAL.
const char *icn_ntop(const struct sockaddr_icn *addr, char *buf, size_t size);

// The meaning of an errno of these functions.
const char *icn_strerror(int errnum);

// The reason of this thread's last failed call, with the names that it concerns. Valid until the
// next failure.
const char *icn_lasterror(void);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* NAMELY_H */
