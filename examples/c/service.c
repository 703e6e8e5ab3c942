/* Answers the requests for names below PREFIX in upper case:
   ./service /lab/shout */
#include <ctype.h>
#include <namely.h>
#include <stdio.h>
#include <sys/uio.h>

int main(int argc, char **argv) {
    struct sockaddr_icn name;
    char text[4096];
    struct iovec part = {text, sizeof text};
    struct icn_msghdr request = {0};
    ssize_t n = -1;
    if (argc != 2)
        return fprintf(stderr, "usage: %s PREFIX\n", argv[0]), 2;
    int s = icn_socket(AF_ICN, SOCK_PROD, PROD_UNREL);
    request.msg_name = &name;
    request.msg_namelen = sizeof name;
    request.msg_iov = &part;
    request.msg_iovlen = 1;
    if (icn_pton(argv[1], &name) == 0 && icn_bind(s, &name, sizeof name) == 0)
        while ((n = icn_recvmsg(s, &request, 0)) >= 0) {
            for (ssize_t i = 0; i < n; i++)
                text[i] = (char)toupper((unsigned char)text[i]);
            part.iov_len = (size_t)n;
            /* An answer that fails ends no service: the next request may be another client's. */
            if (icn_sendmsg(s, &request, n == 0 ? ICN_DENY : 0) < 0)
                fprintf(stderr, "%s\n", icn_lasterror());
            part.iov_len = sizeof text;
            request.msg_namelen = sizeof name;
        }
    fprintf(stderr, "%s\n", icn_lasterror());
    return icn_close(s) != 0 || n < 0;
}
