#pragma once
// The random numbers of scenarios: splitmix64 (Steele, Lea, Flood 2014). The same on every machine and compiler.
#include <cstdint>

namespace scenarios {

constexpr std::uint64_t mix64(std::uint64_t v) {
    v = (v ^ (v >> 30)) * 0xbf58476d1ce4e5b9u;
    v = (v ^ (v >> 27)) * 0x94d049bb133111ebu;
    return v ^ (v >> 31);
}

class Random {
public:
    explicit constexpr Random(std::uint64_t seed) : state_(seed) {}
    /// A generator of its own for item `index` of stream `stream`: no order of calls between items matters.
    static constexpr Random at(std::uint64_t seed, std::uint64_t stream, std::uint64_t index) {
        return Random(mix64(mix64(seed + 0x9e3779b97f4a7c15u * (stream + 1)) + 0xd1342543de82ef95u * (index + 1)));
    }
    constexpr std::uint64_t next() { return mix64(state_ += 0x9e3779b97f4a7c15u); }
    /// Uniform in [0, 1), 24 bits.
    constexpr float uniform() { return static_cast<float>(next() >> 40) * (1.0f / 16'777'216.0f); }
    /// Uniform in [low, high).
    constexpr float uniform(float low, float high) { return low + (high - low) * uniform(); }
    /// Uniform in [0, count), count > 0; the bias is below count / 2^32.
    constexpr std::uint32_t below(std::uint32_t count) { return static_cast<std::uint32_t>(((next() >> 32) * count) >> 32); }

private:
    std::uint64_t state_;
};

} // namespace scenarios
