// CRC32C (RFC 3720, B.4), by the processor's instruction if it has one. XRootD's own function takes
// as long as all the rest of a page read.
#pragma once

#include <cstddef>
#include <cstdint>
#include <sys/types.h>

namespace namely {

// The sum of `count` octets that follow octets with the sum `before`.
uint32_t crc32c(const void *octets, size_t count, uint32_t before = 0);

// The sum of each page of a file that contains some of `count` octets from `offset` on. The first
// and the last page may be partial.
void crc32c_of_pages(const void *octets, off_t offset, size_t count, uint32_t *sums);

} // namespace namely
