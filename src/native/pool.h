// Threads of the module: one pool, created at first use, shared by all calls, and created again after a fork.
//
// Regions that run in parallel are short, some of 20 microseconds. A call that has many of them hires a team once; its
// threads then wait actively for the next region, and see it in the time that a cache line takes from core to core.
#pragma once

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "subnormals.h"

namespace ahofm {

// How many threads the jobs of one call may use together. A job takes one for itself while it runs; those that no job
// has help in the parallel regions of the jobs that run, in equal numbers; but none while jobs wait for a thread.
class ThreadBudget {
  public:
    // `jobs` will begin.
    explicit ThreadBudget(int count, int jobs) : total_(count), free_(count), waiting_(jobs) {}

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
    void begin_job() {
        waiting_.fetch_sub(1, std::memory_order_relaxed);
        occupy(1);
    }
    // Of a job that begins or, after a wait, goes on: teams of other jobs may have its thread for a moment; -1: it ends.
    void occupy(int count) {
        free_.fetch_sub(count, std::memory_order_relaxed);
        jobs_.fetch_add(count, std::memory_order_relaxed);
    }
    int free() const { return free_.load(std::memory_order_relaxed); }
    bool any_waiting() const { return waiting_.load(std::memory_order_relaxed) > 0; }
    // Helpers of one job where all jobs have as many, rounded up.
    int share() const {
        const int jobs = std::max(jobs_.load(std::memory_order_relaxed), 1);
        return std::max(total_ - 1, 0) / jobs;
    }

  private:
    const int total_;
    std::atomic<int> free_, jobs_{0}, waiting_;
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
    struct Worker;

    // Tasks of one region after another, for the threads of a team. `state` is epoch, number of tasks and the next task
    // in one word: whoever takes a task knows which region it is of. The tasks of a region are all done before the next
    // one begins.
    struct Board {
        static constexpr int kBits = 20;
        static constexpr uint64_t kMask = (uint64_t{1} << kBits) - 1, kEnded = (uint64_t{1} << (64 - 2 * kBits)) - 1;
        static uint64_t epoch(uint64_t state) { return state >> (2 * kBits); }
        static uint64_t count(uint64_t state) { return (state >> kBits) & kMask; }

        alignas(128) std::atomic<uint64_t> state{0};
        alignas(128) std::atomic<int> done{0};  // tasks
        alignas(128) std::atomic<const std::function<void(int)>*> task{nullptr};
        std::atomic<int> asleep{0};  // threads
        std::atomic<int> references{1};
        std::mutex guard;
        std::exception_ptr raised;                                   // under the lock
        const bool subnormals_as_zero = SubnormalsAsZero::active();  // where it is made, and so in its tasks

        // Takes tasks until there are none; returns the epoch in which there were none.
        uint64_t drain() {
            int finished = 0;
            const SubnormalsAsZero like_caller(subnormals_as_zero);
            for (;;) {
                const uint64_t taken = state.fetch_add(1, std::memory_order_acq_rel);
                if ((taken & kMask) >= count(taken)) {
                    if (finished > 0) done.fetch_add(finished, std::memory_order_release);
                    return epoch(taken);
                }
                try {
                    (*task.load(std::memory_order_relaxed))(static_cast<int>(taken & kMask));
                } catch (...) {
                    const std::lock_guard<std::mutex> lock(guard);
                    raised = std::current_exception();
                }
                finished++;
            }
        }
        void leave() {
            if (references.fetch_sub(1, std::memory_order_acq_rel) == 1) delete this;
        }
    };

    struct Worker {
        std::atomic<Board*> given{nullptr};
        std::mutex guard;
        std::condition_variable wake;
        bool asleep = false;  // under the lock
    };

  public:
    // The calling thread and helpers, for one parallel region after another. Of one thread at a time.
    class Team {
      public:
        // With so many threads, the caller's among them.
        explicit Team(int threads) : all_(std::min(threads - 1, kMostThreads)), most_(all_) {}
        // With those that the budget has left, at every region anew; none without a budget.
        explicit Team(ThreadBudget* budget)
            : budget_(budget), all_(budget == nullptr ? 0 : kMostThreads), most_(all_) {}
        ~Team() {
            if (board_ == nullptr) return;
            board_->state.store(Board::kEnded << (2 * Board::kBits), std::memory_order_release);
            if (&pool_ == &Pool::instance()) pool_.release(workers_);  // not in a child of a fork
            board_->leave();
            if (budget_ != nullptr) budget_->give(static_cast<int>(workers_.size()));
        }
        Team(const Team&) = delete;
        Team& operator=(const Team&) = delete;

        // From now on helpers are hired up to this number; those that are there stay.
        void limit(int helpers) { most_ = std::min(helpers, all_); }

        // Calls task(0) .. task(count - 1) and waits for all. If tasks throw exceptions, one of them is rethrown.
        void run(int count, const std::function<void(int)>& task) {
            if (count > 1) hire(count - 1);
            if (count <= 1 || workers_.empty() || count > kMostTasks) {
                for (int i = 0; i < count; i++) task(i);
                return;
            }
            Board& board = *board_;
            board.task.store(&task, std::memory_order_relaxed);
            board.done.store(0, std::memory_order_relaxed);
            epoch_ = epoch_ % (Board::kEnded - 1) + 1;
            const uint64_t tasks = static_cast<uint64_t>(count);
            board.state.store((epoch_ << (2 * Board::kBits)) | (tasks << Board::kBits), std::memory_order_seq_cst);
            if (board.asleep.load(std::memory_order_seq_cst) > 0)
                for (Worker* worker : workers_) rouse(*worker);
            board.drain();
            for (int spins = 0; board.done.load(std::memory_order_acquire) < count; spins++) rest(spins);
            if (board.raised) {
                const std::exception_ptr raised = board.raised;
                board.raised = nullptr;
                std::rethrow_exception(raised);
            }
        }

      private:
        // Helpers for a region of `most` + 1 tasks: more than before where the budget has more.
        void hire(int most) {
            const int now = static_cast<int>(workers_.size());
            const int wanted = std::min({most, most_, budget_ == nullptr ? most_ : budget_->share()});
            if (wanted <= now || (budget_ != nullptr && (budget_->free() <= 0 || budget_->any_waiting()))) return;
            const int taken = budget_ == nullptr ? wanted - now : budget_->take(wanted - now);
            if (taken == 0) return;
            if (board_ == nullptr) board_ = new Board;
            const int found = pool_.hire(taken, *board_, workers_);
            if (budget_ != nullptr && found < taken) budget_->give(taken - found);
        }

        Pool& pool_ = Pool::instance();
        ThreadBudget* budget_ = nullptr;
        const int all_;
        int most_;
        uint64_t epoch_ = 0;
        Board* board_ = nullptr;
        std::vector<Worker*> workers_;
    };

    // Calls task(0) .. task(count - 1) on at most `threads` threads, the caller's among them, and waits for all.
    static void run(int count, int threads, const std::function<void(int)>& task) {
        Team team(std::min(threads, count));
        team.run(count, task);
    }

  private:
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

    // Gives a board to idle threads, those first that were last at work: they may not sleep yet. Returns their number.
    int hire(int wanted, Board& board, std::vector<Worker*>& workers) {
        const std::lock_guard<std::mutex> lock(guard_);
        while (static_cast<int>(idle_.size()) < wanted && started_ < kMostThreads) {
            workers_.push_back(std::make_unique<Worker>());
            Worker* worker = workers_.back().get();
            std::thread([worker] { work(*worker); }).detach();
            idle_.insert(idle_.begin(), worker);
            started_++;
        }
        int number = 0;
        for (; number < wanted && !idle_.empty(); number++) {
            Worker* worker = idle_.back();
            idle_.pop_back();
            workers.push_back(worker);
            board.references.fetch_add(1, std::memory_order_relaxed);
            Board* earlier = worker->given.exchange(&board, std::memory_order_acq_rel);
            if (earlier != nullptr) earlier->leave();  // ended before the thread has seen it
            rouse(*worker);
        }
        return number;
    }

    void release(const std::vector<Worker*>& workers) {
        const std::lock_guard<std::mutex> lock(guard_);
        idle_.insert(idle_.end(), workers.begin(), workers.end());
    }

    static void rouse(Worker& worker) {
        const std::lock_guard<std::mutex> lock(worker.guard);
        if (worker.asleep) worker.wake.notify_one();
    }

    static void work(Worker& worker) {
        for (;;) {
            await(worker, nullptr, kIdle, [&] { return worker.given.load(std::memory_order_acquire) != nullptr; });
            Board& board = *worker.given.exchange(nullptr, std::memory_order_acq_rel);
            uint64_t seen = 0;
            for (;;) {
                await(worker, &board, kBetweenRegions, [&] {
                    return Board::epoch(board.state.load(std::memory_order_acquire)) != seen ||
                           worker.given.load(std::memory_order_relaxed) != nullptr;
                });
                if (Board::epoch(board.state.load(std::memory_order_acquire)) == Board::kEnded) break;
                seen = board.drain();
                if (seen == Board::kEnded) break;  // it has ended meanwhile
            }
            board.leave();
        }
    }

    // Until `ready`: actively for a moment, then asleep.
    template <class Ready>
    static void await(Worker& worker, Board* board, std::chrono::microseconds active, Ready ready) {
        const auto until = std::chrono::steady_clock::now() + active;
        for (int spins = 0; !ready(); spins++) {
            if (spins % 64 == 63 && std::chrono::steady_clock::now() > until) {
                std::unique_lock<std::mutex> lock(worker.guard);
                worker.asleep = true;
                if (board != nullptr) board->asleep.fetch_add(1, std::memory_order_seq_cst);
                worker.wake.wait(lock, ready);
                if (board != nullptr) board->asleep.fetch_sub(1, std::memory_order_relaxed);
                worker.asleep = false;
                return;
            }
            rest(spins);
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
    static constexpr int kMostTasks = 1 << (Board::kBits - 1);
    static constexpr std::chrono::microseconds kBetweenRegions{200}, kIdle{50};

    std::mutex guard_;
    std::vector<std::unique_ptr<Worker>> workers_;
    std::vector<Worker*> idle_;
    int started_ = 0;
};

}  // namespace ahofm
