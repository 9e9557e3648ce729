#include "src/registry/section_format.hpp"
#include "src/wire/kernels.hpp"
#include "src/wire/lane_codes.hpp"
#include "src/wire/masks.hpp"
#include "src/registry/zstd.hpp"
#include "throng/assert.hpp"
#include <algorithm>
#include <type_traits>

namespace throng {
namespace section {
namespace {

// Automatic compression is not tried on smaller bodies. Packed columns of a few lanes never came out smaller as zstd, and trying
// them cost a quarter of the encode stage; opaque bytes may pay early.
constexpr u32 zstd_body_bytes_min = 256, zstd_opaque_bytes_min = 48;

// number(length_bits) of docs/wire.md.
void put_number(BitWriter& writer, u64 value, u32 length_bits) {
    const u32 length = static_cast<u32>(std::bit_width(value));
    writer.put(length, length_bits);
    writer.put(value, length);
}

struct ColumnForm {
    u32 width = 0;
    bool sparse = false;
};
// Chooses the form of a column and writes its head. `any` is the OR of its codes, `nonzero_count` of which are not 0.
template <bool Wide>
ColumnForm put_column_head(BitWriter& writer, const Column& column, u64 any, u32 count, u32 nonzero_count) {
    ColumnForm form{static_cast<u32>(std::bit_width(any))};
    if (Wide)
        form.width = wide_width(form.width);
    if (form.width == 0) {
        writer.put(0, column.width_bits);
    } else {
        form.sparse = count + nonzero_count * form.width < count * form.width;
        writer.put(form.width | static_cast<u64>(form.sparse) << column.width_bits, column.width_bits + 1u);
    }
    return form;
}

// In a full section a column of equal values is one number. Returns false, with the form bit written, if they differ.
template <class T>
bool put_equal_column(BitWriter& writer, const Column& column, const T* current, const LaneList& lanes) {
    using Code = std::make_unsigned_t<T>;
    const T first = current[lanes.lane[0]];
    for (u32 i = 1; i < lanes.count; ++i) {
        if (current[lanes.lane[i]] != first) {
            writer.put(0, 1);
            return false;
        }
    }
    const u32 wrap = sizeof(T) * 8 - difference_bits(column);
    const T value = static_cast<T>(static_cast<T>(static_cast<Code>(static_cast<Code>(first) << wrap)) >> wrap);
    writer.put(1, 1);
    put_number(writer, zigzag(value), column.width_bits);
    return true;
}

// Writes one column and says whether any value differs from the baseline's. Lane by lane: the cheapest way for few lanes.
template <bool Wide, class T>
bool encode_few(BitWriter& writer, const Column& column, const T* current, const T* base, const Velocity& velocity,
                const LaneList& lanes) {
    using Code = std::make_unsigned_t<T>;
    const u32 wrap = sizeof(T) * 8 - difference_bits(column);
    Code codes[lane_count];
    Code any = 0, differs = 0;
    u64 nonzero = 0;
    for (u32 i = 0; i < lanes.count; ++i) {
        const u32 lane = lanes.lane[i];
        Code prediction = static_cast<Code>(base[lane]);
        differs = static_cast<Code>(differs | (static_cast<Code>(current[lane]) ^ prediction));
        if (velocity.data)
            prediction = static_cast<Code>(prediction + static_cast<Code>(velocity.moved(lane)));
        const Code raw = static_cast<Code>(static_cast<Code>(current[lane]) - prediction);
        codes[i] = zigzag(static_cast<T>(static_cast<T>(static_cast<Code>(raw << wrap)) >> wrap));
        any = static_cast<Code>(any | codes[i]);
        nonzero |= static_cast<u64>(codes[i] != 0) << i;
    }
    const ColumnForm form = put_column_head<Wide>(writer, column, any, lanes.count, static_cast<u32>(std::popcount(nonzero)));
    if (form.width == 0)
        return differs != 0;
    if (form.sparse)
        writer.put(nonzero, lanes.count);
    else
        nonzero = detail::low_bits(lanes.count);
    if (Wide)
        writer.align();
    for (; nonzero != 0; nonzero &= nonzero - 1)
        writer.put(codes[std::countr_zero(nonzero)], form.width);
    return differs != 0;
}

// The same for many lanes: all 64 at once.
template <bool Wide, class T>
bool encode_many(BitWriter& writer, const Column& column, const T* current, const T* base, const Velocity& velocity,
                 const LaneList& lanes) {
    alignas(64) T predicted[lane_count];
    alignas(64) std::make_unsigned_t<T> codes[lane_count];
    bool differs = false;
    for (u32 i = 0; velocity.data && i < lanes.count && !differs; ++i)
        differs = current[lanes.lane[i]] != base[lanes.lane[i]];
    const T* prediction = predict(base, velocity, predicted);
    LaneCodes found;
    if constexpr (sizeof(T) == 2)
        found = kernels().codes16(current, prediction, lanes.mask, difference_bits(column), codes);
    else
        found = kernels().codes32(current, prediction, lanes.mask, difference_bits(column), codes);
    differs |= !velocity.data && found.any != 0;
    const u32 nonzero_count = static_cast<u32>(std::popcount(found.nonzero));
    const ColumnForm form = put_column_head<Wide>(writer, column, found.any, lanes.count, nonzero_count);
    if (form.width == 0)
        return differs;
    if (form.sparse)
        writer.put(select_bits(found.nonzero, lanes), lanes.count);
    if (Wide)
        writer.align();
    put_lane_codes(writer, codes, form.sparse ? found.nonzero : lanes.mask, form.width);
    return differs;
}

template <bool Wide, class T>
bool encode_column(BitWriter& writer, const Column& column, const T* current, const T* base, const Velocity& velocity,
                   const LaneList& lanes) {
    if constexpr (sizeof(T) < 8)
        if (lanes.count > few_lanes_max)
            return encode_many<Wide>(writer, column, current, base, velocity, lanes);
    return encode_few<Wide>(writer, column, current, base, velocity, lanes);
}

class BodyEncoder {
public:
    explicit BodyEncoder(const EncodeInput& input) : input_(input), layout_(*input.layout), full_(input.baseline.blocks == nullptr) {
        lanes_.set(input.lanes);
    }
    bool full() const { return full_; }
    u32 age() const { return input_.tick - input_.baseline_tick; }
    /// Set by encode: whether opaque bytes were written.
    bool has_opaque() const { return opaque_listed_ != 0; }

    template <bool Wide>
    u32 encode(std::span<std::byte> out) {
        BitWriter writer(out);
        opaque_listed_ = 0;
        write_lane_mask(writer, lanes_.mask);
        if (full_)
            encode_occupants<Wide>(writer);
        for (u32 component = 0; component < layout_.component_count; ++component)
            encode_component<Wide>(writer, component);
        writer.align();
        for (u32 rest = opaque_listed_; rest != 0; rest &= rest - 1) {
            const u32 component = static_cast<u32>(std::countr_zero(rest));
            const OpaqueLanes& opaque = *input_.opaque[component];
            for (u64 carried = carried_[component]; carried != 0; carried &= carried - 1) {
                const u32 lane = static_cast<u32>(std::countr_zero(carried));
                writer.put_bytes(opaque.data[lane], opaque.bytes[lane]);
            }
        }
        return writer.finish();
    }

private:
    template <bool Wide>
    void encode_occupants(BitWriter& writer) {
        const OccupantBlock& occupants = *input_.current.occupants;
        writer.put(input_.spatial, 1);
        if (input_.spatial) {
            THRONG_ASSERT(input_.cell_steps != 0);
            for (const i32 origin : input_.origin) {
                const i64 coordinate = origin / static_cast<i64>(input_.cell_steps);
                THRONG_ASSERT(coordinate * static_cast<i64>(input_.cell_steps) == origin);
                put_number(writer, zigzag(static_cast<i32>(coordinate)), coordinate_length_bits);
            }
        }
        u32 smallest = ~0u, index_or = 0;
        const NetId first = occupants.net_id[lanes_.lane[0]];
        bool same_generation = true, shards = false;
        for (u32 i = 0; i < lanes_.count; ++i) {
            const NetId id = occupants.net_id[lanes_.lane[i]];
            smallest = std::min(smallest, id.index());
            same_generation &= id.generation() == first.generation();
            shards |= id.shard() != 0;
        }
        for (u32 i = 0; i < lanes_.count; ++i)
            index_or |= occupants.net_id[lanes_.lane[i]].index() - smallest;
        u32 width = static_cast<u32>(std::bit_width(index_or));
        if (Wide)
            width = wide_width(width);
        put_number(writer, smallest, net_index_length_bits);
        writer.put(width, net_index_length_bits);
        if (Wide)
            writer.align();
        for (u32 i = 0; i < lanes_.count; ++i)
            writer.put(occupants.net_id[lanes_.lane[i]].index() - smallest, width);
        writer.put(same_generation, 1);
        if (same_generation) {
            put_number(writer, first.generation(), generation_length_bits);
        } else {
            if (Wide)
                writer.align();
            for (u32 i = 0; i < lanes_.count; ++i)
                writer.put(occupants.net_id[lanes_.lane[i]].generation(), generation_bits);
        }
        writer.put(shards, 1);
        if (shards) {
            if (Wide)
                writer.align();
            for (u32 i = 0; i < lanes_.count; ++i)
                writer.put(occupants.net_id[lanes_.lane[i]].shard(), 8);
        }
    }

    template <bool Wide>
    void encode_component(BitWriter& writer, u32 component) {
        const LayoutComponent& info = layout_.components[component];
        const std::byte* current = input_.current.blocks[component];
        const std::byte* base = full_ ? nullptr : input_.baseline.blocks[component];
        // A shared block is the usual sign that nothing changed. Opaque bytes are not in the block.
        if (current == base && !info.opaque) {
            writer.put(0, 1);
            return;
        }
        const u64 lanes = lanes_.mask;
        const u64 present = current ? header(current).present & lanes : 0;
        const u64 base_present = base ? header(base).present & lanes : 0;
        u64 counter[2] = {0, 0}, base_counter[2] = {0, 0};
        for (u32 plane = 0; plane < 2; ++plane) {
            counter[plane] = current ? header(current).counter[plane] & present : 0;
            base_counter[plane] = base ? header(base).counter[plane] & base_present & present : 0;
        }
        const bool counters = counter[0] != base_counter[0] || counter[1] != base_counter[1];
        u64 carried = 0;
        if (info.opaque) {
            const u64 gained = present & ~base_present;
            for (u64 rest = present; rest != 0; rest &= rest - 1) {
                const u32 lane = static_cast<u32>(std::countr_zero(rest));
                const bool changed = full_ || tick_newer(input_.opaque[component]->changed[lane], input_.baseline_tick);
                carried |= static_cast<u64>(changed) << lane;
            }
            carried |= gained;
        }
        const BitWriter unlisted = writer;
        const bool structure = present != base_present || counters;
        bool differs = structure || carried != 0;
        if (full_ ? present == 0 : info.opaque && !differs) {
            writer.put(0, 1);
            return;
        }
        writer.put(1, 1);
        if (full_)
            writer.put(present == lanes, 1);
        else
            writer.put(structure, 1);
        if (full_ ? present != lanes : structure)
            writer.put(select_bits(present, lanes_), lanes_.count);
        const LaneList* list = &lanes_;
        LaneList own;
        if (present != lanes) {
            own.set(present);
            list = &own;
        }
        if ((full_ || structure) && present != 0) {
            writer.put(counters, 1);
            if (counters)
                for (const u64 plane : counter)
                    writer.put(select_bits(plane, *list), list->count);
        }
        if (info.opaque) {
            encode_opaque_head(writer, component, *list, carried);
            return;
        }
        if (present != 0)
            for (u32 i = info.first_column; i < info.first_column + info.column_count; ++i)
                differs |= encode_any_column<Wide>(writer, layout_.columns[i], *list);
        if (!differs && !full_) {
            writer = unlisted; // found out only after the columns were written
            writer.put(0, 1);
        }
    }

    template <bool Wide>
    bool encode_any_column(BitWriter& writer, const Column& column, const LaneList& lanes) {
        const std::byte* current = column_bytes(input_.current.blocks, column);
        const std::byte* base = column_bytes(input_.baseline.blocks, column);
        Velocity velocity;
        if (!full_ && column.velocity_column >= 0) {
            const Column& source = layout_.columns[column.velocity_column];
            velocity.data = column_bytes(input_.baseline.blocks, source);
            velocity.element_bytes = source.element_bytes;
            velocity.scale = extrapolation_scale(column.velocity_factor, age());
        }
        switch (column.element_bytes) {
        case 2: return encode_elements<Wide, i16>(writer, column, current, base, velocity, lanes);
        case 4: return encode_elements<Wide, i32>(writer, column, current, base, velocity, lanes);
        default: return encode_elements<Wide, i64>(writer, column, current, base, velocity, lanes);
        }
    }

    template <bool Wide, class T>
    bool encode_elements(BitWriter& writer, const Column& column, const std::byte* current, const std::byte* base, const Velocity& velocity,
                         const LaneList& lanes) {
        const T* elements = reinterpret_cast<const T*>(current);
        if (full_ && put_equal_column(writer, column, elements, lanes))
            return true;
        return encode_column<Wide>(writer, column, elements, reinterpret_cast<const T*>(base), velocity, lanes);
    }

    void encode_opaque_head(BitWriter& writer, u32 component, const LaneList& present, u64 carried) {
        if (!full_ && present.count != 0) {
            writer.put(carried == present.mask, 1);
            if (carried != present.mask)
                writer.put(select_bits(carried, present), present.count);
        }
        carried_[component] = carried;
        if (carried == 0)
            return;
        opaque_listed_ |= 1u << component;
        const OpaqueLanes& opaque = *input_.opaque[component];
        u32 any = 0;
        for (u64 rest = carried; rest != 0; rest &= rest - 1)
            any |= opaque.bytes[std::countr_zero(rest)];
        const u32 width = static_cast<u32>(std::bit_width(any));
        THRONG_ASSERT(width <= opaque_width_max);
        writer.put(width, opaque_width_bits);
        for (u64 rest = carried; rest != 0; rest &= rest - 1)
            writer.put(opaque.bytes[std::countr_zero(rest)], width);
    }

    const EncodeInput& input_;
    const Layout& layout_;
    bool full_;
    u32 opaque_listed_ = 0; // components with opaque bytes to write
    LaneList lanes_;
    u64 carried_[Protocol::component_count_max];
};

// Flags and age. Returns the byte count, at most 1 + varint_bytes_max.
u32 write_head(std::span<std::byte, 1 + varint_bytes_max> out, const BodyEncoder& body, bool zstd) {
    out[0] = static_cast<std::byte>((body.full() ? flag_full : 0) | (zstd ? flag_zstd : 0));
    return body.full() ? 1 : 1 + write_varint(out.subspan(1), body.age());
}

} // namespace

alignas(64) const std::byte zero_column[zero_column_bytes] = {};

} // namespace section

SectionScratch::SectionScratch(Bytes dictionary, Allocator scratch_allocator) : allocator(scratch_allocator) {
    wide = static_cast<std::byte*>(allocator.allocate(section_bytes_max, 64));
    packed = static_cast<std::byte*>(allocator.allocate(section_bytes_max, 64));
    zstd = new (allocator.allocate(sizeof(ZstdEncoder), alignof(ZstdEncoder))) ZstdEncoder(dictionary, section_bytes_max, allocator);
}

SectionScratch::~SectionScratch() {
    zstd->~ZstdEncoder();
    allocator.free(zstd, sizeof(ZstdEncoder), alignof(ZstdEncoder));
    allocator.free(packed, section_bytes_max, 64);
    allocator.free(wide, section_bytes_max, 64);
}

EncodeResult encode_section(const EncodeInput& input, Compression compression, SectionScratch& scratch, std::span<std::byte> out) {
    THRONG_ASSERT(input.lanes != 0 && (input.lanes & ~input.current.occupants->alive) == 0);
    THRONG_ASSERT(input.baseline.blocks == nullptr || input.tick != input.baseline_tick);
    section::BodyEncoder body(input);
    std::byte head[1 + varint_bytes_max];
    out = out.first(std::min<std::size_t>(out.size(), section_bytes_max));

    u32 packed_bytes = 0;
    if (compression != Compression::always) {
        const u32 head_bytes = section::write_head(head, body, false);
        if (out.size() > head_bytes) {
            const u32 body_bytes = body.encode<false>(out.subspan(head_bytes));
            if (body_bytes != 0) {
                std::memcpy(out.data(), head, head_bytes);
                packed_bytes = head_bytes + body_bytes;
            }
        }
        const bool try_zstd = compression == Compression::automatic && (body.full() || body.has_opaque()) &&
                              (packed_bytes == 0 ||
                               packed_bytes >= (body.has_opaque() ? section::zstd_opaque_bytes_min : section::zstd_body_bytes_min));
        if (!try_zstd)
            return {packed_bytes, false};
    }
    const u32 wide_bytes = body.encode<true>({scratch.wide, section_bytes_max});
    const u32 limit = packed_bytes != 0 ? packed_bytes - 1 : static_cast<u32>(out.size());
    u32 head_bytes = section::write_head(head, body, true);
    if (wide_bytes != 0 && limit > head_bytes + varint_bytes_max) {
        std::byte raw[varint_bytes_max];
        const u32 raw_bytes = write_varint(raw, wide_bytes);
        const u32 frame_bytes = scratch.zstd->compress({scratch.wide, wide_bytes}, {scratch.packed, limit - head_bytes - raw_bytes});
        if (frame_bytes != 0) {
            std::memcpy(out.data(), head, head_bytes);
            std::memcpy(out.data() + head_bytes, raw, raw_bytes);
            std::memcpy(out.data() + head_bytes + raw_bytes, scratch.packed, frame_bytes);
            return {head_bytes + raw_bytes + frame_bytes, true};
        }
    }
    return {packed_bytes, false};
}

} // namespace throng
