// Compares the plugin's CRC32C with XRootD's, at every kind of edge.
#include "../src/crc32c.hh"

#include <cstdio>
#include <random>
#include <vector>

#include <XrdOuc/XrdOucCRC.hh>

using namespace namely;

static int wrong = 0, compared = 0;

static void compare(const char *of, size_t offset, size_t count, uint32_t ours, uint32_t theirs) {
    compared++;
    if (ours == theirs)
        return;
    wrong++;
    std::printf("%s at %zu, %zu octets: %08x, not %08x\n", of, offset, count, ours, theirs);
}

int main() {
    std::mt19937 random(7);
    std::vector<unsigned char> octets(40000);
    for (unsigned char &octet : octets)
        octet = static_cast<unsigned char>(random());
    // RFC 3720, B.4.
    compare("nine digits", 0, 9, crc32c("123456789", 9), 0xe3069283);
    constexpr size_t page = 4096;
    for (size_t offset : {0, 1, 7, 8, 2000, 4088, 4095, 4096, 4097, 12288}) {
        for (size_t count : {0, 1, 7, 8, 9, 4095, 4096, 4097, 8192, 12288, 16383, 16384, 16385, 20481, 36000}) {
            const unsigned char *at = octets.data() + offset % page % 9;
            compare("all", offset, count, crc32c(at, count, 5), XrdOucCRC::Calc32C(at, count, 5));
            std::vector<uint32_t> sums(count / page + 3, 0xabcdef01);
            crc32c_of_pages(at, off_t(offset), count, sums.data());
            size_t done = 0, i = 0;
            for (size_t here = page - offset % page; done < count; done += here, here = page, i++) {
                here = here < count - done ? here : count - done;
                compare("page", offset + done, here, sums[i], XrdOucCRC::Calc32C(at + done, here));
            }
            compare("behind", offset, count, sums[i], 0xabcdef01);
        }
    }
    std::printf("%d compared, %d wrong\n", compared, wrong);
    return wrong == 0 ? 0 : 1;
}
