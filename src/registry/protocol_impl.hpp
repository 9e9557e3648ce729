#pragma once
// What a Protocol holds. protocol.cpp derives layout and messages from the registrations, those of this build or those that a table
// names; protocol_table.cpp writes the table and reads another's (docs/wire.md 6).
#include "src/registry/message_table.hpp"
#include "throng/array.hpp"

namespace throng {

/// MessageInfo::type of a message that this build lacks; such a component has the id no_component.
inline constexpr u16 no_message_type = 0xffff;

struct Protocol::Impl {
    ProtocolConfig config;
    ComponentInfo components[component_count_max];
    u32 component_count = 0; // registered; may exceed the table until finish() refuses
    i16 velocity_columns[2] = {-1, -1}; // of the two spatial axes
    Array<MessageInfo*> messages; // builders point to them
    struct ListedMessages {
        bool given = false;
        Array<u16> types;
        bool has(u16 type) const {
            for (const u16 listed : types)
                if (listed == type)
                    return true;
            return false;
        }
    };
    ListedMessages listed_up, listed_down; // message_lists
    Layout layout;
    MessageTable message_table;
    u64 dictionary_hash = 0, custom_hash = 0;
    Array<std::byte> table;
    ProtocolHash hash;
    bool finished = false;
    bool bundle_incomplete = false;
    char problem[192] = {};
    ComponentInfo overflow; // where registrations beyond the table go
    Array<char> names;      // of fields, in a protocol that was read from a table

    ~Impl() {
        for (MessageInfo* info : messages)
            delete info;
    }
    /// Null, or why a message, or one that is listed, is wrong.
    const char* wrong_listing(const MessageInfo& message) const;
    bool lists_unknown() const;
    Error refuse(Error error, const char* name, const char* what, const char* kind = "component");

    // protocol.cpp
    /// What finish() checks of this build's types and functions.
    Error check_types();
    const char* wrong_rules(u32 component) const;
    const char* wrong_signature(u32 component) const;
    void add_of_type(u32 component);
    /// Layout, messages, table and hash. Total: the registrations may come from a table.
    Error derive();
    Error add_columns(LayoutComponent& out, const ComponentInfo& info);
    /// Null, or what is wrong with the field.
    const char* add_column(Column& column, const FieldInfo& field, i32 spatial_axis);
    Error find_velocities();
    void find_signature(const LayoutComponent& component);
    Error find_audiences();
    Error link_velocities();
    Error add_messages();
    Error add_related();
    const char* add_message(MessageLayout& out, const MessageInfo& info);
    void set_defaults(MessageLayout& message);

    // protocol_table.cpp
    void write_table();
    Error read_table(Bytes table, const Impl& own);
};

} // namespace throng
