#include "catalogue.hh"

#include <cerrno>
#include <cstring>
#include <fstream>
#include <vector>

namespace namely {

namespace {

std::vector<std::string> fields_of(const std::string &line) {
    std::vector<std::string> fields;
    size_t from = 0;
    for (size_t tab; (tab = line.find('\t', from)) != std::string::npos; from = tab + 1)
        fields.push_back(line.substr(from, tab - from));
    fields.push_back(line.substr(from));
    return fields;
}

bool number_of(const std::string &text, unsigned base, size_t digits_max, uint64_t &number) {
    if (text.empty() || text.size() > digits_max)
        return false;
    number = 0;
    for (const char c : text) {
        const char *const digits = "0123456789abcdef";
        const char *const digit = std::strchr(digits, c);
        if (c == '\0' || digit == nullptr || unsigned(digit - digits) >= base)
            return false;
        number = number * base + unsigned(digit - digits);
    }
    return true;
}

} // namespace

std::string Catalogue::read(const std::string &path) {
    std::ifstream text(path);
    if (!text)
        return path + ": " + std::strerror(errno);
    const std::string wrong = read(text);
    return wrong.empty() ? wrong : path + ": " + wrong;
}

// One wrong line invalidates the catalogue: other lines may be wrong, too.
std::string Catalogue::read(std::istream &text) {
    std::unordered_map<std::string, Known> files;
    bool is_headed = false;
    size_t number = 0;
    for (std::string line; std::getline(text, line);) {
        const std::string at = "line " + std::to_string(++number);
        if (line.size() > catalogue_line_octets_max)
            return at + " is longer than a line may be";
        if (line.empty() || line[0] == '#')
            continue;
        const std::vector<std::string> fields = fields_of(line);
        if (!is_headed) {
            if (fields.size() != 2 || fields[0] != "catalogue")
                return at + " is not `catalogue TAB version`";
            is_headed = true;
        } else if (fields[0].empty() && (fields.size() == 3 || fields.size() == 4)) {
            uint64_t octets = 0, sum = 0;
            if (!number_of(fields[2], 10, 18, octets))
                return at + " has no size";
            if (fields.size() == 3)
                continue;
            if (fields[3].size() != 8 || !number_of(fields[3], 16, 8, sum))
                return at + " has an adler32 that is not of eight hexadecimal digits";
            if (files.size() >= catalogue_files_max)
                return at + " is of one file more than there may be";
            files[fields[1]] = {int64_t(octets), uint32_t(sum)};
        } else if (fields[0].empty() || fields.size() != 2) {
            return at + " is neither a block nor a file";
        }
    }
    if (text.bad() || !is_headed)
        return text.bad() ? "it cannot be read" : "it is empty";
    files_ = std::move(files);
    return {};
}

bool Catalogue::adler32(const std::string &path, int64_t octets, uint32_t &sum) const {
    const auto known = files_.find(path);
    if (known == files_.end() || known->second.octets != octets)
        return false;
    sum = known->second.sum;
    return true;
}

} // namespace namely
