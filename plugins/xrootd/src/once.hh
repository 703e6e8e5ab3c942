// Expensive values that several threads need at once: one thread makes a value, and the others wait
// for it. A budget limits the work that a client may cause.
#pragma once

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>

namespace namely {

// Values by key. At any time one thread at most makes the value of a key.
template <typename Value> class Once {
  public:
    // Sets `value` to the value of `key` and returns 0, or returns the error of `make` in the
    // thread that makes it. A refusal (-EDQUOT, -ETIMEDOUT) concerns that thread's client only:
    // then the next waiting thread makes the value.
    template <typename Make> int get(const std::string &key, Value &value, Make &&make) {
        for (;;) {
            std::shared_ptr<Making> making;
            bool is_first = false;
            {
                const std::lock_guard<std::mutex> lock(mutex_);
                std::shared_ptr<Making> &place = under_way_[key];
                is_first = place == nullptr;
                if (is_first)
                    place = std::make_shared<Making>();
                making = place;
            }
            if (is_first) {
                int done = -ENOMEM;
                try {
                    done = make(making->value);
                } catch (const std::exception &) {
                    // The waiting threads get -ENOMEM as well.
                }
                value = making->value;
                end(key, *making, done);
                return done;
            }
            std::unique_lock<std::mutex> lock(mutex_);
            making->ended.wait(lock, [&] { return making->is_over; });
            if (making->done == -EDQUOT || making->done == -ETIMEDOUT)
                continue;
            value = making->value;
            return making->done;
        }
    }

    size_t under_way() {
        const std::lock_guard<std::mutex> lock(mutex_);
        return under_way_.size();
    }

  private:
    struct Making {
        std::condition_variable ended;
        bool is_over = false;
        int done = 0;
        Value value{};
    };

    void end(const std::string &key, Making &making, int done) {
        const std::lock_guard<std::mutex> lock(mutex_);
        making.done = done;
        making.is_over = true;
        under_way_.erase(key);
        making.ended.notify_all();
    }

    std::mutex mutex_;
    std::unordered_map<std::string, std::shared_ptr<Making>> under_way_;
};

// A budget of octets a day for each client, which refills evenly.
class Budget {
  public:
    using Time = std::chrono::steady_clock::time_point;
    static constexpr auto period = std::chrono::hours(24);

    Budget(size_t octets, size_t clients_max) : octets_(octets), clients_max_(clients_max) {}

    // Takes `octets` from the budget of `client`. Returns false if fewer are left.
    bool take(const std::string &client, size_t octets, Time now) {
        const std::lock_guard<std::mutex> lock(mutex_);
        if (spent_.count(client) == 0 && spent_.size() >= clients_max_)
            forget_one(now);
        Spent &spent = spent_[client];
        const double left = double(octets_) - spent_at(spent, now);
        if (double(octets) > left)
            return false;
        spent = {spent_at(spent, now) + double(octets), now};
        return true;
    }

    size_t clients() {
        const std::lock_guard<std::mutex> lock(mutex_);
        return spent_.size();
    }

  private:
    struct Spent {
        double octets = 0;
        Time at{};
    };

    double spent_at(const Spent &spent, Time now) const {
        const double passed = std::chrono::duration<double>(now - spent.at) / period;
        return std::max(0.0, spent.octets - passed * double(octets_));
    }

    // Forgets the client that has spent least: its budget changes least.
    void forget_one(Time now) {
        const auto least = std::min_element(spent_.begin(), spent_.end(), [&](const auto &a, const auto &b) {
            return spent_at(a.second, now) < spent_at(b.second, now);
        });
        if (least != spent_.end())
            spent_.erase(least);
    }

    std::mutex mutex_;
    std::unordered_map<std::string, Spent> spent_;
    const size_t octets_;
    const size_t clients_max_;
};

} // namespace namely
