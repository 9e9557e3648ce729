#pragma once
// The handle of an entity, and the number of a component type.
#include "throng/base.hpp"
#include <type_traits>

namespace throng {

/// A handle: valid while World::alive says so. entity_id rises strictly over the life of a world and is never reused, so a
/// handle of a destroyed entity stays invalid whatever happens to its slot, also when gen wraps.
struct Entity {
    u64 entity_id = 0;  ///< 0: no entity
    u32 entity_idx = 0; ///< slot, reused
    u32 gen = 0;        ///< how often the slot was reused, modulo 2^32

    constexpr explicit operator bool() const { return entity_id != 0; }
    friend constexpr bool operator==(const Entity&, const Entity&) = default;
};

/// What a component's handles become: see maps_entities.
struct EntityMap {
    Entity (*fn)(const void* context, Entity entity) = nullptr;
    const void* context = nullptr;
    void operator()(Entity& entity) const { entity = fn(context, entity); }
};
/// Whether T says which handles it holds: `void map_entities(const EntityMap& map) { map(target); map(owner); }`. Then handles
/// between entities that are made together (by a command queue, as a cloned tree) lead to the new ones.
template <class T>
inline constexpr bool maps_entities = requires(T& value, const EntityMap& map) { value.map_entities(map); };

/// Number of a component type in this process and for worlds of one MaxC, dense from 0 in order of first use. Types that only worlds
/// of 256 know take no number away from worlds of 64. Never put it on the wire or in a file.
using ComponentId = u16;
inline constexpr ComponentId no_component = 0xffff;
/// Component types of `World`, the world that is used where nothing is said.
inline constexpr u32 default_max_components = 128;

/// "No row": what dense lookups return for an absent component.
inline constexpr u32 no_row = 0xffffffff;

/// Specialise to true, before the type is first used, to give a component a direct index from entities to rows:
/// `template <> inline constexpr bool throng::direct_index<Team> = true;`. Then has, get and mut of the type, and loops whose types
/// all have one, do not read the entity's slot. Worth it for types that are looked up at random far more often than they are
/// added and removed: it costs 8 bytes for each slot of the world, and a write to them wherever a row is made, moved or removed.
/// has, get and mut of the type check handles by slot and entity_id alone then: a forged one with a wrong gen passes, and so does one
/// made after a snapshot that was restored, once another entity is given its id and slot.
template <class T>
inline constexpr bool direct_index = false;

/// A component that is never written, only replaced as a whole: `struct Team { using immutable = void; ... };`. mut, patch and loops that
/// write do not compile for it; World::set takes the old one away and adds the new one, so that hooks see both, on clients too.
template <class T>
inline constexpr bool is_immutable = requires { typename T::immutable; };

namespace detail {
/// What is handed out of a component that was made: immutable ones are read only.
template <class T>
using Made = std::conditional_t<is_immutable<T>, const T, T>;

/// Number of a type that has none yet; beyond every MaxC, so one compare against a limit answers both questions.
inline constexpr u16 unassigned = 0xffff;
/// Id of the type, `unassigned` before its first use. No dynamic initialiser, so static objects may use components too.
template <class T, u32 MaxC>
inline u16 assigned_component_id = unassigned;
/// Types of one kind that a process can number; of components, MaxC more.
inline constexpr u32 type_numbers_max = 4096;
/// Place i: the assigned_component_id of the type that has id i; null: nobody has it yet.
template <u32 MaxC>
inline const u16* component_types[MaxC + type_numbers_max] = {};
/// Gives the type the first free one of `count` places unless it has one; its place is its number, which it returns. Any thread, without
/// a lock. `unassigned` where all are taken (asserts).
u16 assign_type_number(u16& number, const u16** places, u32 count);
template <class T, u32 MaxC>
u32 known_component_id() {
    return __atomic_load_n(&assigned_component_id<T, MaxC>, __ATOMIC_RELAXED);
}
} // namespace detail

/// The id of T in worlds of MaxC; the first call for a type assigns it, later ones are one load. Any thread, no lock. For the
/// same ids in each run, let one thread use the types first, in a fixed order.
template <class T, u32 MaxC = default_max_components>
ComponentId component_id() {
    static_assert(std::is_same_v<T, std::remove_cv_t<std::remove_reference_t<T>>>, "a component type has no const, volatile or reference");
    ComponentId id = __atomic_load_n(&detail::assigned_component_id<T, MaxC>, __ATOMIC_RELAXED);
    if (id == detail::unassigned) [[unlikely]]
        id = detail::assign_type_number(detail::assigned_component_id<T, MaxC>, detail::component_types<MaxC>,
                                        MaxC + detail::type_numbers_max);
    return id;
}

} // namespace throng
