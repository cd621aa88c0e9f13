// Threads of the module: one pool, created at first use, shared by all calls, and created again after a fork.
//
// Regions that run in parallel are short, some of 20 microseconds: waking a sleeping thread takes as long. Idle threads
// therefore wait actively for a moment before they sleep, and a caller does not wait for threads that have not begun.
#pragma once

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

namespace ahofm {

// How many threads the jobs of one call may use together. A job takes one for itself while it runs; inside a job,
// regions that run in parallel take those that no job has, and give them back.
class ThreadBudget {
  public:
    explicit ThreadBudget(int count) : free_(count) {}

    // Takes up to `most` threads; returns their number.
    int take(int most) {
        if (most <= 0) return 0;
        int now = free_.load(std::memory_order_relaxed);
        for (;;) {
            const int taken = std::min(most, std::max(now, 0));
            if (taken == 0 || free_.compare_exchange_weak(now, now - taken, std::memory_order_relaxed)) return taken;
        }
    }
    void give(int count) { free_.fetch_add(count, std::memory_order_relaxed); }
    // A job begins, or ends (-1): regions of other jobs may still have the thread that it takes, for a moment.
    void occupy(int count) { free_.fetch_sub(count, std::memory_order_relaxed); }
    int free() const { return free_.load(std::memory_order_relaxed); }

  private:
    std::atomic<int> free_;
};

// Spans of parallel regions as they would be with 1, 2, 4, 8, ... threads, from the durations of their tasks on one.
struct RegionSpans {
    static constexpr int kinds = 5;
    double seconds[kinds] = {};
    double tasks = 0.0;  // their number: each is timed, which takes time as well
    bool wanted = false;

    void add(int count, double total, double longest) {
        tasks += count;
        for (int k = 0; k < kinds; k++) seconds[k] += std::max(longest, total / static_cast<double>(1 << k));
    }
};

class Pool {
  public:
    // Calls task(0) .. task(count - 1) on at most `threads` threads, the caller's among them, and waits for all.
    // If tasks throw exceptions, one of them is rethrown.
    static void run(int count, int threads, const std::function<void(int)>& task) {
        const int helpers = std::min(threads, count) - 1;
        if (helpers > 0) return instance().run_with(count, helpers, task);
        for (int i = 0; i < count; i++) task(i);
    }

    // The same on as many threads as the budget has left; nullptr: on the caller's alone.
    static void run(int count, ThreadBudget* budget, const std::function<void(int)>& task) {
        const Taken taken(budget, count - 1);
        run(count, 1 + taken.count, task);
    }

  private:
    struct Taken {
        Taken(ThreadBudget* given, int most) : budget(given), count(given == nullptr ? 0 : given->take(most)) {}
        ~Taken() {
            if (count > 0) budget->give(count);
        }
        Taken(const Taken&) = delete;
        Taken& operator=(const Taken&) = delete;
        ThreadBudget* budget;
        int count;
    };

    struct Batch {
        const std::function<void(int)>* task;
        int count;
        std::atomic<int> next{0};
        std::atomic<int> running{0};  // helpers that have not ended
        std::mutex guard;
        std::exception_ptr raised;  // under the lock
    };

    struct Worker {
        std::atomic<Batch*> given{nullptr};
        std::mutex guard;
        std::condition_variable wake;
        bool asleep = false;  // under the lock
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
        Batch batch;
        batch.task = &task;
        batch.count = count;
        Worker* hired[kMostThreads];
        const int number = hire(std::min(helpers, kMostThreads), hired);
        batch.running.store(number, std::memory_order_relaxed);
        for (int i = 0; i < number; i++) hand(*hired[i], batch);
        drain(batch);
        for (int i = 0; i < number; i++) {  // those that have not begun need not
            Batch* expected = &batch;
            if (hired[i]->given.compare_exchange_strong(expected, nullptr, std::memory_order_acq_rel))
                batch.running.fetch_sub(1, std::memory_order_relaxed);
        }
        for (int spins = 0; batch.running.load(std::memory_order_acquire) > 0; spins++) rest(spins);
        {
            const std::lock_guard<std::mutex> lock(guard_);
            idle_.insert(idle_.end(), hired, hired + number);
        }
        if (batch.raised) std::rethrow_exception(batch.raised);
    }

    // Idle threads, those first that were last at work: they may not sleep yet.
    int hire(int wanted, Worker** hired) {
        const std::lock_guard<std::mutex> lock(guard_);
        while (static_cast<int>(idle_.size()) < wanted && started_ < kMostThreads) {
            workers_.push_back(std::make_unique<Worker>());
            Worker* worker = workers_.back().get();
            std::thread([this, worker] { work(*worker); }).detach();
            idle_.insert(idle_.begin(), worker);
            started_++;
        }
        int number = 0;
        for (; number < wanted && !idle_.empty(); number++) {
            hired[number] = idle_.back();
            idle_.pop_back();
        }
        return number;
    }

    static void hand(Worker& worker, Batch& batch) {
        worker.given.store(&batch, std::memory_order_release);
        const std::lock_guard<std::mutex> lock(worker.guard);
        if (worker.asleep) worker.wake.notify_one();
    }

    static void drain(Batch& batch) {
        try {
            for (int i = batch.next++; i < batch.count; i = batch.next++) (*batch.task)(i);
        } catch (...) {
            const std::lock_guard<std::mutex> lock(batch.guard);
            batch.raised = std::current_exception();
        }
    }

    void work(Worker& worker) {
        for (;;) {
            Batch* batch = nullptr;
            const auto until = std::chrono::steady_clock::now() + kActive;
            for (int spins = 0; batch == nullptr; spins++) {
                if (worker.given.load(std::memory_order_relaxed) != nullptr)
                    batch =
                        worker.given.exchange(nullptr, std::memory_order_acq_rel);  // the caller may have been faster
                else if (spins % 64 == 63 && std::chrono::steady_clock::now() > until) break;
                else rest(spins);
            }
            if (batch == nullptr) {
                std::unique_lock<std::mutex> lock(worker.guard);
                worker.asleep = true;
                worker.wake.wait(lock, [&] { return worker.given.load(std::memory_order_acquire) != nullptr; });
                worker.asleep = false;
                continue;
            }
            drain(*batch);
            batch->running.fetch_sub(1, std::memory_order_release);
        }
    }

    // Active waiting; where cores are fewer than threads, another thread has its turn.
    static void rest(int spins) {
        if (spins % 256 == 255) {
            std::this_thread::yield();
            return;
        }
#if defined(AHOFM_X86)
        __builtin_ia32_pause();
#endif
    }

    static constexpr int kMostThreads = 256;
    static constexpr std::chrono::microseconds kActive{60};

    std::mutex guard_;
    std::vector<std::unique_ptr<Worker>> workers_;
    std::vector<Worker*> idle_;
    int started_ = 0;
};

}  // namespace ahofm
