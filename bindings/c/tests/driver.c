/* The driver of the C binding for the conformance test: see bindings/conformance/README.md. */

#include <errno.h>
#include <fcntl.h>
#include <namely.h>
#include <netinet/in.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { SOCKETS_MAX = 64, WORDS_MAX = 32, LINE_OCTETS_MAX = 16384 };

/* Requests and offers of a socket that wait for an answer, the oldest first. */
enum { WAITING_MAX = 64 };

struct socket {
    char id[32];
    int number;
    uint64_t requests[WAITING_MAX];
    int waiting;
};

static struct socket sockets[SOCKETS_MAX];

/* The answer of a step; empty: ok alone. */
static char words[LINE_OCTETS_MAX];

/* The result of a step: 0, or -1 with errno, or UNKNOWN. */
enum { UNKNOWN = -2 };

struct name {
    const char *text;
    int number;
};

static int value_of(const struct name *names, const char *text) {
    for (; names->text != NULL; names++)
        if (strcmp(names->text, text) == 0)
            return names->number;
    return -1;
}

static const struct name options[] = {
    {"router", ICN_OPT_ROUTER},
    {"trust_router_of", ICN_OPT_TRUST_ROUTER_OF},
    {"keychain", ICN_OPT_KEYCHAIN},
    {"identity", ICN_OPT_IDENTITY},
    {"trust", ICN_OPT_TRUST},
    {"congestion", ICN_OPT_CONGESTION},
    {"window_max", ICN_OPT_WINDOW_MAX},
    {"rate_max", ICN_OPT_RATE_MAX},
    {"lifetime_ms", ICN_OPT_LIFETIME_MS},
    {"retries", ICN_OPT_RETRIES},
    {"stale_s", ICN_OPT_STALE_S},
    {"timeout_ms", ICN_OPT_TIMEOUT_MS},
    {"object_octets_max", ICN_OPT_OBJECT_OCTETS_MAX},
    {"manifest", ICN_OPT_MANIFEST},
    {"packet_octets_max", ICN_OPT_PACKET_OCTETS_MAX},
    {"freshness_ms", ICN_OPT_FRESHNESS_MS},
    {"on_bad_segment", ICN_OPT_ON_BAD_SEGMENT},
    {"revocation", ICN_OPT_REVOCATION},
    {"backlog_segments", ICN_OPT_BACKLOG_SEGMENTS},
    {"backlog_octets", ICN_OPT_BACKLOG_OCTETS},
    {"verify_threads", ICN_OPT_VERIFY_THREADS},
    {"must_be_fresh", ICN_OPT_MUST_BE_FRESH},
    {"can_be_prefix", ICN_OPT_CAN_BE_PREFIX},
    {"read_ahead_octets", ICN_OPT_READ_AHEAD_OCTETS},
    {"suite", ICN_OPT_SUITE},
    {"certificate_ends_s", ICN_OPT_CERTIFICATE_ENDS_S},
    {"buffer_octets", ICN_OPT_BUFFER_OCTETS},
    {"buffer_policy", ICN_OPT_BUFFER_POLICY},
    {"store", ICN_OPT_STORE},
    {"store_octets", ICN_OPT_STORE_OCTETS},
    {"requests_max", ICN_OPT_REQUESTS_MAX},
    {"pending_ms", ICN_OPT_PENDING_MS},
    {"announce", ICN_OPT_ANNOUNCE},
    {"segment_octets", ICN_OPT_SEGMENT_OCTETS},
    {"reliable", ICN_OPT_RELIABLE},
    {NULL, 0},
};

static const struct name constants[] = {
    {"AF_ICN", AF_ICN},         {"AF_INET", AF_INET},         {"SOCK_CONS", SOCK_CONS},
    {"SOCK_PROD", SOCK_PROD},   {"SOCK_STREAM", SOCK_STREAM}, {"CONS_REL", CONS_REL},
    {"CONS_UNREL", CONS_UNREL}, {"PROD_REL", PROD_REL},       {"PROD_UNREL", PROD_UNREL},
    {"IPPROTO_TCP", IPPROTO_TCP}, {NULL, 0},
};

static const struct name errnos[] = {
    {"EACCES", EACCES},
    {"EADDRINUSE", EADDRINUSE},
    {"EADDRNOTAVAIL", EADDRNOTAVAIL},
    {"EAFNOSUPPORT", EAFNOSUPPORT},
    {"EAGAIN", EAGAIN},
    {"EBADF", EBADF},
    {"EBADFD", EBADFD},
    {"EBADMSG", EBADMSG},
    {"ECANCELED", ECANCELED},
    {"ECONNREFUSED", ECONNREFUSED},
    {"EFBIG", EFBIG},
    {"EINTR", EINTR},
    {"EINVAL", EINVAL},
    {"EIO", EIO},
    {"EISCONN", EISCONN},
    {"EKEYEXPIRED", EKEYEXPIRED},
    {"EKEYREJECTED", EKEYREJECTED},
    {"EKEYREVOKED", EKEYREVOKED},
    {"EMFILE", EMFILE},
    {"EMSGSIZE", EMSGSIZE},
    {"ENODATA", ENODATA},
    {"ENAMETOOLONG", ENAMETOOLONG},
    {"ENETUNREACH", ENETUNREACH},
    {"ENOBUFS", ENOBUFS},
    {"ENOENT", ENOENT},
    {"ENOKEY", ENOKEY},
    {"ENOPROTOOPT", ENOPROTOOPT},
    {"ENOSPC", ENOSPC},
    {"ENOTCONN", ENOTCONN},
    {"EOPNOTSUPP", EOPNOTSUPP},
    {"EPROTONOSUPPORT", EPROTONOSUPPORT},
    {"EPROTOTYPE", EPROTOTYPE},
    {"ETIMEDOUT", ETIMEDOUT},
    {NULL, 0},
};

static struct socket *entry(const char *id) {
    for (int i = 0; i < SOCKETS_MAX; i++)
        if (sockets[i].number != 0 && strcmp(sockets[i].id, id) == 0)
            return &sockets[i];
    return NULL;
}

static int find(const char *id) {
    struct socket *found = entry(id);
    return found != NULL ? found->number : -1; /* Calls then fail with EBADF. */
}

static struct sockaddr_icn address(const char *uri) {
    struct sockaddr_icn addr;
    if (icn_pton(uri, &addr) != 0)
        memset(&addr, 0, sizeof addr); /* Calls then fail with EAFNOSUPPORT. */
    return addr;
}

static unsigned crc32(const unsigned char *octets, size_t len) {
    unsigned crc = ~0u;
    for (size_t i = 0; i < len; i++) {
        crc ^= octets[i];
        for (int bit = 0; bit < 8; bit++)
            crc = crc >> 1 ^ (0xedb88320u & -(crc & 1));
    }
    return ~crc;
}

static void answer_content(const unsigned char *octets, size_t len) {
    size_t used = strlen(words);
    snprintf(words + used, sizeof words - used, "%s%zu %08x", used > 0 ? " " : "", len, crc32(octets, len));
}

/* Makes the content that a word describes; NULL if it describes none. The caller frees it. */
static unsigned char *content_of(const char *word, size_t *len) {
    unsigned char *octets = NULL;
    unsigned long long size, seed;
    *len = 0;
    if (word[0] == '=') {
        *len = strlen(word + 1);
        octets = malloc(*len + 1);
        memcpy(octets, word + 1, *len);
    } else if (strcmp(word, "-") == 0) {
        octets = malloc(1);
    } else if (sscanf(word, "@%llu:%llu", &size, &seed) == 2) {
        *len = size;
        octets = malloc(*len + 1);
        for (size_t i = 0; i < *len; i++)
            octets[i] = (unsigned char)(seed + i + 7 * (i / 256) + 13 * (i / 65536));
    }
    return octets;
}

static int step_open(const char *id, const char *role, const char *protocol) {
    bool consumer = strcmp(role, "consumer") == 0, reliable = strcmp(protocol, "reliable") == 0;
    int number = icn_socket(AF_ICN, consumer ? SOCK_CONS : SOCK_PROD,
                            consumer ? (reliable ? CONS_REL : CONS_UNREL) : (reliable ? PROD_REL : PROD_UNREL));
    if (number < 0)
        return -1;
    for (int i = 0; i < SOCKETS_MAX; i++)
        if (sockets[i].number == 0) {
            sockets[i] = (struct socket){.number = number};
            snprintf(sockets[i].id, sizeof sockets[i].id, "%s", id);
            return 0;
        }
    return UNKNOWN;
}

static int step_close(const char *id) {
    int number = find(id);
    for (int i = 0; i < SOCKETS_MAX; i++)
        if (sockets[i].number == number)
            sockets[i].number = 0;
    return icn_close(number);
}

static int step_reset(void) {
    for (int i = 0; i < SOCKETS_MAX; i++)
        if (sockets[i].number != 0) {
            icn_close(sockets[i].number); /* EBADF if `after` closed it. */
            sockets[i].number = 0;
        }
    return 0;
}

static int step_set(int socket, const char *option, const char *value) {
    int number = value_of(options, option);
    char *end;
    int64_t integer = strtoll(value, &end, 10);
    if (strcmp(value, "true") == 0 || strcmp(value, "false") == 0) {
        int flag = strcmp(value, "true") == 0;
        return icn_setsockopt(socket, SOL_ICN, number, &flag, sizeof flag);
    }
    if (end != value && *end == 0)
        return icn_setsockopt(socket, SOL_ICN, number, &integer, sizeof integer);
    return icn_setsockopt(socket, SOL_ICN, number, value, (socklen_t)strlen(value));
}

static int step_get(int socket, const char *option) {
    char value[4096];
    socklen_t len = sizeof value;
    if (icn_getsockopt(socket, SOL_ICN, value_of(options, option), value, &len) != 0)
        return -1;
    int64_t integer;
    if (len == sizeof integer && memchr(value, 0, len) != value + len - 1) {
        memcpy(&integer, value, sizeof integer);
        snprintf(words, sizeof words, "%lld", (long long)integer);
    } else {
        snprintf(words, sizeof words, "%.*s", (int)len, value);
    }
    return 0;
}

static int step_bind(int socket, const char *prefix) {
    struct sockaddr_icn addr = address(prefix);
    return icn_bind(socket, &addr, sizeof addr);
}

static int step_fetch(int socket, const char *uri, int flags) {
    struct sockaddr_icn name = address(uri);
    socklen_t namelen = sizeof name;
    size_t len = 0, room = 1 << 16;
    unsigned char *octets = malloc(room);
    ssize_t got;
    while ((got = icn_recvfrom(socket, octets + len, room - len, flags, &name, &namelen)) > 0) {
        len += (size_t)got;
        flags &= ~ICN_DONTWAIT; /* An object that has begun to arrive is read to its end. */
        if (len == room)
            octets = realloc(octets, room *= 2);
    }
    if (got == 0)
        answer_content(octets, len);
    int error = errno;
    free(octets);
    errno = error;
    return (int)got;
}

static int step_publish(int socket, char *const *step, int count) {
    struct sockaddr_icn name = address(step[2]);
    char how[1024] = "", uri[4096];
    for (int i = 4; i < count; i++)
        snprintf(how + strlen(how), sizeof how - strlen(how), " %s", step[i]);
    size_t len;
    unsigned char *content = content_of(step[3], &len);
    if (content == NULL)
        return UNKNOWN;
    struct icn_published published;
    int done = icn_publish(socket, &name, sizeof name, content, len, how, &published);
    int error = errno;
    free(content);
    errno = error;
    if (done == 0 && icn_ntop(&published.pub_name, uri, sizeof uri) != NULL)
        snprintf(words, sizeof words, "%s %llu", uri, (unsigned long long)published.pub_segments);
    return done;
}

static int step_read(int socket, char *const *step) {
    struct sockaddr_icn name = address(step[2]);
    socklen_t namelen = sizeof name;
    size_t len = strtoull(step[4], NULL, 10);
    unsigned char *octets = malloc(len + 1);
    ssize_t got = -1;
    size_t read = 0;
    if (icn_seek(socket, &name, sizeof name, strtoll(step[3], NULL, 10), SEEK_SET) >= 0)
        /* Content before an error is returned first. */
        do {
            got = icn_recvfrom(socket, octets + read, len - read, ICN_WAITALL, &name, &namelen);
            read += got > 0 ? (size_t)got : 0;
        } while (got > 0 && read < len);
    got = got < 0 ? got : (ssize_t)read;
    int error = errno;
    if (got >= 0) {
        answer_content(octets, (size_t)got);
        icn_forget(socket, &name, namelen); /* ENOENT if it was read to its end. */
    }
    free(octets);
    errno = error;
    return got < 0 ? -1 : 0;
}

static int step_hold(int socket, char *const *step) {
    struct sockaddr_icn name = address(step[2]);
    socklen_t namelen = sizeof name;
    size_t len = strtoull(step[3], NULL, 10);
    unsigned char *octets = malloc(len + 1);
    ssize_t got = icn_recvfrom(socket, octets, len, ICN_WAITALL, &name, &namelen);
    int error = errno;
    if (got >= 0)
        answer_content(octets, (size_t)got);
    free(octets);
    errno = error;
    return got < 0 ? -1 : 0;
}

static int step_drain(int socket, const char *uri) {
    struct sockaddr_icn name = address(uri);
    socklen_t namelen = sizeof name;
    size_t len = 0, room = 1 << 20;
    unsigned char *octets = malloc(room);
    int gaps = 0;
    ssize_t got;
    while ((got = icn_recvfrom(socket, octets + len, room - len, 0, &name, &namelen)) > 0 || (got < 0 && errno == ENODATA)) {
        if (got < 0)
            gaps++;
        else
            len += (size_t)got;
    }
    int error = errno;
    if (got == 0) {
        answer_content(octets, len);
        snprintf(words + strlen(words), sizeof words - strlen(words), " %d", gaps);
    }
    free(octets);
    errno = error;
    return (int)got;
}

/* Permits `more` further descriptors of the process, even if the numbers of its descriptors
   leave gaps. */
static int step_descriptors(int more) {
    struct rlimit limit;
    rlim_t first = 0;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0)
        return UNKNOWN;
    while (first < limit.rlim_max && (fcntl((int)first, F_GETFD) != -1 || more-- > 0))
        first++;
    limit.rlim_cur = first;
    return setrlimit(RLIMIT_NOFILE, &limit);
}

static int step_pread(int socket, char *const *step) {
    struct sockaddr_icn name = address(step[2]);
    size_t len = strtoull(step[4], NULL, 10);
    unsigned char *octets = malloc(len + 1);
    ssize_t got = icn_pread(socket, octets, len, strtoll(step[3], NULL, 10), &name, sizeof name);
    int error = errno;
    if (got >= 0) {
        answer_content(octets, (size_t)got);
        icn_forget(socket, &name, sizeof name);
    }
    free(octets);
    errno = error;
    return got < 0 ? -1 : 0;
}

/* Reads ranges of an open object; each step opens its own. */
static int step_ranges(int socket, char *const *step, int count) {
    struct sockaddr_icn name = address(step[2]);
    struct icn_range ranges[WORDS_MAX / 2];
    struct icn_stat stat;
    size_t all = 0, many = (size_t)(count - 3) / 2, got = 0;
    unsigned char *octets;
    ssize_t done = -1;
    int error, object = icn_open(socket, &name, sizeof name);
    if (object < 0 || icn_fstat(object, &stat) != 0)
        return -1;
    for (size_t i = 0; i < many; i++)
        all += ranges[i].rng_len = strtoull(step[4 + 2 * i], NULL, 10);
    octets = malloc(all + 1);
    for (size_t i = 0, at = 0; i < many; at += ranges[i++].rng_len) {
        ranges[i].rng_offset = strtoll(step[3 + 2 * i], NULL, 10);
        ranges[i].rng_base = octets + at;
    }
    done = icn_readv_at(object, ranges, many);
    error = errno;
    for (size_t i = 0; done >= 0 && i < many; i++) {
        memmove(octets + got, ranges[i].rng_base, ranges[i].rng_read);
        got += ranges[i].rng_read;
    }
    if (done >= 0 && (size_t)done == got)
        answer_content(octets, got);
    free(octets);
    if (icn_shut(object) != 0 || icn_shut(object) != -1 || errno != EBADF)
        return UNKNOWN;
    errno = error;
    return done < 0 ? -1 : 0;
}

static int step_stat(int socket, const char *uri) {
    struct sockaddr_icn name = address(uri);
    struct icn_stat stat;
    if (icn_stat(socket, &name, sizeof name, &stat) != 0)
        return -1;
    char octets[32] = "-", segments[32] = "-";
    if (stat.st_octets >= 0)
        snprintf(octets, sizeof octets, "%lld", (long long)stat.st_octets);
    if (stat.st_segments >= 0)
        snprintf(segments, sizeof segments, "%lld", (long long)stat.st_segments);
    snprintf(words, sizeof words, "%s %s", octets, segments);
    return 0;
}

static int step_newest(int socket, const char *uri) {
    struct sockaddr_icn name = address(uri);
    struct icn_stat stat;
    if (icn_stat(socket, &name, sizeof name, &stat) != 0)
        return -1;
    snprintf(words, sizeof words, "%llu", (unsigned long long)stat.st_version);
    return 0;
}

static int step_send(int socket, const char *uri, const char *parameters) {
    struct sockaddr_icn name = address(uri);
    size_t len;
    unsigned char *octets = content_of(parameters, &len);
    if (octets == NULL)
        return UNKNOWN;
    struct iovec vector = {.iov_base = octets, .iov_len = len};
    struct icn_msghdr msg = {.msg_name = &name, .msg_namelen = sizeof name, .msg_iov = &vector};
    msg.msg_iovlen = strcmp(parameters, "-") != 0;
    ssize_t sent = icn_sendmsg(socket, &msg, 0);
    int error = errno;
    free(octets);
    errno = error;
    return sent < 0 ? -1 : 0;
}

/* Receives a message; a null pointer for each part that is not needed. */
static int receive(struct socket *socket, int flags, bool with_name, bool with_content) {
    static unsigned char octets[16384];
    struct sockaddr_icn name;
    struct iovec vector = {.iov_base = octets, .iov_len = sizeof octets};
    struct icn_msghdr msg = {.msg_name = &name, .msg_namelen = sizeof name, .msg_iov = &vector, .msg_iovlen = 1};
    ssize_t got = icn_recvmsg(socket != NULL ? socket->number : -1, &msg, flags);
    if (got < 0)
        return -1;
    if (msg.msg_request != 0 && socket->waiting < WAITING_MAX)
        socket->requests[socket->waiting++] = msg.msg_request;
    if (with_name && icn_ntop(&name, words, sizeof words) == NULL)
        return UNKNOWN;
    if (with_content)
        answer_content(octets, (size_t)got);
    return 0;
}

static int step_request(struct socket *socket, char *const *step) {
    int sent = step_send(socket != NULL ? socket->number : -1, step[2], step[3]);
    return sent == 0 ? receive(socket, 0, false, true) : sent;
}

static uint64_t oldest(struct socket *socket) {
    if (socket == NULL || socket->waiting == 0)
        return 0;
    uint64_t request = socket->requests[0];
    memmove(socket->requests, socket->requests + 1, --socket->waiting * sizeof request);
    return request;
}

static int step_reply(struct socket *socket, char *const *step, int count, int flags) {
    char how[1024] = "";
    size_t len = 0;
    unsigned char *content = count > 2 ? content_of(step[2], &len) : NULL;
    struct iovec vector = {.iov_base = content, .iov_len = len};
    struct icn_msghdr msg = {.msg_iov = &vector, .msg_iovlen = 1, .msg_options = how, .msg_request = oldest(socket)};
    for (int i = 3; i < count; i++)
        snprintf(how + strlen(how), sizeof how - strlen(how), " %s", step[i]);
    ssize_t sent = msg.msg_request == 0 ? UNKNOWN : icn_sendmsg(socket->number, &msg, flags);
    int error = errno;
    free(content);
    errno = error;
    return sent >= 0 ? 0 : (int)sent;
}

static int step_push(int socket, char *const *step) {
    struct sockaddr_icn server = address(step[2]), name = address(step[3]);
    size_t len;
    unsigned char *content = content_of(step[4], &len);
    int done = content == NULL ? UNKNOWN : icn_push(socket, &server, &name, content, len);
    int error = errno;
    free(content);
    errno = error;
    return done;
}

static int step_pull(struct socket *socket, const char *consumer) {
    size_t room = 1 << 24;
    unsigned char *octets = malloc(room);
    uint64_t request = oldest(socket);
    ssize_t got = request == 0 ? UNKNOWN : icn_pull(socket->number, request, find(consumer), octets, room);
    if (got >= 0)
        answer_content(octets, (size_t)got);
    int error = errno;
    free(octets);
    errno = error;
    return got >= 0 ? 0 : (int)got;
}

static int step_ready(int socket, int ms) {
    struct icn_pollfd polled = {.socket = socket, .fd = -1, .events = ICN_POLLIN};
    int ready = icn_poll(&polled, 1, ms);
    snprintf(words, sizeof words, "%s", ready > 0 ? "yes" : "no");
    return ready < 0 ? -1 : 0;
}

static int step_types(char *const *step) {
    int made = icn_socket(value_of(constants, step[1]), value_of(constants, step[2]), value_of(constants, step[3]));
    return made < 0 ? -1 : icn_close(made);
}

/* The work of `after`, in a thread of its own. */
struct later {
    int ms;
    int socket;
    pthread_t steps;
    bool signal;
};

static void *later(void *argument) {
    struct later what = *(struct later *)argument;
    free(argument);
    struct timespec wait = {.tv_sec = what.ms / 1000, .tv_nsec = what.ms % 1000 * 1000000L};
    nanosleep(&wait, NULL);
    if (what.signal)
        pthread_kill(what.steps, SIGUSR1);
    else
        icn_close(what.socket);
    return NULL;
}

static int step_after(char *const *step, int count) {
    struct later *what = malloc(sizeof *what);
    *what = (struct later){.ms = atoi(step[1]), .steps = pthread_self(), .signal = count == 3};
    if (count == 4)
        what->socket = find(step[3]);
    pthread_t thread;
    if (pthread_create(&thread, NULL, later, what) != 0)
        return UNKNOWN;
    return pthread_detach(thread) == 0 ? 0 : UNKNOWN;
}

static int run(char *const *step, int count);

/* Does the rest of the step in a child, and returns the child's answer. */
static int step_fork(char *const *step, int count) {
    int ends[2], status;
    struct { int done, error; } told = {UNKNOWN, 0};
    if (pipe(ends) != 0)
        return UNKNOWN;
    pid_t child = fork();
    if (child == 0) {
        told.done = run(step + 1, count - 1);
        told.error = errno;
        _exit(write(ends[1], &told, sizeof told) == sizeof told ? 0 : 1);
    }
    close(ends[1]);
    if (read(ends[0], &told, sizeof told) != sizeof told)
        told.done = UNKNOWN;
    close(ends[0]);
    waitpid(child, &status, 0);
    errno = told.error;
    return told.done;
}

static int run(char *const *step, int count) {
    const char *what = step[0];
    int socket = count > 1 ? find(step[1]) : -1;
    if (strcmp(what, "hello") == 0)
        return snprintf(words, sizeof words, "c signals,fork,types,roles,unbound") > 0 ? 0 : UNKNOWN;
    if (strcmp(what, "reset") == 0)
        return step_reset();
    if (strcmp(what, "open") == 0 && count == 4)
        return step_open(step[1], step[2], step[3]);
    if (strcmp(what, "set") == 0 && count == 4)
        return step_set(socket, step[2], step[3]);
    if (strcmp(what, "get") == 0 && count == 3)
        return step_get(socket, step[2]);
    if (strcmp(what, "bind") == 0 && count == 3)
        return step_bind(socket, step[2]);
    if (strcmp(what, "fetch") == 0 && count == 3)
        return step_fetch(socket, step[2], ICN_WAITALL);
    if (strcmp(what, "try-fetch") == 0 && count == 3)
        return step_fetch(socket, step[2], ICN_DONTWAIT);
    if (strcmp(what, "publish") == 0 && count >= 4)
        return step_publish(socket, step, count);
    if (strcmp(what, "read") == 0 && count == 5)
        return step_read(socket, step);
    if (strcmp(what, "hold") == 0 && count == 4)
        return step_hold(socket, step);
    if (strcmp(what, "drain") == 0 && count == 3)
        return step_drain(socket, step[2]);
    if (strcmp(what, "descriptors") == 0 && count == 2)
        return step_descriptors(atoi(step[1]));
    if (strcmp(what, "pread") == 0 && count == 5)
        return step_pread(socket, step);
    if (strcmp(what, "ranges") == 0 && count >= 5 && count % 2 == 1)
        return step_ranges(socket, step, count);
    if (strcmp(what, "stat") == 0 && count == 3)
        return step_stat(socket, step[2]);
    if (strcmp(what, "newest") == 0 && count == 3)
        return step_newest(socket, step[2]);
    if (strcmp(what, "request") == 0 && count == 4)
        return step_request(entry(step[1]), step);
    if (strcmp(what, "send") == 0 && count == 4)
        return step_send(socket, step[2], step[3]);
    if (strcmp(what, "recv") == 0 && count == 2)
        return receive(entry(step[1]), 0, true, true);
    if (strcmp(what, "try-recv") == 0 && count == 2)
        return receive(entry(step[1]), ICN_DONTWAIT, true, true);
    if (strcmp(what, "reply") == 0 && count >= 3)
        return step_reply(entry(step[1]), step, count, 0);
    if (strcmp(what, "deny") == 0 && count == 2)
        return step_reply(entry(step[1]), step, count, ICN_DENY);
    if (strcmp(what, "refuse") == 0 && count == 2)
        return step_reply(entry(step[1]), step, count, ICN_REFUSE);
    if (strcmp(what, "push") == 0 && count == 5)
        return step_push(socket, step);
    if (strcmp(what, "accept") == 0 && count == 2)
        return receive(entry(step[1]), ICN_PUSH, true, false);
    if (strcmp(what, "pull") == 0 && count == 3)
        return step_pull(entry(step[1]), step[2]);
    if (strcmp(what, "ready") == 0 && count == 3)
        return step_ready(socket, atoi(step[2]));
    if (strcmp(what, "close") == 0 && count == 2)
        return step_close(step[1]);
    if (strcmp(what, "after") == 0 && (count == 3 || count == 4))
        return step_after(step, count);
    if (strcmp(what, "fork") == 0 && count >= 2)
        return step_fork(step, count);
    if (strcmp(what, "types") == 0 && count == 4)
        return step_types(step);
    return UNKNOWN;
}

static void answer(int done, int error) {
    const struct name *name = errnos;
    if (done == UNKNOWN) {
        printf("unknown step\n");
        return;
    }
    if (done == 0) {
        printf("ok%s%s\n", words[0] != 0 ? " " : "", words);
        return;
    }
    fprintf(stderr, "%s: %s\n", icn_strerror(error), icn_lasterror());
    while (name->text != NULL && name->number != error)
        name++;
    if (name->text != NULL)
        printf("error %s\n", name->text);
    else
        printf("error %d\n", error);
}

static void on_signal(int number) {
    (void)number;
}

int main(void) {
    static char line[LINE_OCTETS_MAX];
    struct sigaction action = {.sa_handler = on_signal};
    sigaction(SIGUSR1, &action, NULL);
    while (fgets(line, sizeof line, stdin) != NULL) {
        char *step[WORDS_MAX], *rest = NULL;
        int count = 0;
        for (char *word = strtok_r(line, " \n", &rest); word != NULL && count < WORDS_MAX;
             word = strtok_r(NULL, " \n", &rest))
            step[count++] = word;
        words[0] = 0;
        int done = count > 0 ? run(step, count) : UNKNOWN;
        answer(done, errno);
        fflush(stdout);
    }
    step_reset();
    return 0;
}
