// Threads for calls that the server does not wait for, and a bounded queue before them. Clients take
// turns, and of threads and places in the queue each has a share (share.hh).
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

    // Has `work` of `client` done by one of the threads; false if so much of it waits already that
    // nobody is to wait behind it.
    bool order(const std::string &client, std::function<void()> work);

  private:
    using Work = std::function<void()>;

    void run();
    bool next(std::string &client, Work &work);

    std::mutex mutex_;
    std::condition_variable ordered_;
    std::unordered_map<std::string, std::deque<Work>> waiting_;
    std::deque<std::string> turns_; // whose work waits, in turn
    Share places_;
    Share idle_;
    bool ends_ = false;
    std::vector<std::thread> threads_;
};

} // namespace namely
