#include "storage.hh"

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <unistd.h>
#include <utility>

#include <XrdOuc/XrdOucEnv.hh>
#include <XrdSec/XrdSecEntity.hh>

#include "directory.hh"
#include "file.hh"

namespace namely {

namespace {

constexpr size_t calls_max = 40;
constexpr size_t ahead_max = 24;
constexpr unsigned worker_threads = 32;
constexpr size_t sums_max = 8;
constexpr size_t sum_clients_max = 4096;
constexpr size_t worker_queue_max = 256;
// Octets that a call with a path needs: metadata, and the certificates that authenticate it.
constexpr size_t path_octets = 64 << 10;

bool set_text(int socket, int option, const std::string &value) {
    return value.empty() ||
           icn_setsockopt(socket, SOL_ICN, option, value.c_str(), socklen_t(value.size())) == 0;
}

// A file that reads ahead has verified octets that wait, and as many under way; packets are a
// little larger than content. Half of the memory is for the current reads.
size_t ahead_octets(const Settings &settings) { return 2 * settings.read_ahead_octets; }
size_t ahead_places(const Settings &settings) {
    return std::max<size_t>(1, std::min(ahead_max, settings.memory_octets / 2 / ahead_octets(settings)));
}

bool set_number(int socket, int option, int64_t value) {
    return icn_setsockopt(socket, SOL_ICN, option, &value, sizeof value) == 0;
}

} // namespace

std::atomic<Storage *> the_storage{nullptr};

Storage::Storage(XrdSysLogger *logger, const Settings &settings)
    : log_(logger, "namely_"), settings_(settings), calls_(calls_max), memory_(settings.memory_octets),
      ahead_places_(ahead_places(settings)), sum_jobs_(sums_max, std::chrono::milliseconds(settings.timeout_ms)),
      sum_budget_(settings.sum_octets, sum_clients_max), workers_(worker_threads, worker_queue_max) {}

Storage::~Storage() {
    if (socket_ >= 0)
        icn_close(socket_);
}

std::string Storage::bind() {
    int socket = -1;
    std::string wrong = settings_.catalogue.empty() ? std::string() : catalogue_.read(settings_.catalogue);
    if (!wrong.empty())
        return "'catalogue': " + wrong;
    wrong = connect(socket);
    socket_ = socket;
    if (wrong.empty() && settings_.report_s > 0)
        reports_.start(std::chrono::seconds(settings_.report_s), [this] { report_figures(); });
    return wrong;
}

// Logs the figures if they changed: a server without clients fills no log.
void Storage::report_figures() {
    std::string line = figures_.line();
    if (line == reported_)
        return;
    log_.Emsg("figures", line.c_str());
    reported_ = std::move(line);
}

int Storage::Stats(char *buff, int blen) {
    if (buff == nullptr)
        return int(Figures::xml_octets_max);
    const std::string xml = figures_.xml();
    if (blen <= int(xml.size()))
        return 0;
    std::memcpy(buff, xml.c_str(), xml.size() + 1);
    return int(xml.size());
}

std::string Storage::connect(int &socket) const {
    const Settings &s = settings_;
    sockaddr_icn prefix;
    if (icn_pton(s.prefix.c_str(), &prefix) != 0)
        return "'prefix' " + s.prefix + " is no name: " + icn_lasterror();
    socket = icn_socket(AF_ICN, SOCK_CONS, CONS_REL);
    const char *option = socket < 0                                                        ? "socket"
                         : !set_text(socket, ICN_OPT_ROUTER, s.router)                     ? "router"
                         : !set_text(socket, ICN_OPT_TRUST_ROUTER_OF, s.trust_router_of)   ? "trust_router_of"
                         : !set_text(socket, ICN_OPT_TRUST, s.trust)                       ? "trust"
                         : !set_text(socket, ICN_OPT_KEYCHAIN, s.keychain)                 ? "keychain"
                         : !set_text(socket, ICN_OPT_CONGESTION, s.congestion)             ? "congestion"
                         : !set_number(socket, ICN_OPT_READ_AHEAD_OCTETS, int64_t(s.read_ahead_octets)) ? "readahead"
                         : !set_number(socket, ICN_OPT_TIMEOUT_MS, s.timeout_ms)           ? "timeout"
                         : !set_number(socket, ICN_OPT_STALE_S, s.stale_s)                 ? "stale"
                                                                                           : nullptr;
    std::string wrong;
    if (option != nullptr)
        wrong = std::string("'") + option + "': " + icn_lasterror();
    else if (icn_bind(socket, &prefix, sizeof prefix) != 0)
        wrong = icn_lasterror();
    if (!wrong.empty() && socket >= 0) {
        icn_close(socket);
        socket = -1;
    }
    return wrong;
}

// Replaces a socket whose router went away and did not come back in time. Objects that are open on
// the old socket must be opened again.
bool Storage::connect_again(int lost) {
    const std::lock_guard<std::mutex> lock(binding_);
    if (socket_ != lost)
        return true;
    int socket = -1;
    const std::string wrong = connect(socket);
    if (!wrong.empty()) {
        log_.Emsg("namely", "no router: ", wrong.c_str());
        return false;
    }
    socket_ = socket;
    icn_close(lost);
    return true;
}

template <typename Call>
int Storage::by_path(const std::string &client, const char *path, const char *below, Call &&call_it) {
    sockaddr_icn name;
    const int wrong = name_of(settings_.prefix, path, below, name);
    if (wrong != 0)
        return wrong;
    const int socket = socket_;
    ssize_t done = call(client, path, path_octets, [&] { return ssize_t(call_it(socket, name)); });
    const bool is_gone = done == -ENOTCONN || done == -ECANCELED || done == -EBADF;
    if (is_gone && connect_again(socket))
        done = call(client, path, path_octets, [&] { return ssize_t(call_it(socket_, name)); });
    return int(done);
}

int Storage::open(const std::string &client, const char *path) {
    return by_path(client, path, "", [](int socket, const sockaddr_icn &name) {
        return icn_open(socket, &name, sizeof name);
    });
}

int Storage::open_listing(const std::string &client, const char *path) {
    // docs/files.md: a directory's listing is named by a keyword below it.
    return by_path(client, path, "/32=ls", [](int socket, const sockaddr_icn &name) {
        return icn_open(socket, &name, sizeof name);
    });
}

int Storage::stat(const std::string &client, const char *path, Told &told) {
    return by_path(client, path, "", [&](int socket, const sockaddr_icn &name) {
        return icn_stat(socket, &name, sizeof name, &told);
    });
}

bool Storage::begin_ahead(File &file) {
    const std::lock_guard<std::mutex> lock(reading_ahead_);
    bool has_place = ahead_places_.try_take(file.client(), 1);
    for (auto other = ahead_.begin(); !has_place && other != ahead_.end();) {
        File &resting = **other;
        if (!resting.give_up_ahead()) {
            ++other;
            continue;
        }
        other = ahead_.erase(other);
        give_up_ahead(resting);
        has_place = ahead_places_.try_take(file.client(), 1);
    }
    if (!has_place)
        return false;
    if (!memory_.try_take(file.client(), ahead_octets(settings_))) {
        ahead_places_.give_back(file.client(), 1);
        return false;
    }
    ahead_.push_back(&file);
    return true;
}

void Storage::end_ahead(File &file) {
    const std::lock_guard<std::mutex> lock(reading_ahead_);
    const size_t before = ahead_.size();
    ahead_.remove(&file);
    if (ahead_.size() < before)
        give_up_ahead(file);
}

void Storage::give_up_ahead(File &file) {
    memory_.give_back(file.client(), ahead_octets(settings_));
    ahead_places_.give_back(file.client(), 1);
}

// Without this the server computes the sums of page reads itself.
uint64_t Storage::Features() { return XRDOSS_HASPGRW; }

XrdOssDF *Storage::newDir(const char *tident) { return new Directory(*this, tident); }
XrdOssDF *Storage::newFile(const char *tident) { return new File(*this, tident); }

int Storage::Stat(const char *path, struct stat *buff, int, XrdOucEnv *env) {
    Told told{};
    const int done = figures_.call(Figure::lookups, Figure::lookup_errors, stat(client_of(env), path, told));
    if (done < 0)
        return done;
    fill_stat(path, told, *buff);
    return XrdOssOK;
}

// Nobody can write here, so no space is reported.
int Storage::StatFS(const char *, char *buff, int &blen, XrdOucEnv *) {
    blen = std::snprintf(buff, size_t(blen), "0 0 0 0 0 0");
    return XrdOssOK;
}

int Storage::Chmod(const char *, mode_t, XrdOucEnv *) { return -EROFS; }
int Storage::Create(const char *, const char *, mode_t, XrdOucEnv &, int) { return -EROFS; }
int Storage::Mkdir(const char *, mode_t, int, XrdOucEnv *) { return -EROFS; }
int Storage::Remdir(const char *, int, XrdOucEnv *) { return -EROFS; }
int Storage::Rename(const char *, const char *, XrdOucEnv *, XrdOucEnv *) { return -EROFS; }
int Storage::Truncate(const char *, unsigned long long, XrdOucEnv *) { return -EROFS; }
int Storage::Unlink(const char *, int, XrdOucEnv *) { return -EROFS; }

std::string client_of(const char *tident) {
    const std::string all = tident == nullptr ? "" : tident;
    const size_t at = all.rfind('@');
    return at == std::string::npos ? all : all.substr(at + 1);
}

std::string client_of(const XrdOucEnv *env) {
    const XrdSecEntity *const who = env == nullptr ? nullptr : env->secEnv();
    return client_of(who == nullptr ? nullptr : who->tident);
}

int name_of(const std::string &prefix, const char *path, const char *below, sockaddr_icn &name) {
    static const char hex[] = "0123456789ABCDEF";
    std::string uri = prefix == "/" ? "" : prefix;
    for (const char *at = path; *at != '\0';) {
        const size_t octets = std::strcspn(at, "/");
        const std::string component(at, octets);
        at += octets + (at[octets] == '/');
        if (component.empty())
            continue;
        // No file has such a name, and no path may leave the prefix by it.
        if (component == "." || component == "..")
            return -ENOENT;
        uri += '/';
        // An NDN URI has three more periods in a component of periods only.
        if (component.find_first_not_of('.') == std::string::npos)
            uri += "...";
        for (const char c : component) {
            const unsigned char octet = static_cast<unsigned char>(c);
            if (octet < 0x80 && (std::isalnum(octet) != 0 || std::strchr("-._~", c) != nullptr)) {
                uri += c;
            } else {
                uri += '%';
                uri += hex[octet >> 4];
                uri += hex[octet & 15];
            }
        }
    }
    uri += below;
    return icn_pton(uri.empty() ? "/" : uri.c_str(), &name) == 0 ? 0 : -errno;
}

void fill_stat(const char *path, const Told &told, struct stat &buff) {
    std::memset(&buff, 0, sizeof buff);
    const bool is_directory = told.st_is_directory != 0;
    buff.st_mode = is_directory ? S_IFDIR | 0555 : S_IFREG | 0444;
    buff.st_size = told.st_octets > 0 && !is_directory ? told.st_octets : 0;
    buff.st_nlink = 1;
    buff.st_uid = getuid();
    buff.st_gid = getgid();
    buff.st_blksize = 1 << 16;
    buff.st_blocks = (buff.st_size + 511) / 512;
    // Neither may be 0, because 0 means that a file is on tape.
    buff.st_dev = 1;
    buff.st_ino = std::hash<std::string>()(path) | 1;
    if (told.st_changed_ns > 0) {
        buff.st_mtim.tv_sec = told.st_changed_ns / 1'000'000'000;
        buff.st_mtim.tv_nsec = told.st_changed_ns % 1'000'000'000;
        buff.st_atim = buff.st_ctim = buff.st_mtim;
    }
}

} // namespace namely
