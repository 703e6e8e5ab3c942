#include "file.hh"

#include <algorithm>
#include <cerrno>
#include <fcntl.h>
#include <string>
#include <thread>
#include <vector>

#include "crc32c.hh"

namespace namely {

namespace {

// A file that has not read ahead for this time loses its read-ahead slot to another one.
constexpr auto ahead_rests = std::chrono::seconds(1);

// Longer than the FreshnessPeriod of metadata: caches then return no older description of a file.
constexpr auto metadata_fresh = std::chrono::milliseconds(1100);

} // namespace

int File::Open(const char *path, int flags, mode_t, XrdOucEnv &) {
    if ((flags & (O_WRONLY | O_RDWR | O_CREAT | O_TRUNC | O_APPEND)) != 0)
        return -EROFS;
    return storage_.figures().call(Figure::opens, Figure::open_errors, open(path));
}

int File::open(const char *path) {
    close();
    const int object = storage_.open(client_, path);
    if (object < 0)
        return object;
    object_ = object;
    path_ = path;
    int wrong = icn_fstat(object, &told_) == 0 ? 0 : -errno;
    if (wrong == 0 && told_.st_is_directory != 0)
        wrong = -EISDIR;
    // A server of files states their sizes. A stream without a known end is not a file.
    if (wrong == 0 && told_.st_octets < 0)
        wrong = -ENOTSUP;
    if (wrong != 0)
        close();
    return wrong;
}

int File::Close(long long *size) {
    if (object_ < 0)
        return -EBADF;
    if (size != nullptr)
        *size = told_.st_octets;
    close();
    return XrdOssOK;
}

void File::close() {
    storage_.end_ahead(*this);
    if (object_ >= 0)
        icn_shut(object_);
    object_ = -1;
    is_ahead_ = false;
    follows_ = -1;
}

int File::Fstat(struct stat *buff) {
    if (object_ < 0)
        return -EBADF;
    fill_stat(path_.c_str(), told_, *buff);
    return XrdOssOK;
}

ssize_t File::Read(void *buffer, off_t offset, size_t size) {
    if (object_ < 0)
        return -EBADF;
    if (offset < 0)
        return -EINVAL;
    if (offset >= told_.st_octets)
        return 0;
    const size_t wanted = std::min(size, size_t(told_.st_octets - offset));
    const bool goes_on = follows_.exchange(offset + off_t(wanted)) == offset;
    const ssize_t read = goes_on ? read_ahead(buffer, offset, wanted) : -EAGAIN;
    return storage_.figures().read(Figure::reads, read == -EAGAIN ? read_there(buffer, offset, wanted) : read);
}

// Returns -EAGAIN if the file may not read ahead now.
ssize_t File::read_ahead(void *buffer, off_t offset, size_t size) {
    const std::unique_lock<std::mutex> lock(reading_, std::try_to_lock);
    if (!lock)
        return -EAGAIN;
    if (!is_ahead_ && !storage_.begin_ahead(*this))
        return -EAGAIN;
    is_ahead_ = true;
    const ssize_t read = storage_.call(client_, path_.c_str(), 0, [&] {
        return icn_read_at(object_, buffer, size, offset, ICN_AHEAD);
    });
    used_ = std::chrono::steady_clock::now();
    if (read < 0 || offset + read >= told_.st_octets) {
        icn_calm(object_);
        is_ahead_ = false;
        storage_.end_ahead(*this);
    }
    return whole(read, size);
}

bool File::give_up_ahead() {
    const std::unique_lock<std::mutex> lock(reading_, std::try_to_lock);
    if (!lock || std::chrono::steady_clock::now() - used_ < ahead_rests)
        return false;
    icn_calm(object_);
    is_ahead_ = false;
    return true;
}

ssize_t File::read_there(void *buffer, off_t offset, size_t size) {
    const size_t piece_max = (storage_.call_octets_max() - around_range) / 2;
    size_t done = 0;
    while (done < size) {
        const size_t piece = std::min(size - done, piece_max);
        char *to = static_cast<char *>(buffer) + done;
        const ssize_t read = whole(storage_.call(client_, path_.c_str(), octets_of_range(piece), [&] {
            return icn_read_at(object_, to, piece, offset + off_t(done), 0);
        }), piece);
        if (read < 0)
            return read;
        done += piece;
    }
    return ssize_t(done);
}

// Returns -ESTALE if `wrong` is due to a change of the file: its producer then no longer serves the
// open version, so that there is no route to it, or no answer.
ssize_t File::cause(ssize_t wrong) {
    if (wrong != -ENETUNREACH && wrong != -ETIMEDOUT)
        return wrong;
    Told now{};
    int found = storage_.stat(client_, path_.c_str(), now);
    if (found == 0 && now.st_version == told_.st_version) {
        std::this_thread::sleep_for(metadata_fresh);
        found = storage_.stat(client_, path_.c_str(), now);
    }
    if (found == -ENOENT) {
        storage_.log().Emsg("namely", path_.c_str(), "was removed while it was fetched");
        return -ESTALE;
    }
    if (found != 0 || now.st_version == told_.st_version)
        return wrong;
    const std::string newer = std::to_string(now.st_version);
    storage_.log().Emsg("namely", path_.c_str(), "changed while it was fetched, and is now version", newer.c_str());
    return -ESTALE;
}

// Fails if the file ends before its stated size.
ssize_t File::whole(ssize_t read, size_t wanted) {
    if (read < 0)
        return cause(read);
    if (size_t(read) != wanted) {
        storage_.log().Emsg("namely", path_.c_str(), "ends before the size that its metadata says");
        return -EIO;
    }
    return read;
}

ssize_t File::ReadV(XrdOucIOVec *vector, int count) {
    if (object_ < 0)
        return -EBADF;
    return storage_.figures().read(Figure::vectors, read_vector(vector, count));
}

ssize_t File::read_vector(const XrdOucIOVec *vector, int count) {
    std::vector<icn_range> ranges;
    ssize_t all = 0;
    for (int i = 0; i < count;) {
        ranges.clear();
        size_t memory = 0, wanted = 0;
        for (; i < count && ranges.size() < ICN_RANGES_MAX; i++) {
            const XrdOucIOVec &one = vector[i];
            if (one.size < 0 || one.offset < 0 || one.offset > told_.st_octets - one.size)
                return -ESPIPE;
            const size_t more = octets_of_range(size_t(one.size));
            if (!ranges.empty() && memory + more > storage_.call_octets_max())
                break;
            memory += more;
            wanted += size_t(one.size);
            ranges.push_back({one.offset, one.data, size_t(one.size), 0});
        }
        const ssize_t read = whole(storage_.call(client_, path_.c_str(), memory, [&] {
            return icn_readv_at(object_, ranges.data(), ranges.size());
        }), wanted);
        if (read < 0)
            return read;
        all += read;
    }
    return all;
}

// A read that continues the last one is done at once, in order: its octets have been requested
// already. For a read elsewhere another thread waits.
template <typename Work> int File::later(XrdSfsAio *aio, Work &&work) {
    const auto done = [aio, work] {
        aio->Result = work();
        aio->doneRead();
    };
    const off_t offset = aio->sfsAio.aio_offset;
    if (offset == 0 || offset == follows_ || !storage_.workers().order(client_, done))
        done();
    return XrdOssOK;
}

int File::Read(XrdSfsAio *aio) {
    return later(aio, [this, aio] {
        auto *const buffer = const_cast<void *>(aio->sfsAio.aio_buf);
        return Read(buffer, aio->sfsAio.aio_offset, aio->sfsAio.aio_nbytes);
    });
}

// The octets are verified before they are summed.
ssize_t File::pgRead(void *buffer, off_t offset, size_t size, uint32_t *sums, uint64_t) {
    const ssize_t read = Read(buffer, offset, size);
    if (read > 0 && sums != nullptr)
        crc32c_of_pages(buffer, offset, size_t(read), sums);
    return read;
}

int File::pgRead(XrdSfsAio *aio, uint64_t opts) {
    return later(aio, [this, aio, opts] {
        auto *const buffer = const_cast<void *>(aio->sfsAio.aio_buf);
        return pgRead(buffer, aio->sfsAio.aio_offset, aio->sfsAio.aio_nbytes, aio->cksVec, opts);
    });
}

} // namespace namely
