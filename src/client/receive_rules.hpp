#pragma once
// The table behind ReceiveRules: by component of the protocol, so that a client looks once a (component, section).
#include "src/registry/layout.hpp"
#include "throng/array.hpp"
#include "throng/client_rules.hpp"

namespace throng {

struct ReceiveRules::Impl {
    struct MarkerInfo {
        ComponentId id = 0;
        i32 priority = 0;
        bool history = false;
    };
    struct Route {
        i32 marker = -1; // index, or -1: entities without a marker
        AnyFn write = nullptr;
        CallFn call = nullptr;
        RemoveFn remove = nullptr;
        void* context = nullptr;
    };
    /// Routes in the order in which they are asked; the one without a marker is last.
    struct ComponentRules {
        Route routes[route_count_max];
        u32 route_count = 0;
        bool (*equal)(const void*, const void*) = nullptr;
        Signature<World::max_components> required; // all
        Signature<World::max_components> together; // of these, those that go with it
    };

    /// The rules for the components of a layout: of the client's own protocol, or of a server of another build. Without rules all is 0.
    struct Session {
        // Sets of components.
        u32 routed = 0;    // with a route
        u32 history = 0;   // with one of a marker with history
        u32 compared = 0;  // write_if_different
        u32 requiring = 0; // with required ones
        u8 own[Protocol::component_count_max] = {}; // what the component is in the client's protocol
        i8 marker[marker_count_max] = {};           // what the marker is in the layout, or -1
    };

    Impl(const Protocol& used, Allocator chosen) : protocol(used), allocator(chosen), components(chosen), pools(chosen) {
        components.resize(used.layout().component_count);
    }
    i32 component_of(ComponentId id) const { return id < 256 ? protocol.layout().index_of[id] : -1; }
    i32 marker_of(ComponentId id) const {
        for (u32 i = 0; i < marker_count; ++i)
            if (markers[i].id == id)
                return static_cast<i32>(i);
        return -1;
    }
    void refresh();
    Session session(const Layout& layout) const;

    const Protocol& protocol;
    Allocator allocator;
    MarkerInfo markers[marker_count_max];
    u32 marker_count = 0;
    Array<ComponentRules> components;
    Array<void (*)(World&)> pools; // of types that the protocol need not have
    u32 routed = 0, history = 0, compared = 0, requiring = 0; // as in a Session, of the protocol
    std::size_t object_bytes_max = 0; // of routed components with fields
    RemoveFn despawn = nullptr;
    void* despawn_context = nullptr;
};

} // namespace throng
