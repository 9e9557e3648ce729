// Registrations and what finish() derives from them: columns, messages.
#include "src/registry/field_io.hpp"
#include "src/registry/protocol_impl.hpp"
#include "throng/assert.hpp"
#include "throng/spawn_signature.hpp"
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
        GroupColumn& grouped = layout.grouped[i];
        grouped.group = static_cast<i16>(layout.group_count - 1);
        const u32 first_byte = column.row_offset_bytes - group.offset_bytes;
        grouped.bytes = static_cast<u16>(((1u << element_bytes) - 1) << first_byte);
        grouped.position = static_cast<u8>(first_byte / element_bytes);
        grouped.element_bytes = static_cast<u8>(element_bytes);
        if (element_bytes == 2) {
            const u32 bits = column.angle_bits != 0 ? column.angle_bits : 16u;
            group.half[grouped.position] = static_cast<u16>(1u << (bits - 1));
            group.mask[grouped.position] = static_cast<u16>((1u << bits) - 1);
        }
    }
}

/// Columns that one kernel call can do together. One whose velocity is not in its group of 16-bit columns is coded by itself.
static void make_groups(Layout& layout) {
    layout.group_count = 0;
    for (GroupColumn& column : layout.grouped)
        column = {};
    layout.row_bytes = std::max(layout.row_bytes, 16u);
    group_columns(layout, 4);
    group_columns(layout, 2);
    for (u32 i = 0; i < layout.column_count; ++i) {
        const Column& column = layout.columns[i];
        GroupColumn& grouped = layout.grouped[i];
        if (grouped.group < 0 || column.velocity_column < 0)
            continue;
        const GroupColumn& velocity = layout.grouped[column.velocity_column];
        if (velocity.group != grouped.group || column.element_bytes != 2) {
            grouped.group = -1;
            continue;
        }
        ColumnGroup& group = layout.groups[grouped.group];
        group.velocity[2 * grouped.position] = static_cast<u8>(2 * velocity.position);
        group.velocity[2 * grouped.position + 1] = static_cast<u8>(2 * velocity.position + 1);
        group.factor_low[grouped.position] = static_cast<u16>(column.velocity_factor);
        group.factor_high[grouped.position] = static_cast<u16>(static_cast<u64>(column.velocity_factor) >> 16);
    }
    layout.in_groups = 0;
    for (u32 c = 0; c < layout.component_count; ++c) {
        const LayoutComponent& component = layout.components[c];
        const u32 end = component.first_column + component.column_count;
        layout.column_ends[c] = static_cast<u16>(end);
        bool all = !component.opaque;
        for (u32 i = component.first_column; i < end; ++i)
            all &= layout.grouped[i].group >= 0;
        layout.in_groups |= static_cast<u32>(all) << c;
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

namespace {
constexpr double quantum_limit = 2147483000.0;
constexpr const char* opaque_problem = "an opaque component needs two functions and 1 to 65536 bytes";
constexpr const char* velocity_problem = "extrapolated_by needs Range fields of the velocity component";

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

Error Protocol::Impl::refuse(Error error, const char* name, const char* what, const char* kind) {
    std::snprintf(problem, sizeof problem, "%s \"%s\": %s", kind, name, what);
    return error;
}

Protocol::Protocol(ProtocolConfig config) : impl_(new Impl) {
    impl_->config = config;
    if (!config.dictionary.empty())
        impl_->dictionary_hash = XXH3_64bits(config.dictionary.data(), config.dictionary.size());
    std::memset(impl_->layout.index_of, 0xff, sizeof impl_->layout.index_of);
    std::memset(impl_->layout.next_of_type, 0xff, sizeof impl_->layout.next_of_type);
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

void Protocol::add_bundle(std::span<const ComponentId> ids, const ComponentRule& rule) {
    THRONG_ASSERT(!impl_->finished);
    for (const ComponentId id : ids) {
        u32 c = 0;
        const u32 count = std::min(impl_->component_count, component_count_max);
        while (c < count && impl_->components[c].id != id)
            ++c;
        if (c < count)
            RuleBuilder<OpaqueBuilder>(&impl_->components[c]).when(rule.filter, rule.priority);
        else
            impl_->bundle_incomplete = true;
    }
}

MessageInfo* Protocol::add_message(const char* name, u16 type) {
    THRONG_ASSERT(!impl_->finished);
    MessageInfo* info = impl_->messages.emplace_back(new MessageInfo);
    std::snprintf(info->name, sizeof info->name, "%s", name);
    info->type = type;
    return info;
}

void Protocol::list_messages(Route way, std::span<const u16> types) {
    THRONG_ASSERT(!impl_->finished);
    Impl::ListedMessages& listed = way == Route::to_server ? impl_->listed_up : impl_->listed_down;
    listed.given = true;
    listed.types.append(types.data(), types.size());
}

void Protocol::custom(std::string_view data) {
    THRONG_ASSERT(!impl_->finished);
    impl_->custom_hash = XXH3_64bits_withSeed(data.data(), data.size(), impl_->custom_hash);
}

const char* Protocol::Impl::add_column(Column& column, const FieldInfo& field, i32 spatial_axis) {
    u32 bytes = 2;
    column.unknown = field.offset_bytes == no_offset;
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
    out.converted = info.form.size_bytes > 0;
    layout.diffs |= static_cast<u32>(info.diffs.history > 0) << (&out - layout.components);
    if (info.field_count > ComponentInfo::fields_max)
        return refuse(Error::limit_reached, info.name, "more than 16 fields");
    if (const char* wrong = wrong_names(info))
        return refuse(Error::bad_value, info.name, wrong);
    if (out.opaque && info.opaque_bytes_max > opaque_bytes_max)
        return refuse(Error::bad_value, info.name, opaque_problem);
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
        layout.spatial_component = static_cast<i32>(&out - layout.components);
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
    if (out.spatial) {
        const Column& axis = layout.columns[out.first_column + static_cast<u32>(info.spatial_fields[0])];
        layout.spatial_step = axis.step;
        layout.spatial_min = static_cast<i32>(axis.quantum_min);
        layout.spatial_max = static_cast<i32>(axis.quantum_max);
    }
    return Error::none;
}

/// The velocity columns of the extrapolated component, as it was registered here.
Error Protocol::Impl::find_velocities() {
    for (u32 c = 0; c < layout.component_count; ++c) {
        const ComponentInfo& info = *layout.components[c].info;
        if (info.extrapolated_by == no_component)
            continue;
        const i32 source = layout.index_of[info.extrapolated_by & 0xff];
        if (!layout.components[c].spatial || source < 0 || layout.components[source].converted)
            return refuse(Error::bad_value, info.name, "extrapolated_by needs spatial axes and a registered velocity component");
        const LayoutComponent& velocity = layout.components[source];
        for (u32 axis = 0; axis < 2; ++axis) {
            for (u32 f = 0; f < velocity.column_count; ++f)
                if (velocity.info->fields[f].offset_bytes == info.extrapolated_offsets[axis])
                    velocity_columns[axis] = static_cast<i16>(velocity.first_column + f);
            if (velocity_columns[axis] < 0)
                return refuse(Error::bad_value, info.name, velocity_problem);
        }
    }
    return Error::none;
}

/// The factor turns (velocity steps * ticks) into 2^-16 position steps.
Error Protocol::Impl::link_velocities() {
    if (velocity_columns[0] < 0)
        return Error::none;
    const LayoutComponent& component = layout.components[layout.spatial_component];
    for (u32 axis = 0; axis < 2; ++axis) {
        Column& column = layout.columns[component.first_column + static_cast<u32>(component.info->spatial_fields[axis])];
        const Column& velocity = layout.columns[velocity_columns[axis]];
        const double factor = std::nearbyint(velocity.step / config.tick_hz / column.step * 65536.0);
        if (layout.components[velocity.component].info->fields[velocity.field].kind != FieldKind::range || velocity.spatial_axis >= 0 ||
            !(factor <= double(1 << 24)))
            return refuse(Error::bad_value, component.info->name, velocity_problem);
        column.velocity_column = velocity_columns[axis];
        column.velocity_factor = static_cast<i64>(factor);
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
        for (u32 other = 0; other < m; ++other)
            if (std::strcmp(info.name, messages[other]->name) == 0)
                return refuse(Error::bad_value, info.name, "the name is taken", "message");
        if (info.field_count > FieldList::fields_max)
            return refuse(Error::limit_reached, info.name, "more than 16 fields", "message");
        if (const char* wrong = wrong_names(info))
            return refuse(Error::bad_value, info.name, wrong, "message");
        MessageLayout& layout_of = message_table.layouts.emplace_back();
        layout_of.handler = static_cast<i32>(m);
        if (const char* wrong = add_message(layout_of, info))
            return refuse(Error::bad_value, info.name, wrong, "message");
        message_table.object_bytes_max = std::max(message_table.object_bytes_max, info.size_bytes);
        message_table.object_alignment_max = std::max(message_table.object_alignment_max, info.alignment);
        if (info.type == no_message_type)
            continue;
        if (info.type >= message_table.index_of.size())
            message_table.index_of.resize(info.type + 1u, i16(-1));
        message_table.index_of[info.type] = static_cast<i16>(m);
    }
    return Error::none;
}

u64 value_code(const MessageField& field, const std::byte* message) {
    if (field.column.unknown)
        return field.absent;
    i64 value = 0;
    read_field(*field.info, field.column, &message, 1, &value);
    return static_cast<u64>(value - field.low) & detail::low_bits(field.bits);
}

/// What a client writes that lacks a field: its value in a message made from nothing.
void Protocol::Impl::set_defaults(MessageLayout& message) {
    const MessageInfo& info = *message.info;
    const std::align_val_t alignment{info.alignment};
    auto* const object = static_cast<std::byte*>(::operator new(info.size_bytes, alignment));
    info.construct(object);
    for (u32 v = 0; v < message.value_count; ++v)
        message.values[v].absent = value_code(message.values[v], object);
    info.destroy(object);
    ::operator delete(object, alignment);
}

namespace {
bool is_signature(const ComponentInfo& info) {
    return info.id == detail::known_component_id<SpawnSignature, default_max_components>();
}
} // namespace

/// Null, or what is wrong with the registration of a SpawnSignature.
const char* Protocol::Impl::wrong_signature(u32 component) const {
    const ComponentInfo& info = components[component];
    if (!is_signature(info))
        return nullptr;
    for (u32 other = 0; other < component; ++other)
        if (components[other].id == info.id)
            return "registered twice: SpawnSignature has one registration";
    const FieldInfo& field = info.fields[0];
    if (info.opaque_bytes_max > 0 || info.form.size_bytes > 0 || info.field_count != 1 || field.kind != FieldKind::integer)
        return "SpawnSignature has one field, its hash, and travels as it is";
    return nullptr;
}

/// Null, or what is wrong with a component's rules, alone and beside other registrations of its type.
const char* Protocol::Impl::wrong_rules(u32 component) const {
    const ComponentInfo& info = components[component];
    const bool placed = info.spatial_fields[0] != -1 || info.id == detail::known_component_id<Lasting, default_max_components>();
    if (info.rule_count > ComponentInfo::rules_max)
        return "more than 8 rules";
    if (placed && (info.rule_count > 0 || info.once))
        return "the spatial component and Lasting have no rules, and are sent on change";
    if (info.resource.version && info.rule_count > 0)
        return "a resource has no rules";
    for (u32 r = 0; r < info.rule_count; ++r)
        if (info.rules[r].filter.wrong)
            return info.rules[r].filter.wrong;
    for (u32 r = 1; r < info.rule_count; ++r)
        for (u32 other = 0; other < r; ++other)
            if (info.rules[r].filter == info.rules[other].filter)
                return "two rules let the same entities through";
    // A registration without rules is one with a rule that lets all entities through.
    const ComponentRule everyone[1] = {};
    const auto rules_of = [&](const ComponentInfo& of) {
        return std::span<const ComponentRule>(of.rule_count > 0 ? of.rules : everyone, std::max(of.rule_count, 1u));
    };
    for (u32 other = 0; other < component; ++other) {
        if (components[other].id != info.id)
            continue;
        if (placed || components[other].spatial_fields[0] != -1)
            return "registered twice: the spatial component and Lasting have one registration";
        for (const ComponentRule& a : rules_of(info))
            for (const ComponentRule& b : rules_of(components[other]))
                if (a.filter == b.filter)
                    return "registered twice, and no rule tells the two apart";
    }
    return nullptr;
}

/// Null, or what is wrong with a component's diffs.
static const char* wrong_diffs(const ComponentInfo& info) {
    if (info.diffs.history == 0)
        return nullptr;
    if (info.diffs.other_type)
        return "its diffs apply to another type";
    if (!info.diffs.serialize || !info.diffs.deserialize || !info.diffs.apply)
        return "diffs need three functions";
    if (info.diffs.history > diff_history_max)
        return "a history of diffs has 1 to 4096 of them";
    return info.immutable || info.once ? "what is immutable or sent once has no diffs" : nullptr;
}

const char* Protocol::Impl::wrong_listing(const MessageInfo& message) const {
    const u32 route = static_cast<u32>(message.options.route);
    const bool up = route & static_cast<u32>(Route::to_server), down = route & static_cast<u32>(Route::to_client);
    if (listed_up.given && up != listed_up.has(message.type))
        return up ? "the list of messages to the server lacks it" : "the list of messages to the server has it, and it does not go there";
    if (listed_down.given && down != listed_down.has(message.type))
        return down ? "the list of messages to clients lacks it" : "the list of messages to clients has it, and it does not go there";
    return nullptr;
}

bool Protocol::Impl::lists_unknown() const {
    const auto known = [&](u16 type) {
        return std::any_of(messages.begin(), messages.end(), [&](const MessageInfo* info) { return info->type == type; });
    };
    return !std::all_of(listed_up.types.begin(), listed_up.types.end(), known) ||
           !std::all_of(listed_down.types.begin(), listed_down.types.end(), known);
}

Error Protocol::Impl::check_types() {
    if (component_count > component_count_max)
        return refuse(Error::limit_reached, overflow.name, "more than 32 components");
    if (bundle_incomplete)
        return refuse(Error::bad_value, "", "a bundle names a type that was not registered before it");
    for (u32 c = 0; c < component_count; ++c) {
        const ComponentInfo& info = components[c];
        if (info.id >= std::size(layout.index_of))
            return refuse(Error::bad_value, info.name, "registered twice");
        if (const char* wrong = wrong_signature(c))
            return refuse(Error::bad_value, info.name, wrong);
        if (const char* wrong = wrong_rules(c))
            return refuse(Error::bad_value, info.name, wrong);
        if (info.opaque_bytes_max > 0 && (!info.serialize || !info.deserialize))
            return refuse(Error::bad_value, info.name, opaque_problem);
        if (const char* wrong = wrong_diffs(info))
            return refuse(Error::bad_value, info.name, wrong);
        if (info.related_fields >> 31)
            return refuse(Error::bad_value, info.name, "related() names a field that is no reference, or not registered before");
    }
    for (u32 m = 0; m < messages.size(); ++m) {
        const MessageInfo& info = *messages[m];
        for (u32 other = 0; other < m; ++other)
            if (messages[other]->type == info.type)
                return refuse(Error::bad_value, info.name, "registered twice", "message");
        if (info.has_rest && (!info.serialize || !info.deserialize))
            return refuse(Error::bad_value, info.name, "the rest needs two functions", "message");
        if (const char* wrong = wrong_listing(info))
            return refuse(Error::bad_value, info.name, wrong, "message");
    }
    if (lists_unknown())
        return refuse(Error::bad_value, "", "message_lists names a type that is not registered", "message");
    return Error::none;
}

/// Enters a component under its type, behind others of that type, and its rules.
void Protocol::Impl::add_of_type(u32 component) {
    const ComponentInfo& info = components[component];
    const u32 bit = 1u << component;
    if (i16& first = layout.index_of[info.id]; first < 0) {
        first = static_cast<i16>(component);
    } else {
        i16 last = first;
        while (layout.next_of_type[last] >= 0)
            last = layout.next_of_type[last];
        layout.next_of_type[last] = static_cast<i16>(component);
        layout.several |= bit | 1u << last;
        layout.ruled |= layout.several;
    }
    if (info.once)
        layout.once |= bit;
    if (info.resource.version)
        layout.resources |= bit;
    if (info.immutable)
        layout.immutable |= bit;
    if (info.rule_count > 0 || info.once)
        layout.ruled |= bit;
    for (u32 r = 0; r < info.rule_count; ++r) {
        layout.rule_types |= info.rules[r].filter.all;
        layout.rule_types |= info.rules[r].filter.none;
        layout.rule_types |= info.rules[r].filter.any;
    }
}

u32 denied_components(const Layout& layout, const Signature<default_max_components>& types) {
    u32 denied = 0;
    for (u32 left = layout.ruled; left; left &= left - 1) {
        const u32 first = static_cast<u32>(std::countr_zero(left));
        if (!layout.is_first_of_type(first))
            continue;
        i32 chosen = -1, highest = 0;
        for (i32 c = static_cast<i32>(first); c >= 0; c = layout.next_of_type[c]) {
            const ComponentInfo& info = *layout.components[c].info;
            denied |= 1u << c;
            const auto offer = [&](i32 priority) {
                if (chosen >= 0 && priority <= highest)
                    return;
                chosen = c;
                highest = priority;
            };
            if (info.rule_count == 0)
                offer(ComponentRule{}.priority);
            for (u32 r = 0; r < info.rule_count; ++r)
                if (info.rules[r].filter.matches(types))
                    offer(info.rules[r].priority);
        }
        if (chosen >= 0)
            denied &= ~(1u << chosen);
    }
    return denied;
}

Error Protocol::Impl::find_audiences() {
    for (u32 c = 0; c < component_count; ++c) {
        const Audience audience = components[c].audience;
        if (audience == Audience::everyone)
            continue;
        if (components[c].spatial_fields[0] != -1 || static_cast<i32>(c) == layout.lasting_component)
            return refuse(Error::bad_value, components[c].name, "an audience is not for the spatial component, nor for Lasting");
        u32& set = audience == Audience::owner    ? layout.of_owner
                   : audience == Audience::others ? layout.of_others
                                                  : layout.of_group;
        set |= 1u << c;
    }
    return Error::none;
}

/// The column of a SpawnSignature's hash. A server's may lack it.
void Protocol::Impl::find_signature(const LayoutComponent& component) {
    for (u32 i = component.first_column; i < component.first_column + component.column_count; ++i)
        if (!layout.columns[i].unknown)
            layout.signature_column = static_cast<i32>(i);
}

Error Protocol::Impl::derive() {
    if (config.tick_hz < 1 || config.tick_hz > 1000)
        return refuse(Error::bad_value, "", "tick_hz is 1 to 1000");
    layout.component_count = component_count;
    layout.tick_hz = config.tick_hz;
    for (u32 c = 0; c < component_count; ++c) {
        const ComponentInfo& info = components[c];
        for (u32 other = 0; other < c; ++other)
            if (std::strcmp(info.name, components[other].name) == 0)
                return refuse(Error::bad_value, info.name, "the name is taken");
        layout.all |= 1u << c;
        if (info.id == no_component) {
            layout.unknown |= 1u << c;
        } else {
            add_of_type(c);
            if (info.id == detail::known_component_id<Lasting, default_max_components>())
                layout.lasting_component = static_cast<i32>(c);
        }
        if (const Error error = add_columns(layout.components[c], info); error != Error::none)
            return error;
        if (info.id != no_component && is_signature(info))
            find_signature(layout.components[c]);
    }
    if (const Error error = find_velocities(); error != Error::none)
        return error;
    if (const Error error = link_velocities(); error != Error::none)
        return error;
    place_row_columns(layout);
    return add_messages();
}

/// Of this build: clusters are the server's.
Error Protocol::Impl::add_related() {
    for (u32 c = 0; c < component_count; ++c)
        for (u32 left = components[c].related_fields; left; left &= left - 1) {
            if (layout.related_count == related_max)
                return refuse(Error::limit_reached, components[c].name, "more than 8 related fields");
            const u32 field = static_cast<u32>(std::countr_zero(left));
            layout.related[layout.related_count++] = {c, components[c].fields[field].offset_bytes};
            for (u32 other = 0; other < component_count; ++other) // all names of the type
                layout.related_components |= u32(components[other].id == components[c].id) << other;
        }
    return Error::none;
}

Error Protocol::finish() {
    THRONG_ASSERT(!impl_->finished);
    Impl& impl = *impl_;
    if (const Error error = impl.check_types(); error != Error::none)
        return error;
    if (const Error error = impl.derive(); error != Error::none)
        return error;
    if (const Error error = impl.add_related(); error != Error::none)
        return error;
    if (const Error error = impl.find_audiences(); error != Error::none)
        return error;
    for (MessageLayout& message : impl.message_table.layouts)
        impl.set_defaults(message);
    impl.write_table();
    impl.finished = true;
    return Error::none;
}

Error Protocol::read_table(std::span<const std::byte> table, const Protocol& own) {
    THRONG_ASSERT(!impl_->finished && own.impl_->finished);
    const Error error = impl_->read_table(table, *own.impl_);
    impl_->finished = error == Error::none;
    return error;
}

const char* Protocol::problem() const { return impl_->problem; }
ProtocolHash Protocol::hash() const {
    THRONG_ASSERT(impl_->finished);
    return impl_->hash;
}
std::span<const std::byte> Protocol::table() const {
    THRONG_ASSERT(impl_->finished);
    return {impl_->table.data(), impl_->table.size()};
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
    return impl_->message_table;
}

} // namespace throng
