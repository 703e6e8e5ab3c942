#include "workers.hh"

namespace namely {

Workers::Workers(unsigned threads, size_t queue_max) : places_(queue_max), idle_(threads) {
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

bool Workers::order(const std::string &client, Work work) {
    if (!places_.try_take(client, 1))
        return false;
    {
        const std::lock_guard<std::mutex> lock(mutex_);
        std::deque<Work> &line = waiting_[client];
        if (line.empty())
            turns_.push_back(client);
        line.push_back(std::move(work));
    }
    ordered_.notify_one();
    return true;
}

// Takes the next work of the first client in turn whose share permits one more thread.
bool Workers::next(std::string &client, Work &work) {
    for (auto turn = turns_.begin(); turn != turns_.end(); ++turn) {
        if (!idle_.try_take(*turn, 1))
            continue;
        client = *turn;
        turns_.erase(turn);
        const auto line = waiting_.find(client);
        work = std::move(line->second.front());
        line->second.pop_front();
        if (line->second.empty())
            waiting_.erase(line);
        else
            turns_.push_back(client);
        return true;
    }
    return false;
}

void Workers::run() {
    std::unique_lock<std::mutex> lock(mutex_);
    for (;;) {
        std::string client;
        Work work;
        ordered_.wait(lock, [&] { return next(client, work) || (ends_ && turns_.empty()); });
        if (!work)
            return;
        lock.unlock();
        places_.give_back(client, 1);
        work();
        lock.lock();
        idle_.give_back(client, 1);
        // A client in turn may have waited for this thread.
        ordered_.notify_all();
    }
}

} // namespace namely
