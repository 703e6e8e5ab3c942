#include "crc32c.hh"

#include <algorithm>
#include <cstring>

#include <XrdOuc/XrdOucCRC.hh>
#include <XrdSys/XrdSysPageSize.hh>

#if defined(__x86_64__)
#include <nmmintrin.h>
#endif

namespace namely {

namespace {

constexpr size_t page_octets = XrdSys::PageSize;

#if defined(__x86_64__)

// The instruction takes three cycles, and one can start in each cycle: pages are summed in
// parallel.
constexpr size_t lanes = 4;

bool has_instruction() {
    static const bool has = __builtin_cpu_supports("sse4.2") != 0;
    return has;
}

inline uint64_t word_at(const unsigned char *octets) {
    uint64_t word;
    std::memcpy(&word, octets, sizeof word);
    return word;
}

__attribute__((target("sse4.2"))) uint32_t one(const unsigned char *octets, size_t count, uint32_t before) {
    uint64_t sum = ~before;
    for (; count >= 8; octets += 8, count -= 8)
        sum = _mm_crc32_u64(sum, word_at(octets));
    for (; count > 0; octets++, count--)
        sum = _mm_crc32_u8(uint32_t(sum), *octets);
    return ~uint32_t(sum);
}

__attribute__((target("sse4.2"))) void whole_pages(const unsigned char *octets, uint32_t *sums) {
    uint64_t a = ~0U, b = ~0U, c = ~0U, d = ~0U;
    for (const unsigned char *end = octets + page_octets; octets < end; octets += 8) {
        a = _mm_crc32_u64(a, word_at(octets));
        b = _mm_crc32_u64(b, word_at(octets + page_octets));
        c = _mm_crc32_u64(c, word_at(octets + 2 * page_octets));
        d = _mm_crc32_u64(d, word_at(octets + 3 * page_octets));
    }
    sums[0] = ~uint32_t(a);
    sums[1] = ~uint32_t(b);
    sums[2] = ~uint32_t(c);
    sums[3] = ~uint32_t(d);
}

#else

constexpr size_t lanes = 1;

bool has_instruction() { return false; }
uint32_t one(const unsigned char *, size_t, uint32_t before) { return before; }
void whole_pages(const unsigned char *, uint32_t *) {}

#endif

} // namespace

uint32_t crc32c(const void *octets, size_t count, uint32_t before) {
    return has_instruction() ? one(static_cast<const unsigned char *>(octets), count, before)
                             : XrdOucCRC::Calc32C(octets, count, before);
}

void crc32c_of_pages(const void *octets, off_t offset, size_t count, uint32_t *sums) {
    const auto *at = static_cast<const unsigned char *>(octets);
    size_t page = std::min(count, page_octets - size_t(offset) % page_octets);
    while (count > 0) {
        if (page == page_octets && count >= lanes * page_octets && has_instruction()) {
            whole_pages(at, sums);
            at += lanes * page_octets;
            count -= lanes * page_octets;
            sums += lanes;
        } else {
            *sums++ = crc32c(at, page, 0);
            at += page;
            count -= page;
        }
        page = std::min(count, page_octets);
    }
}

} // namespace namely
