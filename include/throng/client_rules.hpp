#pragma once
// What a client does with received components instead of copying them into the components of its world (docs/guide.md 5).
//
//     throng::ReceiveRules rules{protocol};
//     error = rules.marker<Predicted>({.history = true});
//     error = rules.functions_for<Predicted, Position>(store_position, forget_position, &game);
//     error = rules.require<Position, Model>();
//     throng::Client client{world, protocol, backend, {.rules = &rules}};
#include "throng/protocol.hpp"
#include "throng/signature.hpp"
#include <concepts>

namespace throng {

/// What a function of ReceiveRules is told. Valid during the call.
struct Received {
    World& world;
    Entity entity;
    NetId id;
    Tick tick = 0;           // of the message that carried the value, or the news that it is no more
    bool older = false;      // newer state of the entity has come before; markers with history only
    void* context = nullptr; // as registered
};

/// Rules of any number of clients of one protocol. Complete before the first client is made from it, read-only afterwards (then any thread
/// may read it), and outlives them. The functions that are registered may change the world, also the entity's own components, like hooks;
/// they must neither destroy replicated entities nor let the client receive, send or clear.
class ReceiveRules {
public:
    static constexpr u32 marker_count_max = 32;
    /// Routes of one component: one a marker, and one for entities without.
    static constexpr u32 route_count_max = marker_count_max + 1;

    /// Called with each new value of T: on insertion, and when a message changes it. References in it are the client's entities; one that
    /// is not shown reads as null, and the function is called again when it is.
    template <class T>
    using WriteFn = void (*)(const Received& received, const T& value);
    using RemoveFn = void (*)(const Received& received);

    /// The protocol is finished, and outlives the rules.
    explicit ReceiveRules(const Protocol& protocol, Allocator allocator = default_allocator());
    ~ReceiveRules();
    ReceiveRules(const ReceiveRules&) = delete;
    ReceiveRules& operator=(const ReceiveRules&) = delete;

    // All return bad_value for a type that is not what they need (components are those of the protocol), limit_reached beyond a
    // limit. What is said again replaces what was said before.

    /// Functions in place of the component, for entities without a marker that has functions for it. Null: as without rules.
    template <class T>
    Error functions(WriteFn<T> write, RemoveFn remove, void* context = nullptr) {
        return set_route(no_marker, component_id<T>(), erase(write), call_write<T>, remove, context);
    }

    struct Marker {
        i32 priority = 0;     // the highest one of an entity's markers counts, of equals the one registered last
        bool history = false; // values older than the newest, by less than 64 ticks, are given to its functions too
    };
    /// M is a component of the client's world; entities that have it use its functions. It may be replicated itself: then it counts for
    /// the message that brings it.
    template <class M>
    Error marker(Marker options) {
        return add_marker(component_id<M>(), [](World& world) { world.template pool<M>(); }, options);
    }
    template <class M>
    Error marker() {
        return marker<M>(Marker{});
    }
    /// Functions for T on entities that have M, a registered marker. Null: as without rules.
    template <class M, class T>
    Error functions_for(WriteFn<T> write, RemoveFn remove, void* context = nullptr) {
        return set_route(component_id<M>(), component_id<T>(), erase(write), call_write<T>, remove, context);
    }

    /// Rows of T that have the received value already are not written, and not marked changed; without this, only what the server did not
    /// change is left alone. unsupported: T has functions instead of fields, and no ==.
    template <class T>
    Error write_if_different() {
        if constexpr (std::equality_comparable<T>)
            return set_compare(component_id<T>(),
                               [](const void* a, const void* b) { return *static_cast<const T*>(a) == *static_cast<const T*>(b); });
        else
            return set_compare(component_id<T>(), nullptr);
    }

    enum class OnRemoval : u8 {
        keep,
        remove, // unless another component that stays requires it
    };
    /// Entities that get T get R too, value-initialised, unless they have it. R is no component of the protocol.
    template <class T, class R>
    Error require(OnRemoval on_removal = OnRemoval::keep) {
        static_assert(std::is_default_constructible_v<R>, "clients make required components from nothing");
        return add_required(component_id<T>(), component_id<R>(), [](World& world) { world.template pool<R>(); }, on_removal);
    }

    /// Called instead of the destruction of an entity that the client no longer shows: it is the game's from then on, and keeps its
    /// components. Null: entities are destroyed.
    void despawn(RemoveFn fn, void* context = nullptr);

    const Protocol& protocol() const;

private:
    friend class Client;
    struct Impl;
    using AnyFn = void (*)();
    using CallFn = void (*)(AnyFn fn, const Received& received, const void* value);
    static constexpr ComponentId no_marker = no_component;

    template <class T>
    static AnyFn erase(WriteFn<T> write) {
        return reinterpret_cast<AnyFn>(write);
    }
    template <class T>
    static void call_write(AnyFn fn, const Received& received, const void* value) {
        reinterpret_cast<WriteFn<T>>(fn)(received, *static_cast<const T*>(value));
    }
    Error set_route(ComponentId marker, ComponentId component, AnyFn write, CallFn call, RemoveFn remove, void* context);
    Error add_marker(ComponentId marker, void (*ensure_pool)(World&), const Marker& options);
    Error set_compare(ComponentId component, bool (*equal)(const void*, const void*));
    Error add_required(ComponentId component, ComponentId required, void (*ensure_pool)(World&), OnRemoval on_removal);
    Impl* impl_;
};

} // namespace throng
