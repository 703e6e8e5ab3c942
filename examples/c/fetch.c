/* Writes the object of this name to standard output: ./fetch /lab/run7 */
#include <namely.h>
#include <stdio.h>

int main(int argc, char **argv) {
    struct sockaddr_icn name;
    socklen_t len = sizeof name;
    char buf[8192];
    ssize_t n = -1;
    if (argc != 2)
        return fprintf(stderr, "usage: %s NAME\n", argv[0]), 2;
    int s = icn_socket(AF_ICN, SOCK_CONS, CONS_REL);
    if (icn_pton(argv[1], &name) == 0 && icn_bind(s, &name, len) == 0)
        while ((n = icn_recvfrom(s, buf, sizeof buf, 0, &name, &len)) > 0)
            fwrite(buf, 1, (size_t)n, stdout);
    if (n < 0)
        fprintf(stderr, "%s\n", icn_lasterror());
    return icn_close(s) != 0 || n < 0;
}
