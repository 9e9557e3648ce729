#include "src/registry/section_format.hpp"
#include "src/registry/wide_codes.hpp"
#include "src/wire/lane_codes.hpp"
#include "src/wire/masks.hpp"
#include "src/registry/zstd.hpp"
#include "throng/assert.hpp"
#include <algorithm>
#include <limits>
#include <new>
#include <type_traits>

namespace throng {

struct DecodeBuffers::Impl {
    Impl(const Layout& buffers_layout, Bytes dictionary, Allocator buffers_allocator)
        : layout(buffers_layout), allocator(buffers_allocator), zstd(dictionary, buffers_allocator) {}

    struct Bounds {
        bool checked = false; // values outside would not survive the way back to a field
        i64 minimum = 0, maximum = 0;
    };

    const Layout& layout;
    Allocator allocator;
    ZstdDecoder zstd;
    std::byte* wide = nullptr; // section_bytes_max bytes
    std::byte* memory = nullptr;
    std::size_t memory_bytes = 0;
    std::byte* blocks[Protocol::component_count_max] = {};
    OccupantBlock occupants;
    Bounds bounds[Layout::column_count_max];
};

namespace section {
namespace {

using Bounds = DecodeBuffers::Impl::Bounds;

Bounds column_bounds(const Layout& layout, const Column& column) {
    const FieldInfo& field = layout.components[column.component].info->fields[column.field];
    const u32 bits = element_bits(column);
    const i64 element_minimum = std::numeric_limits<i64>::min() >> (64 - bits);
    const i64 element_maximum = std::numeric_limits<i64>::max() >> (64 - bits);
    i64 minimum = element_minimum, maximum = element_maximum;
    if (field.kind == FieldKind::range && column.spatial_axis < 0) {
        minimum = column.quantum_min;
        maximum = column.quantum_max;
    } else if (field.kind == FieldKind::integer) {
        switch (field.type) {
        case FieldType::boolean: minimum = 0, maximum = 1; break;
        case FieldType::int8: minimum = -128, maximum = 127; break;
        case FieldType::uint8: minimum = 0, maximum = 255; break;
        case FieldType::int16: minimum = -32768, maximum = 32767; break;
        case FieldType::uint16: minimum = 0, maximum = 65535; break;
        case FieldType::int32: minimum = std::numeric_limits<i32>::min(), maximum = std::numeric_limits<i32>::max(); break;
        case FieldType::uint32: minimum = 0, maximum = std::numeric_limits<u32>::max(); break;
        default: break;
        }
        if (maximum > element_maximum)
            return {}; // an unsigned value in a signed element of its size: every pattern is one
    }
    minimum = std::max(minimum, element_minimum);
    maximum = std::min(maximum, element_maximum);
    return {minimum > element_minimum || maximum < element_maximum, minimum, maximum};
}

// number(length_bits) of docs/wire.md, at most `value_bits` long.
bool get_number(BitReader& reader, u32 length_bits, u32 value_bits, u64& value) {
    const u32 length = static_cast<u32>(reader.get(length_bits));
    if (length > value_bits)
        return false;
    value = reader.get(length);
    return length == 0 || value >> (length - 1) != 0;
}

// The head of a column of a packed body. Returns false for what no encoder writes.
bool get_column_head(BitReader& reader, const Column& column, u32 count, u32& width, bool& sparse, u64& positions) {
    width = static_cast<u32>(reader.get(column.width_bits));
    if (width > difference_bits(column))
        return false;
    sparse = width != 0 && reader.get_bit();
    positions = sparse ? reader.get(count) : width != 0 ? detail::low_bits(count) : 0;
    return (positions != 0 || width == 0) && !reader.failed();
}

template <class T>
bool within_bounds(const T* values, const LaneList& lanes, const Bounds& bounds) {
    if (!bounds.checked)
        return true;
    const T minimum = static_cast<T>(bounds.minimum), maximum = static_cast<T>(bounds.maximum);
    if (lanes.count > few_lanes_max) {
        if constexpr (sizeof(T) == 2)
            return kernels().within16(values, lanes.mask, minimum, maximum);
        else if constexpr (sizeof(T) == 4)
            return kernels().within32(values, lanes.mask, minimum, maximum);
    }
    bool within = true;
    for (u32 i = 0; i < lanes.count; ++i) {
        const T value = values[lanes.lane[i]];
        within &= value >= minimum && value <= maximum;
    }
    return within;
}

// Lane by lane: the cheapest way for few lanes. `positions` has the values that are not 0.
template <class T>
void decode_few(BitReader& reader, const Column& column, u32 width, u64 positions, const T* base, const Velocity& velocity,
                const LaneList& lanes, T* out) {
    using Code = std::make_unsigned_t<T>;
    const Code value_mask = static_cast<Code>(detail::low_bits(difference_bits(column)));
    const bool wrapped = column.angle_bits != 0;
    for (u32 i = 0; i < lanes.count; ++i) {
        const u32 lane = lanes.lane[i];
        const Code code = positions >> i & 1 ? static_cast<Code>(reader.get(width)) : Code{0};
        Code value = static_cast<Code>(static_cast<Code>(base[lane]) + unzigzag(code));
        if (velocity.data)
            value = static_cast<Code>(value + static_cast<Code>(velocity.moved(lane)));
        out[lane] = static_cast<T>(wrapped ? static_cast<Code>(value & value_mask) : value);
    }
}

// The same for many lanes: all 64 at once. Elements of other lanes become predictions, which mean nothing.
template <class T>
void decode_many(BitReader& reader, const Column& column, u32 width, u64 coded, const T* base, const Velocity& velocity, T* out) {
    using Code = std::make_unsigned_t<T>;
    const Code value_mask = static_cast<Code>(detail::low_bits(difference_bits(column)));
    alignas(64) T predicted[lane_count];
    alignas(64) Code codes[lane_count];
    if (width == 0)
        std::fill_n(codes, lane_count, Code{0});
    else
        get_lane_codes(reader, codes, coded, width);
    const T* prediction = predict(base, velocity, predicted);
    if constexpr (sizeof(T) == 2)
        kernels().apply16(codes, prediction, value_mask, out);
    else
        kernels().apply32(codes, prediction, value_mask, out);
}

class BodyDecoder {
public:
    BodyDecoder(Bytes body, Bytes noise, u32 cell_steps, const ChunkState& baseline, u64 baseline_lanes, DecodeBuffers::Impl& buffers,
                DecodedSection& out)
        : reader_(body), noise_{noise}, cell_steps_(cell_steps), baseline_(baseline), baseline_lanes_(baseline_lanes), buffers_(buffers),
          layout_(buffers.layout), out_(out) {}

    template <bool Wide>
    Error decode(bool keeps) {
        lanes_.set(read_lane_mask(reader_));
        out_.lanes = lanes_.mask;
        if (lanes_.mask == 0)
            return trouble();
        if (out_.full) {
            if (!decode_occupants<Wide>())
                return trouble();
            if (keeps && !decode_kept())
                return trouble();
        } else {
            if ((lanes_.mask & ~baseline_lanes_) != 0)
                return Error::no_baseline;
            if ((lanes_.mask & ~baseline_.occupants->alive) != 0)
                return Error::bad_value;
            out_.occupants = baseline_.occupants;
        }
        for (u32 component = 0; component < layout_.component_count; ++component)
            if (reader_.get_bit() && !decode_component<Wide>(component))
                return trouble();
        reader_.align();
        return decode_opaque_bytes();
    }

private:
    // Why a read failed: past the end, or bytes that make no sense.
    Error trouble() const { return reader_.failed() ? Error::truncated : Error::bad_value; }

    bool decode_origin() {
        out_.origin[0] = out_.origin[1] = 0;
        out_.spatial = reader_.get_bit();
        if (!out_.spatial)
            return true;
        if (cell_steps_ == 0)
            return false;
        for (i32& origin : out_.origin) {
            u64 code = 0;
            if (!get_number(reader_, coordinate_length_bits, 32, code))
                return false;
            const i64 steps = static_cast<i64>(static_cast<i32>(unzigzag(static_cast<u32>(code)))) * cell_steps_;
            if (steps != static_cast<i32>(steps))
                return false;
            origin = static_cast<i32>(steps);
        }
        return true;
    }

    template <bool Wide>
    bool decode_occupants() {
        if (!decode_origin())
            return false;
        OccupantBlock& occupants = buffers_.occupants;
        occupants.alive = lanes_.mask;
        u64 smallest = 0, generation = 0;
        const bool ascending = Wide && reader_.get_bit();
        if (!get_number(reader_, net_index_length_bits, 32, smallest))
            return false;
        const u32 width = static_cast<u32>(reader_.get(net_index_length_bits));
        if (width > 32)
            return false;
        u64 index[lane_count];
        if (Wide) {
            if (!decode_wide_indices(ascending, smallest, width, index))
                return false;
        } else
            for (u32 i = 0; i < lanes_.count; ++i)
                index[i] = smallest + reader_.get(width);
        for (u32 i = 0; i < lanes_.count; ++i) {
            if (index[i] > std::numeric_limits<u32>::max())
                return false;
            occupants.net_id[lanes_.lane[i]].value = index[i];
        }
        if (reader_.get_bit()) {
            if (!get_number(reader_, generation_length_bits, generation_bits, generation))
                return false;
            for (u32 i = 0; i < lanes_.count; ++i)
                occupants.net_id[lanes_.lane[i]].value |= generation << 32;
        } else {
            if (Wide)
                reader_.align();
            for (u32 i = 0; i < lanes_.count; ++i)
                occupants.net_id[lanes_.lane[i]].value |= reader_.get(generation_bits) << 32;
        }
        if (reader_.get_bit()) {
            if (Wide)
                reader_.align();
            for (u32 i = 0; i < lanes_.count; ++i)
                occupants.net_id[lanes_.lane[i]].value |= reader_.get(8) << 56;
        }
        bool named = true;
        for (u32 i = 0; i < lanes_.count; ++i)
            named &= occupants.net_id[lanes_.lane[i]].value != 0;
        out_.occupants = &occupants;
        return named && !reader_.failed();
    }

    bool decode_kept() {
        for (u32 c = 0; c < layout_.component_count; ++c) {
            if (!reader_.get_bit())
                continue;
            const u64 lanes = reader_.get_bit() ? lanes_.mask : spread_bits(reader_.get(lanes_.count), lanes_);
            if (lanes == 0)
                return false;
            out_.kept |= 1u << c;
            out_.kept_lanes[c] = lanes;
        }
        return out_.kept != 0 && !reader_.failed();
    }

    bool decode_wide_indices(bool ascending, u64 smallest, u32 width, u64* index) {
        const u32 count = lanes_.count - ascending;
        if (width % 8 != 0 || count == 0)
            return false;
        u64 codes[lane_count] = {};
        if (width != 0 && !get_planes(reader_, noise_, codes, count, width))
            return false;
        if (!ascending) {
            for (u32 i = 0; i < count; ++i)
                index[i] = smallest + codes[i];
            return true;
        }
        index[0] = smallest;
        for (u32 i = 0; i < count; ++i)
            index[i + 1] = index[i] + codes[i] + 1; // 64 gaps of 32 bits: no overflow
        return true;
    }

    template <bool Wide>
    bool decode_component(u32 component) {
        const LayoutComponent& info = layout_.components[component];
        const std::byte* base = out_.full ? nullptr : baseline_.blocks[component];
        const u64 base_present = base ? header(base).present & lanes_.mask : 0;
        bool structure = true;
        u64 present = lanes_.mask;
        if (out_.full) {
            if (!reader_.get_bit())
                present = spread_bits(reader_.get(lanes_.count), lanes_);
            if (present == 0 || ((out_.kept >> component & 1) && (present & out_.kept_lanes[component]) != 0))
                return false;
        } else {
            structure = reader_.get_bit();
            present = structure ? spread_bits(reader_.get(lanes_.count), lanes_) : base_present;
        }
        const LaneList* list = &lanes_;
        LaneList own;
        if (present != lanes_.mask) {
            own.set(present);
            list = &own;
        }
        std::byte* block = buffers_.blocks[component];
        BlockHeader& head = header(block);
        head.present = present;
        for (u32 plane = 0; plane < 2; ++plane)
            head.counter[plane] = base ? header(base).counter[plane] & base_present & present : 0;
        if (structure && present != 0 && reader_.get_bit())
            for (u64& plane : head.counter)
                plane = spread_bits(reader_.get(list->count), *list);
        out_.blocks[component] = block;
        out_.listed |= 1u << component;
        if (info.opaque)
            return decode_opaque_head(component, *list, present & ~base_present);
        for (u32 i = info.first_column; i < info.first_column + info.column_count; ++i) {
            const Column& column = layout_.columns[i];
            bool good = false;
            switch (column.element_bytes) {
            case 2:
                good = decode_column<Wide, i16>(i, *list);
                clear_lanes<i16>(column, lanes_.mask & ~present);
                break;
            case 4:
                good = decode_column<Wide, i32>(i, *list);
                clear_lanes<i32>(column, lanes_.mask & ~present);
                break;
            default:
                good = decode_column<Wide, i64>(i, *list);
                clear_lanes<i64>(column, lanes_.mask & ~present);
            }
            if (!good)
                return false;
        }
        return !reader_.failed();
    }

    // Lanes that lack the component hold 0: deltas are taken against it.
    template <class T>
    void clear_lanes(const Column& column, u64 lanes) {
        T* out = column_data<T>(buffers_.blocks[column.component], column);
        for (; lanes != 0; lanes &= lanes - 1)
            out[std::countr_zero(lanes)] = 0;
    }

    template <bool Wide, class T>
    bool decode_column(u32 index, const LaneList& lanes) {
        const Column& column = layout_.columns[index];
        T* out = column_data<T>(buffers_.blocks[column.component], column);
        if (lanes.count == 0)
            return true;
        if (out_.full && reader_.get_bit())
            return decode_equal(column, lanes, out) && within_bounds(out, lanes, buffers_.bounds[index]);
        const std::byte* const* blocks = out_.full ? nullptr : baseline_.blocks;
        Velocity velocity;
        if (!out_.full && column.velocity_column >= 0) {
            const Column& source = layout_.columns[column.velocity_column];
            velocity.data = column_bytes(blocks, source);
            velocity.element_bytes = source.element_bytes;
            velocity.scale = extrapolation_scale(column.velocity_factor, out_.baseline_age);
        }
        const T* base = reinterpret_cast<const T*>(column_bytes(blocks, column));
        if (Wide)
            return decode_wide(column, base, velocity, lanes, out) && within_bounds(out, lanes, buffers_.bounds[index]);
        u32 width = 0;
        u64 positions = 0;
        bool sparse = false;
        if (!get_column_head(reader_, column, lanes.count, width, sparse, positions))
            return false;
        if (sizeof(T) == 8 || lanes.count <= few_lanes_max) {
            decode_few(reader_, column, width, positions, base, velocity, lanes, out);
        } else if constexpr (sizeof(T) < 8) {
            decode_many(reader_, column, width, sparse ? spread_bits(positions, lanes) : lanes.mask, base, velocity, out);
        }
        return within_bounds(out, lanes, buffers_.bounds[index]);
    }

    template <class T>
    bool decode_wide(const Column& column, const T* base, const Velocity& velocity, const LaneList& lanes, T* out) {
        using Code = std::make_unsigned_t<T>;
        const u32 width = static_cast<u32>(reader_.get(column.width_bits));
        if (width % 8 != 0 || width > wide_width(difference_bits(column)))
            return false;
        u64 positions = 0, low = 0;
        if (width != 0 || out_.full) {
            positions = reader_.get_bit() ? reader_.get(lanes.count) : detail::low_bits(lanes.count);
            if (positions == 0)
                return false;
        }
        if (out_.full) {
            u64 code = 0;
            if (!get_number(reader_, column.width_bits, element_bits(column), code))
                return false;
            low = static_cast<u64>(static_cast<i64>(static_cast<T>(unzigzag(static_cast<Code>(code)))));
        }
        u64 codes[lane_count] = {};
        if (width != 0 && !get_planes(reader_, noise_, codes, static_cast<u32>(std::popcount(positions)), width))
            return false;
        const Code value_mask = static_cast<Code>(detail::low_bits(difference_bits(column)));
        bool good = true;
        u32 next = 0;
        for (u32 i = 0; i < lanes.count; ++i) {
            const u32 lane = lanes.lane[i];
            const bool coded = positions >> i & 1;
            if (out_.full) {
                const u64 value = coded ? low + codes[next++] : 0;
                out[lane] = static_cast<T>(value);
                good &= static_cast<u64>(static_cast<i64>(out[lane])) == value;
                good &= column.angle_bits == 0 || static_cast<Code>(out[lane]) <= value_mask;
                continue;
            }
            Code value = static_cast<Code>(static_cast<Code>(base[lane]) + unzigzag(coded ? static_cast<Code>(codes[next++]) : Code{0}));
            if (velocity.data)
                value = static_cast<Code>(value + static_cast<Code>(velocity.moved(lane)));
            out[lane] = static_cast<T>(column.angle_bits != 0 ? static_cast<Code>(value & value_mask) : value);
        }
        return good && !reader_.failed();
    }

    // One number for all lanes (full sections).
    template <class T>
    bool decode_equal(const Column& column, const LaneList& lanes, T* out) {
        using Code = std::make_unsigned_t<T>;
        u64 code = 0;
        if (!get_number(reader_, column.width_bits, difference_bits(column), code))
            return false;
        Code value = unzigzag(static_cast<Code>(code));
        if (column.angle_bits != 0)
            value = static_cast<Code>(value & detail::low_bits(column.angle_bits));
        for (u32 i = 0; i < lanes.count; ++i)
            out[lanes.lane[i]] = static_cast<T>(value);
        return true;
    }

    bool decode_opaque_head(u32 component, const LaneList& present, u64 gained) {
        u64 carried = present.mask;
        if (!out_.full && present.count != 0 && !reader_.get_bit())
            carried = spread_bits(reader_.get(present.count), present);
        if ((gained & ~carried) != 0)
            return false; // its bytes would be unknown
        out_.opaque_carried[component] = carried;
        if (carried == 0)
            return !reader_.failed();
        opaque_listed_ |= 1u << component;
        const u32 width = static_cast<u32>(reader_.get(opaque_width_bits));
        if (width > opaque_width_max)
            return false;
        const u32 bytes_max = layout_.components[component].info->opaque_bytes_max;
        const bool diffs = (layout_.diffs >> component & 1) && !out_.full;
        for (u64 rest = carried; rest != 0; rest &= rest - 1) {
            const u32 bytes = static_cast<u32>(reader_.get(width));
            if (bytes > bytes_max)
                return false;
            opaque_bytes_[component][std::countr_zero(rest)] = bytes;
            if (diffs && reader_.get_bit())
                out_.opaque_ops[component] |= rest & (~rest + 1);
        }
        return (gained & out_.opaque_ops[component]) == 0 && !reader_.failed(); // ops need what they are done to
    }

    Error decode_opaque_bytes() {
        for (u32 rest = opaque_listed_; rest != 0; rest &= rest - 1) {
            const u32 component = static_cast<u32>(std::countr_zero(rest));
            for (u64 carried = out_.opaque_carried[component]; carried != 0; carried &= carried - 1) {
                const u32 lane = static_cast<u32>(std::countr_zero(carried));
                out_.opaque[component][lane] = reader_.get_bytes(opaque_bytes_[component][lane]);
            }
        }
        if (reader_.failed())
            return Error::truncated;
        return reader_.bits_left() == 0 && noise_.finished() ? Error::none : Error::bad_value;
    }

    BitReader reader_;
    NoiseReader noise_;
    u32 cell_steps_;
    const ChunkState& baseline_;
    u64 baseline_lanes_;
    DecodeBuffers::Impl& buffers_;
    const Layout& layout_;
    DecodedSection& out_;
    LaneList lanes_;
    u32 opaque_listed_ = 0; // components with opaque bytes to come
    u32 opaque_bytes_[Protocol::component_count_max][lane_count];
};

// Reads flags and age, and moves `payload` behind them.
Error read_head(Bytes& payload, SectionHead& head, bool& zstd) {
    if (payload.empty())
        return Error::truncated;
    const u32 flags = static_cast<u32>(payload[0]);
    if ((flags & ~(flag_full | flag_zstd | flag_keeps)) != 0 || (flags & (flag_full | flag_keeps)) == flag_keeps)
        return Error::bad_value;
    payload = payload.subspan(1);
    head.full = (flags & flag_full) != 0;
    head.baseline_age = 0;
    head.keeps = (flags & flag_keeps) != 0;
    zstd = (flags & flag_zstd) != 0;
    if (head.full)
        return Error::none;
    if (const Error error = read_varint(payload, head.baseline_age); error != Error::none)
        return error;
    return head.baseline_age == 0 ? Error::bad_value : Error::none;
}

} // namespace
} // namespace section

DecodeBuffers::DecodeBuffers(const Layout& layout, Bytes dictionary, Allocator allocator)
    : impl(new (allocator.allocate(sizeof(Impl), alignof(Impl))) Impl(layout, dictionary, allocator)) {
    impl->wide = static_cast<std::byte*>(allocator.allocate(section_bytes_max, 64));
    for (u32 i = 0; i < layout.component_count; ++i)
        impl->memory_bytes += layout.components[i].block_bytes;
    impl->memory = static_cast<std::byte*>(allocator.allocate(impl->memory_bytes, 64));
    std::memset(impl->memory, 0, impl->memory_bytes);
    std::byte* block = impl->memory;
    for (u32 i = 0; i < layout.component_count; ++i) {
        impl->blocks[i] = block;
        block += layout.components[i].block_bytes;
    }
    for (u32 i = 0; i < layout.column_count; ++i)
        impl->bounds[i] = section::column_bounds(layout, layout.columns[i]);
}

DecodeBuffers::~DecodeBuffers() {
    const Allocator allocator = impl->allocator;
    allocator.free(impl->memory, impl->memory_bytes, 64);
    allocator.free(impl->wide, section_bytes_max, 64);
    impl->~Impl();
    allocator.free(impl, sizeof(Impl), alignof(Impl));
}

Error read_section_head(Bytes payload, SectionHead& head) {
    bool zstd = false;
    return section::read_head(payload, head, zstd);
}

Error decode_section(Bytes payload, u32 cell_steps, const ChunkState& baseline, u64 baseline_lanes, DecodeBuffers& buffers,
                     DecodedSection& out) {
    SectionHead head;
    bool zstd = false;
    if (const Error error = section::read_head(payload, head, zstd); error != Error::none)
        return error;
    out.full = head.full;
    out.baseline_age = head.baseline_age;
    out.lanes = 0;
    out.spatial = false;
    out.occupants = nullptr;
    out.kept = 0;
    out.listed = 0;
    std::fill_n(out.blocks, Protocol::component_count_max, nullptr);
    std::fill_n(out.opaque_carried, Protocol::component_count_max, u64{0});
    std::fill_n(out.opaque_ops, Protocol::component_count_max, u64{0});
    if (!zstd)
        return section::BodyDecoder(payload, {}, cell_steps, baseline, baseline_lanes, *buffers.impl, out).decode<false>(head.keeps);
    u32 raw_bytes = 0;
    if (const Error error = read_varint(payload, raw_bytes); error != Error::none)
        return error;
    u32 noise_bytes = 0;
    if (const Error error = read_varint(payload, noise_bytes); error != Error::none)
        return error;
    if (raw_bytes > section_bytes_max)
        return Error::too_large;
    if (noise_bytes > payload.size())
        return Error::truncated;
    const Bytes noise = payload.first(noise_bytes);
    payload = payload.subspan(noise_bytes);
    const std::span<std::byte> wide{buffers.impl->wide, raw_bytes};
    if (raw_bytes == 0 || !buffers.impl->zstd.decompress(payload, wide))
        return Error::bad_value;
    return section::BodyDecoder(wide, noise, cell_steps, baseline, baseline_lanes, *buffers.impl, out).decode<true>(head.keeps);
}

} // namespace throng
