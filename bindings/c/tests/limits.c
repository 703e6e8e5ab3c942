/* The limits of a program, and one more of each. */
#include <errno.h>
#include <namely.h>
#include <stdio.h>
#include <string.h>

#include "check.h"

enum { POLLED_MAX = 4096, BUFFERS_MAX = 1024 };

static struct icn_pollfd polled[POLLED_MAX + 1];
static struct iovec vectors[BUFFERS_MAX + 1];
static struct icn_range ranges[ICN_RANGES_MAX + 1];

static ssize_t begin(int s, int i, struct sockaddr_icn *name) {
    char uri[64], buf[1];
    socklen_t len = sizeof *name;
    snprintf(uri, sizeof uri, "/lab/limits/%d", i);
    return icn_pton(uri, name) != 0 ? -2 : icn_recvfrom(s, buf, 0, ICN_DONTWAIT, name, &len);
}

/* The router has no route. If it refuses a fetch before the call returns, the fetch is over and
   is started again. */
static ssize_t begin_unrefused(int s, int i, struct sockaddr_icn *name) {
    ssize_t n;
    do
        n = begin(s, i, name);
    while (n == -1 && errno == ENETUNREACH);
    return n;
}

int main(void) {
    struct sockaddr_icn name;
    CHECK(icn_pton("/lab", &name) == 0);
    int s = icn_socket(AF_ICN, SOCK_CONS, CONS_REL);
    CHECK(s >= 0 && icn_bind(s, &name, sizeof name) == 0);
    CHECK(icn_bind(s, &name, sizeof name) == -1 && errno == EISCONN);

    for (int i = 0; i < ICN_OBJECTS_MAX; i++)
        CHECK(begin_unrefused(s, i, &name) == -1 && errno == EAGAIN);
    CHECK(begin(s, ICN_OBJECTS_MAX, &name) == -1 && errno == ENOBUFS);
    CHECK(icn_forget(s, &name, sizeof name) == -1 && errno == ENOENT);
    CHECK(icn_pton("/lab/limits/0", &name) == 0 && icn_forget(s, &name, sizeof name) == 0);
    CHECK(begin_unrefused(s, ICN_OBJECTS_MAX, &name) == -1 && errno == EAGAIN);

    CHECK(icn_readv_at(-1, ranges, ICN_RANGES_MAX + 1) == -1 && errno == EINVAL);
    CHECK(icn_readv_at(-1, ranges, ICN_RANGES_MAX) == -1 && errno == EBADF);
    ranges[0].rng_len = ICN_RANGES_OCTETS_MAX;
    CHECK(icn_readv_at(-1, ranges, 1) == -1 && errno == EBADF);
    ranges[1].rng_len = 1;
    CHECK(icn_readv_at(-1, ranges, 2) == -1 && errno == EINVAL);

    for (int i = 0; i <= POLLED_MAX; i++)
        polled[i] = (struct icn_pollfd){.socket = -1, .fd = -1};
    CHECK(icn_poll(polled, POLLED_MAX, 0) == 0);
    CHECK(icn_poll(polled, POLLED_MAX + 1, 0) == -1 && errno == EINVAL);

    struct icn_msghdr msg = {.msg_name = &name, .msg_namelen = sizeof name, .msg_iov = vectors};
    msg.msg_iovlen = BUFFERS_MAX;
    CHECK(icn_sendmsg(s, &msg, 0) == 0);
    msg.msg_iovlen = BUFFERS_MAX + 1;
    CHECK(icn_sendmsg(s, &msg, 0) == -1 && errno == EINVAL);

    CHECK(icn_recvfrom(s, NULL, 1, 0, &name, &msg.msg_namelen) == -1 && errno == EFAULT);
    CHECK(icn_getsockopt(s, SOL_ICN, 9999, NULL, NULL) == -1 && errno == EFAULT);
    CHECK(icn_close(s) == 0 && icn_close(s) == -1 && errno == EBADF);
    CHECK(strstr(icn_strerror(EBADF), "closed") != NULL);
    return 0;
}
