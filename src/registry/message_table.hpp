#pragma once
// The typed messages of a protocol, as its finish() derives them from the registrations.
#include "src/registry/layout.hpp"
#include "throng/array.hpp"

namespace throng {

/// What a value field is in the bit stream of a message: its value, less `low`, in `bits` bits.
struct MessageField {
    const FieldInfo* info = nullptr;
    Column column; // quantiser; no place in a block
    u32 bits = 0;
    i64 low = 0;
    bool is_signed = false; // of whole integers: the top bit is the sign
    u64 absent = 0;         // code that a sender writes who lacks the field: that of a message made from nothing
};

struct MessageLayout {
    const MessageInfo* info = nullptr;
    MessageField values[FieldList::fields_max]; // all but the references
    u32 value_count = 0;
    const FieldInfo* references[FieldList::fields_max] = {};
    u32 reference_count = 0;
    u32 value_bytes = 0; // of the bit stream
    i32 handler = -1;    // its place in this build's protocol, where it is found by; -1: this build lacks it
};

/// Code of a field in the bit stream.
u64 value_code(const MessageField& field, const std::byte* message);

inline constexpr u32 message_reference_bytes_max = 10; // see docs/wire.md
inline constexpr u32 message_bytes_limit = 65536;

struct MessageTable {
    Array<MessageLayout> layouts; // in order of registration: the index is the number on the wire
    Array<i16> index_of;          // by message_type_id; -1: not of this protocol
    u32 object_bytes_max = 0, object_alignment_max = 1;

    const MessageLayout* find(u16 type) const {
        return type < index_of.size() && index_of[type] >= 0 ? &layouts[static_cast<u32>(index_of[type])] : nullptr;
    }
    u32 number(const MessageLayout& layout) const { return static_cast<u32>(&layout - layouts.data()); }
};

} // namespace throng
