#include "checksums.hh"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <ctime>
#include <vector>

#include "crc32c.hh"
#include "file.hh"
#include "storage.hh"

namespace namely {

namespace {

constexpr std::array<const char *, 2> names = {"adler32", "crc32c"};
constexpr int adler32 = 0;
constexpr int value_octets = 4;
constexpr size_t known_max = 4096;
constexpr size_t read_octets = 1 << 20;
// Time for which a request waits for a place among its client's jobs.
constexpr auto ask_wait = std::chrono::seconds(1);

// Adler-32 (RFC 1950, 8.2). The sums are reduced after runs of 5,552 octets, which fit 32 bits.
class Adler32 {
  public:
    void add(const unsigned char *octets, size_t count) {
        while (count > 0) {
            const size_t run = std::min<size_t>(count, 5552);
            for (size_t i = 0; i < run; i++) {
                one_ += octets[i];
                two_ += one_;
            }
            one_ %= 65521;
            two_ %= 65521;
            octets += run;
            count -= run;
        }
    }
    uint32_t value() const { return two_ << 16 | one_; }

  private:
    uint32_t one_ = 1, two_ = 0;
};

} // namespace

int Checksums::Calc(const char *path, XrdCksData &sum, int) {
    const int done = calculate(path, sum);
    if (Storage *const storage = the_storage)
        storage->figures().call(Figure::sums, Figure::sum_errors, done);
    return done;
}

int Checksums::calculate(const char *path, XrdCksData &sum) {
    const int index = index_of(sum.Name);
    if (index < 0)
        return -ENOTSUP;
    Storage *const storage = the_storage;
    if (storage == nullptr)
        return -ENOTSUP;
    // The server's jobs do not state the client. Such a job counts for the client that asked first.
    const std::string stated = client_of(sum.envP);
    const RunningJob job(storage->sum_jobs(), path, stated, storage->deadline());
    if (!job)
        return -ETIMEDOUT;
    File file(*storage, stated.empty() ? job.client() : stated);
    const int opened = file.open(path);
    if (opened < 0)
        return opened;
    const Told &told = file.told();
    Known wanted{path, told.st_version, {}};
    const bool is_told = index == adler32 && storage->catalogue().adler32(path, told.st_octets, wanted.values[adler32]);
    if (!is_told) {
        const std::string key = wanted.path + '\0' + std::to_string(told.st_version);
        const int done =
            computing_.get(key, wanted.values, [&](Values &values) { return compute(*storage, file, path, values); });
        if (done < 0)
            return done;
    }
    fill(sum, index, wanted, told.st_changed_ns);
    return 0;
}

// Computes both sums in one pass, because reading dominates the time.
int Checksums::compute(Storage &storage, File &file, const char *path, Values &values) {
    Known computed{path, file.told().st_version, {}};
    if (!known(path, computed.version, computed)) {
        const off_t octets = file.told().st_octets;
        if (!storage.sum_budget().take(file.client(), size_t(octets), std::chrono::steady_clock::now())) {
            storage.log().Emsg("namely", file.client().c_str(), "has had sums of as much as 'sums' says today; not of", path);
            return -EDQUOT;
        }
        std::vector<unsigned char> buffer(read_octets);
        Adler32 adler;
        uint32_t crc = 0;
        for (off_t at = 0; at < octets;) {
            const ssize_t read = file.Read(buffer.data(), at, buffer.size());
            if (read < 0)
                return int(read);
            adler.add(buffer.data(), size_t(read));
            crc = crc32c(buffer.data(), size_t(read), crc);
            at += read;
        }
        computed.values = {adler.value(), crc};
        keep(computed);
    }
    values = computed.values;
    return 0;
}

int Checksums::Get(const char *path, XrdCksData &sum) {
    const int index = index_of(sum.Name);
    if (index < 0)
        return -ENOTSUP;
    Storage *const storage = the_storage;
    if (storage == nullptr)
        return -ENOTSUP;
    Told told{};
    const std::string client = client_of(sum.envP);
    const int done = storage->stat(client, path, told);
    if (done < 0)
        return done;
    Known found;
    const bool is_told = index == adler32 && storage->catalogue().adler32(path, told.st_octets, found.values[adler32]);
    if (!is_told && !known(path, told.st_version, found))
        return ask(*storage, path, client);
    fill(sum, index, found, told.st_changed_ns);
    return value_octets;
}

int Checksums::Ver(const char *path, XrdCksData &sum) {
    XrdCksData now;
    now.Set(sum.Name);
    // The client is not known here.
    now.envP = nullptr;
    const int done = Calc(path, now, 0);
    if (done < 0)
        return done;
    return now.Length == sum.Length && std::memcmp(now.Value, sum.Value, size_t(now.Length)) == 0;
}

int Checksums::Del(const char *, XrdCksData &) { return -EROFS; }
int Checksums::Set(const char *, XrdCksData &, int) { return -EROFS; }

char *Checksums::List(const char *, char *buff, int blen, char separator) {
    std::string all;
    for (const char *name : names)
        all += (all.empty() ? "" : std::string(1, separator)) + name;
    if (blen <= int(all.size()))
        return nullptr;
    std::memcpy(buff, all.c_str(), all.size() + 1);
    return buff;
}

const char *Checksums::Name(int number) {
    return number >= 0 && size_t(number) < names.size() ? names[size_t(number)] : nullptr;
}

int Checksums::Size(const char *name) { return name == nullptr || index_of(name) >= 0 ? value_octets : 0; }

int Checksums::index_of(const char *name) {
    if (name == nullptr || *name == '\0')
        return 0;
    for (size_t i = 0; i < names.size(); i++)
        if (std::strcmp(name, names[i]) == 0)
            return int(i);
    return -1;
}

// Returns the value with which the server makes a job, or the one with which it makes the client
// repeat its request after five seconds.
int Checksums::ask(Storage &storage, const char *path, const std::string &client) {
    Jobs &jobs = storage.sum_jobs();
    if (jobs.ask(path, client, std::chrono::steady_clock::now() + ask_wait))
        return -ESRCH;
    const uint64_t refused = jobs.refused();
    // Powers of two only: a client repeats its request, and would fill the log.
    if ((refused & (refused - 1)) == 0)
        storage.log().Emsg("namely", client.c_str(),
                           "computes as many sums as its share permits; clients had to wait so often:",
                           std::to_string(refused).c_str());
    return -EBUSY;
}

bool Checksums::known(const char *path, uint64_t version, Known &found) {
    const std::lock_guard<std::mutex> lock(mutex_);
    for (auto at = known_.begin(); at != known_.end(); ++at) {
        if (at->path == path && at->version == version) {
            found = *at;
            known_.splice(known_.begin(), known_, at);
            return true;
        }
    }
    return false;
}

void Checksums::keep(const Known &computed) {
    const std::lock_guard<std::mutex> lock(mutex_);
    known_.remove_if([&](const Known &known) { return known.path == computed.path; });
    known_.push_front(computed);
    if (known_.size() > known_max)
        known_.pop_back();
}

void Checksums::fill(XrdCksData &sum, int index, const Known &known, int64_t changed_ns) {
    const uint32_t value = known.values[size_t(index)];
    const unsigned char octets[value_octets] = {
        static_cast<unsigned char>(value >> 24), static_cast<unsigned char>(value >> 16),
        static_cast<unsigned char>(value >> 8), static_cast<unsigned char>(value)};
    sum.Set(names[size_t(index)]);
    sum.Set(static_cast<const void *>(octets), value_octets);
    sum.fmTime = changed_ns > 0 ? changed_ns / 1'000'000'000 : 0;
    sum.csTime = 0;
}

} // namespace namely
