// Threads for calls that the server does not wait for, with a bounded queue. Clients take turns,
// and each has a share of the threads and of the queue (share.hh).
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

#include "share.hh"

namespace namely {

class Workers {
  public:
    Workers(unsigned threads, size_t queue_max);
    ~Workers();
    Workers(const Workers &) = delete;
    Workers &operator=(const Workers &) = delete;

    // Queues `work` of `client` for the threads. Returns false if the client's share of the queue
    // is full.
    bool order(const std::string &client, std::function<void()> work);

  private:
    using Work = std::function<void()>;

    void run();
    bool next(std::string &client, Work &work);

    std::mutex mutex_;
    std::condition_variable ordered_;
    std::unordered_map<std::string, std::deque<Work>> waiting_;
    std::deque<std::string> turns_; // the clients with waiting work, in turn
    Share places_;
    Share idle_;
    bool ends_ = false;
    std::vector<std::thread> threads_;
};

} // namespace namely
