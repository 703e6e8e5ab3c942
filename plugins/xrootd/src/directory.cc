#include "directory.hh"

#include <algorithm>
#include <cerrno>
#include <condition_variable>
#include <cstring>
#include <mutex>
#include <utility>

namespace namely {

namespace {

// Entries whose properties are requested at once.
constexpr size_t looks_at_once = 16;

// The largest packet: the assumed size of a segment if its size is unknown.
constexpr size_t packet_octets_max = 8800;

// Minimum number of pieces in which the largest listing is read.
constexpr size_t pieces = 8;

} // namespace

int Directory::Opendir(const char *path, XrdOucEnv &) {
    return storage_.figures().call(Figure::listings, Figure::listing_errors, open(path));
}

int Directory::open(const char *path) {
    Close(nullptr);
    const int object = storage_.open_listing(client_, path);
    if (object == -ENOENT) {
        Told told{};
        const int done = storage_.stat(client_, path, told);
        return done != 0 ? done : told.st_is_directory != 0 ? -ENOENT : -ENOTDIR;
    }
    if (object < 0)
        return object;
    const int done = read(object, path);
    icn_shut(object);
    if (done != 0) {
        Close(nullptr);
        return done;
    }
    path_ = path;
    is_open_ = true;
    return XrdOssOK;
}

// Reads the listing `object`. Its size is charged before any content is requested.
int Directory::read(int object, const char *path) {
    Told told{};
    if (icn_fstat(object, &told) != 0)
        return -errno;
    const size_t max = storage_.call_octets_max();
    // Some sources state only the number of segments.
    const size_t octets = told.st_octets >= 0     ? size_t(told.st_octets)
                          : told.st_segments >= 0 ? size_t(told.st_segments) * packet_octets_max
                                                  : max;
    if (octets > max) {
        storage_.log().Emsg("namely", path, ": its listing is larger than an eighth of 'memory'");
        return -EFBIG;
    }
    charged_.emplace(storage_.memory(), client_, octets, storage_.deadline());
    if (!*charged_)
        return -ETIMEDOUT;
    std::string listing;
    listing.reserve(octets);
    const size_t piece_max = max / pieces;
    for (ssize_t came = ssize_t(piece_max); size_t(came) == piece_max && listing.size() < octets;) {
        const size_t at = listing.size();
        const size_t piece = std::min(piece_max, octets - at);
        listing.resize(at + piece);
        came = storage_.call(client_, path, octets_of_range(piece), [&] {
            return icn_read_at(object, &listing[at], piece, off_t(at), 0);
        });
        if (came < 0)
            return int(came);
        listing.resize(at + size_t(came));
    }
    // A listing of unknown size that fills `max` may go on. One of known size must have that size.
    const bool is_whole = told.st_octets < 0 ? listing.size() < max : listing.size() == octets;
    if (!is_whole || !listing_.take(std::move(listing))) {
        storage_.log().Emsg("namely", path, ": its listing is none");
        return -EBADMSG;
    }
    return 0;
}

int Directory::Readdir(char *buff, int blen) {
    if (!is_open_)
        return -EBADF;
    for (;;) {
        if (next_ == entries_.size())
            look_ahead();
        if (entries_.empty())
            break;
        const Entry &entry = entries_[next_++];
        if (stat_ != nullptr) {
            // The entry was removed meanwhile.
            if (entry.found == -ENOENT)
                continue;
            if (entry.found != 0)
                return entry.found;
            fill_stat((path_ + '/' + entry.name).c_str(), entry.told, *stat_);
        }
        if (entry.name.size() >= size_t(blen))
            return -ENAMETOOLONG;
        std::memcpy(buff, entry.name.c_str(), entry.name.size() + 1);
        return XrdOssOK;
    }
    *buff = '\0';
    return XrdOssOK;
}

// Takes the next entries. Their properties are requested in parallel, so that a directory does not
// take a round trip for each entry.
void Directory::look_ahead() {
    entries_.clear();
    next_ = 0;
    for (std::string name; entries_.size() < looks_at_once && listing_.next(name);)
        entries_.push_back({name, {}, 0});
    if (stat_ == nullptr)
        return;
    std::mutex mutex;
    std::condition_variable came;
    size_t left = entries_.size();
    for (Entry &entry : entries_) {
        const auto look = [&] {
            entry.found = storage_.stat(client_, (path_ + '/' + entry.name).c_str(), entry.told);
            // Notified under the lock: after it the waiting thread destroys `came`.
            const std::lock_guard<std::mutex> lock(mutex);
            left--;
            came.notify_one();
        };
        if (!storage_.workers().order(client_, look))
            look();
    }
    std::unique_lock<std::mutex> lock(mutex);
    came.wait(lock, [&] { return left == 0; });
}

int Directory::StatRet(struct stat *buff) {
    if (!is_open_)
        return -EBADF;
    stat_ = buff;
    return XrdOssOK;
}

int Directory::Close(long long *) {
    const bool was_open = is_open_;
    is_open_ = false;
    listing_ = {};
    charged_.reset();
    entries_.clear();
    next_ = 0;
    stat_ = nullptr;
    return was_open ? XrdOssOK : -EBADF;
}

} // namespace namely
