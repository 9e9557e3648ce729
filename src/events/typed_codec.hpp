#pragma once
// Typed messages to bytes and back (docs/wire.md 5). A bundle is a message of a backend; it holds items, each one typed message: number,
// size and payload. A payload is [tick] references, values, rest; the part behind the references is called body here.
#include "src/registry/message.hpp"
#include "src/registry/message_table.hpp"

namespace throng {

inline constexpr std::byte bundle_kind{6};
inline constexpr std::byte bundle_hash_bit{0x80}; // of the kind byte: the protocol hash follows
inline constexpr u32 bundle_head_bytes_max = 1 + hash_bytes;
inline constexpr u32 item_head_bytes_max = 3 + 3; // number below 256, size up to message_bytes_limit

/// Most bytes that a payload may have besides its rest.
inline u32 payload_bytes_max(const MessageLayout& layout) {
    return (layout.info->options.waits_for_tick ? 4 : 0) + layout.reference_count * message_reference_bytes_max + layout.value_bytes;
}

/// Appends the body of a message. too_large: the rest does not fit bytes_max; then nothing is appended. References count as if each took
/// message_reference_bytes_max.
Error append_body(const MessageLayout& layout, const void* message, Array<std::byte>& out);
/// Appends a whole item. `references`: one for each of the layout's.
void append_item(const MessageLayout& layout, u32 number, Tick tick, const NetId* references, Bytes body, Array<std::byte>& out);

/// Reads the head of the bundle and moves `in` to the first item. `hash` is that of no protocol, 0, where there is none.
Error read_bundle_head(Bytes& in, ProtocolHash& hash);
struct Item {
    const MessageLayout* layout = nullptr;
    u32 number = 0;
    Tick tick = 0; // if it waits for one
    NetId references[FieldList::fields_max];
    Bytes payload, body;
};
/// Takes the next item off `in`. Any error makes the rest of the bundle unreadable.
Error read_item(const MessageTable& table, Bytes& in, Item& item);
/// The same for the payload of an item whose layout and number are known.
Error read_payload(Bytes payload, Item& item);
/// Fills a message, except for its references, which are null.
Error read_body(const MessageLayout& layout, Bytes body, void* message);

} // namespace throng
