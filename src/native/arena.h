// Memory of one solve, allocated once and handed out in pieces.
#pragma once

#include <cstdint>
#include <cstring>

#include "passes.h"

namespace ahofm {
namespace {

class Arena {
  public:
    Arena(double* memory, int64_t size) : next_(memory), end_(memory + size) {}

    double* take(int64_t count) {
        const int64_t rounded = (count + 7) / 8 * 8;
        if (next_ + rounded > end_) too_large();
        double* found = next_;
        next_ += rounded;
        return found;
    }

    double* zeros(int64_t count) {
        double* found = take(count);
        std::memset(found, 0, static_cast<size_t>(count) * sizeof(double));
        return found;
    }

    int64_t left() const { return (end_ - next_) / 8 * 8; }

  private:
    double *next_, *end_;
};

}  // namespace
}  // namespace ahofm
