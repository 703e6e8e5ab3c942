// Adler-32 of files from a catalogue (docs/files.md). The server does not compute the sums that the
// catalogue has.
#pragma once

#include <cstddef>
#include <cstdint>
#include <istream>
#include <string>
#include <unordered_map>

namespace namely {

// Limits of crates/catalogue.
constexpr size_t catalogue_files_max = size_t(1) << 20;
constexpr size_t catalogue_line_octets_max = 4096;

class Catalogue {
  public:
    // Reads the catalogue at `path`. Returns the first mistake in it, or an empty text.
    std::string read(const std::string &path);
    std::string read(std::istream &text);

    // Sets `sum` to the Adler-32 of the file `path`, if the catalogue lists it with that size.
    bool adler32(const std::string &path, int64_t octets, uint32_t &sum) const;

    size_t files() const { return files_.size(); }

  private:
    struct Known {
        int64_t octets;
        uint32_t sum;
    };
    std::unordered_map<std::string, Known> files_;
};

} // namespace namely
