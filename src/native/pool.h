// Threads of the module: one pool, created at first use, shared by all calls, and created again after a fork.
#pragma once

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

namespace ahofm {

class Pool {
  public:
    // Calls task(0) .. task(count - 1) on at most `threads` threads, the caller's among them, and waits for all.
    // If tasks throw exceptions, one of them is rethrown.
    static void run(int count, int threads, const std::function<void(int)>& task) {
        const int helpers = std::min(threads, count) - 1;
        if (helpers <= 0) {
            for (int i = 0; i < count; i++) task(i);
            return;
        }
        instance().run_with(count, helpers, task);
    }

  private:
    struct Batch {
        const std::function<void(int)>* task;
        int count;
        std::atomic<int> next{0};
        int running = 0;            // helpers inside; under the pool's lock
        std::exception_ptr raised;  // likewise
    };

    static Pool& instance() {
        static std::mutex guard;
        static Pool* pool = nullptr;
        static pid_t owner = 0;
        const std::lock_guard<std::mutex> lock(guard);
        // Threads do not survive a fork: the memory of the old pool is left alone.
        if (pool == nullptr || owner != getpid()) {
            pool = new Pool();
            owner = getpid();
        }
        return *pool;
    }

    void run_with(int count, int helpers, const std::function<void(int)>& task) {
        const auto batch = std::make_shared<Batch>();
        batch->task = &task;
        batch->count = count;
        {
            const std::lock_guard<std::mutex> lock(guard_);
            while (static_cast<int>(threads_.size()) < kMostThreads && idle_ < helpers && started_ < helpers + busy_) {
                threads_.emplace_back([this] { work(); });
                threads_.back().detach();
                started_++;
            }
            for (int i = 0; i < helpers; i++) queue_.push_back(batch);
        }
        wake_.notify_all();
        const std::exception_ptr raised = drain(*batch);
        std::unique_lock<std::mutex> lock(guard_);
        for (auto it = queue_.begin(); it != queue_.end();) it = *it == batch ? queue_.erase(it) : it + 1;
        done_.wait(lock, [&] { return batch->running == 0; });
        if (raised) std::rethrow_exception(raised);
        if (batch->raised) std::rethrow_exception(batch->raised);
    }

    static std::exception_ptr drain(Batch& batch) {
        try {
            for (int i = batch.next++; i < batch.count; i = batch.next++) (*batch.task)(i);
        } catch (...) {
            return std::current_exception();
        }
        return nullptr;
    }

    void work() {
        std::unique_lock<std::mutex> lock(guard_);
        for (;;) {
            idle_++;
            wake_.wait(lock, [&] { return !queue_.empty(); });
            idle_--;
            const std::shared_ptr<Batch> batch = queue_.front();
            queue_.pop_front();
            batch->running++;
            busy_++;
            lock.unlock();
            const std::exception_ptr raised = drain(*batch);
            lock.lock();
            if (raised) batch->raised = raised;
            busy_--;
            if (--batch->running == 0) done_.notify_all();
        }
    }

    static constexpr int kMostThreads = 256;

    std::mutex guard_;
    std::condition_variable wake_, done_;
    std::deque<std::shared_ptr<Batch>> queue_;
    std::vector<std::thread> threads_;
    int idle_ = 0, busy_ = 0, started_ = 0;
};

}  // namespace ahofm
