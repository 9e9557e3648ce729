#pragma once
// Filters of views: a component of the entity against a value of the client decides whether the client may see the entity. Unlike layers
// (VisibleTo) they know any number of distinct values: guilds, owners, ranks, quests.
//
//     server.add_filter<Guild, Member>("guild", [](const Guild& guild, const Member* m) { return m && m->guild == guild.number; });
//     world.add<Guild>(banner, {7});
//     server.view(id).set(Member{7});
//
// An entity without the component is not filtered. A client without the value is asked for with null. Of several filters each must allow
// the entity, and so must all else: distance, the client's list, VisibleTo, VisibleToGroup. Exact, from the next tick on: who may not see
// the entity is sent nothing of it, and is told that it is gone if it had it. Neither the values nor the answers are sent.
//
// Change the component through marking accessors (mut, add, each_mut). Cost: an answer is kept for each pair of a value that an entity has
// and one that a client has, and is asked for once, when such a client is near such an entity: then a test of a bit where a client's view
// or the entity's chunk changes. An entity's value that is new looks at a word for each client's. Memory: 2 bits a pair, 4 bytes an entity.
#include "throng/base.hpp"
#include "throng/entity.hpp"
#include "throng/visibility.hpp"
#include "throng/world.hpp"
#include <type_traits>

namespace throng {

/// Filters that a server may have, beside VisibleToGroup.
inline constexpr u32 filters_max = 32;

/// Whether clients with this value, or without one (null), may see entities with that one. It looks at the two alone and always gives the
/// same answer to the same two. Called inside Server::tick from any worker (two may ask for the same at a time), and in Server::why. Must
/// not throw.
template <class E, class C>
using FilterFunction = bool (*)(const E& entity, const C* client);

namespace detail {

/// Values that are equal if their bytes are.
template <class T>
inline constexpr bool is_filter_value = std::is_trivially_copyable_v<T> && alignof(T) <= 16 &&
                                        (std::is_empty_v<T> || std::has_unique_object_representations_v<T>);

/// Entities whose component of a filter was added, written or taken away since the last call.
class FilterChanges {
public:
    virtual ~FilterChanges() = default;
    /// False: it lost track, so all entities count.
    virtual bool each(void* context, void (*look)(void* context, Entity entity)) = 0;
};
template <class E>
class FilterChangesOf final : public FilterChanges {
public:
    explicit FilterChangesOf(World& world) : changes_(world) {}
    bool each(void* context, void (*look)(void*, Entity)) override {
        const bool lost = changes_.take_resync();
        changes_.each_removed([&](const throng::Removal& removal) { look(context, removal.entity); });
        changes_.each([&](Entity entity, const E&) { look(context, entity); });
        return !lost;
    }

private:
    ChangeReader<E> changes_;
};

/// Its address stands for the type.
template <class C>
inline constexpr char filter_value_type = 0;
template <class T>
inline constexpr u32 filter_value_bytes = std::is_empty_v<T> ? 0 : sizeof(T);

/// A filter without its types.
struct FilterType {
    const char* name = nullptr;
    ComponentId component = no_component;
    u32 entity_bytes = 0, client_bytes = 0; // of the values
    const void* client_type = nullptr;
    void (*function)() = nullptr;
    bool (*ask)(void (*function)(), const void* entity, const void* client) = nullptr;
    u32 changes_bytes = 0, changes_alignment = 0;
    FilterChanges* (*make_changes)(void* memory, World& world) = nullptr;

    template <class E, class C>
    static FilterType of(const char* name, FilterFunction<E, C> function) {
        static_assert(is_filter_value<E>,
                      "a filter's component is compared by its bytes: trivially copyable, no padding, no floating point");
        static_assert(is_filter_value<C>, "a client's value is compared by its bytes: trivially copyable, no padding, no floating point");
        FilterType type;
        type.name = name;
        type.component = component_id<E>();
        type.entity_bytes = filter_value_bytes<E>;
        type.client_bytes = filter_value_bytes<C>;
        type.client_type = &filter_value_type<C>;
        type.function = reinterpret_cast<void (*)()>(function);
        type.ask = [](void (*f)(), const void* entity, const void* client) {
            return reinterpret_cast<FilterFunction<E, C>>(f)(*static_cast<const E*>(entity), static_cast<const C*>(client));
        };
        type.changes_bytes = sizeof(FilterChangesOf<E>);
        type.changes_alignment = alignof(FilterChangesOf<E>);
        type.make_changes = [](void* memory, World& world) -> FilterChanges* { return ::new (memory) FilterChangesOf<E>(world); };
        return type;
    }
};

} // namespace detail
} // namespace throng
