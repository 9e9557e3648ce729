#include "src/server/scopes.hpp"
#include "src/server/sight.hpp"
#include <algorithm>
#include <bit>
#include <iterator>

namespace throng {

void ChunkScopes::reset(u32 lane, Tick tick) {
    bound[lane] = plain_changed[lane] = tick;
    std::fill_n(changed_of(lane), component_count, tick);
    for (u32(&version)[lane_count] : changed_in)
        version[lane] = ~u32(0);
}

std::span<const LaneMasks::Entry> LaneMasks::of(u32 chunk) const {
    const auto before = [](const Entry& entry, u32 place) { return entry.place < place; };
    const Entry* const first = std::lower_bound(entries_.begin(), entries_.end(), chunk * lane_count, before);
    const Entry* end = first;
    while (end != entries_.end() && end->place / lane_count == chunk)
        ++end;
    return {first, end};
}

void LaneMasks::replace(u32 chunk, std::span<const Entry> entries) {
    const std::span<const Entry> old = of(chunk);
    const u32 at = static_cast<u32>(old.data() - entries_.begin()), size = entries_.size();
    const u32 count = static_cast<u32>(entries.size()), old_count = static_cast<u32>(old.size());
    if (count > old_count) {
        entries_.resize(size + count - old_count);
        std::copy_backward(entries_.begin() + at + old_count, entries_.begin() + size, entries_.end());
    } else {
        std::copy(entries_.begin() + at + old_count, entries_.end(), entries_.begin() + at + count);
        entries_.resize(size + count - old_count);
    }
    std::copy(entries.begin(), entries.end(), entries_.begin() + at);
}

Tick newest_change(const Chunk& chunk, u32 lane, Tick otherwise) {
    const u64 bit = u64(1) << lane;
    u32 version = chunk.newest;
    for (u32 left = chunk.version_count; left > 0; --left) {
        if (chunk.version_dirty[version] & bit)
            return chunk.ticks[version];
        version = version == 0 ? history_max - 1 : version - 1;
    }
    return chunk.dropped_lanes & bit ? chunk.lane_dropped[lane] : otherwise;
}

void scope_lanes(Chunk& chunk, ChunkScopes& scopes, u64 lanes, Tick now) {
    for (u64 left = lanes & ~scopes.scoped; left; left &= left - 1) {
        const u32 lane = static_cast<u32>(std::countr_zero(left));
        scopes.reset(lane, newest_change(chunk, lane, now));
    }
    scopes.scoped |= lanes;
    chunk.scoped_any |= lanes != 0;
}

u64 kept_lanes(const Chunk& chunk, Tick after) {
    const ChunkScopes& scopes = *chunk.scopes;
    u64 kept = 0;
    for (u64 left = scopes.scoped; left; left &= left - 1) {
        const u32 lane = static_cast<u32>(std::countr_zero(left));
        kept |= u64(!tick_newer(scopes.bound[lane], after)) << lane;
    }
    return kept;
}

namespace {

/// Whether one of the components of a lane changed in (after, until]. Of versions that the ring has dropped, any change of the lane counts.
bool changed_in_ring(const Chunk& chunk, u32 lane, u32 components, Tick after, Tick until) {
    u32 version = chunk.newest;
    for (u32 left = chunk.version_count; left > 0; --left) {
        const Tick tick = chunk.ticks[version];
        if (!tick_newer(tick, after))
            return false;
        if (!tick_newer(tick, until) && (chunk.version_dirty[version] >> lane & 1) &&
            (chunk.scopes->changed_in[version][lane] & components))
            return true;
        version = version == 0 ? history_max - 1 : version - 1;
    }
    return (chunk.dropped_lanes >> lane & 1) && tick_newer(chunk.lane_dropped[lane], after);
}

} // namespace

u64 unseen_changes(const ClientState& client, const ClientChunk& view, const Chunk& chunk, Tick after, Tick until, u64 lanes) {
    const ChunkScopes& scopes = *chunk.scopes;
    const std::span<const LaneMasks::Entry> masks = masks_of(client, view);
    auto mask = masks.begin();
    u64 unseen = 0;
    for (u64 left = lanes & scopes.scoped; left; left &= left - 1) {
        const u32 lane = static_cast<u32>(std::countr_zero(left));
        while (mask != masks.end() && mask->place % lane_count < lane)
            ++mask;
        u32 components = scopes.plain;
        Tick newest = scopes.plain_changed[lane];
        if (mask != masks.end() && mask->place % lane_count == lane) {
            const Tick* changed = scopes.changed_of(lane);
            components = mask->components;
            newest = after;
            for (u32 some = components; some; some &= some - 1)
                if (const Tick tick = changed[std::countr_zero(some)]; tick_newer(tick, newest))
                    newest = tick;
        }
        bool seen = tick_newer(newest, after);
        if (seen && tick_newer(newest, until))
            seen = changed_in_ring(chunk, lane, components, after, until);
        unseen |= u64(!seen) << lane;
    }
    return unseen;
}

SeenComponents seen_components(const ServerState& state, const ClientState& client, const Chunk& chunk, u32 lane) {
    const Layout& layout = state.layout;
    const ChunkScopes& scopes = *chunk.scopes;
    const bool owns = scopes.owner_connections[lane] == client.connection;
    SeenComponents seen;
    u32 hidden = owns ? layout.of_others : layout.of_owner; // while_visible
    if (layout.of_group && !has_member(state.outbox, scopes.groups[lane], static_cast<ClientId>(&client - state.clients.data())))
        hidden |= layout.of_group;
    u32 after_first = 0, always = 0; // those hidden so
    if (scopes.ruled >> lane & 1) {
        const LaneRules& rules = scopes.rules[lane];
        for (u32 i = 0; i < rules.count; ++i) {
            const LaneRules::Rule& rule = rules.rules[i];
            seen.introduces |= rule.lifetime == Lifetime::always;
            if (rule.to.allows(client.layers))
                continue;
            (rule.lifetime == Lifetime::always ? always : rule.lifetime == Lifetime::after_first ? after_first : hidden) |= rule.components;
        }
    }
    seen.components = layout.all & ~(hidden | after_first | always);
    seen.kept = (after_first | always) & ~hidden;
    seen.initial = always & ~(hidden | after_first);
    return seen;
}

namespace {

const LaneMasks::Entry* find_mask(std::span<const LaneMasks::Entry> masks, u32 place) {
    for (const LaneMasks::Entry& entry : masks)
        if (entry.place == place)
            return &entry;
    return nullptr;
}

} // namespace

u64 mask_lanes(const ServerState& state, ClientState& client, ClientChunk& view, const Chunk& chunk, u64 visible, bool& due) {
    LaneMasks::Entry now[lane_count];
    u32 count = 0;
    const u32 plain = state.layout.plain();
    const u64 paused = paused_lanes(chunk);
    const u64 held = view.visible & ~(chunk.dirty_tick == state.tick ? chunk.rebound : 0); // by the same entity as before
    const std::span<const LaneMasks::Entry> before = masks_of(client, view);
    for (u64 left = visible & chunk.scopes->scoped; left; left &= left - 1) {
        const u32 lane = static_cast<u32>(std::countr_zero(left)), place = chunk.number * lane_count + lane;
        const LaneMasks::Entry* const was = find_mask(before, place);
        if (paused >> lane & 1) { // as it is
            if (was)
                now[count++] = *was;
            continue;
        }
        const SeenComponents seen = seen_components(state, client, chunk, lane);
        LaneMasks::Entry entry{place, seen.components, seen.kept};
        const bool known = held & view.known & left & (~left + 1);
        if (seen.introduces) {
            entry.introduced = (known && !(view.limbo >> lane & 1)) || ((held >> lane & 1) && was && was->introduced);
            if (!entry.introduced) {
                entry.components |= seen.initial;
                entry.kept &= ~seen.initial;
                due = true;
            }
        }
        if (entry.kept && known)
            entry.had = entry.kept & (was ? was->components | was->had : plain);
        if (entry.components != plain || entry.kept || seen.introduces)
            now[count++] = entry;
    }
    const std::span<const LaneMasks::Entry> after(now, count);
    if (std::equal(before.begin(), before.end(), after.begin(), after.end()))
        return 0;
    u64 changed = 0;
    const auto differ = [&](std::span<const LaneMasks::Entry> some, std::span<const LaneMasks::Entry> others) {
        for (const LaneMasks::Entry& entry : some) {
            const LaneMasks::Entry* const other = find_mask(others, entry.place);
            changed |= u64(entry.sees() != (other ? other->sees() : sees_of(plain, 0))) << entry.place % lane_count;
        }
    };
    differ(before, after);
    differ(after, before);
    client.masks.replace(chunk.number, after);
    view.masked = static_cast<u16>(count);
    return changed;
}

i32 registered_for(const ServerState& state, ComponentId component, u32 place) {
    const Layout& layout = state.layout;
    const i32 first = component < std::size(layout.index_of) ? layout.index_of[component] : -1;
    for (i32 c = first; c >= 0 && place != no_slot; c = layout.next_of_type[c])
        if (!state.denies(static_cast<u32>(c), place))
            return c;
    return first;
}

LaneMasks::Entry mask_of(const ServerState& state, const ClientState& client, const ClientChunk& view, u32 lane) {
    const u32 place = view.chunk * lane_count + lane;
    if (const LaneMasks::Entry* const entry = find_mask(masks_of(client, view), place))
        return *entry;
    // Of a lane that is not scoped nothing is listed: it has nothing that not all see. But it may get it.
    const Chunk& chunk = state.mirror.chunk(view.chunk);
    const bool decided = !chunk.scopes || (chunk.scopes->scoped >> lane & 1);
    return {place, decided ? state.layout.plain() : seen_components(state, client, chunk, lane).components};
}

} // namespace throng
