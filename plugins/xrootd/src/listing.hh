// The listing of a directory, as files are served (docs/files.md): each name, `/` behind a
// directory's, and a zero octet. It is kept as it came: a name of one octet costs two.
#pragma once

#include <cstddef>
#include <string>

namespace namely {

class Listing {
  public:
    Listing() = default;

    // Takes the octets of a listing; false if they are none: a name that is empty, `.`, `..` or has a
    // slash in it would lead out of the directory.
    bool take(std::string octets);

    // The next name; false at the end.
    bool next(std::string &name);

  private:
    std::string octets_;
    size_t at_ = 0;
};

} // namespace namely
