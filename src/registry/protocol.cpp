#include "throng/protocol.hpp"
#include "src/registry/message_table.hpp"
#include "throng/assert.hpp"
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <xxhash.h>

namespace throng {

/// Columns of `element_bytes` by 16 bytes of the row, in which they stand side by side.
static void group_columns(Layout& layout, u32 element_bytes) {
    const u32 positions = 16 / element_bytes;
    u32 placed = positions;
    for (u32 i = 0; i < layout.column_count; ++i) {
        Column& column = layout.columns[i];
        if (column.element_bytes != element_bytes)
            continue;
        if (placed == positions) {
            placed = 0;
            ColumnGroup& group = layout.groups[layout.group_count++] = {};
            group.element_bytes = element_bytes;
            group.offset_bytes = std::min(column.row_offset_bytes, layout.row_bytes - 16);
            std::memset(group.velocity, 0x80, sizeof group.velocity);
        }
        ++placed;
        ColumnGroup& group = layout.groups[layout.group_count - 1];
        column.group = static_cast<i8>(layout.group_count - 1);
        column.position = static_cast<u8>((column.row_offset_bytes - group.offset_bytes) / element_bytes);
        if (element_bytes == 2) {
            const u32 bits = column.angle_bits != 0 ? column.angle_bits : 16u;
            group.half[column.position] = static_cast<u16>(1u << (bits - 1));
            group.mask[column.position] = static_cast<u16>((1u << bits) - 1);
        }
    }
}

/// Columns that one kernel call can do together. One whose velocity is not in its group of 16-bit columns is coded by itself.
static void make_groups(Layout& layout) {
    layout.group_count = 0;
    for (Column& column : layout.columns)
        column.group = -1;
    layout.row_bytes = std::max(layout.row_bytes, 16u);
    group_columns(layout, 4);
    group_columns(layout, 2);
    for (u32 i = 0; i < layout.column_count; ++i) {
        Column& column = layout.columns[i];
        if (column.group < 0 || column.velocity_column < 0)
            continue;
        const Column& velocity = layout.columns[column.velocity_column];
        if (velocity.group != column.group || column.element_bytes != 2) {
            column.group = -1;
            continue;
        }
        ColumnGroup& group = layout.groups[column.group];
        group.velocity[2 * column.position] = static_cast<u8>(2 * velocity.position);
        group.velocity[2 * column.position + 1] = static_cast<u8>(2 * velocity.position + 1);
        group.factor_low[column.position] = static_cast<u16>(column.velocity_factor);
        group.factor_high[column.position] = static_cast<u16>(static_cast<u64>(column.velocity_factor) >> 16);
    }
}

void place_row_columns(Layout& layout) {
    u32 offset = 0;
    for (const u32 bytes : {8u, 4u, 2u})
        for (u32 i = 0; i < layout.column_count; ++i)
            if (layout.columns[i].element_bytes == bytes) {
                layout.columns[i].row_offset_bytes = offset;
                offset += bytes;
            }
    layout.row_bytes = (offset + 7) & ~7u;
    make_groups(layout);
}

struct Protocol::Impl {
    ProtocolConfig config;
    ComponentInfo components[component_count_max];
    u32 component_count = 0; // registered; may exceed the table until finish() refuses
    Array<MessageInfo*> messages; // builders point to them
    Layout layout;
    MessageTable table;
    u64 hash = 0;
    bool finished = false;
    char problem[160] = {};
    ComponentInfo overflow; // where registrations beyond the table go

    ~Impl() {
        for (MessageInfo* info : messages)
            delete info;
    }
    Error refuse(Error error, const char* name, const char* what, const char* kind = "component") {
        std::snprintf(problem, sizeof problem, "%s \"%s\": %s", kind, name, what);
        return error;
    }
    Error add_columns(LayoutComponent& out, const ComponentInfo& info);
    /// Null, or what is wrong with the field.
    const char* add_column(Column& column, const FieldInfo& field, i32 spatial_axis);
    Error link_velocities();
    Error add_messages();
    const char* add_message(MessageLayout& out, const MessageInfo& info);
    void hash_messages(XXH3_state_t* state) const;
    void compute_hash();
};

namespace {
constexpr double quantum_limit = 2147483000.0;

u32 integer_bytes(FieldType type) {
    switch (type) {
    case FieldType::int8:
    case FieldType::uint8:
    case FieldType::int16:
    case FieldType::uint16:
    case FieldType::boolean: return 2;
    case FieldType::int32:
    case FieldType::uint32: return 4;
    default: return 8;
    }
}

/// Of a whole value in the bit stream of a message.
u32 field_bits(FieldType type) {
    switch (type) {
    case FieldType::boolean: return 1;
    case FieldType::int8:
    case FieldType::uint8: return 8;
    case FieldType::int16:
    case FieldType::uint16: return 16;
    case FieldType::int32:
    case FieldType::uint32: return 32;
    default: return 64;
    }
}
} // namespace

/// Null, or what is wrong with the names of fields. Those without one are known by their place, so no name may look like one.
static const char* wrong_names(const FieldList& list) {
    for (u32 f = 0; f < list.field_count; ++f) {
        const char* const name = list.fields[f].name;
        if (!name)
            continue;
        if (name[0] == 0 || (name[0] >= '0' && name[0] <= '9') || std::strlen(name) >= ComponentInfo::name_bytes_max)
            return "the name of a field has 1 to 47 bytes, and no digit first";
        for (u32 other = 0; other < f; ++other)
            if (list.fields[other].name && std::strcmp(name, list.fields[other].name) == 0)
                return "two fields of one name";
    }
    return nullptr;
}

Protocol::Protocol(ProtocolConfig config) : impl_(new Impl) {
    impl_->config = config;
    std::memset(impl_->layout.index_of, 0xff, sizeof impl_->layout.index_of);
}
Protocol::~Protocol() { delete impl_; }

ComponentInfo* Protocol::add_component(const char* name, ComponentId id, std::size_t size_bytes) {
    THRONG_ASSERT(!impl_->finished);
    const u32 index = impl_->component_count++;
    ComponentInfo& info = index < component_count_max ? impl_->components[index] : impl_->overflow;
    std::snprintf(info.name, sizeof info.name, "%s", name);
    info.id = id;
    info.size_bytes = static_cast<u32>(size_bytes);
    return &info;
}

MessageInfo* Protocol::add_message(const char* name, u16 type) {
    THRONG_ASSERT(!impl_->finished);
    MessageInfo* info = impl_->messages.emplace_back(new MessageInfo);
    std::snprintf(info->name, sizeof info->name, "%s", name);
    info->type = type;
    return info;
}

const char* Protocol::Impl::add_column(Column& column, const FieldInfo& field, i32 spatial_axis) {
    u32 bytes = 2;
    switch (field.kind) {
    case FieldKind::range: {
        const Range& r = field.range;
        if (!(r.step > 0) || !(r.min < r.max) || !std::isfinite(r.min / r.step) || !std::isfinite(r.max / r.step))
            return "a Range needs min < max and step > 0";
        const double low = std::nearbyint(r.min / r.step), high = std::nearbyint(r.max / r.step);
        if (low < -quantum_limit || high > quantum_limit)
            return "a Range does not fit 32 bits";
        column.quantum_min = static_cast<i64>(low);
        column.quantum_max = static_cast<i64>(high);
        column.step = r.step;
        column.inverse_step = 1.0 / r.step;
        bytes = low >= -32768 && high <= 32767 ? 2 : 4;
        if (spatial_axis >= 0)
            bytes = config.wide_cells ? 4 : 2; // relative to the cell's origin
        break;
    }
    case FieldKind::angle:
        if (field.angle_bits < 1 || field.angle_bits > 16)
            return "an Angle has 1 to 16 bits";
        column.angle_bits = static_cast<u8>(field.angle_bits);
        break;
    case FieldKind::integer: bytes = integer_bytes(field.type); break;
    case FieldKind::reference: bytes = 8; break;
    }
    column.element_bytes = static_cast<u8>(bytes);
    column.width_bits = bytes == 2 ? 5 : bytes == 4 ? 6 : 7;
    column.spatial_axis = static_cast<i8>(spatial_axis);
    return nullptr;
}

Error Protocol::Impl::add_columns(LayoutComponent& out, const ComponentInfo& info) {
    out.info = &info;
    out.first_column = layout.column_count;
    out.column_count = info.field_count;
    out.opaque = info.opaque_bytes_max > 0;
    if (info.field_count > ComponentInfo::fields_max)
        return refuse(Error::limit_reached, info.name, "more than 16 fields");
    if (const char* wrong = wrong_names(info))
        return refuse(Error::bad_value, info.name, wrong);
    if (out.opaque && (info.opaque_bytes_max > opaque_bytes_max || !info.serialize || !info.deserialize))
        return refuse(Error::bad_value, info.name, "an opaque component needs two functions and 1 to 65536 bytes");
    if (out.opaque && info.field_count > 0)
        return refuse(Error::bad_value, info.name, "an opaque component has no fields");
    out.spatial = info.spatial_fields[0] != -1;
    if (out.spatial) {
        const i32 a = info.spatial_fields[0], b = info.spatial_fields[1];
        if (a < 0 || b < 0 || a == b || info.fields[a].kind != FieldKind::range || info.fields[b].kind != FieldKind::range)
            return refuse(Error::bad_value, info.name, "spatial axes must be two Range fields registered before");
        if (info.fields[a].range.step != info.fields[b].range.step || info.fields[a].range.min != info.fields[b].range.min ||
            info.fields[a].range.max != info.fields[b].range.max)
            return refuse(Error::bad_value, info.name, "both spatial axes need the same Range");
        if (layout.spatial_component >= 0)
            return refuse(Error::bad_value, info.name, "a protocol has one spatial component");
        const Range& r = info.fields[a].range;
        layout.spatial_component = static_cast<i32>(&out - layout.components);
        layout.spatial_step = r.step;
        layout.spatial_min = static_cast<i32>(std::nearbyint(r.min / r.step));
        layout.spatial_max = static_cast<i32>(std::nearbyint(r.max / r.step));
    }
    u32 offset = block_header_bytes;
    for (u32 f = 0; f < info.field_count; ++f) {
        if (layout.column_count == Layout::column_count_max)
            return refuse(Error::limit_reached, info.name, "more than 256 columns in all");
        Column& column = layout.columns[layout.column_count++];
        column = {};
        column.component = static_cast<u8>(&out - layout.components);
        column.field = static_cast<u8>(f);
        i32 axis = -1;
        if (out.spatial)
            axis = static_cast<i32>(f) == info.spatial_fields[0] ? 0 : static_cast<i32>(f) == info.spatial_fields[1] ? 1 : -1;
        if (const char* wrong = add_column(column, info.fields[f], axis))
            return refuse(Error::bad_value, info.name, wrong);
        column.offset_bytes = offset;
        offset += column.element_bytes * lane_count;
        out.references |= info.fields[f].kind == FieldKind::reference;
    }
    out.block_bytes = (offset + 63) & ~63u;
    return Error::none;
}

/// Finds the velocity columns of extrapolated components. The factor turns (velocity steps * ticks) into 2^-16 position steps.
Error Protocol::Impl::link_velocities() {
    for (u32 c = 0; c < layout.component_count; ++c) {
        const ComponentInfo& info = *layout.components[c].info;
        if (info.extrapolated_by == 0xffff)
            continue;
        const i32 source = layout.index_of[info.extrapolated_by & 0xff];
        if (!layout.components[c].spatial || source < 0)
            return refuse(Error::bad_value, info.name, "extrapolated_by needs spatial axes and a registered velocity component");
        const LayoutComponent& velocity = layout.components[source];
        for (u32 axis = 0; axis < 2; ++axis) {
            Column& column = layout.columns[layout.components[c].first_column + static_cast<u32>(info.spatial_fields[axis])];
            for (u32 f = 0; f < velocity.column_count; ++f) {
                const Column& candidate = layout.columns[velocity.first_column + f];
                if (velocity.info->fields[f].offset_bytes != info.extrapolated_offsets[axis] ||
                    velocity.info->fields[f].kind != FieldKind::range || candidate.spatial_axis >= 0)
                    continue;
                column.velocity_column = static_cast<i16>(velocity.first_column + f);
                column.velocity_factor =
                    static_cast<i64>(std::nearbyint(candidate.step / config.tick_hz / column.step * 65536.0));
            }
            if (column.velocity_column < 0 || column.velocity_factor > (i64(1) << 24))
                return refuse(Error::bad_value, info.name, "extrapolated_by needs Range fields of the velocity component");
        }
    }
    return Error::none;
}

const char* Protocol::Impl::add_message(MessageLayout& out, const MessageInfo& info) {
    const MessageOptions& options = info.options;
    const u32 route = static_cast<u32>(options.route);
    if (options.channel > Channel::ordered || route < 1 || route > 3)
        return "no such channel or route";
    if (options.bytes_max < 1 || options.bytes_max > message_bytes_limit)
        return "bytes_max is 1 to 65536";
    if (options.independent && options.waits_for_tick)
        return "an independent message waits for nothing";
    if (options.waits_for_tick && options.route == Route::to_server)
        return "a message to the server has no tick to wait for";
    if (info.has_rest && (!info.serialize || !info.deserialize))
        return "the rest needs two functions";
    out.info = &info;
    u32 bits = 0;
    for (u32 f = 0; f < info.field_count; ++f) {
        const FieldInfo& field = info.fields[f];
        if (field.kind == FieldKind::reference) {
            out.references[out.reference_count++] = &field;
            continue;
        }
        MessageField& value = out.values[out.value_count++];
        value.info = &field;
        if (const char* wrong = add_column(value.column, field, -1))
            return wrong;
        const Column& column = value.column;
        switch (field.kind) {
        case FieldKind::range:
            value.low = column.quantum_min;
            value.bits = static_cast<u32>(std::bit_width(static_cast<u64>(column.quantum_max - column.quantum_min)));
            break;
        case FieldKind::angle: value.bits = column.angle_bits; break;
        default:
            value.bits = field_bits(field.type);
            value.is_signed = field.type >= FieldType::int8 && field.type <= FieldType::int64;
        }
        bits += value.bits;
    }
    out.value_bytes = (bits + 7) / 8;
    const u32 tick_bytes = options.waits_for_tick ? 4 : 0;
    if (tick_bytes + out.reference_count * message_reference_bytes_max + out.value_bytes > options.bytes_max)
        return "its fields may need more than bytes_max";
    return nullptr;
}

Error Protocol::Impl::add_messages() {
    if (messages.size() > message_count_max)
        return refuse(Error::limit_reached, messages[message_count_max]->name, "more than 256 messages", "message");
    for (u32 m = 0; m < messages.size(); ++m) {
        const MessageInfo& info = *messages[m];
        if (table.find(info.type))
            return refuse(Error::bad_value, info.name, "registered twice", "message");
        for (u32 other = 0; other < m; ++other)
            if (std::strcmp(info.name, messages[other]->name) == 0)
                return refuse(Error::bad_value, info.name, "the name is taken", "message");
        if (info.field_count > FieldList::fields_max)
            return refuse(Error::limit_reached, info.name, "more than 16 fields", "message");
        if (const char* wrong = wrong_names(info))
            return refuse(Error::bad_value, info.name, wrong, "message");
        if (const char* wrong = add_message(table.layouts.emplace_back(), info))
            return refuse(Error::bad_value, info.name, wrong, "message");
        if (info.type >= table.index_of.size())
            table.index_of.resize(info.type + 1u, i16(-1));
        table.index_of[info.type] = static_cast<i16>(m);
        table.object_bytes_max = info.size_bytes > table.object_bytes_max ? info.size_bytes : table.object_bytes_max;
        table.object_alignment_max = info.alignment > table.object_alignment_max ? info.alignment : table.object_alignment_max;
    }
    return Error::none;
}

/// Nothing where there are none, so that a protocol without messages has the hash it would have without the feature.
void Protocol::Impl::hash_messages(XXH3_state_t* state) const {
    const auto add = [&](const auto& value) { XXH3_64bits_update(state, &value, sizeof value); };
    for (const MessageLayout& message : table.layouts) {
        const MessageInfo& info = *message.info;
        XXH3_64bits_update(state, info.name, std::strlen(info.name) + 1);
        add(info.options.channel);
        add(info.options.route);
        add(info.options.independent);
        add(info.options.waits_for_tick);
        add(info.options.bytes_max);
        add(info.has_rest);
        add(message.reference_count);
        add(message.value_count);
        for (u32 v = 0; v < message.value_count; ++v) {
            const MessageField& value = message.values[v];
            add(value.info->kind);
            add(value.bits);
            add(value.low);
            add(value.column.step);
            add(value.is_signed);
        }
    }
}

void Protocol::Impl::compute_hash() {
    XXH3_state_t* state = XXH3_createState();
    XXH3_64bits_reset(state);
    const auto add = [&](const auto& value) { XXH3_64bits_update(state, &value, sizeof value); };
    add(wire_format_version);
    add(config.tick_hz);
    add(config.wide_cells);
    for (u32 c = 0; c < layout.component_count; ++c) {
        const ComponentInfo& info = components[c];
        XXH3_64bits_update(state, info.name, std::strlen(info.name) + 1);
        add(info.opaque_bytes_max);
        add(info.field_count);
        for (u32 f = 0; f < info.field_count; ++f) {
            const Column& column = layout.columns[layout.components[c].first_column + f];
            add(info.fields[f].kind);
            add(column.element_bytes);
            add(column.angle_bits);
            add(column.quantum_min);
            add(column.quantum_max);
            add(column.step);
            add(column.spatial_axis);
            add(column.velocity_column);
            add(column.velocity_factor);
        }
    }
    hash_messages(state);
    XXH3_64bits_update(state, config.dictionary.data(), config.dictionary.size());
    hash = XXH3_64bits_digest(state);
    XXH3_freeState(state);
}

Error Protocol::finish() {
    THRONG_ASSERT(!impl_->finished);
    Impl& impl = *impl_;
    Layout& layout = impl.layout;
    if (impl.config.tick_hz < 1 || impl.config.tick_hz > 1000)
        return impl.refuse(Error::bad_value, "", "tick_hz is 1 to 1000");
    if (impl.component_count > component_count_max)
        return impl.refuse(Error::limit_reached, impl.overflow.name, "more than 32 components");
    layout.component_count = impl.component_count;
    layout.tick_hz = impl.config.tick_hz;
    for (u32 c = 0; c < impl.component_count; ++c) {
        const ComponentInfo& info = impl.components[c];
        if (info.id >= 256 || layout.index_of[info.id] >= 0)
            return impl.refuse(Error::bad_value, info.name, "registered twice");
        for (u32 other = 0; other < c; ++other)
            if (std::strcmp(info.name, impl.components[other].name) == 0)
                return impl.refuse(Error::bad_value, info.name, "the name is taken");
        layout.index_of[info.id] = static_cast<i16>(c);
        if (info.id == detail::known_component_id<Lasting, default_max_components>())
            layout.lasting_component = static_cast<i32>(c);
        if (const Error error = impl.add_columns(layout.components[c], info); error != Error::none)
            return error;
    }
    if (const Error error = impl.link_velocities(); error != Error::none)
        return error;
    place_row_columns(layout);
    if (const Error error = impl.add_messages(); error != Error::none)
        return error;
    impl.compute_hash();
    impl.finished = true;
    return Error::none;
}

const char* Protocol::problem() const { return impl_->problem; }
u64 Protocol::hash() const {
    THRONG_ASSERT(impl_->finished);
    return impl_->hash;
}
u32 Protocol::tick_hz() const { return impl_->config.tick_hz; }
std::span<const ComponentInfo> Protocol::components() const { return {impl_->components, impl_->layout.component_count}; }
std::span<const std::byte> Protocol::dictionary() const { return impl_->config.dictionary; }
const Layout& Protocol::layout() const {
    THRONG_ASSERT(impl_->finished);
    return impl_->layout;
}
const MessageTable& Protocol::messages() const {
    THRONG_ASSERT(impl_->finished);
    return impl_->table;
}

} // namespace throng
