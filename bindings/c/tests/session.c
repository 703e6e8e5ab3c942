/* A producer and a consumer of one process: an object, a request and its answer, poll among plain
   descriptors, a child. */
#include <dirent.h>
#include <errno.h>
#include <namely.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"

enum { OBJECT_OCTETS = 50000, WAIT_MS = 60000 };

static char object[OBJECT_OCTETS], fetched[OBJECT_OCTETS + 1];

static int bound(int type, int protocol) {
    struct sockaddr_icn prefix;
    int s = icn_socket(AF_ICN, type, protocol);
    if (s < 0 || icn_pton("/lab/session", &prefix) != 0)
        return -1;
    return icn_bind(s, &prefix, sizeof prefix) == 0 ? s : -1;
}

static int objects(int p, int c) {
    struct sockaddr_icn name;
    struct icn_published published;
    for (int i = 0; i < OBJECT_OCTETS; i++)
        object[i] = (char)(i * 7);
    CHECK(icn_pton("lab/session/object", &name) == -1 && errno == EINVAL);
    CHECK(icn_pton("/lab/session/object", &name) == 0);
    CHECK(icn_publish(p, &name, sizeof name, object, sizeof object, "version=1", &published) == 0);
    CHECK(icn_publish(p, &name, sizeof name, object, 10, "version=1", NULL) == -1 && errno == EEXIST);
    socklen_t len = sizeof name;
    CHECK(icn_recvfrom(c, fetched, sizeof fetched, ICN_WAITALL, &name, &len) == OBJECT_OCTETS);
    CHECK(memcmp(object, fetched, sizeof object) == 0);
    CHECK(icn_recvfrom(c, fetched, sizeof fetched, 0, &name, &len) == 0);
    CHECK(icn_pread(c, fetched, 100, 20000, &name, len) == 100 && memcmp(object + 20000, fetched, 100) == 0);
    CHECK(icn_pread(c, fetched, 100, OBJECT_OCTETS - 7, &name, len) == 7);
    CHECK(icn_pread(c, fetched, 100, -1, &name, len) == -1 && errno == EINVAL);
    CHECK(icn_forget(c, &name, len) == 0);
    return 0;
}

/* Reads by the number of an open object: at positions, and with read-ahead. */
static int opened(int c) {
    struct sockaddr_icn name;
    struct icn_stat stat;
    CHECK(icn_pton("/lab/session/object", &name) == 0);
    int o = icn_open(c, &name, sizeof name);
    CHECK(o > 2 && icn_fstat(o, &stat) == 0);
    CHECK(stat.st_octets == OBJECT_OCTETS && stat.st_version == 1 && stat.st_is_directory == 0);
    CHECK(icn_read_at(o, fetched, 100, 20000, 0) == 100 && memcmp(object + 20000, fetched, 100) == 0);
    CHECK(icn_read_at(o, fetched, 100, OBJECT_OCTETS - 7, 0) == 7);
    CHECK(icn_read_at(o, fetched, 100, OBJECT_OCTETS, ICN_AHEAD) == 0);
    for (int at = 0; at < OBJECT_OCTETS; at += 1000)
        CHECK(icn_read_at(o, fetched + at, 1000, at, ICN_AHEAD) == 1000);
    CHECK(memcmp(object, fetched, sizeof object) == 0);
    CHECK(icn_calm(o) == 0 && icn_read_at(o, fetched, 10, 7, ICN_AHEAD) == 10);
    CHECK(memcmp(object + 7, fetched, 10) == 0);
    CHECK(icn_read_at(o, fetched, 10, -1, 0) == -1 && errno == EINVAL);
    CHECK(icn_read_at(o, fetched, 10, 0, ICN_WAITALL) == -1 && errno == EINVAL);
    CHECK(icn_listdir(c, &name, sizeof name, NULL, NULL) == -1 && errno == EFAULT);
    CHECK(icn_shut(o) == 0 && icn_shut(o) == -1 && errno == EBADF);
    CHECK(icn_calm(o) == -1 && icn_fstat(o, &stat) == -1 && errno == EBADF);
    return 0;
}

/* Whether every thread but this one blocks SIGUSR1, according to /proc. */
static int others_block_signals(void) {
    DIR *tasks = opendir("/proc/self/task");
    struct dirent *task;
    CHECK(tasks != NULL);
    while ((task = readdir(tasks)) != NULL) {
        char path[300], line[256], name[64] = "", state = 0;
        unsigned long long blocked = 0;
        snprintf(path, sizeof path, "/proc/self/task/%s/status", task->d_name);
        long thread = strtol(task->d_name, NULL, 10);
        FILE *status = thread == 0 || thread == syscall(SYS_gettid) ? NULL : fopen(path, "r");
        if (status == NULL)
            continue;
        while (fgets(line, sizeof line, status) != NULL) {
            sscanf(line, "Name: %63s", name);
            sscanf(line, "State: %c", &state);
            sscanf(line, "SigBlk: %llx", &blocked);
        }
        fclose(status);
        /* /proc has no status of a thread that is ending. */
        int blocks = strchr("XZ", state) != NULL || (blocked >> (SIGUSR1 - 1) & 1);
        if (!blocks)
            fprintf(stderr, "thread %s (%c) takes signals: it blocks %llx\n", name, state, blocked);
        CHECK(blocks);
    }
    return closedir(tasks);
}

/* Content with many signatures: the threads that verify them take none of the program's
   signals. */
static int verified_by_several(int p, int c) {
    enum { OCTETS = 1000000 };
    static char large[OCTETS];
    struct sockaddr_icn name;
    socklen_t len = sizeof name;
    int threads = 4, got, octets = 0;
    CHECK(icn_setsockopt(c, SOL_ICN, ICN_OPT_VERIFY_THREADS, &threads, sizeof threads) == 0);
    CHECK(icn_pton("/lab/session/large", &name) == 0);
    CHECK(icn_publish(p, &name, sizeof name, large, sizeof large, "version=1 manifest=off", NULL) == 0);
    while ((got = icn_recvfrom(c, fetched, sizeof fetched, 0, &name, &len)) > 0) {
        octets += got;
        CHECK(others_block_signals() == 0);
    }
    CHECK(got == 0 && octets == OCTETS);
    return 0;
}

/* Sockets, a pipe, and unused entries, in one call. */
static int polled(int p, int c, const int *ends, struct sockaddr_icn *name, char *question) {
    struct icn_pollfd fds[] = {
        {.socket = -1, .fd = ends[0], .events = ICN_POLLIN},
        {.socket = p, .fd = -1, .events = ICN_POLLIN},
        {.socket = c, .fd = -1, .events = ICN_POLLIN},
        {.socket = -1, .fd = -1, .events = ICN_POLLIN},
        {.socket = 999999, .fd = -1, .events = ICN_POLLIN},
    };
    CHECK(icn_poll(fds, 4, 0) == 0);
    CHECK(icn_poll(fds, 5, WAIT_MS) == 1 && fds[4].revents == ICN_POLLNVAL);
    CHECK(write(ends[1], "x", 1) == 1);
    CHECK(icn_poll(fds, 4, WAIT_MS) == 1 && fds[0].revents == ICN_POLLIN && fds[1].revents == 0);
    struct iovec iov = {.iov_base = question, .iov_len = 8};
    struct icn_msghdr msg = {.msg_name = name, .msg_namelen = sizeof *name, .msg_iov = &iov, .msg_iovlen = 1};
    CHECK(icn_sendmsg(c, &msg, 0) == 8);
    char octet;
    CHECK(read(ends[0], &octet, 1) == 1);
    CHECK(icn_poll(fds, 3, WAIT_MS) == 1 && fds[0].revents == 0 && fds[1].revents == ICN_POLLIN);
    return 0;
}

static int datagrams(int p, int c, int number) {
    struct sockaddr_icn name, about;
    char question[9];
    /* No router has an answer to it. */
    snprintf(question, sizeof question, "%07x%d", (unsigned)getpid() & 0xfffffff, number);
    int ends[2];
    char content[64];
    CHECK(pipe(ends) == 0 && icn_pton("/lab/session/ask", &name) == 0);
    CHECK(polled(p, c, ends, &name, question) == 0);
    struct iovec iov = {.iov_base = content, .iov_len = sizeof content};
    struct icn_msghdr msg = {.msg_name = &about, .msg_namelen = sizeof about, .msg_iov = &iov, .msg_iovlen = 1};
    CHECK(icn_recvmsg(p, &msg, 0) == 8 && memcmp(content, question, 8) == 0 && msg.msg_request != 0);
    struct iovec answer = {.iov_base = "answer", .iov_len = 6};
    struct icn_msghdr reply = {.msg_iov = &answer, .msg_iovlen = 1, .msg_request = msg.msg_request};
    CHECK(icn_sendmsg(p, &reply, 0) == 6);
    msg.msg_namelen = sizeof about;
    msg.msg_content_type = 7;
    CHECK(icn_recvmsg(c, &msg, 0) == 6 && memcmp(content, "answer", 6) == 0 && msg.msg_content_type == 0);
    CHECK(icn_recvmsg(c, &msg, ICN_DONTWAIT) == -1 && errno == EAGAIN);
    return close(ends[0]) + close(ends[1]);
}

/* A denial is an error of the consumer's call. */
static int denied(int p, int c) {
    struct sockaddr_icn name, about;
    char content[64];
    /* No router has an answer to it. */
    snprintf(content, sizeof content, "%08x", (unsigned)getpid());
    struct iovec iov = {.iov_base = content, .iov_len = 8};
    struct icn_msghdr msg = {.msg_name = &name, .msg_namelen = sizeof name, .msg_iov = &iov, .msg_iovlen = 1};
    CHECK(icn_pton("/lab/session/denied", &name) == 0 && icn_sendmsg(c, &msg, 0) == 8);
    msg.msg_name = &about;
    msg.msg_namelen = sizeof about;
    CHECK(icn_recvmsg(p, &msg, 0) == 8 && msg.msg_request != 0);
    struct icn_msghdr reply = {.msg_request = msg.msg_request};
    CHECK(icn_sendmsg(p, &reply, ICN_DENY) == 0);
    msg.msg_namelen = sizeof about;
    CHECK(icn_recvmsg(c, &msg, 0) == -1 && errno == ENOENT);
    return 0;
}

/* The child may not use the parent's sockets, and may use its own. */
static int in_child(int p, int c) {
    struct sockaddr_icn name;
    socklen_t len = sizeof name;
    struct icn_msghdr msg = {.msg_name = &name, .msg_namelen = sizeof name};
    CHECK(icn_pton("/lab/session/object", &name) == 0);
    CHECK(icn_sendto(p, object, 1, 0, &name, sizeof name) == -1 && errno == EBADFD);
    CHECK(icn_recvmsg(p, &msg, 0) == -1 && errno == EBADFD);
    CHECK(icn_recvfrom(c, fetched, 1, 0, &name, &len) == -1 && errno == EBADFD);
    CHECK(icn_close(p) == -1 && errno == EBADFD);
    int own = bound(SOCK_CONS, CONS_REL);
    CHECK(own >= 0);
    CHECK(icn_recvfrom(own, fetched, sizeof fetched, ICN_WAITALL, &name, &len) == OBJECT_OCTETS);
    return icn_close(own);
}

int main(void) {
    int p = bound(SOCK_PROD, PROD_UNREL), c = bound(SOCK_CONS, CONS_REL);
    CHECK(p >= 0 && c >= 0);
    /* A datagram is sent once, and its answer takes long under valgrind on a busy machine. */
    int lifetime_ms = WAIT_MS;
    CHECK(icn_setsockopt(c, SOL_ICN, ICN_OPT_LIFETIME_MS, &lifetime_ms, sizeof lifetime_ms) == 0);
    CHECK(objects(p, c) == 0);
    CHECK(opened(c) == 0);
    CHECK(verified_by_several(p, c) == 0);
    CHECK(datagrams(p, c, 1) == 0);
    CHECK(denied(p, c) == 0);
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        /* In the child nothing owns the memory of the parent's threads, so a memory checker must
           check the parent only. */
        if (in_child(p, c) == 0)
            execlp("true", "true", (char *)NULL);
        _exit(1);
    }
    int status;
    CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0);
    CHECK(datagrams(p, c, 2) == 0);
    CHECK(icn_close(c) == 0 && icn_close(p) == 0);
    return 0;
}
