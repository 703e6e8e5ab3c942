// The storage that the server sees: files and directories that are named data, read only.
#pragma once

#include <atomic>
#include <chrono>
#include <list>
#include <memory>
#include <mutex>
#include <string>

#include <XrdOss/XrdOss.hh>
#include <XrdSys/XrdSysError.hh>

#include <namely.h>

#include "settings.hh"
#include "share.hh"
#include "workers.hh"

namespace namely {

// What is known of an object; C has a function of the same name.
using Told = struct ::icn_stat;

class File;

class Storage : public XrdOss {
  public:
    Storage(XrdSysLogger *logger, const Settings &settings);
    ~Storage() override;

    // Connects to the router; what is wrong, or nothing.
    std::string bind();

    uint64_t Features() override;
    XrdOssDF *newDir(const char *tident) override;
    XrdOssDF *newFile(const char *tident) override;
    int Init(XrdSysLogger *, const char *) override { return XrdOssOK; }
    int Stat(const char *path, struct stat *buff, int opts = 0, XrdOucEnv *envP = nullptr) override;
    int StatFS(const char *path, char *buff, int &blen, XrdOucEnv *envP = nullptr) override;

    int Chmod(const char *, mode_t, XrdOucEnv * = nullptr) override;
    int Create(const char *, const char *, mode_t, XrdOucEnv &, int = 0) override;
    int Mkdir(const char *, mode_t, int = 0, XrdOucEnv * = nullptr) override;
    int Remdir(const char *, int = 0, XrdOucEnv * = nullptr) override;
    int Rename(const char *, const char *, XrdOucEnv * = nullptr, XrdOucEnv * = nullptr) override;
    int Truncate(const char *, unsigned long long, XrdOucEnv * = nullptr) override;
    int Unlink(const char *, int = 0, XrdOucEnv * = nullptr) override;

    // Calls of libnamely by path. Each returns what it says there, or -errno.
    int open(const char *path);
    int stat(const char *path, Told &told);
    int list(const char *path, icn_entry_fn entry, void *arg);

    // A call of libnamely that needs one of the socket's fetches and `octets` of memory, both waited
    // for in turn: what it returns, or -errno. `what` it is about goes to the log when it fails.
    template <typename Call> ssize_t call(const char *what, size_t octets, Call &&call);

    // Whether `file` may read ahead, if need be in the place of one that has not for a while.
    bool begin_ahead(File &file);
    void end_ahead(File &file);

    std::chrono::steady_clock::time_point deadline() const {
        return std::chrono::steady_clock::now() + std::chrono::milliseconds(settings_.timeout_ms);
    }
    // The largest number of octets that one call takes of the memory.
    size_t call_octets_max() const { return memory_.all() / 8; }
    XrdSysError &log() { return log_; }
    Workers &workers() { return workers_; }

  private:
    std::string connect(int &socket) const;
    bool connect_again(int lost);
    template <typename Call> int by_path(const char *path, Call &&call);

    XrdSysError log_;
    const Settings settings_;
    // Calls and files that read ahead have a fetch each; libnamely has 64 for a socket.
    Share calls_;
    Share memory_;
    std::mutex binding_;
    std::atomic<int> socket_{-1};
    std::mutex reading_ahead_;
    std::list<File *> ahead_; // who began last is last
    size_t ahead_max_;
    Workers workers_;
};

// The storage of this process, once there is one: what the checksums are computed of.
extern std::atomic<Storage *> the_storage;

// The name of a path below `prefix`; -errno if it can be none.
int name_of(const std::string &prefix, const char *path, sockaddr_icn &name);

// What POSIX says of what libnamely says.
void fill_stat(const char *path, const Told &told, struct stat &buff);

// How long somebody waits before the socket is asked again for a fetch.
constexpr auto busy_wait = std::chrono::milliseconds(5);

template <typename Call> ssize_t Storage::call(const char *what, size_t octets, Call &&call) {
    const auto until = deadline();
    const Taken turn(calls_, 1, until);
    const Taken memory(memory_, octets, until);
    if (!turn || !memory) {
        log_.Emsg("namely", what, ": as much is under way as may be, and nothing of it ended in time");
        return -ETIMEDOUT;
    }
    for (;;) {
        const ssize_t done = call();
        if (done >= 0)
            return done;
        const int error = errno;
        if (error == EINTR)
            continue;
        // A fetch that was given up has its place for a moment still.
        if (error == ENOBUFS && std::chrono::steady_clock::now() < until) {
            std::this_thread::sleep_for(busy_wait);
            continue;
        }
        if (error != ENOENT)
            log_.Emsg("namely", what, ": ", icn_lasterror());
        return error > 0 ? -error : -EIO;
    }
}

} // namespace namely
