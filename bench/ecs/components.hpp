#pragma once
// The components of the ECS cases: sizes of 4 to 64 bytes, 144 bytes for an entity that has the first eight.
#include <cstdint>

namespace ecs_bench {

/// Variants are different types with the same content, so that traits can be given to one and not to the other.
template <int Variant>
struct PosOf {
    float x = 1, y = 2, z = 3;
};
template <int Variant>
struct VelOf {
    float x = 1, y = 1, z = 1;
};
template <int Variant>
struct HpOf {
    std::int32_t now = 100, max = 200;
};
template <int Variant>
struct LvlOf {
    std::uint32_t value = 1;
};
struct Tgt {
    std::uint64_t id = 0;
};
struct Buff {
    std::uint32_t values[8] = {};
};
struct Stats {
    float values[16] = {};
};
struct Flg {
    std::uint32_t value = 0;
};
/// The one that is added and removed.
struct Extra {
    std::uint32_t values[4] = {1, 2, 3, 4};
};

template <int Variant>
struct ComponentSet {
    using Pos = PosOf<Variant>;
    using Vel = VelOf<Variant>;
    using Hp = HpOf<Variant>;
    using Lvl = LvlOf<Variant>;
};

/// What the loops do to a row.
struct Step {
    template <int V>
    void operator()(PosOf<V>& p) const {
        p.x += 1, p.y += 2, p.z += 3;
    }
    template <int V>
    void operator()(HpOf<V>& hp) const {
        hp.now = hp.now < hp.max ? hp.now + 1 : hp.now;
    }
    template <int V>
    void operator()(LvlOf<V>& level) const {
        ++level.value;
    }
    void operator()(Buff& buff) const {
        for (std::uint32_t& v : buff.values)
            v = v * 3 + 1;
    }
    void operator()(Stats& stats) const {
        for (float& v : stats.values)
            v = v * 0.99f + 0.5f;
    }
};
/// True for rows that the loops never see: what is done for them stays in the code, but not in the time.
struct Rare {
    template <int V>
    bool operator()(const PosOf<V>& p) const {
        return p.x < 0;
    }
    template <int V>
    bool operator()(const LvlOf<V>& level) const {
        return level.value == 0;
    }
    bool operator()(const Stats& stats) const { return stats.values[0] < 0; }
};
struct Move2 {
    template <class Pos, class Vel>
    void operator()(Pos& p, const Vel& v) const {
        p.x += v.x * 0.016f, p.y += v.y * 0.016f, p.z += v.z * 0.016f;
    }
};
struct Move3 {
    template <class Pos, class Vel, class Hp>
    void operator()(Pos& p, const Vel& v, Hp& hp) const {
        Move2{}(p, v);
        hp.now += 1;
    }
};

} // namespace ecs_bench
