// What a client tells of itself: counts of the present connection, and what is in its world.
#include "src/client/client_impl.hpp"
#include <iterator>

namespace throng {

/// From here on the counts of reports are those of a new connection.
void Client::Impl::begin_report() {
    stats_at_join = stats;
    for (ReceivedComponent& counts : component_counts)
        counts = {};
}

/// Whether the entity in a slot of the client's world is one of the server's.
bool Client::Impl::replicated(u32 entity_idx) const {
    const u32 record = entity_idx < record_of_slot.size() ? record_of_slot[entity_idx] : no_record;
    return record != no_record && index[record].entity && index[record].entity.entity_idx == entity_idx &&
           world.alive(index[record].entity);
}

u32 Client::Impl::entities_with(u32 component) const {
    if (layout->unknown >> component & 1)
        return 0;
    if (layout->several >> component & 1) {
        u32 count = 0;
        for (u32 slot = 0; slot < record_of_slot.size(); ++slot)
            count += replicated(slot) && (present_of_record[record_of_slot[slot]] >> component & 1);
        return count;
    }
    const PoolBase* pool = world.pool_of(layout->components[component].info->id);
    u32 count = 0;
    for (u32 row = 0; pool && row < pool->size(); ++row)
        count += replicated(pool->owner(row));
    return count;
}

ReceivedReport Client::report() const {
    const Impl& impl = *impl_;
    ReceivedReport report;
    for (u32 slot = 0; slot < impl.record_of_slot.size(); ++slot)
        if (impl.replicated(slot)) {
            ++report.entities;
            report.frozen += !impl.index[impl.record_of_slot[slot]].chunk;
        }
    for (u32 component = 0; component < impl.layout->component_count; ++component)
        report.components += impl.entities_with(component);
    const ClientStats &now = impl.stats, &then = impl.stats_at_join;
    report.messages = (now.applied - now.heartbeats) - (then.applied - then.heartbeats);
    report.bytes = now.applied_bytes - then.applied_bytes;
    report.entities_changed = now.lanes - then.lanes;
    report.components_changed = now.component_writes - then.component_writes;
    report.mappings = now.mappings - then.mappings;
    report.despawns = now.despawns - then.despawns;
    return report;
}

ReceivedComponent Client::component_report(ComponentId id) const {
    const Impl& impl = *impl_;
    const Layout& own = impl.protocol.layout();
    if (id >= std::size(own.index_of) || own.index_of[id] < 0)
        return {};
    ReceivedComponent report;
    for (i32 c = impl.layout->index_of[id]; c >= 0; c = impl.layout->next_of_type[c]) { // none: the server's build lacks it
        const ReceivedComponent& counts = impl.component_counts[c];
        report.inserts += counts.inserts;
        report.removes += counts.removes;
        report.writes += counts.writes;
        report.opaque_bytes += counts.opaque_bytes;
        report.entities += impl.entities_with(static_cast<u32>(c));
    }
    report.name = own.components[own.index_of[id]].info->name;
    return report;
}

} // namespace throng
