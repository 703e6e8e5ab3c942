// The listing of a served directory (docs/files.md): each name, `/` after a directory's, and a zero
// octet. It is stored as received: a name of one octet takes two.
#pragma once

#include <cstddef>
#include <string>

namespace namely {

class Listing {
  public:
    Listing() = default;

    // Takes the octets of a listing. Returns false if they are invalid. A name that is empty, `.`
    // or `..`, or contains a slash, would lead out of the directory.
    bool take(std::string octets);

    // Sets `name` to the next name. Returns false at the end.
    bool next(std::string &name);

  private:
    std::string octets_;
    size_t at_ = 0;
};

} // namespace namely
