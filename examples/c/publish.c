/* Publishes standard input (up to 64 KiB) as NAME for SECONDS:
   ./publish /lab/run7 60 < file */
#include <namely.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

int main(int argc, char **argv) {
    struct sockaddr_icn name;
    static char buf[65536];
    ssize_t sent = -1;
    if (argc != 3)
        return fprintf(stderr, "usage: %s NAME SECONDS < FILE\n", argv[0]), 2;
    int s = icn_socket(AF_ICN, SOCK_PROD, PROD_UNREL);
    if (icn_pton(argv[1], &name) == 0 && icn_bind(s, &name, sizeof name) == 0)
        sent = icn_sendto(s, buf, fread(buf, 1, sizeof buf, stdin), 0, &name, sizeof name);
    if (sent < 0)
        fprintf(stderr, "%s\n", icn_lasterror());
    else
        sleep((unsigned)atoi(argv[2]));
    return icn_close(s) != 0 || sent < 0;
}
