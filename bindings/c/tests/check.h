/* Assertions of the test programs. */
#ifndef CHECK_H
#define CHECK_H

#include <namely.h>
#include <stdio.h>

#define CHECK(holds)                                                                     \
    do {                                                                                 \
        if (!(holds)) {                                                                  \
            fprintf(stderr, "line %d: %s; %s\n", __LINE__, #holds, icn_lasterror());     \
            return 1;                                                                    \
        }                                                                                \
    } while (0)

#endif
