#pragma once
// 128 component types by number, and calls on them by table. For programs that have the component ids of World for themselves.
#include "throng/world.hpp"
#include <array>
#include <string>
#include <utility>

namespace ecs_test {
using namespace throng;

inline constexpr int type_count = 128;
/// Every fourth type is no plain bytes, every fourth from 1 on is larger, every eighth from 2 on has a direct index,
/// one is a relation.
template <int N>
struct C {
    int value;
};
template <int N>
requires(N % 4 == 0) struct C<N> {
    std::string text;
    explicit C(int v = 0) : text(std::to_string(v)) {}
};
template <int N>
requires(N % 4 == 1) struct C<N> {
    int value;
    int more[7] = {};
};
/// One is a relation: who ends takes along those that lead to it.
inline constexpr int relation_type = 6;
template <>
struct C<relation_type> {
    int value = 0;
    Entity target = {};
    static constexpr OnTargetDestroy on_target_destroy = OnTargetDestroy::destroy;
    static constexpr bool acyclic = true;
};

template <int N>
int value_of(const C<N>& c) {
    if constexpr (N % 4 == 0)
        return std::stoi(c.text);
    else
        return c.value;
}
} // namespace ecs_test

template <int N>
inline constexpr bool throng::direct_index<ecs_test::C<N>> = N % 8 == 2;

namespace ecs_test {
struct TypeCalls {
    ComponentId (*id)();
    bool (*add)(World&, Entity, int);
    bool (*write)(World&, Entity, int); ///< through mut
    bool (*remove)(World&, Entity);
    bool (*has)(const World&, Entity);
    int (*get)(const World&, Entity); ///< -1: absent
    u32 (*rows)(const World&);
    bool (*give)(Prefab&, int);
};
template <int N>
constexpr TypeCalls calls_of() {
    return {[] { return component_id<C<N>>(); },
            [](World& world, Entity e, int v) { return world.add<C<N>>(e, v) != nullptr; },
            [](World& world, Entity e, int v) {
                C<N>* const c = world.mut<C<N>>(e);
                if constexpr (N == relation_type)
                    return c && (c->value = v, true); // a target is not changed in this way
                else
                    return c && (*c = C<N>{v}, true);
            },
            [](World& world, Entity e) { return world.remove<C<N>>(e); },
            [](const World& world, Entity e) { return world.has<C<N>>(e); },
            [](const World& world, Entity e) {
                const C<N>* c = world.get<C<N>>(e);
                return c ? value_of(*c) : -1;
            },
            [](const World& world) {
                const Pool<C<N>>* pool = world.find_pool<C<N>>();
                return pool ? pool->size() : 0u;
            },
            [](Prefab& prefab, int v) { return prefab.add(C<N>{v}); }};
}
template <int... Ns>
constexpr std::array<TypeCalls, sizeof...(Ns)> all_calls(std::integer_sequence<int, Ns...>) {
    return {calls_of<Ns>()...};
}
/// In one file of the program: the table is what takes long to compile.
extern const std::array<TypeCalls, type_count> types;

/// Types get their ids in the order of the table, whatever test runs first. Returns how many did not.
inline u32 assign_ids() {
    u32 wrong = 0;
    for (u32 i = 0; i < type_count; ++i)
        wrong += types[i].id() != i;
    return wrong;
}
} // namespace ecs_test
