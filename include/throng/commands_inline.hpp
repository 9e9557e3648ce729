#pragma once
// Definitions of commands.hpp that depend on MaxC or component types. Part of throng/commands.hpp; do not include alone.
#include "throng/commands.hpp"

namespace throng {
namespace detail {

/// The target of a relation that was recorded with a pending handle that nothing was made for: dead, and the same whoever recorded.
inline constexpr Entity never_made{u64(1) << 63, no_row, 0};

/// Replaces pending handles inside a value by what they became.
template <class T>
void resolve_inside(T& value, CommandQueueBase& queue) {
    Entity target;
    if constexpr (Relation<T>)
        target = value.target;
    if constexpr (maps_entities<T>) {
        const EntityMap map{
            [](const void* context, Entity entity) { return static_cast<const CommandQueueBase*>(context)->resolve(entity); }, &queue};
        value.map_entities(map);
    }
    if constexpr (Relation<T>) {
        if (CommandQueueBase::is_pending(target)) {
            const Entity made = queue.resolve(target);
            value.target = made ? made : never_made;
        }
    }
}

template <class T>
constexpr CommandOps make_command_ops(CommandTarget target, bool (*apply)(void*, Entity&, void*, CommandQueueBase&)) {
    CommandOps ops{target, apply, nullptr};
    if constexpr (!std::is_trivially_destructible_v<T>)
        ops.destroy = [](void* value) { static_cast<T*>(value)->~T(); };
    return ops;
}

/// Stands in for the value of a command that has none.
struct NoValue {};

template <class World, class... Ts>
inline constexpr CommandOps spawn_ops = make_command_ops<std::tuple<Ts...>>(CommandTarget::made, [](void* world, Entity& target,
                                                                                                    void* value, CommandQueueBase& queue) {
    target = std::apply(
        [&](Ts&... values) {
            (resolve_inside(values, queue), ...);
            return static_cast<World*>(world)->spawn(std::move(values)...);
        },
        *static_cast<std::tuple<Ts...>*>(value));
    return bool(target);
});

template <class World>
inline constexpr CommandOps instantiate_ops =
    make_command_ops<const typename World::Prefab*>(CommandTarget::made, [](void* world, Entity& target, void* value, CommandQueueBase&) {
        target = static_cast<World*>(world)->instantiate(**static_cast<const typename World::Prefab**>(value));
        return bool(target);
    });

inline constexpr CommandOps destroy_ops{CommandTarget::doomed, nullptr, nullptr};

/// add and set of a type whose hooks, or whose relation, may undo them at once. False: the world did not take it.
struct CommandAccess {
    template <class T, u32 MaxC>
    static bool takes(const BasicWorld<MaxC>& world, Entity entity) {
        const u32 id = component_id<T, MaxC>();
        const auto* const m = world.find(entity);
        return m && id < MaxC && (m->signature.test(id) || !(m->dying || (world.pools_[id] && world.pools_[id]->iterating())));
    }
    template <class T, u32 MaxC>
    [[gnu::noinline]] static bool add(BasicWorld<MaxC>& world, Entity entity, T& value) {
        const bool there = takes<T>(world, entity);
        return world.template add<T>(entity, std::move(value)) != nullptr || there;
    }
    template <class T, u32 MaxC>
    [[gnu::noinline]] static bool set(BasicWorld<MaxC>& world, Entity entity, T& value) {
        const bool there = takes<T>(world, entity);
        return world.set(entity, std::move(value)) != nullptr || there;
    }
};
template <class T, u32 MaxC>
bool is_watched(const BasicWorld<MaxC>& world) {
    return Relation<T> || world.hooked(static_cast<ComponentId>(known_component_id<T, MaxC>()));
}

template <class World, class T>
inline constexpr CommandOps add_ops = make_command_ops<T>(CommandTarget::entity, [](void* world, Entity& target, void* value,
                                                                                    CommandQueueBase& queue) {
    World& w = *static_cast<World*>(world);
    resolve_inside(*static_cast<T*>(value), queue);
    if (is_watched<T>(w)) [[unlikely]]
        return CommandAccess::add(w, target, *static_cast<T*>(value));
    return w.template add<T>(target, std::move(*static_cast<T*>(value))) != nullptr;
});

template <class World, class T>
inline constexpr CommandOps set_ops = make_command_ops<T>(CommandTarget::entity,
                                                          [](void* world, Entity& target, void* value, CommandQueueBase& queue) {
                                                              World& w = *static_cast<World*>(world);
                                                              resolve_inside(*static_cast<T*>(value), queue);
                                                              if (is_watched<T>(w)) [[unlikely]]
                                                                  return CommandAccess::set(w, target, *static_cast<T*>(value));
                                                              return w.set(target, std::move(*static_cast<T*>(value))) != nullptr;
                                                          });

template <class World, class T>
inline constexpr CommandOps remove_ops = make_command_ops<NoValue>(CommandTarget::entity, [](void* world, Entity& target, void*,
                                                                                             CommandQueueBase&) {
    World& w = *static_cast<World*>(world);
    return w.template remove<T>(target) || (w.alive(target) && !w.template has<T>(target));
});

template <u32 MaxC, class F>
inline constexpr CommandOps call_ops = make_command_ops<F>(CommandTarget::none, [](void* world, Entity&, void* value,
                                                                                   CommandQueueBase& queue) {
    F& f = *static_cast<F*>(value);
    BasicWorld<MaxC>& w = *static_cast<BasicWorld<MaxC>*>(world);
    if constexpr (std::is_invocable_v<F&, BasicWorld<MaxC>&, const BasicCommandQueue<MaxC>&>)
        f(w, static_cast<const BasicCommandQueue<MaxC>&>(queue));
    else
        f(w);
    return true;
});

/// A loop body that is given a recorder per piece of its loop (PieceBody in world_each.hpp).
template <u32 MaxC, class F>
class RecordedBody {
public:
    RecordedBody(BasicCommandQueue<MaxC>& queue, u32 phase, F&& f) : queue_(&queue), f_(std::forward<F>(f)), phase_(phase) {}

    class Piece {
    public:
        Piece(const BasicCommands<MaxC>& commands, std::remove_reference_t<F>& f) : commands_(commands), f_(f) {}
        template <class... Rows>
        requires std::is_invocable_v < std::remove_reference_t<F>
        &, BasicCommands<MaxC>&, Rows... > void operator()(Rows&&... rows) { f_(commands_, std::forward<Rows>(rows)...); }

    private:
        BasicCommands<MaxC> commands_;
        std::remove_reference_t<F>& f_;
    };
    Piece piece(u32 worker, u32 begin) { return Piece(BasicCommands<MaxC>(*queue_, queue_->lane(worker), u64(phase_) << 32 | begin), f_); }

private:
    BasicCommandQueue<MaxC>* queue_;
    F f_; // a reference for an lvalue
    u32 phase_;
};

} // namespace detail

template <u32 MaxC>
void BasicCommands<MaxC>::open() {
    if (own_thread_) {
        queue_->next_phase();
        key_ = u64(queue_->phase_) << 32;
    }
    lane_->open(key_);
}

template <u32 MaxC>
template <class Value, class... A>
void BasicCommands<MaxC>::record(const detail::CommandOps& ops, Entity target, A&&... args) {
    THRONG_ASSERT(!(own_thread_ && queue_->world_->in_parallel_loop()) && "a parallel loop records through the Commands it is given");
    if (lane_->open_key != key_) [[unlikely]]
        open();
    constexpr std::size_t bytes = std::is_empty_v<Value> ? 0 : sizeof(Value);
    std::byte* const header = lane_->room(sizeof(Value), alignof(Value));
    std::byte* const value = detail::CommandLane::value_at(header, alignof(Value));
    if constexpr (std::is_constructible_v<Value, A...>)
        ::new (static_cast<void*>(value)) Value(std::forward<A>(args)...);
    else
        ::new (static_cast<void*>(value)) Value{std::forward<A>(args)...};
    lane_->commit(header, ops, target, value, bytes);
}

template <u32 MaxC>
template <class... Ts>
Entity BasicCommands<MaxC>::spawn(Ts&&... values) {
    static_assert(sizeof...(Ts) == 0 || detail::all_different<std::remove_cvref_t<Ts>..., detail::NoValue>,
                  "a component type appears twice");
    const Entity pending = queue_->next_pending(*lane_);
    record<std::tuple<std::remove_cvref_t<Ts>...>>(detail::spawn_ops<World, std::remove_cvref_t<Ts>...>, pending,
                                                   std::forward<Ts>(values)...);
    ++lane_->pending;
    return pending;
}

template <u32 MaxC>
Entity BasicCommands<MaxC>::instantiate(const BasicPrefab<MaxC>& prefab) {
    const Entity pending = queue_->next_pending(*lane_);
    record<const BasicPrefab<MaxC>*>(detail::instantiate_ops<World>, pending, &prefab);
    ++lane_->pending;
    return pending;
}

template <u32 MaxC>
void BasicCommands<MaxC>::destroy(Entity entity) {
    record<detail::NoValue>(detail::destroy_ops, entity);
}

template <u32 MaxC>
template <class T, class... A>
void BasicCommands<MaxC>::add(Entity entity, A&&... args) {
    record<T>(detail::add_ops<World, T>, entity, std::forward<A>(args)...);
}

template <u32 MaxC>
template <class T>
void BasicCommands<MaxC>::set(Entity entity, T&& value) {
    using Component = std::remove_cvref_t<T>;
    record<Component>(detail::set_ops<World, Component>, entity, std::forward<T>(value));
}

template <u32 MaxC>
template <class T>
void BasicCommands<MaxC>::remove(Entity entity) {
    record<detail::NoValue>(detail::remove_ops<World, T>, entity);
}

template <u32 MaxC>
template <class F>
void BasicCommands<MaxC>::call(F&& f) {
    record<std::decay_t<F>>(detail::call_ops<MaxC, std::decay_t<F>>, Entity{}, std::forward<F>(f));
}

} // namespace throng
