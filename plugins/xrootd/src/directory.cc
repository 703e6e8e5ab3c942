#include "directory.hh"

#include <algorithm>
#include <cerrno>
#include <condition_variable>
#include <cstring>
#include <mutex>

namespace namely {

namespace {

// Entries that are asked for at once.
constexpr size_t looks_at_once = 16;

} // namespace

int Directory::Opendir(const char *path, XrdOucEnv &) {
    Close(nullptr);
    const auto keep = [](void *arg, const char *name, size_t len, int) {
        static_cast<Directory *>(arg)->entries_.push_back({std::string(name, len), {}, 0});
        return 0;
    };
    int done = storage_.list(path, keep, this);
    if (done == -ENOENT) {
        Told told{};
        done = storage_.stat(path, told);
        if (done == 0)
            done = told.st_is_directory != 0 ? -ENOENT : -ENOTDIR;
    }
    if (done != 0) {
        entries_.clear();
        return done;
    }
    path_ = path;
    is_open_ = true;
    return XrdOssOK;
}

int Directory::Readdir(char *buff, int blen) {
    if (!is_open_)
        return -EBADF;
    while (next_ < entries_.size()) {
        if (stat_ != nullptr && next_ >= looked_)
            look_ahead(next_);
        const Entry &entry = entries_[next_++];
        if (stat_ != nullptr) {
            // It was taken away meanwhile.
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

// Asks for the next entries side by side, so that a directory takes no round trip for each.
void Directory::look_ahead(size_t from) {
    const size_t end = std::min(entries_.size(), from + looks_at_once);
    std::mutex mutex;
    std::condition_variable came;
    size_t left = end - from;
    for (size_t i = from; i < end; i++) {
        const auto look = [&, i] {
            Entry &entry = entries_[i];
            entry.found = storage_.stat((path_ + '/' + entry.name).c_str(), entry.told);
            // Told under the lock: who waits ends with `came`.
            const std::lock_guard<std::mutex> lock(mutex);
            left--;
            came.notify_one();
        };
        if (!storage_.workers().order(look))
            look();
    }
    std::unique_lock<std::mutex> lock(mutex);
    came.wait(lock, [&] { return left == 0; });
    looked_ = end;
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
    entries_.clear();
    next_ = looked_ = 0;
    stat_ = nullptr;
    return was_open ? XrdOssOK : -EBADF;
}

} // namespace namely
