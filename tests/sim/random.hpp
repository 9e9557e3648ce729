#pragma once
// The simulator's own generator (splitmix64), so that a seed means the same on every machine and library.
#include "throng/base.hpp"
#include <initializer_list>

namespace throng_sim {

class Random {
public:
    explicit Random(throng::u64 seed) : state_(seed * 0x9e3779b97f4a7c15ull + 0x632be59bd9b4e019ull) { next(); }
    throng::u64 next() {
        throng::u64 z = state_ += 0x9e3779b97f4a7c15ull;
        z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ull;
        z = (z ^ z >> 27) * 0x94d049bb133111ebull;
        return z ^ z >> 31;
    }
    /// 0 .. count - 1.
    throng::u32 below(throng::u32 count) { return static_cast<throng::u32>((next() >> 32) * count >> 32); }
    /// low .. high, both included.
    int range(int low, int high) { return low + static_cast<int>(below(static_cast<throng::u32>(high - low + 1))); }
    double unit() { return static_cast<double>(next() >> 11) * 0x1p-53; }
    double between(double low, double high) { return low + unit() * (high - low); }
    bool chance(double probability) { return unit() < probability; }
    template <class T>
    T pick(std::initializer_list<T> values) {
        return values.begin()[below(static_cast<throng::u32>(values.size()))];
    }

private:
    throng::u64 state_;
};

} // namespace throng_sim
