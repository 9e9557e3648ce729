#pragma once
// Components that several ECS tests use, and a world in which pools are out of step.
#include "support.hpp"
#include "throng/ecs.hpp"
#include <string>

namespace ecs_test {

struct Hp {
    int value = 0;
};
struct Name {
    std::string text;
};

/// Counts those that live; its constructors and copies throw when throw_in has come to 0.
struct Moody {
    static inline int throw_in = -1; // constructions until one throws
    static inline int living = 0;
    int value;
    explicit Moody(int v = 0) : value(v) { count(); }
    Moody(const Moody& other) : value(other.value) { count(); }
    Moody(Moody&& other) noexcept : value(other.value) { ++living; }
    Moody& operator=(const Moody&) = default;
    ~Moody() { --living; }

private:
    static void count() {
        if (throw_in == 0)
            throw std::runtime_error("moody");
        if (throw_in > 0)
            --throw_in;
        ++living;
    }
};

struct A {
    int value;
};
struct B {
    long value;
};
struct C {
    std::string value;
};
struct Tag {};

/// Entities with random subsets of A, B, C, Tag, made and destroyed in random order, so that pools are out of step; the first third has
/// all of them.
inline std::vector<throng::Entity> mixed_world(throng::World& world, u32 count, u64 seed) {
    Random random{seed};
    std::vector<throng::Entity> entities;
    for (u32 i = 0; i < count; ++i) {
        const throng::Entity e = world.create();
        const u32 kinds = i < count / 3 ? 15 : random.below(16);
        if (kinds & 1)
            world.add<A>(e, int(i));
        if (kinds & 2)
            world.add<B>(e, long(i));
        if (kinds & 4)
            world.add<C>(e, std::to_string(i));
        if (kinds & 8)
            world.add<Tag>(e);
        entities.push_back(e);
        if (random.below(10) == 0) {
            const u32 k = random.below(u32(entities.size()));
            world.destroy(entities[k]);
            entities[k] = entities.back();
            entities.pop_back();
        }
    }
    return entities;
}

/// The entities that lead to `target`, in the order in which they came.
template <class R>
std::vector<throng::Entity> sources(const throng::World& world, throng::Entity target) {
    std::vector<throng::Entity> out;
    world.each_source<R>(target, [&](throng::Entity e) { out.push_back(e); });
    return out;
}

} // namespace ecs_test
