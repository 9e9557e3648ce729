// What an operator asks a server between ticks: one client, one component. Reads what is there anyway, beside the sums of what was sent.
#include "src/server/state.hpp"
#include <algorithm>
#include <array>
#include <bit>
#include <iterator>

namespace throng {

ClientTraffic& ClientTraffic::operator+=(const ClientTraffic& other) {
    using Counts = std::array<u64, sizeof(ClientTraffic) / sizeof(u64)>; // it has nothing else
    Counts sum = std::bit_cast<Counts>(*this);
    const Counts more = std::bit_cast<Counts>(other);
    for (std::size_t i = 0; i < sum.size(); ++i)
        sum[i] += more[i];
    return *this = std::bit_cast<ClientTraffic>(sum);
}

namespace {

u32 count(u64 lanes) {
    return static_cast<u32>(std::popcount(lanes));
}

void add_chunk(const ServerState& state, const ClientState& client, const ClientChunk& view, ClientReport& report) {
    const Chunk& chunk = state.mirror.chunk(view.chunk);
    const u64 held = held_lanes(view, chunk);
    const u64 behind = unacked(client, view, chunk, state.tick) & held;
    report.visible += count(view.visible);
    report.held += count(held);
    report.current += count(held & ~behind);
    report.limbo += count(held & view.limbo);
    report.unsent += count((view.visible & ~held) | (held & view.pending));
    report.leaving += count(view.known & ~view.visible);
    if (!behind)
        return;
    ++report.chunks_behind;
    report.baseline_age_max = std::max(report.baseline_age_max, state.tick - view.baseline);
}

/// Lanes of a chunk that the last tick captured, in which a component was got or lost, or has another value.
u64 changed_lanes(const ServerState& state, const Chunk& chunk, u32 component) {
    const BlockHeader& now = chunk.headers[component];
    const u64 rebound = chunk.rebound & now.present; // another entity: all of it is new
    const u64 kept = chunk.dirty & ~chunk.rebound;
    if (!kept)
        return rebound;
    PastRows past;
    state.mirror.past(chunk, state.tick - 1, kept, past);
    const BlockHeader& before = *past.headers[component];
    u64 changed = now.present ^ before.present;
    for (u32 plane = 0; plane < 2; ++plane)
        changed |= now.counter[plane] ^ before.counter[plane];
    const LayoutComponent& info = state.layout.components[component];
    for (u64 left = kept & now.present & ~changed; left; left &= left - 1) {
        const u32 lane = static_cast<u32>(std::countr_zero(left));
        bool differs = info.opaque && chunk.opaque[component] && chunk.opaque[component]->changed[lane] == state.tick;
        for (u32 c = info.first_column; c < info.first_column + info.column_count; ++c)
            differs |= row_element(state.mirror.row(chunk, lane), state.layout.columns[c]) !=
                       row_element(past.rows[lane], state.layout.columns[c]);
        changed |= u64(differs) << lane;
    }
    return rebound | (changed & kept);
}

void add_mirror(const ServerState& state, u32 component, ComponentReport& report) {
    for (u32 number = 0; number < state.mirror.chunk_count(); ++number) {
        const Chunk& chunk = state.mirror.chunk(number);
        if (chunk.version_count && chunk.dirty_tick == state.tick)
            report.changed += count(changed_lanes(state, chunk, component));
        if (const OpaqueLanes* opaque = chunk.opaque[component])
            for (u64 left = chunk.headers[component].present & chunk.alive; left; left &= left - 1) // of dead ones until they are captured
                report.opaque_bytes += opaque->bytes[std::countr_zero(left)];
    }
}

/// One of the components of a type.
void add_component(const ServerState& state, u32 component, ComponentReport& report) {
    for (const ClientState& client : state.clients)
        for (const ClientChunk& view : client.chunks) {
            const Chunk& chunk = state.mirror.chunk(view.chunk);
            each_mask(state, client, view, held_lanes(view, chunk) & chunk.headers[component].present,
                      [&](u64 lanes, u64 sees) { report.held += seen_of(sees) >> component & 1 ? count(lanes) : 0; });
        }
    add_mirror(state, component, report);
    const ComponentCost &last = state.component_costs[component], &past = state.past_component_costs[component];
    report.last.sections += last.sections;
    report.last.bits += last.bits;
    report.total.sections += past.sections;
    report.total.bits += past.bits;
}

} // namespace

ClientReport Server::client_report(ClientId id) const {
    ClientReport report;
    report.tick = state_->tick;
    if (id >= state_->clients.size() || !state_->clients[id].connected)
        return report;
    const ClientState& client = state_->clients[id];
    report.connected = true;
    report.joined = client.joined;
    report.settled = settled(id);
    report.chunks = client.chunks.size();
    for (const ClientChunk& view : client.chunks)
        add_chunk(*state_, client, view, report);
    report.lasting = client.lasting.size();
    report.open_ends = client.lasting.open_ends();
    for (u32 message = client.first_in_flight; message != client.next_message; ++message)
        report.messages_in_flight += client.records[message & (client.records.size() - 1)].state == record_in_flight;
    report.round_trip_ticks = client.round_trip_eighths / 8.0;
    const ClientCounts& counts = state_->client_counts[id];
    if (counts.tick == state_->tick)
        report.last = counts.traffic;
    report.total = counts.past_traffic;
    report.total += counts.traffic;
    report.input = counts.input;
    return report;
}

ComponentReport Server::component_report(ComponentId id) const {
    ComponentReport report;
    const ServerState& state = *state_;
    const i32 index = id < std::size(state.layout.index_of) ? state.layout.index_of[id] : -1;
    if (index < 0 || state.error != Error::none)
        return report;
    const u32 component = static_cast<u32>(index);
    report.name = state.layout.components[component].info->name;
    const PoolBase* pool = state.world.pool_of(id);
    for (u32 row = 0; row < pool->size(); ++row) {
        const u32 owner = pool->owner(row);
        report.entities += owner < state.slots.size() && state.slots[owner].entity_id != 0;
    }
    for (i32 c = index; c >= 0; c = state.layout.next_of_type[c])
        add_component(state, static_cast<u32>(c), report);
    report.total.sections += report.last.sections;
    report.total.bits += report.last.bits;
    return report;
}

u64 Server::typed_count(ClientId id, u16 type, bool sent) const {
    const MessageTable& messages = state_->protocol.messages();
    const MessageLayout* layout = messages.find(type);
    if (!layout || id >= state_->client_counts.size() || state_->client_counts[id].typed.empty())
        return 0;
    const ClientCounts::Typed& counted = state_->client_counts[id].typed[messages.number(*layout)];
    return sent ? counted.sent : counted.received;
}

} // namespace throng
