/* Sends TEXT to the service of this name, and prints the reply:
   ./request /lab/shout hello */
#include <namely.h>
#include <stdio.h>
#include <string.h>
#include <sys/uio.h>

int main(int argc, char **argv) {
    struct sockaddr_icn name;
    char text[8192];
    struct iovec part = {text, sizeof text};
    struct icn_msghdr message = {0};
    ssize_t n = -1;
    if (argc != 3 || strlen(argv[2]) > sizeof text)
        return fprintf(stderr, "usage: %s NAME TEXT\n", argv[0]), 2;
    int s = icn_socket(AF_ICN, SOCK_CONS, CONS_REL);
    message.msg_name = &name;
    message.msg_namelen = sizeof name;
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    memcpy(text, argv[2], strlen(argv[2]));
    part.iov_len = strlen(argv[2]);
    if (icn_pton(argv[1], &name) == 0 && icn_bind(s, &name, sizeof name) == 0 && icn_sendmsg(s, &message, 0) >= 0) {
        part.iov_len = sizeof text;
        n = icn_recvmsg(s, &message, 0);
    }
    if (n < 0)
        fprintf(stderr, "%s\n", icn_lasterror());
    else
        printf("%.*s\n", (int)n, text);
    return icn_close(s) != 0 || n < 0;
}
