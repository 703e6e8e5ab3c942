// CRC32C (RFC 3720, B.4), by the processor's instruction where it has one: what XRootD computes it
// with takes as long as all the rest of a page read.
#pragma once

#include <cstddef>
#include <cstdint>
#include <sys/types.h>

namespace namely {

// Of `count` octets behind those whose sum is `before`.
uint32_t crc32c(const void *octets, size_t count, uint32_t before = 0);

// Of each page of a file that `count` octets from `offset` on lie in: the first and the last page
// may be there in part.
void crc32c_of_pages(const void *octets, off_t offset, size_t count, uint32_t *sums);

} // namespace namely
