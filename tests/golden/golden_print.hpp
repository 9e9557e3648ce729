#pragma once
// Printing of golden files (format: tools/wire_check.py).
#include "src/registry/message_table.hpp"
#include "throng/loopback.hpp"
#include <cstdio>

namespace golden {
using namespace throng;

inline const char* kind_name(FieldKind kind) {
    switch (kind) {
    case FieldKind::range:
        return "range";
    case FieldKind::angle:
        return "angle";
    case FieldKind::integer:
        return "integer";
    case FieldKind::reference:
        return "reference";
    }
    return "";
}

inline const char* type_name(FieldType type) {
    switch (type) {
    case FieldType::f32:
        return "f32";
    case FieldType::f64:
        return "f64";
    case FieldType::int8:
        return "int8";
    case FieldType::int16:
        return "int16";
    case FieldType::int32:
        return "int32";
    case FieldType::int64:
        return "int64";
    case FieldType::uint8:
        return "uint8";
    case FieldType::uint16:
        return "uint16";
    case FieldType::uint32:
        return "uint32";
    case FieldType::uint64:
        return "uint64";
    case FieldType::boolean:
        return "boolean";
    case FieldType::entity:
        return "entity";
    }
    return "";
}

inline void print_hex(Bytes bytes) {
    for (const std::byte byte : bytes)
        std::printf("%02x", static_cast<unsigned>(byte));
}

/// A line of a session: a message that has arrived. `more`: fields in front of its bytes.
inline void print_delivered(const TraceRecord& record, const char* more = "") {
    if (record.fate != Fate::delivered)
        return;
    std::printf("{\"client\": %u, %s\"message\": \"", record.client, more);
    print_hex(record.message);
    std::printf("\"}\n");
}

/// A line of a session: the protocol of a client that is turned away, and what the client says is the matter.
inline void print_own_table(ClientId client, Bytes table, const char* problem) {
    std::printf("{\"client\": %u, \"own_table\": \"", client);
    print_hex(table);
    std::printf("\", \"problem\": \"");
    for (const char* c = problem; *c; ++c)
        std::printf(*c == '"' ? "\\%c" : "%c", *c);
    std::printf("\"}\n");
}

inline void print_messages(const MessageTable& table) {
    std::printf(", \"messages\": [");
    for (const MessageLayout& message : table.layouts) {
        const MessageInfo& info = *message.info;
        std::printf("%s{\"name\": \"%s\", \"waits_for_tick\": %s, \"bytes_max\": %u, \"rest\": %s, \"references\": %u, \"fields\": [",
                    &message == table.layouts.begin() ? "" : ", ", info.name, info.options.waits_for_tick ? "true" : "false",
                    info.options.bytes_max, info.has_rest ? "true" : "false", message.reference_count);
        for (u32 v = 0; v < message.value_count; ++v) {
            const MessageField& value = message.values[v];
            std::printf("%s{\"kind\": \"%s\", \"type\": \"%s\", \"min\": %lld, \"max\": %lld, \"angle_bits\": %u}", v ? ", " : "",
                        kind_name(value.info->kind), type_name(value.info->type), static_cast<long long>(value.column.quantum_min),
                        static_cast<long long>(value.column.quantum_max), value.column.angle_bits);
        }
        std::printf("]}");
    }
    std::printf("]");
}

/// The first line of a golden file. `more` goes into the object: further keys, each behind a comma. `messages`: if there are any.
inline void print_protocol(const Layout& layout, u32 cell_steps, Bytes dictionary, const char* more = "",
                           const MessageTable* messages = nullptr) {
    std::printf("{\"throng_golden\": 1%s, \"cell_steps\": %u, \"dictionary\": \"", more, cell_steps);
    print_hex(dictionary);
    std::printf("\", \"components\": [");
    for (u32 c = 0; c < layout.component_count; ++c) {
        const LayoutComponent& component = layout.components[c];
        std::printf("%s{\"name\": \"c%u\", \"opaque_bytes_max\": %u, %s\"columns\": [", c ? ", " : "", c, component.info->opaque_bytes_max,
                    layout.diffs >> c & 1 ? "\"diffs\": \"append\", " : "");
        for (u32 i = 0; i < component.column_count; ++i) {
            const Column& column = layout.columns[component.first_column + i];
            const FieldInfo& field = component.info->fields[column.field];
            std::printf("%s{\"bytes\": %u, \"kind\": \"%s\", \"type\": \"%s\", \"min\": %lld, \"max\": %lld, \"angle_bits\": %u, "
                        "\"spatial_axis\": %d, \"velocity_column\": %d, \"velocity_factor\": %lld}",
                        i ? ", " : "", column.element_bytes, kind_name(field.kind), type_name(field.type),
                        static_cast<long long>(column.quantum_min), static_cast<long long>(column.quantum_max), column.angle_bits,
                        column.spatial_axis, column.velocity_column, static_cast<long long>(column.velocity_factor));
        }
        std::printf("]}");
    }
    std::printf("]");
    if (messages)
        print_messages(*messages);
    std::printf("}\n");
}

} // namespace golden
