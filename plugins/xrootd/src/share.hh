// What threads of the server share of something that there is only so much of.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <mutex>

namespace namely {

class Share {
  public:
    explicit Share(size_t all) : left_(all), all_(all) {}

    // Takes `many`, waiting for them until `deadline`; false if they did not come free. More than
    // there is counts as all.
    bool take(size_t many, std::chrono::steady_clock::time_point deadline) {
        std::unique_lock<std::mutex> lock(mutex_);
        const size_t wanted = within(many);
        if (!freed_.wait_until(lock, deadline, [&] { return left_ >= wanted; }))
            return false;
        left_ -= wanted;
        return true;
    }

    bool try_take(size_t many) {
        const std::lock_guard<std::mutex> lock(mutex_);
        if (left_ < within(many))
            return false;
        left_ -= within(many);
        return true;
    }

    void give_back(size_t many) {
        {
            const std::lock_guard<std::mutex> lock(mutex_);
            left_ += within(many);
        }
        freed_.notify_all();
    }

    size_t all() const { return all_; }

  private:
    size_t within(size_t many) const { return many < all_ ? many : all_; }

    std::mutex mutex_;
    std::condition_variable freed_;
    size_t left_;
    const size_t all_;
};

// What was taken, until the end of the block.
class Taken {
  public:
    Taken(Share &share, size_t many, std::chrono::steady_clock::time_point deadline)
        : share_(share), many_(many), is_there_(share.take(many, deadline)) {}
    ~Taken() {
        if (is_there_)
            share_.give_back(many_);
    }
    Taken(const Taken &) = delete;
    Taken &operator=(const Taken &) = delete;

    explicit operator bool() const { return is_there_; }

  private:
    Share &share_;
    const size_t many_;
    const bool is_there_;
};

} // namespace namely
