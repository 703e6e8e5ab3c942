// The storage of the server: files and directories of named data, read-only.
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

#include "catalogue.hh"
#include "figures.hh"
#include "jobs.hh"
#include "once.hh"
#include "settings.hh"
#include "share.hh"
#include "workers.hh"

namespace namely {

// The properties of an object. C has a function of the same name.
using Told = struct ::icn_stat;

class File;

class Storage : public XrdOss {
  public:
    Storage(XrdSysLogger *logger, const Settings &settings);
    ~Storage() override;

    // Connects to the router. Returns the error, or an empty text.
    std::string bind();

    uint64_t Features() override;
    XrdOssDF *newDir(const char *tident) override;
    XrdOssDF *newFile(const char *tident) override;
    int Init(XrdSysLogger *, const char *) override { return XrdOssOK; }
    int Stat(const char *path, struct stat *buff, int opts = 0, XrdOucEnv *envP = nullptr) override;
    int StatFS(const char *path, char *buff, int &blen, XrdOucEnv *envP = nullptr) override;
    // The figures as a part of the server's summary. Without a buffer, their maximum length.
    int Stats(char *buff, int blen) override;

    int Chmod(const char *, mode_t, XrdOucEnv * = nullptr) override;
    int Create(const char *, const char *, mode_t, XrdOucEnv &, int = 0) override;
    int Mkdir(const char *, mode_t, int = 0, XrdOucEnv * = nullptr) override;
    int Remdir(const char *, int = 0, XrdOucEnv * = nullptr) override;
    int Rename(const char *, const char *, XrdOucEnv * = nullptr, XrdOucEnv * = nullptr) override;
    int Truncate(const char *, unsigned long long, XrdOucEnv * = nullptr) override;
    int Unlink(const char *, int = 0, XrdOucEnv * = nullptr) override;

    // Calls of libnamely by path, for a client. Each returns libnamely's value, or -errno.
    int open(const std::string &client, const char *path);
    // The listing of a directory: an object of its own.
    int open_listing(const std::string &client, const char *path);
    int stat(const std::string &client, const char *path, Told &told);

    // Makes a call of libnamely that needs one of the socket's fetches and `octets` of memory.
    // Waits until the client's shares have room for both. Returns libnamely's value, or -errno. If
    // it fails, the log names `what`.
    template <typename Call>
    ssize_t call(const std::string &client, const char *what, size_t octets, Call &&call);

    // Returns true if `file` may read ahead. It may replace a file that has not for a while.
    bool begin_ahead(File &file);
    void end_ahead(File &file);

    std::chrono::steady_clock::time_point deadline() const {
        return std::chrono::steady_clock::now() + std::chrono::milliseconds(settings_.timeout_ms);
    }
    // The memory of calls, and of values that live longer than a call, such as a listing.
    Share &memory() { return memory_; }
    // The jobs that compute sums, and the octets that are read for them per client and day.
    Jobs &sum_jobs() { return sum_jobs_; }
    Budget &sum_budget() { return sum_budget_; }
    const Catalogue &catalogue() const { return catalogue_; }
    // Maximum octets of memory of one call.
    size_t call_octets_max() const { return memory_.all() / 8; }
    XrdSysError &log() { return log_; }
    Figures &figures() { return figures_; }
    Workers &workers() { return workers_; }

  private:
    std::string connect(int &socket) const;
    bool connect_again(int lost);
    template <typename Call>
    int by_path(const std::string &client, const char *path, const char *below, Call &&call);
    void give_up_ahead(File &file);
    void report_figures();

    XrdSysError log_;
    const Settings settings_;
    // Each call, and each file that reads ahead, takes a fetch; libnamely has 64 for a socket.
    Share calls_;
    Share memory_;
    std::mutex binding_;
    std::atomic<int> socket_{-1};
    std::mutex reading_ahead_;
    std::list<File *> ahead_; // in the order in which they began
    Share ahead_places_;
    Jobs sum_jobs_;
    Budget sum_budget_;
    Catalogue catalogue_;
    Workers workers_;
    Figures figures_;
    std::string reported_; // the last line with figures
    // The last member: its thread uses the others.
    Ticker reports_;
};

// The storage of this process, once there is one. The checksums read its files.
extern std::atomic<Storage *> the_storage;

// Sets `name` to `prefix`, `path` and `below`. Returns -errno if they make no name.
int name_of(const std::string &prefix, const char *path, const char *below, sockaddr_icn &name);

// The client to which a share is charged: the host of a connection, which is the end of the
// server's trace identifier (user.pid:socket@host).
std::string client_of(const char *tident);
std::string client_of(const XrdOucEnv *env);

// Converts the properties from libnamely to those of POSIX.
void fill_stat(const char *path, const Told &told, struct stat &buff);

// Octets of memory of a range: its octets and the rest of its segments, as packets and as content,
// and the manifest that authenticates them.
constexpr size_t around_range = 4 * 8800;
constexpr size_t octets_of_range(size_t size) { return 2 * size + around_range; }

// The pause before a call is repeated that found no free fetch.
constexpr auto busy_wait = std::chrono::milliseconds(5);

template <typename Call>
ssize_t Storage::call(const std::string &client, const char *what, size_t octets, Call &&call) {
    const auto until = deadline();
    const Taken turn(calls_, client, 1, until);
    const Taken memory(memory_, client, octets, until);
    if (!turn || !memory) {
        figures_.add(Figure::refused);
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
        // An abandoned fetch keeps its slot for a moment.
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
