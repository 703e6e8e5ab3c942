// Figures of the plugin: the calls of all clients since the start. The server reports them as XML
// in its summary (xrd.report, `xrdfs HOST query stats p`), and the plugin as a line in the log.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <mutex>
#include <string>
#include <sys/types.h>
#include <thread>
#include <utility>

namespace namely {

enum class Figure : size_t {
    opens,
    open_errors,
    lookups,
    lookup_errors,
    listings,
    listing_errors,
    reads,
    vectors,
    read_errors,
    octets,
    sums,
    sum_errors,
    refused,
};

class Figures {
  public:
    // In the order of Figure. `octets` counts those of reads, also for checksums; `refused` counts
    // calls whose client's share did not become free in time.
    static constexpr std::array<const char *, 13> names = {
        "opens",   "open_errors", "lookups", "lookup_errors", "listings",   "listing_errors", "reads",
        "vectors", "read_errors", "octets",  "sums",          "sum_errors", "refused"};

    // The longest text of `xml`: two tags of at most 16 octets and a number for each figure.
    static constexpr size_t xml_octets_max = 64 + names.size() * (2 * 16 + 5 + 20);

    void add(Figure figure, uint64_t many = 1) {
        counts_[size_t(figure)].fetch_add(many, std::memory_order_relaxed);
    }

    uint64_t of(Figure figure) const { return counts_[size_t(figure)].load(std::memory_order_relaxed); }

    // Counts a call by its result, which is negative if it failed, and returns the result.
    template <typename Result> Result call(Figure done, Figure failed, Result result) {
        add(result < 0 ? failed : done);
        return result;
    }

    // As `call`, for a read, whose result is a number of octets.
    ssize_t read(Figure done, ssize_t result) {
        if (result > 0)
            add(Figure::octets, uint64_t(result));
        return call(done, Figure::read_errors, result);
    }

    std::string line() const {
        const auto form = [](const std::string &name, const std::string &count) { return " " + name + "=" + count; };
        return text(form).substr(1);
    }

    std::string xml() const {
        return "<stats id=\"namely\">" + text([](const std::string &name, const std::string &count) {
                   return "<" + name + ">" + count + "</" + name + ">";
               }) +
               "</stats>";
    }

  private:
    template <typename Form> std::string text(Form &&form) const {
        std::string all;
        for (size_t i = 0; i < names.size(); i++)
            all += form(names[i], std::to_string(of(Figure(i))));
        return all;
    }

    std::array<std::atomic<uint64_t>, names.size()> counts_{};
};

// Calls a function at regular times until this is destroyed.
class Ticker {
  public:
    Ticker() = default;
    ~Ticker() {
        {
            const std::lock_guard<std::mutex> lock(mutex_);
            ends_ = true;
        }
        ended_.notify_all();
        if (thread_.joinable())
            thread_.join();
    }
    Ticker(const Ticker &) = delete;
    Ticker &operator=(const Ticker &) = delete;

    // Begins; at most once.
    void start(std::chrono::milliseconds every, std::function<void()> tick) {
        thread_ = std::thread([this, every, tick = std::move(tick)] {
            std::unique_lock<std::mutex> lock(mutex_);
            while (!ended_.wait_for(lock, every, [this] { return ends_; }))
                tick();
        });
    }

  private:
    std::mutex mutex_;
    std::condition_variable ended_;
    bool ends_ = false;
    std::thread thread_;
};

} // namespace namely
