#include "listing.hh"

#include <utility>

namespace namely {

bool Listing::take(std::string octets) {
    if (!octets.empty() && octets.back() != '\0')
        return false;
    octets_ = std::move(octets);
    at_ = 0;
    std::string name;
    while (next(name)) {
        if (name.empty() || name == "." || name == ".." || name.find('/') != std::string::npos) {
            octets_.clear();
            at_ = 0;
            return false;
        }
    }
    at_ = 0;
    return true;
}

bool Listing::next(std::string &name) {
    if (at_ >= octets_.size())
        return false;
    const size_t end = octets_.find('\0', at_);
    const bool is_directory = end > at_ && octets_[end - 1] == '/';
    name.assign(octets_, at_, end - at_ - (is_directory ? 1 : 0));
    at_ = end + 1;
    return true;
}

} // namespace namely
