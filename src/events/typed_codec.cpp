#include "src/events/typed_codec.hpp"
#include "src/registry/field_io.hpp"
#include "throng/wire.hpp"

namespace throng {
namespace {

u32 write_reference(std::byte* out, NetId id) {
    const std::span<std::byte> room(out, message_reference_bytes_max);
    const u32 word = id.generation() | id.shard() << 24;
    const u32 bytes = write_varint(room, word);
    return word == 0 ? bytes : bytes + write_varint(room.subspan(bytes), id.index());
}

Error read_reference(Bytes& in, NetId& id) {
    u32 word = 0, index = 0;
    id = {};
    if (const Error error = read_varint(in, word); error != Error::none || word == 0)
        return error;
    if (const Error error = read_varint(in, index); error != Error::none)
        return error;
    id = NetId::make(index, word & 0xffffff, word >> 24);
    return Error::none;
}

} // namespace

Error append_body(const MessageLayout& layout, const void* message, Array<std::byte>& out) {
    const u32 begin = out.size();
    const MessageInfo& info = *layout.info;
    const u32 room = info.has_rest ? info.options.bytes_max - payload_bytes_max(layout) : 0;
    out.resize(begin + layout.value_bytes + room);
    BitWriter writer({out.data() + begin, layout.value_bytes});
    for (u32 v = 0; v < layout.value_count; ++v)
        writer.put(value_code(layout.values[v], static_cast<const std::byte*>(message)), layout.values[v].bits);
    writer.finish();
    if (!info.has_rest)
        return Error::none;
    const u32 rest = info.serialize(message, {out.data() + begin + layout.value_bytes, room});
    out.resize(begin + (rest > room ? 0 : layout.value_bytes + rest));
    return rest > room ? Error::too_large : Error::none;
}

void append_item(const MessageLayout& layout, u32 number, Tick tick, const NetId* references, Bytes body, Array<std::byte>& out) {
    std::byte front[4 + FieldList::fields_max * message_reference_bytes_max];
    u32 bytes = 0;
    if (layout.info->options.waits_for_tick)
        for (; bytes < 4; ++bytes)
            front[bytes] = static_cast<std::byte>(tick >> 8 * bytes);
    for (u32 r = 0; r < layout.reference_count; ++r)
        bytes += write_reference(front + bytes, references[r]);
    std::byte head[item_head_bytes_max];
    u32 head_bytes = write_varint(head, number);
    head_bytes += write_varint(std::span(head).subspan(head_bytes), static_cast<u32>(bytes + body.size()));
    out.append(head, head_bytes);
    out.append(front, bytes);
    out.append(body.data(), body.size());
}

Error read_bundle_head(Bytes& in, ProtocolHash& hash) {
    hash = {};
    if (in.empty())
        return Error::truncated;
    const bool hashed = (in[0] & bundle_hash_bit) != std::byte{0};
    if ((in[0] & ~bundle_hash_bit) != bundle_kind)
        return Error::bad_value;
    in = in.subspan(1);
    if (hashed) {
        if (in.size() < hash_bytes)
            return Error::truncated;
        hash = read_hash(in.data());
        in = in.subspan(hash_bytes);
    }
    return in.empty() ? Error::truncated : Error::none;
}

Error read_item(const MessageTable& table, Bytes& in, Item& item) {
    u32 bytes = 0;
    if (const Error error = read_varint(in, item.number); error != Error::none)
        return error;
    if (const Error error = read_varint(in, bytes); error != Error::none)
        return error;
    if (bytes > in.size())
        return Error::truncated;
    if (item.number >= table.layouts.size())
        return Error::bad_value;
    item.layout = &table.layouts[item.number];
    if (bytes > item.layout->info->options.bytes_max)
        return Error::too_large;
    const Bytes payload = in.first(bytes);
    in = in.subspan(bytes);
    return read_payload(payload, item);
}

Error read_payload(Bytes payload, Item& item) {
    item.payload = payload;
    item.tick = 0;
    if (item.layout->info->options.waits_for_tick) {
        if (payload.size() < 4)
            return Error::truncated;
        for (u32 i = 0; i < 4; ++i)
            item.tick |= static_cast<u32>(payload[i]) << 8 * i;
        payload = payload.subspan(4);
    }
    for (u32 r = 0; r < item.layout->reference_count; ++r)
        if (const Error error = read_reference(payload, item.references[r]); error != Error::none)
            return error;
    item.body = payload;
    return Error::none;
}

Error read_body(const MessageLayout& layout, Bytes body, void* message) {
    if (body.size() < layout.value_bytes)
        return Error::truncated;
    BitReader reader(body.first(layout.value_bytes));
    std::byte* const row = static_cast<std::byte*>(message);
    for (u32 v = 0; v < layout.value_count; ++v) {
        const MessageField& field = layout.values[v];
        const u64 code = reader.get(field.bits);
        if (field.info->kind == FieldKind::range && code > static_cast<u64>(field.column.quantum_max - field.column.quantum_min))
            return Error::bad_value;
        i64 value = static_cast<i64>(code) + field.low;
        if (field.is_signed && field.bits < 64 && code >> (field.bits - 1))
            value = static_cast<i64>(code | ~detail::low_bits(field.bits));
        if (!field.column.unknown)
            write_field(*field.info, field.column, &row, 1, &value);
    }
    reader.align();
    if (reader.failed())
        return Error::bad_value;
    const Bytes rest = body.subspan(layout.value_bytes);
    if (layout.info->has_rest)
        return layout.info->deserialize(message, rest);
    return rest.empty() ? Error::none : Error::bad_value;
}

} // namespace throng
