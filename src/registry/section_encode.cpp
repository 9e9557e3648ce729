#include "src/registry/op_log.hpp"
#include "src/registry/section_format.hpp"
#include "src/registry/wide_codes.hpp"
#include "src/wire/kernels.hpp"
#include "src/wire/masks.hpp"
#include "src/registry/zstd.hpp"
#include "throng/assert.hpp"
#include <algorithm>
#include <cstring>
#include <type_traits>

namespace throng {
namespace section {
namespace {

// Automatic compression is not tried on smaller bodies. Packed columns of a few lanes never came out smaller as zstd, and trying
// them cost a quarter of the encode stage; opaque bytes may pay early.
constexpr u32 zstd_body_bytes_min = 320, zstd_opaque_bytes_min = 48;

constexpr BlockHeader all_with_counter_0{.present = ~u64{0}};

// number(length_bits) of docs/wire.md.
[[gnu::always_inline]] inline void put_number(BitWriter& writer, u64 value, u32 length_bits) {
    const u32 length = static_cast<u32>(std::bit_width(value));
    writer.put(length, length_bits);
    writer.put(value, length);
}

// The rows that a component's columns have values for, in wire order; up to a multiple of 8 the last one is repeated.
struct RowList {
    u32 count = 0;
    const std::byte* current[lane_count];
    const std::byte* base[lane_count];
    void set(const LaneList& lanes, const EncodeInput& input) {
        count = lanes.count;
        for (u32 i = 0; i < ((count + 7) & ~7u); ++i) {
            current[i] = input.current.row(*input.layout, lanes.lane[i]);
            base[i] = input.baseline ? input.baseline->rows[lanes.lane[i]] : zero_row;
        }
    }
};

template <class T>
T load(const std::byte* row, u32 offset_bytes) {
    T value;
    std::memcpy(&value, row + offset_bytes, sizeof value);
    return value;
}

// In a full section a column of equal values is one number. Returns false, with the form bit written, if they differ.
template <class T>
bool put_equal_column(BitWriter& writer, const Column& column, const RowList& rows) {
    using Code = std::make_unsigned_t<T>;
    const T first = load<T>(rows.current[0], column.row_offset_bytes);
    for (u32 i = 1; i < rows.count; ++i) {
        if (load<T>(rows.current[i], column.row_offset_bytes) != first) {
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

/// A column of a wide body. In a full section codes are distances from the smallest value.
template <class T>
void put_wide_column(BitWriter& writer, NoiseWriter& noise, const ColumnInput& in, bool full) {
    using Code = std::make_unsigned_t<T>;
    const u32 wrap = sizeof(T) * 8 - in.difference_bits;
    u64 values[lane_count], some[lane_count]; // of all lanes, and of those that are not 0
    u64 nonzero = 0;
    u32 count = 0;
    for (u32 i = 0; i < in.count; ++i) {
        const T value = load<T>(in.current[i], in.offset_bytes);
        if (full) {
            values[i] = static_cast<u64>(static_cast<i64>(value));
        } else {
            Code difference = static_cast<Code>(static_cast<Code>(value) - load<Code>(in.base[i], in.offset_bytes));
            if (in.velocity_bytes != 0)
                difference = static_cast<Code>(
                    difference - static_cast<Code>(extrapolation(element(in.base[i] + in.velocity_offset_bytes, in.velocity_bytes, 0),
                                                                 in.velocity_scale)));
            values[i] = zigzag(static_cast<T>(static_cast<T>(static_cast<Code>(difference << wrap)) >> wrap));
        }
        nonzero |= static_cast<u64>(values[i] != 0) << i;
        if (values[i] != 0)
            some[count++] = values[i];
    }
    const auto lowest = [full](const u64* all, u32 n) {
        i64 low = full && n != 0 ? static_cast<i64>(all[0]) : 0;
        for (u32 i = 1; full && i < n; ++i)
            low = std::min(low, static_cast<i64>(all[i]));
        return static_cast<u64>(low);
    };
    const auto width_above = [](const u64* all, u32 n, u64 low) {
        u64 any = 0;
        for (u32 i = 0; i < n; ++i)
            any |= all[i] - low;
        return wide_width(static_cast<u32>(std::bit_width(any)));
    };
    u64 low = lowest(values, in.count);
    u32 width = width_above(values, in.count, low);
    const u64 low_some = lowest(some, count);
    const u32 width_some = width_above(some, count, low_some);
    const bool sparse = in.count + count * width_some < in.count * width;
    u64* codes = values;
    if (sparse) {
        low = low_some;
        width = width_some;
        codes = some;
    } else
        count = in.count;
    writer.put(width, in.width_bits);
    if (width == 0 && !full)
        return; // no code differs from 0
    writer.put(sparse, 1);
    if (sparse)
        writer.put(nonzero, in.count);
    if (full)
        put_number(writer, zigzag(static_cast<T>(low)), in.width_bits);
    for (u32 i = 0; i < count; ++i)
        codes[i] -= low;
    if (width != 0)
        put_planes(writer, noise, codes, count, width);
}

class BodyEncoder {
public:
    BodyEncoder(const EncodeInput& input, SectionScratch& scratch)
        : input_(input), layout_(*input.layout), codes_(scratch.codes), full_(input.baseline == nullptr) {
        lanes_.set(input.lanes);
        for (u32 c = 0; input.kept && c < layout_.component_count; ++c)
            keeps_ |= (input.kept[c] & input.lanes) != 0;
        const GroupRows rows{.current = input.current.rows,
                             .row_bytes = layout_.row_bytes,
                             .base = full_ ? nullptr : input.baseline->rows,
                             .age = full_ ? 0 : std::min(age(), extrapolation_age_max),
                             .lanes = lanes_.lane,
                             .count = lanes_.count};
        for (u32 group = 0; group < layout_.group_count; ++group)
            kernels_.find_codes(layout_.groups[group], rows, codes_[group]);
    }
    bool full() const { return full_; }
    bool keeps() const { return keeps_; }
    u32 age() const { return input_.tick - input_.baseline_tick; }
    /// Set by encode: whether opaque bytes were written.
    bool has_opaque() const { return opaque_listed_ != 0; }

    /// Returns the bytes of the body, 0 if it does not fit. `noise` is used by a wide body only. `component_bits` gets what each component
    /// took.
    template <bool Wide>
    u32 encode(std::span<std::byte> out, NoiseWriter& noise, u32* component_bits) {
        BitWriter writer(out);
        noise_ = &noise;
        opaque_listed_ = 0;
        write_lane_mask(writer, lanes_.mask);
        if (full_)
            encode_occupants<Wide>(writer);
        if (keeps_) [[unlikely]]
            encode_kept(writer);
        const auto bits = [&] { return static_cast<u32>(writer.bit_count()) + (Wide ? 8 * noise.bytes : 0); };
        u32 before = bits();
        for (u32 component = 0; component < layout_.component_count;) {
            if (const u32 count = Wide ? 0 : values_only(component)) {
                const GroupComponents components{.columns = layout_.grouped,
                                                 .first_column = layout_.components[component].first_column,
                                                 .ends = layout_.column_ends + component,
                                                 .count = count};
                (full_ ? kernels_.put_full : kernels_.put_values)(writer, components, codes_, lanes_.count, component_bits + component);
                component += count;
                before = bits();
                continue;
            }
            encode_component<Wide>(writer, component);
            component_bits[component] = bits() - before;
            before += component_bits[component];
            ++component;
        }
        writer.align();
        for (u32 rest = opaque_listed_; rest != 0; rest &= rest - 1) {
            const u32 component = static_cast<u32>(std::countr_zero(rest));
            const OpaqueLanes& opaque = *input_.opaque[component];
            for (u64 carried = carried_[component]; carried != 0; carried &= carried - 1) {
                const u32 lane = static_cast<u32>(std::countr_zero(carried));
                if (!full_ && (layout_.diffs >> component & 1) && (ops_[component] >> lane & 1)) {
                    component_bits[component] += 8 * write_ops(writer, opaque.logs[lane]);
                    continue;
                }
                writer.put_bytes(opaque.data[lane], opaque.bytes[lane]);
                component_bits[component] += 8 * opaque.bytes[lane];
            }
        }
        return writer.finish();
    }

private:
    /// The rows of all lanes, for what does not go by groups.
    const RowList& all_rows() {
        if (rows_.count == 0)
            rows_.set(lanes_, input_);
        return rows_;
    }
    template <class T>
    bool any_differs(u32 offset_bytes) {
        const RowList& rows = all_rows();
        T differs = 0;
        for (u32 i = 0; i < rows.count; ++i)
            differs = static_cast<T>(differs | (load<T>(rows.current[i], offset_bytes) ^ load<T>(rows.base[i], offset_bytes)));
        return differs != 0;
    }
    /// How many components from `first` on have nothing but values to say, as they nearly always do: every lane has them, with the
    /// counters of the baseline (in a full section: 0), and their columns are in groups.
    u32 values_only(u32 first) const {
        const auto alike = [&](u32 c) {
            const BlockHeader& now = input_.current.headers[c];
            const BlockHeader& before = full_ ? all_with_counter_0 : *input_.baseline->headers[c];
            // Another header most often differs at other lanes only.
            const u64 differing = &before == &now ? 0
                                                  : (now.present ^ before.present) | (now.counter[0] ^ before.counter[0]) |
                                                        (now.counter[1] ^ before.counter[1]);
            return (lanes_.mask & (differing | ~now.present)) == 0;
        };
        u32 c = first;
        while (c < layout_.component_count && (layout_.in_groups >> c & 1) != 0 && alike(c))
            ++c;
        return c - first;
    }
    /// Whether a lane's value in a delta is another than in the baseline.
    bool differs(u32 index) {
        if (layout_.grouped[index].group >= 0)
            return group_differs(layout_.grouped[index]);
        const Column& column = layout_.columns[index];
        switch (column.element_bytes) {
        case 2:
            return any_differs<u16>(column.row_offset_bytes);
        case 4:
            return any_differs<u32>(column.row_offset_bytes);
        default:
            return any_differs<u64>(column.row_offset_bytes);
        }
    }
    /// Of a column in a group, also in a full section: whether lanes differ.
    bool group_differs(const GroupColumn& column) const { return (codes_[column.group].differing & column.bytes) != 0; }

    template <bool Wide>
    void encode_occupants(BitWriter& out) {
        BitWriter writer = out; // a local copy stays in registers
        const OccupantBlock& occupants = *input_.occupants;
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
        if (Wide) {
            out = writer;
            encode_wide_indices(out, smallest);
            writer = out;
        } else {
            const u32 width = static_cast<u32>(std::bit_width(index_or));
            put_number(writer, smallest, net_index_length_bits);
            writer.put(width, net_index_length_bits);
            for (u32 i = 0; i < lanes_.count; ++i)
                writer.put(occupants.net_id[lanes_.lane[i]].index() - smallest, width);
        }
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
        out = writer;
    }

    void encode_kept(BitWriter& writer) {
        for (u32 c = 0; c < layout_.component_count; ++c) {
            const u64 kept = input_.kept[c] & lanes_.mask;
            writer.put(kept != 0, 1);
            if (kept == 0)
                continue;
            writer.put(kept == lanes_.mask, 1);
            if (kept != lanes_.mask)
                writer.put(select_bits(kept, lanes_), lanes_.count);
        }
    }

    /// Entities that came together have ascending indices: then the gaps between them, else the distances from the smallest.
    void encode_wide_indices(BitWriter& writer, u32 smallest) {
        const OccupantBlock& occupants = *input_.occupants;
        u64 codes[lane_count];
        u64 any = 0;
        const auto index = [&](u32 i) { return occupants.net_id[lanes_.lane[i]].index(); };
        bool ascending = lanes_.count > 1;
        for (u32 i = 1; i < lanes_.count; ++i)
            ascending &= index(i) > index(i - 1);
        const u32 count = lanes_.count - ascending;
        for (u32 i = 0; i < count; ++i) {
            codes[i] = ascending ? index(i + 1) - index(i) - 1 : index(i) - smallest;
            any |= codes[i];
        }
        const u32 width = wide_width(static_cast<u32>(std::bit_width(any)));
        writer.put(ascending, 1);
        put_number(writer, smallest, net_index_length_bits);
        writer.put(width, net_index_length_bits);
        if (width != 0)
            put_planes(writer, *noise_, codes, count, width);
    }

    template <bool Wide>
    [[gnu::always_inline]] void encode_component(BitWriter& writer, u32 component) {
        const LayoutComponent& info = layout_.components[component];
        const BlockHeader& current = input_.current.headers[component];
        const BlockHeader& base = full_ ? no_lanes : *input_.baseline->headers[component];
        const u64 lanes = lanes_.mask;
        const u64 present = current.present & lanes, base_present = base.present & lanes;
        u64 counter[2] = {0, 0}, base_counter[2] = {0, 0};
        for (u32 plane = 0; plane < 2; ++plane) {
            counter[plane] = current.counter[plane] & present;
            base_counter[plane] = base.counter[plane] & base_present & present;
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
        const bool structure = present != base_present || counters;
        bool listed = structure || carried != 0;
        if (full_)
            listed = present != 0;
        else
            for (u32 i = info.first_column; !listed && i < info.first_column + info.column_count; ++i)
                listed = differs(i);
        if (!listed) {
            writer.put(0, 1);
            return;
        }
        const bool form = full_ ? present == lanes : structure;
        writer.put(1u | static_cast<u64>(form) << 1, 2);
        if (form != full_)
            writer.put(select_bits(present, lanes_), lanes_.count);
        LaneList own_lanes;
        if (present != lanes)
            own_lanes.set(present);
        const LaneList& list = present == lanes ? lanes_ : own_lanes;
        if ((full_ || structure) && present != 0) {
            writer.put(counters, 1);
            if (counters)
                for (const u64 plane : counter)
                    writer.put(select_bits(plane, list), list.count);
        }
        if (info.opaque) {
            encode_opaque_head(writer, component, list, carried);
        } else if (present == lanes) {
            encode_columns<Wide>(writer, info);
        } else if (present != 0) {
            RowList own_rows;
            own_rows.set(own_lanes, input_);
            for (u32 i = info.first_column; i < info.first_column + info.column_count; ++i)
                encode_column<Wide>(writer, layout_.columns[i], own_rows);
        }
    }

    /// All columns of a component that all lanes have.
    template <bool Wide>
    void encode_columns(BitWriter& writer, const LayoutComponent& info) {
        for (u32 i = info.first_column; i < info.first_column + info.column_count; ++i) {
            if (!Wide && layout_.grouped[i].group >= 0)
                encode_group_column(writer, layout_.grouped[i], layout_.columns[i].width_bits);
            else
                encode_column<Wide>(writer, layout_.columns[i], all_rows());
        }
    }

    /// A column of all lanes whose codes are there.
    void encode_group_column(BitWriter& writer, const GroupColumn& column, u32 width_bits) {
        if (full_) {
            const GroupCodes& codes = codes_[column.group];
            const bool equal = !group_differs(column);
            writer.put(equal, 1);
            if (equal)
                return put_number(writer,
                                  column.element_bytes == 2 ? codes.narrow.codes[column.position][0] : codes.wide.codes[column.position][0],
                                  width_bits);
        }
        kernels_.put_codes(writer, column, codes_, lanes_.count);
    }

    template <bool Wide>
    void encode_column(BitWriter& writer, const Column& column, const RowList& rows) {
        if (full_) {
            bool equal = false;
            switch (column.element_bytes) {
            case 2: equal = put_equal_column<i16>(writer, column, rows); break;
            case 4: equal = put_equal_column<i32>(writer, column, rows); break;
            default: equal = put_equal_column<i64>(writer, column, rows);
            }
            if (equal)
                return;
        }
        ColumnInput in{.current = rows.current, .base = rows.base, .count = rows.count, .offset_bytes = column.row_offset_bytes,
                       .difference_bits = difference_bits(column), .width_bits = column.width_bits};
        if (!full_ && column.velocity_column >= 0) {
            const Column& velocity = layout_.columns[column.velocity_column];
            in.velocity_offset_bytes = velocity.row_offset_bytes;
            in.velocity_bytes = velocity.element_bytes;
            in.velocity_scale = extrapolation_scale(column.velocity_factor, age());
        }
        if constexpr (Wide) {
            switch (column.element_bytes) {
            case 2: return put_wide_column<i16>(writer, *noise_, in, full_);
            case 4: return put_wide_column<i32>(writer, *noise_, in, full_);
            default: return put_wide_column<i64>(writer, *noise_, in, full_);
            }
        }
        switch (column.element_bytes) {
        case 2: return kernels_.put_column16(writer, in);
        case 4: return kernels_.put_column32(writer, in);
        default: return kernels_.put_column64(writer, in);
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
        if ((layout_.diffs >> component & 1) && !full_)
            return encode_diff_head(writer, component, opaque, carried);
        u32 any = 0;
        for (u64 rest = carried; rest != 0; rest &= rest - 1)
            any |= opaque.bytes[std::countr_zero(rest)];
        const u32 width = static_cast<u32>(std::bit_width(any));
        THRONG_ASSERT(width <= opaque_width_max);
        writer.put(width, opaque_width_bits);
        for (u64 rest = carried; rest != 0; rest &= rest - 1)
            writer.put(opaque.bytes[std::countr_zero(rest)], width);
    }

    /// The same of a component with diffs: of each lane its ops since the baseline, if all are kept and they are shorter.
    [[gnu::noinline]] void encode_diff_head(BitWriter& writer, u32 component, const OpaqueLanes& opaque, u64 carried) {
        u32 bytes[lane_count];
        u32 any = 0;
        u64 ops = 0;
        for (u64 rest = carried; rest != 0; rest &= rest - 1) {
            const u32 lane = static_cast<u32>(std::countr_zero(rest));
            const u32 log_bytes = opaque.logs ? opaque.logs[lane].size_after(input_.baseline_tick, input_.tick) : 0;
            const bool shorter = log_bytes != 0 && log_bytes < opaque.bytes[lane];
            ops |= static_cast<u64>(shorter) << lane;
            bytes[lane] = shorter ? log_bytes : opaque.bytes[lane];
            any |= bytes[lane];
        }
        ops_[component] = ops;
        const u32 width = static_cast<u32>(std::bit_width(any));
        THRONG_ASSERT(width <= opaque_width_max);
        writer.put(width, opaque_width_bits);
        for (u64 rest = carried; rest != 0; rest &= rest - 1) {
            const u32 lane = static_cast<u32>(std::countr_zero(rest));
            writer.put(bytes[lane], width);
            writer.put(ops >> lane & 1, 1);
        }
    }

    /// Returns how many bytes.
    [[gnu::noinline]] u32 write_ops(BitWriter& writer, const OpLog& log) {
        const u32 bytes = log.size_after(input_.baseline_tick, input_.tick);
        log.write_after(input_.baseline_tick, input_.tick, writer);
        return bytes;
    }

    const EncodeInput& input_;
    const Layout& layout_;
    const Kernels& kernels_ = kernels();
    GroupCodes* codes_; // [group]
    NoiseWriter* noise_ = nullptr;
    bool full_;
    bool keeps_ = false;
    u32 opaque_listed_ = 0; // components with opaque bytes to write
    LaneList lanes_;
    RowList rows_; // see all_rows
    u64 carried_[Protocol::component_count_max];
    u64 ops_[Protocol::component_count_max]; // of a delta's components with diffs
};

// Flags and age. Returns the byte count, at most 1 + varint_bytes_max.
u32 write_head(std::span<std::byte, 1 + varint_bytes_max> out, const BodyEncoder& body, bool zstd) {
    out[0] = static_cast<std::byte>((body.full() ? flag_full : 0) | (zstd ? flag_zstd : 0) | (body.keeps() ? flag_keeps : 0));
    return body.full() ? 1 : 1 + write_varint(out.subspan(1), body.age());
}

} // namespace

alignas(64) const std::byte zero_column[zero_column_bytes] = {};
alignas(64) const std::byte zero_row[row_bytes_max] = {};
const BlockHeader no_lanes{};

} // namespace section

SectionScratch::SectionScratch(Bytes dictionary, Allocator scratch_allocator) : allocator(scratch_allocator) {
    wide = static_cast<std::byte*>(allocator.allocate(section_bytes_max, 64));
    packed = static_cast<std::byte*>(allocator.allocate(section_bytes_max, 64));
    noise = static_cast<std::byte*>(allocator.allocate(noise_bytes_max, 64));
    codes = static_cast<GroupCodes*>(allocator.allocate(sizeof(GroupCodes) * Layout::group_count_max, alignof(GroupCodes)));
    zstd = new (allocator.allocate(sizeof(ZstdEncoder), alignof(ZstdEncoder))) ZstdEncoder(dictionary, section_bytes_max, allocator);
}

SectionScratch::~SectionScratch() {
    zstd->~ZstdEncoder();
    allocator.free(zstd, sizeof(ZstdEncoder), alignof(ZstdEncoder));
    allocator.free(codes, sizeof(GroupCodes) * Layout::group_count_max, alignof(GroupCodes));
    allocator.free(noise, noise_bytes_max, 64);
    allocator.free(packed, section_bytes_max, 64);
    allocator.free(wide, section_bytes_max, 64);
}

EncodeResult encode_section(const EncodeInput& input, Compression compression, SectionScratch& scratch, std::span<std::byte> out) {
    THRONG_ASSERT(input.lanes != 0);
    THRONG_ASSERT(input.baseline || (input.lanes & ~input.occupants->alive) == 0);
    THRONG_ASSERT(input.baseline == nullptr || input.tick != input.baseline_tick);
    section::BodyEncoder body(input, scratch);
    std::byte head[1 + varint_bytes_max];
    out = out.first(std::min<std::size_t>(out.size(), section_bytes_max));

    section::NoiseWriter noise{{scratch.noise, noise_bytes_max}};
    u32 packed_bytes = 0;
    if (compression != Compression::always) {
        const u32 head_bytes = section::write_head(head, body, false);
        if (out.size() > head_bytes) {
            const u32 body_bytes = body.encode<false>(out.subspan(head_bytes), noise, scratch.component_bits);
            if (body_bytes != 0) {
                std::memcpy(out.data(), head, head_bytes);
                packed_bytes = head_bytes + body_bytes;
            }
        }
        const bool try_zstd = compression == Compression::automatic && (body.full() || body.has_opaque()) &&
                              (packed_bytes == 0 ||
                               packed_bytes >= (body.has_opaque() ? section::zstd_opaque_bytes_min : section::zstd_body_bytes_min));
        if (!try_zstd)
            return {packed_bytes, false, packed_bytes};
    }
    u32 unused_bits[Protocol::component_count_max];
    const u32 wide_bytes =
        body.encode<true>({scratch.wide, section_bytes_max}, noise, packed_bytes != 0 ? unused_bits : scratch.component_bits);
    const u32 limit = packed_bytes != 0 ? packed_bytes - 1 : static_cast<u32>(out.size());
    std::byte counts[2 * varint_bytes_max];
    u32 count_bytes = write_varint(counts, wide_bytes);
    count_bytes += write_varint(std::span<std::byte>(counts).subspan(count_bytes), noise.bytes);
    const u32 head_bytes = section::write_head(head, body, true);
    const u32 before = head_bytes + count_bytes + noise.bytes; // the frame
    if (wide_bytes != 0 && !noise.failed && limit > before) {
        const u32 frame_bytes = scratch.zstd->compress({scratch.wide, wide_bytes}, {scratch.packed, limit - before});
        if (frame_bytes != 0) {
            std::memcpy(out.data(), head, head_bytes);
            std::memcpy(out.data() + head_bytes, counts, count_bytes);
            std::memcpy(out.data() + head_bytes + count_bytes, scratch.noise, noise.bytes);
            std::memcpy(out.data() + before, scratch.packed, frame_bytes);
            return {before + frame_bytes, true, packed_bytes};
        }
    }
    return {packed_bytes, false, packed_bytes};
}

} // namespace throng
