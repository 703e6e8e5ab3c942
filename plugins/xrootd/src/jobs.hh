// Places for the server's jobs that compute checksums. The server has few jobs for all clients
// (xrootd.chksum), and does not state the client of a job. So a client takes a place when it asks
// for a checksum, before the server makes a job: a client beyond its share occupies none.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <string>
#include <unordered_map>
#include <utility>

#include "share.hh"

namespace namely {

class Jobs {
  public:
    using Time = std::chrono::steady_clock::time_point;

    // A place is free again if no job uses it for `lapse`: the client left before its job began.
    Jobs(size_t jobs_max, std::chrono::milliseconds lapse) : places_(jobs_max), lapse_(lapse) {}

    // Takes a place of `client` for the job of `path`, unless that job has one, and waits for it
    // until `deadline`. Returns false if the client's share is used up.
    bool ask(const std::string &path, std::string client, Time deadline) {
        if (enter(path, client, 0, deadline))
            return true;
        refused_++;
        return false;
    }

    // Begins the job of `path`, and sets `client` to the client that asked for it. If none did,
    // or its place has lapsed, waits until `deadline` for a place of `client`.
    bool begin(const std::string &path, std::string &client, Time deadline) {
        return enter(path, client, 1, deadline);
    }

    void end(const std::string &path) {
        const std::lock_guard<std::mutex> lock(mutex_);
        const auto job = jobs_.find(path);
        if (job == jobs_.end() || --job->second.running > 0)
            return;
        places_.give_back(job->second.client, 1);
        jobs_.erase(job);
    }

    // The number of requests without a place since the start.
    uint64_t refused() const { return refused_; }

    // The number of jobs with a place.
    size_t under_way() {
        const std::lock_guard<std::mutex> lock(mutex_);
        return jobs_.size();
    }

  private:
    struct Job {
        std::string client;
        Time asked;
        size_t running;
    };

    bool enter(const std::string &path, std::string &client, size_t running, Time deadline) {
        const std::string payer = client;
        if (join(path, client, running, false))
            return true;
        if (!places_.take(payer, 1, deadline))
            return false;
        // Another thread may have made the job meanwhile.
        if (join(path, client, running, true))
            places_.give_back(payer, 1);
        return true;
    }

    // Returns true if the job of `path` has a place already. If it has none, `makes` makes the job
    // with the place that the caller has taken.
    bool join(const std::string &path, std::string &client, size_t running, bool makes) {
        const std::lock_guard<std::mutex> lock(mutex_);
        const Time now = std::chrono::steady_clock::now();
        free_lapsed(now);
        auto job = jobs_.find(path);
        const bool was_there = job != jobs_.end();
        if (!was_there && !makes)
            return false;
        if (!was_there)
            job = jobs_.emplace(path, Job{client, now, 0}).first;
        job->second.asked = now;
        job->second.running += running;
        client = job->second.client;
        return was_there;
    }

    void free_lapsed(Time now) {
        for (auto job = jobs_.begin(); job != jobs_.end();) {
            if (job->second.running > 0 || now - job->second.asked < lapse_) {
                ++job;
                continue;
            }
            places_.give_back(job->second.client, 1);
            job = jobs_.erase(job);
        }
    }

    std::mutex mutex_;
    std::unordered_map<std::string, Job> jobs_; // by path
    Share places_;
    const std::chrono::milliseconds lapse_;
    std::atomic<uint64_t> refused_{0};
};

// A job that runs until this is destroyed.
class RunningJob {
  public:
    RunningJob(Jobs &jobs, std::string path, std::string client, Jobs::Time deadline)
        : jobs_(jobs), path_(std::move(path)), client_(std::move(client)),
          runs_(jobs.begin(path_, client_, deadline)) {}
    ~RunningJob() {
        if (runs_)
            jobs_.end(path_);
    }
    RunningJob(const RunningJob &) = delete;
    RunningJob &operator=(const RunningJob &) = delete;

    explicit operator bool() const { return runs_; }
    const std::string &client() const { return client_; }

  private:
    Jobs &jobs_;
    const std::string path_;
    std::string client_;
    const bool runs_;
};

} // namespace namely
