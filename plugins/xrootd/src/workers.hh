// Threads for calls that the server does not wait for, and a bounded queue before them.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace namely {

class Workers {
  public:
    Workers(unsigned threads, size_t queue_max);
    ~Workers();
    Workers(const Workers &) = delete;
    Workers &operator=(const Workers &) = delete;

    // Has `work` done by one of the threads; false if so much waits already that nobody is to wait
    // behind it.
    bool order(std::function<void()> work);

  private:
    void run();

    std::mutex mutex_;
    std::condition_variable ordered_;
    std::deque<std::function<void()>> queue_;
    const size_t queue_max_;
    bool ends_ = false;
    std::vector<std::thread> threads_;
};

} // namespace namely
