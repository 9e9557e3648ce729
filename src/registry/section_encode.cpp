#include "src/registry/section_format.hpp"
#include "src/wire/kernels.hpp"
#include "src/wire/masks.hpp"
#include "src/wire/zstd.hpp"
#include "throng/assert.hpp"
#include <algorithm>
#include <type_traits>

namespace throng {
namespace section {
namespace {

// Automatic compression is not tried on smaller bodies: a frame alone takes five bytes.
constexpr u32 zstd_body_bytes_min = 48;

// number(length_bits) of docs/wire.md.
void put_number(BitWriter& writer, u64 value, u32 length_bits) {
    const u32 length = static_cast<u32>(std::bit_width(value));
    writer.put(length, length_bits);
    writer.put(value, length);
}

// Four 16-bit codes of `width` bits become 4 * width bits.
inline u64 merge4(const u16* codes, u32 width) {
    constexpr u64 even = 0x0000'ffff'0000'ffff;
    u64 x;
    std::memcpy(&x, codes, 8);
    x = (x & even) | (x & ~even) >> (16 - width);
    return (x & 0xffff'ffff) | x >> 32 << (2 * width);
}

void put_codes(BitWriter& out, const u16* codes, u32 count, u32 width) {
    BitWriter writer = out; // a local copy stays in registers
    u32 i = 0;
    for (; i + 4 <= count; i += 4)
        writer.put(merge4(codes + i, width), 4 * width);
    if (i < count)
        writer.put(merge4(codes + i, width), (count - i) * width);
    out = writer;
}

void put_codes(BitWriter& out, const u32* codes, u32 count, u32 width) {
    if (width <= 16) {
        u16 narrow[code_capacity];
        for (u32 i = 0; i < count; ++i)
            narrow[i] = static_cast<u16>(codes[i]);
        for (u32 i = 0; i < 3; ++i)
            narrow[count + i] = 0;
        put_codes(out, narrow, count, width);
        return;
    }
    BitWriter writer = out;
    u32 i = 0;
    for (; i + 2 <= count; i += 2)
        writer.put(codes[i] | static_cast<u64>(codes[i + 1]) << width, 2 * width);
    if (i < count)
        writer.put(codes[i], width);
    out = writer;
}

void put_codes(BitWriter& writer, const u64* codes, u32 count, u32 width) {
    for (u32 i = 0; i < count; ++i)
        writer.put(codes[i], width);
}

u64 nonzero(const u16* codes, u32 count) { return kernels().nonzero16(codes, count); }
u64 nonzero(const u32* codes, u32 count) { return kernels().nonzero32(codes, count); }
u64 nonzero(const u64* codes, u32 count) {
    u64 mask = 0;
    for (u32 i = 0; i < count; ++i)
        mask |= static_cast<u64>(codes[i] != 0) << i;
    return mask;
}

template <bool Wide, class Code>
void put_column(BitWriter& writer, const Code* codes, u32 count, Code any, u32 width_bits) {
    const u32 width = Wide ? wide_width(static_cast<u32>(std::bit_width(any))) : static_cast<u32>(std::bit_width(any));
    if (width == 0) {
        writer.put(0, width_bits);
        return;
    }
    u64 mask = 0;
    bool sparse = false;
    if (width > 1) {
        if (count <= few_lanes_max) {
            for (u32 i = 0; i < count; ++i)
                mask |= static_cast<u64>(codes[i] != 0) << i;
        } else {
            mask = nonzero(codes, count);
        }
        sparse = count + static_cast<u32>(std::popcount(mask)) * width < count * width;
    }
    writer.put(width | static_cast<u64>(sparse) << width_bits, width_bits + 1);
    if (sparse)
        writer.put(mask, count);
    if (Wide)
        writer.align();
    if (!sparse) {
        put_codes(writer, codes, count, width);
        return;
    }
    for (; mask != 0; mask &= mask - 1)
        writer.put(codes[std::countr_zero(mask)], width);
}

struct Velocity {
    const std::byte* data = nullptr; // null: not extrapolated
    u32 element_bytes = 2;
    u64 scale = 0;
};

// Writes one column and says whether any value differs from the baseline's.
template <bool Wide, class T>
bool encode_column(BitWriter& writer, const Column& column, const T* current, const T* base, const Velocity& velocity, const LaneList& lanes) {
    using Code = std::make_unsigned_t<T>;
    constexpr u32 bits = sizeof(T) * 8;
    const u32 wrap = bits - difference_bits(column);
    alignas(64) Code codes[code_capacity];
    Code any = 0;
    bool differs = false;
    if (sizeof(T) == 8 || lanes.count <= few_lanes_max) {
        Code difference_or = 0;
        for (u32 i = 0; i < lanes.count; ++i) {
            const u32 lane = lanes.lane[i];
            Code prediction = static_cast<Code>(base[lane]);
            difference_or = static_cast<Code>(difference_or | (static_cast<Code>(current[lane]) ^ prediction));
            if (velocity.data)
                prediction = static_cast<Code>(prediction + static_cast<Code>(extrapolation(element(velocity.data, velocity.element_bytes, lane), velocity.scale)));
            const Code raw = static_cast<Code>(static_cast<Code>(current[lane]) - prediction);
            const T difference = static_cast<T>(static_cast<T>(static_cast<Code>(raw << wrap)) >> wrap);
            const Code code = static_cast<Code>(static_cast<Code>(static_cast<Code>(difference) << 1) ^ static_cast<Code>(difference >> (bits - 1)));
            any = static_cast<Code>(any | code);
            codes[i] = code;
        }
        for (u32 i = 0; i < 3; ++i)
            codes[lanes.count + i] = 0;
        differs = difference_or != 0;
    } else if constexpr (sizeof(T) < 8) {
        alignas(64) T predicted[lane_count];
        const T* prediction = base;
        if (velocity.data) {
            prediction = predicted;
            if (sizeof(T) == 2 && velocity.element_bytes == 2) {
                if constexpr (sizeof(T) == 2)
                    kernels().predict16(base, reinterpret_cast<const i16*>(velocity.data), static_cast<u32>(velocity.scale), predicted);
            } else {
                for (u32 lane = 0; lane < lane_count; ++lane) {
                    const i64 moved = extrapolation(element(velocity.data, velocity.element_bytes, lane), velocity.scale);
                    predicted[lane] = static_cast<T>(static_cast<Code>(base[lane]) + static_cast<Code>(moved));
                }
            }
            for (u32 i = 0; i < lanes.count && !differs; ++i)
                differs = current[lanes.lane[i]] != base[lanes.lane[i]];
        }
        if constexpr (sizeof(T) == 2)
            any = kernels().codes16(current, prediction, lanes.mask, difference_bits(column), codes);
        else
            any = kernels().codes32(current, prediction, lanes.mask, difference_bits(column), codes);
        differs |= !velocity.data && any != 0;
    }
    put_column<Wide>(writer, codes, lanes.count, any, column.width_bits);
    return differs;
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
                put_number(writer, zigzag32(static_cast<i32>(coordinate)), coordinate_length_bits);
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
        case 2:
            return encode_column<Wide>(writer, column, reinterpret_cast<const i16*>(current), reinterpret_cast<const i16*>(base), velocity, lanes);
        case 4:
            return encode_column<Wide>(writer, column, reinterpret_cast<const i32*>(current), reinterpret_cast<const i32*>(base), velocity, lanes);
        default:
            return encode_column<Wide>(writer, column, reinterpret_cast<const i64*>(current), reinterpret_cast<const i64*>(base), velocity, lanes);
        }
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
                              (packed_bytes == 0 || packed_bytes >= section::zstd_body_bytes_min);
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
