// The table of a protocol: all that a peer must know to read what it says (docs/wire.md 6). A client that reads a server's compares it with
// its own registrations, and becomes able to read that server, or names what differs.
#include "src/registry/protocol_impl.hpp"
#include "throng/wire.hpp"
#include <cmath>
#include <cstdio>
#include <cstring>
#include <xxhash.h>

namespace throng {
namespace {

constexpr u32 name_length_max = ComponentInfo::name_bytes_max - 1;
constexpr u32 flag_independent = 16, flag_waits = 32, flag_rest = 64;
constexpr u32 flag_diffs = 1u << 17; // beside the largest opaque size
enum Spatial : u8 { spatial_none, spatial_narrow, spatial_wide };

u32 flags_of(const MessageInfo& info) {
    const MessageOptions& options = info.options;
    return static_cast<u32>(options.channel) | static_cast<u32>(options.route) << 2 | (options.independent ? flag_independent : 0) |
           (options.waits_for_tick ? flag_waits : 0) | (info.has_rest ? flag_rest : 0);
}
bool to_server(const MessageInfo& info) {
    return (static_cast<u32>(info.options.route) & static_cast<u32>(Route::to_server)) != 0;
}
u32 absent_bytes(const MessageField& field) {
    return (field.bits + 7) / 8;
}

class TableWriter {
public:
    explicit TableWriter(Array<std::byte>& out) : out_(out) {}

    void integer(u64 value, u32 bytes) {
        for (u32 i = 0; i < bytes; ++i)
            out_.push_back(static_cast<std::byte>(value >> 8 * i));
    }
    void varint(u32 value) {
        std::byte bytes[varint_bytes_max];
        out_.append(bytes, write_varint(bytes, value));
    }
    void name(const char* text) {
        const std::size_t length = text ? std::strlen(text) : 0;
        integer(length, 1);
        out_.append(reinterpret_cast<const std::byte*>(text), static_cast<u32>(length));
    }
    void field(const FieldInfo& field, const Column& column) {
        name(field.name);
        integer(static_cast<u64>(field.kind), 1);
        switch (field.kind) {
        case FieldKind::range: {
            u64 step = 0;
            std::memcpy(&step, &column.step, sizeof step);
            integer(static_cast<u64>(column.quantum_min), 4);
            integer(static_cast<u64>(column.quantum_max), 4);
            integer(step, 8);
            break;
        }
        case FieldKind::angle: integer(column.angle_bits, 1); break;
        case FieldKind::integer: integer(static_cast<u64>(field.type) - static_cast<u64>(FieldType::int8), 1); break;
        case FieldKind::reference: break;
        }
    }

private:
    Array<std::byte>& out_;
};

/// Total: beyond the end it reads zeros, and has failed.
class TableReader {
public:
    explicit TableReader(Bytes in) : left_(in) {}

    u64 integer(u32 bytes) {
        if (left_.size() < bytes)
            return fail();
        u64 value = 0;
        for (u32 i = 0; i < bytes; ++i)
            value |= static_cast<u64>(left_[i]) << 8 * i;
        left_ = left_.subspan(bytes);
        return value;
    }
    u32 byte() { return static_cast<u32>(integer(1)); }
    u32 varint() {
        u32 value = 0;
        if (failed_ || throng::read_varint(left_, value) != Error::none)
            return static_cast<u32>(fail());
        return value;
    }
    /// A count or an index, at most `max`.
    u32 number(u32 max) {
        const u32 value = varint();
        return value <= max ? value : static_cast<u32>(fail());
    }
    /// `out` has room for name_length_max bytes and a zero. Returns the length.
    u32 name(char* out) {
        const u32 length = byte();
        if (length > name_length_max || length > left_.size())
            return static_cast<u32>(fail());
        if (length > 0)
            std::memcpy(out, left_.data(), length);
        out[length] = 0;
        left_ = left_.subspan(length);
        return std::strlen(out) == length ? length : static_cast<u32>(fail());
    }
    u64 fail() {
        failed_ = true;
        left_ = {};
        return 0;
    }
    bool failed() const { return failed_; }
    bool finished() const { return !failed_ && left_.empty(); }

private:
    Bytes left_;
    bool failed_ = false;
};

/// The field of `own` that stands for field `index` of `theirs`: that of the same name; else that in the same place, where one of the two
/// has no name. Or -1.
i32 find_field(const FieldList& own, const FieldList& theirs, u32 index) {
    const char* const name = theirs.fields[index].name;
    const auto named = [](const FieldList& list, const char* wanted) {
        for (u32 f = 0; f < list.field_count; ++f)
            if (list.fields[f].name && std::strcmp(list.fields[f].name, wanted) == 0)
                return static_cast<i32>(f);
        return -1;
    };
    if (name)
        if (const i32 found = named(own, name); found >= 0)
            return found;
    if (index >= own.field_count)
        return -1;
    const char* const own_name = own.fields[index].name;
    if (name && own_name)
        return -1;
    return own_name && named(theirs, own_name) >= 0 ? -1 : static_cast<i32>(index);
}

/// Reads another's protocol into registrations, as this build sees them.
class TableMatcher {
public:
    TableMatcher(Bytes table, Protocol::Impl& theirs, const Protocol::Impl& own) : in_(table), theirs_(theirs), own_(own) {
        theirs_.names.reserve(static_cast<u32>(table.size()) + name_length_max + 1); // names stay where they are
    }

    Error read() {
        if (const u64 version = in_.integer(4); version != wire_format_version && !in_.failed())
            return differs("wire format version: %u there, %u here", static_cast<u32>(version), wire_format_version);
        theirs_.config.tick_hz = static_cast<u32>(in_.integer(2));
        theirs_.dictionary_hash = in_.integer(8);
        theirs_.custom_hash = in_.integer(8);
        theirs_.component_count = in_.number(Protocol::component_count_max);
        for (u32 c = 0; c < theirs_.component_count; ++c)
            read_component(theirs_.components[c]);
        read_spatial();
        const u32 message_count = in_.number(Protocol::message_count_max);
        for (u32 m = 0; m < message_count && !in_.failed(); ++m)
            read_message(*theirs_.messages.emplace_back(new MessageInfo));
        if (!in_.finished())
            return Error::bad_value;
        if (theirs_.derive() != Error::none)
            return Error::bad_value;
        u32 next = 0;
        for (MessageLayout& message : theirs_.message_table.layouts) {
            const MessageLayout* const known = own_.message_table.find(message.info->type);
            message.handler = known ? static_cast<i32>(own_.message_table.number(*known)) : -1;
            if (to_server(*message.info))
                for (u32 v = 0; v < message.value_count; ++v)
                    message.values[v].absent = absent_[next++];
        }
        theirs_.write_table();
        return Error::none;
    }

    /// What is not compatible, or none.
    Error compare() {
        if (theirs_.config.tick_hz != own_.config.tick_hz)
            return differs("tick_hz: %u there, %u here", theirs_.config.tick_hz, own_.config.tick_hz);
        if (theirs_.dictionary_hash != own_.dictionary_hash)
            return differs("dictionary: another one");
        if (theirs_.custom_hash != own_.custom_hash)
            return differs("custom data: other");
        for (u32 c = 0; c < theirs_.component_count; ++c) {
            const ComponentInfo& info = theirs_.components[c];
            const ComponentInfo* const known = own_component(info.name);
            if (!known)
                continue;
            if ((known->opaque_bytes_max > 0) != (info.opaque_bytes_max > 0))
                return differs("component \"%s\": opaque on one side only", info.name);
            if (info.diffs.history > 0 && known->diffs.history == 0)
                return differs("component \"%s\": without diffs here", info.name);
            if (const Error error = compare_fields("component", info.name, *known, info); error != Error::none)
                return error;
        }
        for (const MessageInfo* const info : theirs_.messages) {
            const MessageInfo* const known = own_message(info->name);
            if (!known)
                continue;
            if (flags_of(*known) != flags_of(*info))
                return differs("message \"%s\": another channel, route, option or rest", info->name);
            if (const Error error = compare_fields("message", info->name, *known, *info); error != Error::none)
                return error;
        }
        return Error::none;
    }

private:
    template <class... Values>
    Error differs(const char* format, Values... values) {
        std::snprintf(theirs_.problem, sizeof theirs_.problem, format, values...);
        return Error::wrong_protocol;
    }
    Error differs(const char* text) { return differs("%s", text); }

    Error compare_fields(const char* kind, const char* name, const FieldList& own, const FieldList& theirs) {
        for (u32 f = 0; f < theirs.field_count; ++f) {
            const i32 found = find_field(own, theirs, f);
            if (found < 0)
                continue;
            const FieldInfo &a = own.fields[found], &b = theirs.fields[f];
            if (a.kind == b.kind && (a.kind != FieldKind::integer || a.type == b.type))
                continue;
            char place[8];
            std::snprintf(place, sizeof place, "%u", f % 100);
            return differs("%s \"%s\", field \"%s\": another kind or type", kind, name, a.name ? a.name : place);
        }
        return Error::none;
    }

    const ComponentInfo* own_component(const char* name) const {
        for (u32 c = 0; c < own_.component_count; ++c)
            if (std::strcmp(own_.components[c].name, name) == 0)
                return &own_.components[c];
        return nullptr;
    }
    const MessageInfo* own_message(const char* name) const {
        for (const MessageInfo* const info : own_.messages)
            if (std::strcmp(info->name, name) == 0)
                return info;
        return nullptr;
    }

    void read_component(ComponentInfo& info) {
        in_.name(info.name);
        const ComponentInfo* const known = own_component(info.name);
        info.id = known ? known->id : no_component;
        const u32 size = in_.number(flag_diffs | opaque_bytes_max);
        const bool diffs = (size & flag_diffs) != 0;
        info.opaque_bytes_max = size & ~flag_diffs;
        if (info.opaque_bytes_max > opaque_bytes_max || (diffs && info.opaque_bytes_max == 0))
            in_.fail();
        if (info.opaque_bytes_max == 0)
            read_fields(info, known);
        info.diffs.history = diffs; // it is the server that keeps them
        if (!known)
            return;
        info.size_bytes = known->size_bytes;
        info.serialize = known->serialize;
        info.deserialize = known->deserialize;
        info.deserialize_in_place = known->deserialize_in_place;
        info.consume = known->consume;
        if (diffs && known->diffs.history > 0)
            info.diffs = known->diffs;
        info.form = known->form;
        info.resource = known->resource;
        info.immutable = known->immutable;
        info.ensure_pool = known->ensure_pool;
    }

    /// Places and types are those of `known`, where it has the field.
    void read_fields(FieldList& list, const FieldList* known) {
        list.field_count = in_.byte();
        if (list.field_count > FieldList::fields_max)
            list.field_count = static_cast<u32>(in_.fail());
        for (u32 f = 0; f < list.field_count; ++f)
            read_field(list.fields[f]);
        for (u32 f = 0; f < list.field_count; ++f) {
            FieldInfo& field = list.fields[f];
            const i32 found = known ? find_field(*known, list, f) : -1;
            field.offset_bytes = found >= 0 ? known->fields[found].offset_bytes : no_offset;
            if (found >= 0 && field.kind != FieldKind::integer)
                field.type = known->fields[found].type;
        }
    }
    void read_field(FieldInfo& field) {
        char* const name = theirs_.names.data() + theirs_.names.size();
        theirs_.names.resize(theirs_.names.size() + name_length_max + 1);
        const u32 length = in_.name(name);
        theirs_.names.resize(static_cast<u32>(name - theirs_.names.data()) + (length > 0 ? length + 1 : 0));
        field.name = length > 0 ? name : nullptr;
        const u32 kind = in_.byte();
        if (kind > static_cast<u32>(FieldKind::reference))
            in_.fail();
        field.kind = static_cast<FieldKind>(kind);
        switch (field.kind) {
        case FieldKind::range: {
            const double low = static_cast<i32>(in_.integer(4)), high = static_cast<i32>(in_.integer(4));
            const u64 bits = in_.integer(8);
            double step = 0;
            std::memcpy(&step, &bits, sizeof step);
            field.range = {low * step, high * step, step}; // what this rounds to is checked when it is written again
            break;
        }
        case FieldKind::angle:
            field.angle_bits = in_.byte();
            break;
        case FieldKind::integer: {
            const u32 type = in_.byte() + static_cast<u32>(FieldType::int8);
            if (type > static_cast<u32>(FieldType::boolean))
                in_.fail();
            field.type = static_cast<FieldType>(type);
            break;
        }
        case FieldKind::reference:
            field.type = FieldType::entity;
            break;
        default:
            break;
        }
    }

    void read_spatial() {
        const u32 spatial = in_.byte();
        if (spatial > spatial_wide)
            in_.fail();
        theirs_.config.wide_cells = spatial == spatial_wide;
        if (spatial == spatial_none)
            return;
        const u32 component = in_.number(Protocol::component_count_max - 1), a = in_.byte(), b = in_.byte();
        ComponentInfo& info = theirs_.components[component];
        if (component >= theirs_.component_count || a >= info.field_count || b >= info.field_count)
            in_.fail();
        info.spatial_fields[0] = static_cast<i32>(a);
        info.spatial_fields[1] = static_cast<i32>(b);
        const u32 extrapolated = in_.byte();
        if (extrapolated > 1)
            in_.fail();
        u32 columns = 0;
        for (u32 c = 0; c < theirs_.component_count; ++c)
            columns += theirs_.components[c].field_count;
        for (i16& column : theirs_.velocity_columns)
            if (extrapolated) {
                column = static_cast<i16>(in_.number(Layout::column_count_max - 1));
                if (static_cast<u32>(column) >= columns)
                    in_.fail();
            }
    }

    void read_message(MessageInfo& info) {
        in_.name(info.name);
        const MessageInfo* const known = own_message(info.name);
        info.type = known ? known->type : no_message_type;
        const u32 flags = in_.byte();
        if (flags > 127)
            in_.fail();
        info.options.channel = static_cast<Channel>(flags & 3);
        info.options.route = static_cast<Route>(flags >> 2 & 3);
        info.options.independent = (flags & flag_independent) != 0;
        info.options.waits_for_tick = (flags & flag_waits) != 0;
        info.has_rest = (flags & flag_rest) != 0;
        info.options.bytes_max = in_.number(message_bytes_limit);
        read_fields(info, known);
        if (to_server(info))
            for (u32 f = 0; f < info.field_count; ++f)
                if (info.fields[f].kind != FieldKind::reference)
                    absent_.push_back(in_.integer(in_.number(8)));
        if (!known)
            return;
        info.size_bytes = known->size_bytes;
        info.alignment = known->alignment;
        info.serialize = known->serialize;
        info.deserialize = known->deserialize;
        info.construct = known->construct;
        info.copy = known->copy;
        info.destroy = known->destroy;
    }

    TableReader in_;
    Protocol::Impl& theirs_;
    const Protocol::Impl& own_;
    Array<u64> absent_; // of the messages to the server, in order
};

} // namespace

void Protocol::Impl::write_table() {
    table.clear();
    TableWriter out(table);
    out.integer(wire_format_version, 4);
    out.integer(config.tick_hz, 2);
    out.integer(dictionary_hash, 8);
    out.integer(custom_hash, 8);
    out.varint(layout.component_count);
    for (u32 c = 0; c < layout.component_count; ++c) {
        const ComponentInfo& info = components[c];
        out.name(info.name);
        out.varint(info.opaque_bytes_max | (info.diffs.history > 0 ? flag_diffs : 0));
        if (info.opaque_bytes_max > 0)
            continue;
        out.integer(info.field_count, 1);
        for (u32 f = 0; f < info.field_count; ++f)
            out.field(info.fields[f], layout.columns[layout.components[c].first_column + f]);
    }
    if (layout.spatial_component < 0) {
        out.integer(spatial_none, 1);
    } else {
        const ComponentInfo& info = components[layout.spatial_component];
        out.integer(config.wide_cells ? spatial_wide : spatial_narrow, 1);
        out.varint(static_cast<u32>(layout.spatial_component));
        for (const i32 axis : info.spatial_fields)
            out.integer(static_cast<u64>(axis), 1);
        const bool extrapolated = velocity_columns[0] >= 0;
        out.integer(extrapolated, 1);
        for (const i16 column : velocity_columns)
            if (extrapolated)
                out.varint(static_cast<u32>(column));
    }
    out.varint(message_table.layouts.size());
    for (const MessageLayout& message : message_table.layouts) {
        const MessageInfo& info = *message.info;
        out.name(info.name);
        out.integer(flags_of(info), 1);
        out.varint(info.options.bytes_max);
        out.integer(info.field_count, 1);
        for (u32 f = 0, v = 0; f < info.field_count; ++f)
            out.field(info.fields[f], info.fields[f].kind == FieldKind::reference ? Column{} : message.values[v++].column);
        if (to_server(info))
            for (u32 v = 0; v < message.value_count; ++v) {
                out.varint(absent_bytes(message.values[v]));
                out.integer(message.values[v].absent, absent_bytes(message.values[v]));
            }
    }
    const XXH128_hash_t digest = XXH3_128bits(table.data(), table.size());
    hash = {digest.low64, digest.high64};
}

Error Protocol::Impl::read_table(Bytes bytes, const Impl& own) {
    if (bytes.size() > protocol_table_bytes_max)
        return Error::too_large;
    config.dictionary = own.config.dictionary;
    TableMatcher matcher(bytes, *this, own);
    if (const Error error = matcher.read(); error != Error::none)
        return error;
    // There is one way to write a protocol, so that its hash can be trusted to be that of these bytes.
    if (table.size() != bytes.size() || std::memcmp(table.data(), bytes.data(), bytes.size()) != 0)
        return Error::bad_value;
    return matcher.compare();
}

} // namespace throng
