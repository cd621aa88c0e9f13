// How a thread treats subnormal numbers, below 2.2e-308: processors take a hundred times as long for each of them.
#pragma once

#include <cstdint>

#if defined(__SSE2__) || defined(_M_X64)
#include <xmmintrin.h>
#endif

namespace ahofm {

// While it lives, this thread reads and writes subnormal numbers as zero, or as what they are. Sweeps take them for zero:
// products of curves that have shrunk to nothing are full of them. Python code must not: it may expect them.
class SubnormalsAsZero {
  public:
    explicit SubnormalsAsZero(bool wanted) : before_(control()) {
        set_control(wanted ? before_ | kBits : before_ & ~kBits);
    }
    ~SubnormalsAsZero() { set_control(before_); }
    SubnormalsAsZero(const SubnormalsAsZero&) = delete;
    SubnormalsAsZero& operator=(const SubnormalsAsZero&) = delete;

    // Whether this thread takes them for zero.
    static bool active() { return kBits != 0 && (control() & kBits) == kBits; }

  private:
#if defined(__SSE2__) || defined(_M_X64)
    static constexpr uint64_t kBits = 0x8040;  // of MXCSR: results (flush to zero), operands (denormals are zeros)
    static uint64_t control() { return _mm_getcsr(); }
    static void set_control(uint64_t value) { _mm_setcsr(static_cast<unsigned int>(value)); }
#elif defined(__aarch64__)
    static constexpr uint64_t kBits = uint64_t{1} << 24;  // of FPCR: both
    static uint64_t control() {
        uint64_t value = 0;
        __asm__ volatile("mrs %0, fpcr" : "=r"(value));
        return value;
    }
    static void set_control(uint64_t value) { __asm__ volatile("msr fpcr, %0" : : "r"(value)); }
#else
    static constexpr uint64_t kBits = 0;
    static uint64_t control() { return 0; }
    static void set_control(uint64_t) {}
#endif

    const uint64_t before_;
};

}  // namespace ahofm
