// An open file: one version of it, however long it is open.
#pragma once

#include <atomic>
#include <chrono>
#include <mutex>
#include <string>
#include <utility>

#include <XrdOss/XrdOss.hh>
#include <XrdSfs/XrdSfsAio.hh>

#include "storage.hh"

namespace namely {

class File : public XrdOssDF {
  public:
    File(Storage &storage, const char *tident)
        : XrdOssDF(tident, DF_isFile), storage_(storage), client_(client_of(tident)) {}
    // A file that the server itself reads, charged to a client.
    File(Storage &storage, std::string client)
        : XrdOssDF("checksum", DF_isFile), storage_(storage), client_(std::move(client)) {}
    ~File() override { close(); }

    int Open(const char *path, int flags, mode_t mode, XrdOucEnv &env) override;
    int Close(long long *size = nullptr) override;
    int Fstat(struct stat *buff) override;

    ssize_t Read(void *buffer, off_t offset, size_t size) override;
    ssize_t Read(off_t, size_t) override { return 0; }
    ssize_t ReadRaw(void *buffer, off_t offset, size_t size) override { return Read(buffer, offset, size); }
    int Read(XrdSfsAio *aio) override;
    ssize_t pgRead(void *buffer, off_t offset, size_t size, uint32_t *sums, uint64_t opts) override;
    int pgRead(XrdSfsAio *aio, uint64_t opts) override;
    ssize_t ReadV(XrdOucIOVec *vector, int count) override;

    int Fchmod(mode_t) override { return -EROFS; }
    int Fsync() override { return -EROFS; }
    int Fsync(XrdSfsAio *) override { return -EROFS; }
    int Ftruncate(unsigned long long) override { return -EROFS; }
    ssize_t Write(const void *, off_t, size_t) override { return -EROFS; }
    int Write(XrdSfsAio *) override { return -EROFS; }
    ssize_t pgWrite(void *, off_t, size_t, uint32_t *, uint64_t) override { return -EROFS; }
    int pgWrite(XrdSfsAio *, uint64_t) override { return -EROFS; }

    int open(const char *path);
    const Told &told() const { return told_; }
    const std::string &client() const { return client_; }

    // Ends the read-ahead, unless a call is using it or used it a moment ago. Returns true if it
    // ended.
    bool give_up_ahead();

  private:
    void close();
    ssize_t read_ahead(void *buffer, off_t offset, size_t size);
    ssize_t read_there(void *buffer, off_t offset, size_t size);
    ssize_t read_vector(const XrdOucIOVec *vector, int count);
    ssize_t whole(ssize_t read, size_t wanted);
    ssize_t cause(ssize_t wrong);
    template <typename Work> int later(XrdSfsAio *aio, Work &&work);

    Storage &storage_;
    const std::string client_;
    int object_ = -1;
    std::string path_;
    Told told_{};
    // The offset at which the last read ended.
    std::atomic<off_t> follows_{-1};
    std::mutex reading_;
    bool is_ahead_ = false;
    std::chrono::steady_clock::time_point used_;
};

} // namespace namely
