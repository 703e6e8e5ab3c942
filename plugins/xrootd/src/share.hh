// Shares of a bounded resource of the server, client by client.
//
// A client is the host that the server reports for a connection. A client that holds nothing may
// take all that is left. A client that holds something may take more only if at least as much as it
// then holds is left. So one client alone gets at most half, two get a third each, and a new client
// still finds some.
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

    // Takes `many` for `client`, and waits for them until `deadline`. Returns false if they did not
    // become free. More than there is counts as all.
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

    // The number of clients that hold something.
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

// A part of a share, which is returned when this is destroyed.
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
