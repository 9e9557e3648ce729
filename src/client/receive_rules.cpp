#include "src/client/receive_rules.hpp"
#include <algorithm>

namespace throng {

ReceiveRules::ReceiveRules(const Protocol& protocol, Allocator allocator)
    : impl_(new (allocator.allocate(sizeof(Impl), alignof(Impl))) Impl(protocol, allocator)) {}

ReceiveRules::~ReceiveRules() {
    const Allocator allocator = impl_->allocator;
    impl_->~Impl();
    allocator.free(impl_, sizeof(Impl), alignof(Impl));
}

const Protocol& ReceiveRules::protocol() const { return impl_->protocol; }

void ReceiveRules::despawn(RemoveFn fn, void* context) {
    impl_->despawn = fn;
    impl_->despawn_context = context;
}

Error ReceiveRules::add_marker(ComponentId marker, void (*ensure_pool)(World&), const Marker& options) {
    Impl& impl = *impl_;
    if (marker >= World::max_components)
        return Error::limit_reached;
    i32 at = impl.marker_of(marker);
    if (at < 0) {
        if (impl.marker_count == marker_count_max)
            return Error::limit_reached;
        at = static_cast<i32>(impl.marker_count++);
        impl.pools.push_back(ensure_pool);
    }
    impl.markers[at] = {marker, options.priority, options.history};
    impl.refresh();
    return Error::none;
}

/// The highest priority first, of equals the marker registered last; without a marker comes last.
void ReceiveRules::Impl::refresh() {
    const auto before = [this](const Route& a, const Route& b) {
        if (a.marker < 0 || b.marker < 0)
            return a.marker > b.marker;
        const i32 pa = markers[a.marker].priority, pb = markers[b.marker].priority;
        return pa != pb ? pa > pb : a.marker > b.marker;
    };
    history = 0;
    for (u32 c = 0; c < components.size(); ++c) {
        ComponentRules& rules = components[c];
        std::sort(rules.routes, rules.routes + rules.route_count, before);
        for (u32 r = 0; r < rules.route_count; ++r)
            if (rules.routes[r].marker >= 0 && markers[rules.routes[r].marker].history && rules.routes[r].write)
                history |= 1u << c;
    }
}

ReceiveRules::Impl::Session ReceiveRules::Impl::session(const Layout& layout) const {
    Session out;
    for (u32 c = 0; c < layout.component_count; ++c) {
        const i32 own = layout.unknown >> c & 1 ? -1 : component_of(layout.components[c].info->id);
        if (own < 0)
            continue;
        out.own[c] = static_cast<u8>(own);
        out.routed |= (routed >> own & 1) << c;
        out.history |= (history >> own & 1) << c;
        out.compared |= (compared >> own & 1) << c;
        out.requiring |= (requiring >> own & 1) << c;
    }
    for (u32 m = 0; m < marker_count; ++m)
        out.marker[m] = static_cast<i8>(markers[m].id < 256 ? layout.index_of[markers[m].id] : -1);
    return out;
}

Error ReceiveRules::set_route(ComponentId marker, ComponentId component, AnyFn write, CallFn call, RemoveFn remove, void* context) {
    Impl& impl = *impl_;
    const i32 c = impl.component_of(component), m = marker == no_marker ? -1 : impl.marker_of(marker);
    if (c < 0 || (marker != no_marker && m < 0))
        return Error::bad_value;
    Impl::ComponentRules& rules = impl.components[static_cast<u32>(c)];
    u32 at = 0;
    while (at < rules.route_count && rules.routes[at].marker != m)
        ++at;
    rules.route_count += at == rules.route_count; // a route a marker: there is room
    rules.routes[at] = {m, write, call, remove, context};
    impl.refresh();
    impl.routed |= 1u << c;
    impl.object_bytes_max = std::max<std::size_t>(impl.object_bytes_max, impl.protocol.layout().components[c].info->size_bytes);
    return Error::none;
}

Error ReceiveRules::set_compare(ComponentId component, bool (*equal)(const void*, const void*)) {
    Impl& impl = *impl_;
    const i32 c = impl.component_of(component);
    if (c < 0)
        return Error::bad_value;
    for (i32 same = c; same >= 0; same = impl.protocol.layout().next_of_type[same])
        if (!equal && (impl.protocol.layout().components[same].opaque || impl.protocol.layout().components[same].converted))
            return Error::unsupported;
    impl.components[static_cast<u32>(c)].equal = equal;
    impl.compared |= 1u << c;
    return Error::none;
}

Error ReceiveRules::add_required(ComponentId component, ComponentId required, void (*ensure_pool)(World&), OnRemoval on_removal) {
    Impl& impl = *impl_;
    const i32 c = impl.component_of(component);
    if (c < 0 || impl.component_of(required) >= 0)
        return Error::bad_value;
    if (required >= World::max_components)
        return Error::limit_reached;
    Impl::ComponentRules& rules = impl.components[static_cast<u32>(c)];
    if (!rules.required.test(required))
        impl.pools.push_back(ensure_pool);
    rules.required.set(required);
    if (on_removal == OnRemoval::remove)
        rules.together.set(required);
    else
        rules.together.reset(required);
    impl.requiring |= 1u << c;
    return Error::none;
}

} // namespace throng
