/*
 * A peer on libmemif, the library of FD.io. It carries packets between shared memory and UDP, and
 * does not parse them.
 *
 *   memif_bridge SOCKET client|server BUFFER_OCTETS LOCAL_PORT PEER_PORT
 *
 * It connects to the memif server at SOCKET, or is that server. It sends packets from shared memory
 * by UDP from 127.0.0.1:LOCAL_PORT to 127.0.0.1:PEER_PORT, and writes packets from there to shared
 * memory, in chains of buffers of BUFFER_OCTETS. It prints a line when shared memory is connected,
 * and when it is disconnected.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "libmemif.h"

enum { PACKET_OCTETS_MAX = 65000, BURST = 64, CHAIN_MAX = 256 };

static int epoll_fd, udp_fd;
static memif_conn_handle_t connection;

/* The packet of which buffers are arriving. */
static uint8_t packet[PACKET_OCTETS_MAX];
static size_t packet_octets;

static void fail(const char *what, const char *why)
{
    fprintf(stderr, "%s: %s\n", what, why);
    exit(1);
}

static void check(const char *what, int error)
{
    if (error != MEMIF_ERR_SUCCESS)
        fail(what, memif_strerror(error));
}

static int control_changed(memif_fd_event_t event, void *context)
{
    struct epoll_event wanted = { .events = 0, .data = { .ptr = event.private_ctx } };
    (void)context;
    if (event.type & MEMIF_FD_EVENT_DEL)
        return epoll_ctl(epoll_fd, EPOLL_CTL_DEL, event.fd, NULL);
    if (event.type & MEMIF_FD_EVENT_READ)
        wanted.events |= EPOLLIN;
    if (event.type & MEMIF_FD_EVENT_WRITE)
        wanted.events |= EPOLLOUT;
    return epoll_ctl(epoll_fd, event.type & MEMIF_FD_EVENT_MOD ? EPOLL_CTL_MOD : EPOLL_CTL_ADD, event.fd, &wanted);
}

static int connected(memif_conn_handle_t conn, void *context)
{
    (void)context;
    packet_octets = 0;
    check("memif_refill_queue", memif_refill_queue(conn, 0, (uint16_t)-1, 0));
    puts("connected");
    return 0;
}

static int disconnected(memif_conn_handle_t conn, void *context)
{
    (void)conn;
    (void)context;
    puts("disconnected");
    return 0;
}

static int from_memif(memif_conn_handle_t conn, void *context, uint16_t queue)
{
    memif_buffer_t buffers[BURST];
    uint16_t received;
    int error;
    (void)context;
    do {
        error = memif_rx_burst(conn, queue, buffers, BURST, &received);
        if (error != MEMIF_ERR_SUCCESS && error != MEMIF_ERR_NOBUF)
            fail("memif_rx_burst", memif_strerror(error));
        for (int i = 0; i < received; i++) {
            if (packet_octets + buffers[i].len > sizeof packet)
                fail("memif_rx_burst", "a packet that is too long");
            memcpy(packet + packet_octets, buffers[i].data, buffers[i].len);
            packet_octets += buffers[i].len;
            if (buffers[i].flags & MEMIF_BUFFER_FLAG_NEXT)
                continue;
            if (send(udp_fd, packet, packet_octets, 0) < 0 && errno != ECONNREFUSED)
                fail("send", strerror(errno));
            packet_octets = 0;
        }
        check("memif_refill_queue", memif_refill_queue(conn, queue, received, 0));
    } while (error == MEMIF_ERR_NOBUF);
    return 0;
}

static void from_udp(void)
{
    static uint8_t datagram[PACKET_OCTETS_MAX];
    memif_buffer_t chain[CHAIN_MAX];
    ssize_t octets;
    while ((octets = recv(udp_fd, datagram, sizeof datagram, MSG_DONTWAIT)) >= 0) {
        uint16_t buffers, sent;
        size_t copied = 0;
        int error = memif_buffer_alloc(connection, 0, chain, 1, &buffers, (uint16_t)octets);
        if (error != MEMIF_ERR_SUCCESS)
            continue; /* Not connected, or the ring is full: lost, as on any link. */
        for (int i = 0; i < buffers; i++) {
            memcpy(chain[i].data, datagram + copied, chain[i].len);
            copied += chain[i].len;
        }
        check("memif_tx_burst", memif_tx_burst(connection, 0, chain, buffers, &sent));
    }
    if (errno != EAGAIN && errno != ECONNREFUSED)
        fail("recv", strerror(errno));
}

static void open_udp(int local_port, int peer_port)
{
    int octets = 4 << 20;
    struct sockaddr_in local = { .sin_family = AF_INET, .sin_port = htons((uint16_t)local_port) };
    struct epoll_event wanted = { .events = EPOLLIN, .data = { .ptr = NULL } };
    local.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    struct sockaddr_in peer = local;
    peer.sin_port = htons((uint16_t)peer_port);
    udp_fd = socket(AF_INET, SOCK_DGRAM, 0);
    setsockopt(udp_fd, SOL_SOCKET, SO_RCVBUF, &octets, sizeof octets);
    if (bind(udp_fd, (struct sockaddr *)&local, sizeof local) < 0 || connect(udp_fd, (struct sockaddr *)&peer, sizeof peer) < 0)
        fail("UDP", strerror(errno));
    epoll_ctl(epoll_fd, EPOLL_CTL_ADD, udp_fd, &wanted);
}

static void open_memif(const char *path, int is_server, int buffer_octets)
{
    memif_socket_args_t socket_args = { .app_name = "bridge", .on_control_fd_update = control_changed };
    memif_conn_args_t args = { .buffer_size = (uint16_t)buffer_octets, .log2_ring_size = 9, .is_master = is_server != 0 };
    memif_socket_handle_t socket;
    socket_args.connection_request_timer.it_value.tv_nsec = 1;
    socket_args.connection_request_timer.it_interval.tv_nsec = 100000000;
    strncpy(socket_args.path, path, sizeof socket_args.path - 1);
    strncpy((char *)args.interface_name, "bridge", sizeof args.interface_name - 1);
    check("memif_create_socket", memif_create_socket(&socket, &socket_args, NULL));
    args.socket = socket;
    check("memif_create", memif_create(&connection, &args, connected, disconnected, from_memif, NULL));
}

int main(int argc, char **argv)
{
    if (argc != 6) {
        fprintf(stderr, "usage: %s SOCKET client|server BUFFER_OCTETS LOCAL_PORT PEER_PORT\n", argv[0]);
        return 2;
    }
    setvbuf(stdout, NULL, _IOLBF, 0);
    epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    open_udp(atoi(argv[4]), atoi(argv[5]));
    open_memif(argv[1], strcmp(argv[2], "server") == 0, atoi(argv[3]));
    for (;;) {
        /* One event at a time: its handler may close the descriptor of another ready event. */
        struct epoll_event event;
        int error = MEMIF_ERR_SUCCESS;
        if (epoll_wait(epoll_fd, &event, 1, -1) < 1)
            continue;
        if (event.data.ptr == NULL) {
            from_udp();
            continue;
        }
        if (event.events & EPOLLIN)
            error |= MEMIF_FD_EVENT_READ;
        if (event.events & EPOLLOUT)
            error |= MEMIF_FD_EVENT_WRITE;
        if (event.events & (EPOLLERR | EPOLLHUP))
            error |= MEMIF_FD_EVENT_ERROR;
        error = memif_control_fd_handler(event.data.ptr, (memif_fd_event_type_t)error);
        if (error != MEMIF_ERR_SUCCESS && error != MEMIF_ERR_DISCONNECTED && error != MEMIF_ERR_DISCONNECT)
            fprintf(stderr, "memif: %s\n", memif_strerror(error));
    }
}
