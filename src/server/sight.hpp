#pragma once
// The rules of sight, in the order in which they are decided: what is near, what the client's list says, what layers and filters allow.
// Interest asks for all lanes of a chunk at once, Server::why for one.
#include "src/registry/field_io.hpp"
#include "src/server/state.hpp"
#include <bit>

namespace throng {

/// Where the world has an entity, in spatial steps. False: it has no place. `clamped`: it is outside of the registered Range.
inline bool world_position(const ServerState& state, u32 entity_idx, i32 (&steps)[2], bool& clamped) {
    const i32 spatial = state.layout.spatial_component;
    if (spatial < 0)
        return false;
    const LayoutComponent& component = state.layout.components[spatial];
    const u32 dense = state.world.dense_index(entity_idx, component.info->id);
    if (dense == no_row)
        return false;
    const auto* row = static_cast<const std::byte*>(state.world.pool_of(component.info->id)->row(dense));
    for (u32 axis = 0; axis < 2; ++axis) {
        const u32 field = static_cast<u32>(component.info->spatial_fields[axis]);
        i64 value = 0;
        if (read_field(component.info->fields[field], state.layout.columns[component.first_column + field], &row, 1, &value))
            clamped = true;
        steps[axis] = static_cast<i32>(value);
    }
    return true;
}

inline bool sees_space(const ClientState& client) {
    return client.held_valid && client.radius > 0;
}

/// Those of `lanes` that are within the client's radius, by its held position and their held places. All, where the chunk has no place.
inline u64 near_lanes(const ServerState& state, const ClientState& client, const Chunk& chunk, u64 lanes) {
    if (!chunk.spatial)
        return lanes;
    if (!sees_space(client))
        return 0;
    const i64 edge = state.grid.cell_steps();
    const i64 a = (i64(client.held[0]) - chunk.origin[0]) * place_units / edge;
    const i64 b = (i64(client.held[1]) - chunk.origin[1]) * place_units / edge;
    const i64 radius = static_cast<i64>(client.radius * visible_ratio) * place_units / edge;
    const i64 far = 16000; // lanes_in_circle works in 16 bits: beyond, the cell counts as a point
    if (a > far || a < -far || b > far || b < -far || radius > far)
        return a * a + b * b <= radius * radius ? lanes : 0;
    return lanes_in_circle(chunk.places, lanes, static_cast<i32>(a), static_cast<i32>(b), static_cast<i32>(radius));
}

/// Those of `lanes` that the client's list lets through. Each lane asks the sorted list, so that the cost depends on how many lanes are
/// asked for, and hardly on how long the list is.
inline u64 unhidden_lanes(const ServerState& state, const ClientState& client, const Chunk& chunk, u64 lanes) {
    if (client.listed.empty())
        return client.shows_listed_only ? 0 : lanes;
    u64 listed = 0;
    for (u64 left = lanes; left; left &= left - 1) {
        const u32 lane = static_cast<u32>(std::countr_zero(left));
        const u32 index = chunk.entity_idx[lane];
        listed |= u64(client.listed.has(index, state.slots[index].entity_id)) << lane;
    }
    return lanes & (listed ^ (client.shows_listed_only ? 0 : ~u64(0)));
}

/// Those of `lanes` whose VisibleTo the client's layers do not satisfy.
inline u64 refused_lanes(const ClientState& client, const Chunk& chunk, u64 lanes) {
    u64 mask = 0;
    for (u64 left = lanes & chunk.ruled; left; left &= left - 1) {
        const u32 lane = static_cast<u32>(std::countr_zero(left));
        mask |= u64(!chunk.rules[lane].allows(client.layers)) << lane;
    }
    return mask;
}

/// Those of `lanes` that a filter keeps from the client. Of the chunk: filters. Asked for in interest, after reserve_verdicts.
inline u64 filtered_lanes(const ServerState& state, const ClientState& client, const Chunk& chunk, u64 lanes) {
    const ChunkFilters& filters = *chunk.filters;
    const ClientId id = id_of(state, client);
    u64 mask = 0;
    for (u64 some = filters.some; some; some &= some - 1) {
        const u32 f = static_cast<u32>(std::countr_zero(some));
        u64 left = lanes & ~mask & filters.lanes[f];
        if (!left)
            continue;
        const ViewFilter& filter = state.filters.list[f];
        u64* const row = filter.verdicts.row(state.filters.viewer(filter, id));
        for (; left; left &= left - 1) {
            const u32 lane = static_cast<u32>(std::countr_zero(left)), number = filters.numbers[f][lane];
            u32 verdict = Verdicts::get(row, number);
            if (verdict == Verdicts::unknown) [[unlikely]]
                verdict = decide_filter(state, id, f, number, row);
            mask |= u64(verdict != Verdicts::allowed) << lane;
        }
    }
    return mask;
}

/// Whether a client's share of Lasting entities leaves no room for one more.
inline bool lasting_full(const ServerState& state, const ClientState& client) {
    return client.lasting.size() >= state.config.lasting_max;
}

} // namespace throng
