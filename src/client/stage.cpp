// Decoding and judging: reads a message's sections and decides which can be applied, without changing anything that is kept.
#include "src/base/seeded_bug.hpp"
#include "src/client/client_impl.hpp"
#include "src/registry/op_log.hpp"
#include "src/registry/state_hash.hpp"
#include "src/wire/masks.hpp"
#include "throng/wire.hpp"
#include <bit>

namespace throng {
namespace {
/// A baseline older than this is taken for one that is not held; ticks compare over half their range only.
constexpr u32 baseline_age_limit = 1u << 30;

u64 open_lanes(const HeldChunk* chunk, Tick tick) {
    return chunk ? ChunkRings::open_lanes(*chunk, tick) : ~u64(0);
}
} // namespace

Error Client::Impl::stage(Bytes in, Tick tick) {
    const Bytes message = in;
    Array<StagedSection>& sections = scratch->sections;
    u32 number = 0;
    bool overtaken = false;
    while (!in.empty()) {
        if (sections.size() >= config.sections_max)
            return Error::limit_reached;
        u32 step = 0, size = 0;
        if (Error error = read_varint(in, step); error != Error::none)
            return error;
        if (Error error = read_varint(in, size); error != Error::none)
            return error;
        if (step > 0xffffffffu - number)
            return Error::bad_value;
        number += step;
        StagedSection& section = sections.emplace_back();
        section.number = number;
        section.first_opaque = static_cast<u32>(scratch->opaque.size());
        section.first_kept = static_cast<u32>(scratch->kept.size());
        if (size & 1)
            if (Error error = read_byte_mask(in, section.gone); error != Error::none)
                return error;
        const u32 payload_bytes = size >> 1;
        if (payload_bytes > in.size())
            return Error::truncated;
        if (payload_bytes == 0 && !(size & 1))
            return Error::bad_value;
        section.chunk = rings.find(number);
        if (payload_bytes > 0) {
            if (Error error = stage_section(message, in.first(payload_bytes), section, tick); error != Error::none)
                return error;
            judge(section, tick, overtaken);
        }
        in = in.subspan(payload_bytes);
    }
    take_along(overtaken);
    return Error::none;
}

Error Client::Impl::stage_section(Bytes message, Bytes payload, StagedSection& section, Tick tick) {
    SectionHead head;
    if (Error error = read_section_head(payload, head); error != Error::none)
        return error;
    BaselineView base;
    section.full = head.full;
    if (!head.full) {
        section.baseline = tick - head.baseline_age;
        section.delta = head.baseline_age < baseline_age_limit;
        if (section.chunk && section.delta)
            base = rings.look_up(*section.chunk, section.baseline);
    }
    ChunkState state;
    const std::byte* no_blocks[Protocol::component_count_max] = {};
    state.occupants = base.version ? &ChunkRings::occupants(*base.version) : &ChunkRings::no_occupants;
    state.blocks = base.version ? base.version->blocks : no_blocks;
    DecodedSection& decoded = scratch->decoded;
    const Error error = decode_section(payload, cell_steps, state, base.held, *buffers, decoded);
    if (error == Error::no_baseline) {
        // R5: what is older than all that is kept of its lanes says nothing any more, so it needs no baseline. A section that
        // also has other lanes cannot be read without, since its bits depend on what was present.
        const bool superseded = section.chunk && decoded.lanes && tick_newer(section.chunk->versions[0]->tick, tick) &&
                                (decoded.lanes & ~ChunkRings::newer_lanes(*section.chunk->versions[0], tick)) == 0;
        section.unapplied = !superseded;
        stats.unapplied_baseline += !superseded;
        if (superseded)
            stats.old_lanes += static_cast<u64>(std::popcount(decoded.lanes));
        return Error::none;
    }
    if (error != Error::none)
        return error;
    if (decoded.lanes & section.gone)
        return Error::bad_value;
    section.lanes = decoded.lanes;
    section.spatial = decoded.spatial;
    section.origin[0] = decoded.origin[0];
    section.origin[1] = decoded.origin[1];
    for (u32 c = 0; c < layout->component_count; ++c)
        if (decoded.listed >> c & 1) {
            section.blocks[c] = rings.stage_block(c, decoded.blocks[c]);
            section.owned |= 1u << c;
        }
    for (u32 left = decoded.kept; left; left &= left - 1) {
        const u32 c = static_cast<u32>(std::countr_zero(left));
        scratch->kept.push_back({decoded.kept_lanes[c], c});
        ++section.kept_count;
    }
    if (section.full) {
        section.occupants = rings.stage_occupants(*decoded.occupants);
    } else if (base.version) {
        rings.hold_baseline(section, *base.version);
        section.spatial = base.version->spatial;
        section.origin[0] = base.version->origin[0];
        section.origin[1] = base.version->origin[1];
    }
    return rings.opaque_count() > 0 ? stage_opaque(message, decoded, section, tick) : Error::none;
}

Error Client::Impl::stage_opaque(Bytes message, const DecodedSection& decoded, StagedSection& section, Tick tick) {
    for (u32 c = 0; c < layout->component_count; ++c) {
        if (!layout->components[c].opaque || !(decoded.listed >> c & 1))
            continue;
        for (u64 m = decoded.opaque_carried[c] & section.lanes; m; m &= m - 1) {
            const u32 lane = static_cast<u32>(std::countr_zero(m));
            const Bytes bytes = decoded.opaque[c][lane];
            if (decoded.opaque_ops[c] >> lane & 1) {
                if (const Error error = stage_ops(bytes, decoded, section, c, lane, tick); error != Error::none)
                    return error;
                continue;
            }
            StagedOpaque value;
            value.component = static_cast<u8>(c);
            value.lane = static_cast<u8>(lane);
            value.count = value.wire_bytes = static_cast<u32>(bytes.size());
            value.hash = opaque_hash(bytes.data(), bytes.size());
            if (bytes.data() >= message.data() && bytes.data() + bytes.size() <= message.data() + message.size()) {
                value.in_message = bytes.data();
            } else {
                if (scratch->bytes.size() + bytes.size() > config.opaque_bytes_max)
                    return Error::limit_reached;
                value.copied_at = static_cast<u32>(scratch->bytes.size());
                scratch->bytes.append(bytes.data(), bytes.size());
            }
            scratch->opaque.push_back(value);
            ++section.opaque_count;
            if (!section.unapplied && !(layout->unknown >> c & 1) && !opaque_reads(c, bytes)) {
                section.unapplied = true;
                ++stats.unapplied_opaque;
            }
        }
    }
    return Error::none;
}

/// R15: what is held of the lane is right as of the tick that carried it last, so each op after that is done, in order, and no other. The
/// result is a value like one that is sent whole.
Error Client::Impl::stage_ops(Bytes ops, const DecodedSection& decoded, StagedSection& section, u32 component, u32 lane, Tick tick) {
    OpReader reader(ops, decoded.baseline_age);
    Bytes op;
    u32 age = 0;
    while (reader.next(op, age)) {
    }
    if (reader.error() != Error::none || ops.empty())
        return reader.error() != Error::none ? reader.error() : Error::bad_value;
    if ((layout->unknown >> component & 1) || section.unapplied || !(open_lanes(section.chunk, tick) >> lane & 1))
        return Error::none;
    const Tick carried = section.chunk->live().carried[lane];
    const u32 age_max = tick_newer(tick - decoded.baseline_age, carried) ? decoded.baseline_age : tick - carried;
    if (age >= age_max)
        return Error::none; // the newest of them has been done
    StagedOpaque value;
    value.component = static_cast<u8>(component);
    value.lane = static_cast<u8>(lane);
    value.wire_bytes = static_cast<u32>(ops.size());
    value.made = true;
    value.copied_at = scratch->made.size();
    const Bytes held = rings.value(*section.chunk, component, lane);
    if (!held.data() || !apply_ops(ops, decoded.baseline_age, held, component, age_max, value)) {
        section.unapplied = true;
        ++stats.unapplied_opaque;
        return Error::none;
    }
    if (scratch->made.size() > config.memory_bytes_max)
        return Error::limit_reached;
    const Bytes made = scratch->bytes_of(value);
    value.hash = opaque_hash(made.data(), made.size());
    scratch->opaque.push_back(value);
    ++section.opaque_count;
    return Error::none;
}

/// Does the ops that are younger than age_max to a component with the bytes `from`. False: one of them is refused, or what comes out.
bool Client::Impl::apply_ops(Bytes ops, u32 baseline_age, Bytes from, u32 component, u32 age_max, StagedOpaque& value) {
    const ComponentInfo& info = *layout->components[component].info;
    const ComponentOps& type = world.pool_of(info.id)->ops();
    type.construct(scratch->object);
    bool good = info.deserialize(scratch->object, from) == Error::none;
    OpReader reader(ops, baseline_age);
    Bytes op;
    u32 age = 0;
    while (good && reader.next(op, age))
        good = age >= age_max || info.diffs.apply_bytes(info.diffs, scratch->object, op) == Error::none;
    if (good) {
        Array<std::byte>& out = scratch->made;
        const u32 room = info.opaque_bytes_max;
        out.resize(value.copied_at + room);
        value.count = info.serialize(scratch->object, {out.data() + value.copied_at, room});
        good = value.count <= room;
        out.resize(value.copied_at + (good ? value.count : 0));
    }
    if (type.destroy)
        type.destroy(scratch->object, 1);
    return good && opaque_reads(component, scratch->bytes_of(value));
}

/// Whether the bytes can be read, so that a refusal comes before anything is changed.
bool Client::Impl::opaque_reads(u32 component, Bytes bytes) {
    const ComponentInfo& info = *layout->components[component].info;
    if (info.consume)
        return info.consume(bytes) == Error::none;
    const ComponentOps& ops = world.pool_of(info.id)->ops();
    ops.construct(scratch->object);
    const Error error = info.deserialize(scratch->object, bytes);
    if (ops.destroy)
        ops.destroy(scratch->object, 1);
    return error == Error::none;
}

void Client::Impl::judge(StagedSection& section, Tick tick, bool& overtaken) {
    const u64 open = open_lanes(section.chunk, tick);
    // R3: a newer message said that the entity left. Unapplied, so that it is sent again if it is still true.
    if (index.any_tombstone_newer(tick) && !seeded_bug(SeededBug::resurrected_entity))
        for (u64 m = section.lanes & open; m && !section.unapplied; m &= m - 1) {
            const u32 record = index.find(section.occupants->net_id[std::countr_zero(m)]);
            if (record == no_record || !index[record].buried || !tick_newer(index[record].tombstone, tick))
                continue;
            section.unapplied = true;
            ++stats.unapplied_tombstone;
        }
    // R1: entities appear whole. One that is not shown, and has lost one of the lanes named here to newer state, would not. R12: one that
    // is shown where it was before would stay there as it was then, while its cluster becomes that of this tick.
    if (section.full && !section.unapplied)
        for (u64 m = section.lanes & ~open; m && !overtaken; m &= m - 1) {
            const u32 lane = static_cast<u32>(std::countr_zero(m));
            const NetId id = section.occupants->net_id[lane];
            if (ChunkRings::occupants(section.chunk->live()).net_id[lane] == id)
                continue;
            const u32 record = index.find(id);
            overtaken = record == no_record || !index[record].chunk || tick_newer(tick, index[record].tick);
        }
}

/// R1: limbo sections of one message are applied together or not at all.
void Client::Impl::take_along(bool overtaken) {
    bool stopped = overtaken;
    for (const StagedSection& section : scratch->sections)
        stopped |= section.unapplied && section.full;
    if (!stopped)
        return;
    for (StagedSection& section : scratch->sections) {
        if (!section.full || section.unapplied)
            continue;
        section.unapplied = true;
        ++(overtaken ? stats.unapplied_overtaken : stats.unapplied_together);
    }
}

u32 Client::Impl::count_new_records(Tick tick) const {
    u32 count = 0;
    for (const StagedSection& section : scratch->sections)
        if (!section.unapplied)
            for (u64 m = section.lanes & open_lanes(section.chunk, tick); m; m &= m - 1)
                count += index.find(section.occupants->net_id[std::countr_zero(m)]) == no_record;
    return count;
}

/// Whether applying the message stays within the limits. Until here nothing has changed.
bool Client::Impl::within_limits(Tick tick) {
    std::size_t unapplied = 0, bytes = rings.used_bytes();
    u32 lanes = 0, chunks = rings.count();
    for (const StagedSection& section : scratch->sections) {
        unapplied += section.unapplied;
        if (section.unapplied)
            continue;
        lanes += static_cast<u32>(std::popcount(section.lanes));
        chunks += section.chunk == nullptr;
        bytes += rings.write_bytes_max(section.chunk);
    }
    if (layout->diffs)
        for (const StagedOpaque& value : scratch->opaque)
            if (layout->diffs >> value.component & 1)
                bytes += ChunkRings::value_bytes_max(value.count);
    if (!acks.has_room(unapplied) || chunks > config.chunks_max || bytes > config.memory_bytes_max)
        return false;
    if (!index.room(lanes))
        lanes = count_new_records(tick);
    index.set_reserved(lanes);
    return index.room(lanes);
}

void Client::Impl::release_staged() {
    for (StagedSection& section : scratch->sections)
        rings.release_staged(section);
    scratch->sections.clear();
    scratch->opaque.clear();
    scratch->kept.clear();
    scratch->bytes.clear();
    scratch->made.clear();
}

} // namespace throng
