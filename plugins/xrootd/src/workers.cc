#include "workers.hh"

namespace namely {

Workers::Workers(unsigned threads, size_t queue_max) : queue_max_(queue_max) {
    for (unsigned i = 0; i < threads; i++)
        threads_.emplace_back([this] { run(); });
}

Workers::~Workers() {
    {
        const std::lock_guard<std::mutex> lock(mutex_);
        ends_ = true;
    }
    ordered_.notify_all();
    for (std::thread &thread : threads_)
        thread.join();
}

bool Workers::order(std::function<void()> work) {
    {
        const std::lock_guard<std::mutex> lock(mutex_);
        if (queue_.size() >= queue_max_)
            return false;
        queue_.push_back(std::move(work));
    }
    ordered_.notify_one();
    return true;
}

void Workers::run() {
    std::unique_lock<std::mutex> lock(mutex_);
    for (;;) {
        ordered_.wait(lock, [this] { return ends_ || !queue_.empty(); });
        if (queue_.empty())
            return;
        const std::function<void()> work = std::move(queue_.front());
        queue_.pop_front();
        lock.unlock();
        work();
        lock.lock();
    }
}

} // namespace namely
