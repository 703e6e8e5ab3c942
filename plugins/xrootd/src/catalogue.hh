// Adler-32 of files, as a catalogue tells them (docs/files.md): a server that has one computes none
// of those.
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
    // Reads the catalogue at `path`. Returns what is wrong with it, or nothing.
    std::string read(const std::string &path);
    std::string read(std::istream &text);

    // The Adler-32 of the file `path`, if it is known of one of that size.
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
