// What threads of the server share of something that there is only so much of, client by client.
//
// A client is who the server says that a connection comes from. One that has nothing gets what is
// there; one that has something gets more only where as much as it then has is left for others. So a
// client alone has at most half, two have a third each, and whoever comes last still finds some.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <mutex>
#include <string>
#include <unordered_map>
#include <utility>

namespace namely {

class Share {
  public:
    explicit Share(size_t all) : left_(all), all_(all) {}

    // Takes `many` for `client`, waiting for them until `deadline`; false if they did not come free.
    // More than there is counts as all.
    bool take(const std::string &client, size_t many, std::chrono::steady_clock::time_point deadline) {
        std::unique_lock<std::mutex> lock(mutex_);
        const size_t wanted = within(many);
        if (!freed_.wait_until(lock, deadline, [&] { return may_have(client, wanted); }))
            return false;
        give(client, wanted);
        return true;
    }

    bool try_take(const std::string &client, size_t many) {
        const std::lock_guard<std::mutex> lock(mutex_);
        if (!may_have(client, within(many)))
            return false;
        give(client, within(many));
        return true;
    }

    void give_back(const std::string &client, size_t many) {
        {
            const std::lock_guard<std::mutex> lock(mutex_);
            const auto held = held_.find(client);
            if (held == held_.end())
                return;
            left_ += within(many);
            held->second -= within(many);
            if (held->second == 0)
                held_.erase(held);
        }
        freed_.notify_all();
    }

    size_t all() const { return all_; }

    // How many clients have something.
    size_t clients() {
        const std::lock_guard<std::mutex> lock(mutex_);
        return held_.size();
    }

  private:
    size_t within(size_t many) const { return many < all_ ? many : all_; }

    bool may_have(const std::string &client, size_t wanted) const {
        if (wanted > left_)
            return false;
        const auto held = held_.find(client);
        return wanted == 0 || held == held_.end() || held->second + wanted <= left_ - wanted;
    }

    void give(const std::string &client, size_t wanted) {
        if (wanted == 0)
            return;
        left_ -= wanted;
        held_[client] += wanted;
    }

    std::mutex mutex_;
    std::condition_variable freed_;
    size_t left_;
    std::unordered_map<std::string, size_t> held_;
    const size_t all_;
};

// What was taken, for as long as this lives.
class Taken {
  public:
    Taken(Share &share, std::string client, size_t many, std::chrono::steady_clock::time_point deadline)
        : share_(share), client_(std::move(client)), many_(many),
          is_there_(share.take(client_, many, deadline)) {}
    ~Taken() {
        if (is_there_)
            share_.give_back(client_, many_);
    }
    Taken(const Taken &) = delete;
    Taken &operator=(const Taken &) = delete;

    explicit operator bool() const { return is_there_; }

  private:
    Share &share_;
    const std::string client_;
    const size_t many_;
    const bool is_there_;
};

} // namespace namely
