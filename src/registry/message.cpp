#include "src/registry/message.hpp"
#include "throng/assert.hpp"
#include <cstring>

namespace throng {
namespace {

template <class T>
void put(std::byte* out, T value) {
    std::memcpy(out, &value, sizeof value); // little-endian hosts only, see docs/wire.md
}
template <class T>
T get(const std::byte* in) {
    T value;
    std::memcpy(&value, in, sizeof value);
    return value;
}
u32 put_varint(std::byte* out, u32 value) {
    u32 bytes = 0;
    for (; value >= 0x80; value >>= 7)
        out[bytes++] = static_cast<std::byte>(value | 0x80);
    out[bytes++] = static_cast<std::byte>(value);
    return bytes;
}
Error get_varint(Bytes in, u32& offset, u32& value) {
    value = 0;
    for (u32 i = 0; i < 5; ++i) {
        if (offset >= in.size())
            return Error::truncated;
        const u32 byte = std::to_integer<u32>(in[offset++]);
        if (i == 4 && byte > 0x0f)
            return Error::bad_value;
        value |= (byte & 0x7f) << 7 * i;
        if (byte < 0x80)
            return i > 0 && byte == 0 ? Error::bad_value : Error::none;
    }
    return Error::bad_value;
}
bool is_kind(Bytes message, MessageKind kind) { return !message.empty() && message[0] == static_cast<std::byte>(kind); }

} // namespace

void write_hash(std::byte* out, const ProtocolHash& hash) {
    put(out, hash.low);
    put(out + 8, hash.high);
}
ProtocolHash read_hash(const std::byte* in) { return {get<u64>(in), get<u64>(in + 8)}; }

u32 write_hello(std::byte* out, const Hello& hello) {
    put(out, MessageKind::hello);
    put(out + 1, hello.format_version);
    write_hash(out + 5, hello.hash);
    if (!hello.data.empty())
        std::memcpy(out + hello_bytes, hello.data.data(), hello.data.size());
    return hello_bytes + static_cast<u32>(hello.data.size());
}
Error read_hello(Bytes message, Hello& hello) {
    if (message.size() < hello_bytes || message.size() > hello_bytes + hello_data_bytes_max || !is_kind(message, MessageKind::hello))
        return Error::bad_value;
    hello = {get<u32>(message.data() + 1), read_hash(message.data() + 5), message.subspan(hello_bytes)};
    return Error::none;
}
void write_welcome(std::byte* out, const Welcome& welcome) {
    put(out, MessageKind::welcome);
    write_hash(out + 1, welcome.hash);
    put(out + 17, welcome.tick);
    put(out + 21, welcome.tick_hz);
    put(out + 23, welcome.cell_steps);
}
Error read_welcome(Bytes message, Welcome& welcome) {
    if (message.size() != welcome_bytes || !is_kind(message, MessageKind::welcome))
        return message.size() < welcome_bytes ? Error::truncated : Error::bad_value;
    const std::byte* const in = message.data();
    welcome = {read_hash(in + 1), get<u32>(in + 17), get<u16>(in + 21), get<u32>(in + 23)};
    return Error::none;
}
u32 write_reject(std::byte* out, const Reject& reject) {
    const u32 text_bytes = static_cast<u32>(reject.text.size() < reject_text_max ? reject.text.size() : reject_text_max);
    put(out, MessageKind::reject);
    put(out + 1, reject.reason);
    if (text_bytes > 0)
        std::memcpy(out + 2, reject.text.data(), text_bytes);
    return 2 + text_bytes;
}
Error read_reject(Bytes message, Reject& reject) {
    if (message.size() < 2)
        return Error::truncated;
    const u8 reason = get<u8>(message.data() + 1);
    if (!is_kind(message, MessageKind::reject) || message.size() > 2 + reject_text_max || reason < 1 || reason > reject_reason_max)
        return Error::bad_value;
    reject = {static_cast<RejectReason>(reason), {reinterpret_cast<const char*>(message.data()) + 2, message.size() - 2}};
    return Error::none;
}

u32 write_state_header(std::byte* out, const StateHeader& header) {
    const MessageKind kind = header.ends ? MessageKind::ends : MessageKind::state;
    const u32 userdata_bytes = static_cast<u32>(header.userdata.size());
    put(out, static_cast<u8>(static_cast<u8>(kind) | (header.hash_wanted ? hash_wanted_bit : 0) | (userdata_bytes ? userdata_bit : 0)));
    put(out + 1, header.id);
    put(out + 3, header.tick);
    put(out + 7, header.settled_age);
    if (userdata_bytes) {
        put(out + state_header_bytes, static_cast<u8>(userdata_bytes));
        std::memcpy(out + state_header_bytes + 1, header.userdata.data(), userdata_bytes);
    }
    return header_bytes(userdata_bytes);
}
Error read_state_header(Bytes message, StateHeader& header) {
    if (message.size() < state_header_bytes)
        return Error::truncated;
    const u8 kind = get<u8>(message.data());
    const auto plain = static_cast<MessageKind>(kind & ~(hash_wanted_bit | userdata_bit));
    if (plain != MessageKind::state && plain != MessageKind::ends)
        return Error::bad_value;
    header = {get<u16>(message.data() + 1), get<u32>(message.data() + 3), get<u8>(message.data() + 7), (kind & hash_wanted_bit) != 0,
              plain == MessageKind::ends, {}};
    if (!(kind & userdata_bit))
        return Error::none;
    const Bytes rest = message.subspan(state_header_bytes);
    const u32 userdata_bytes = rest.empty() ? 0 : get<u8>(rest.data());
    if (rest.size() < 1 + userdata_bytes)
        return Error::truncated;
    if (userdata_bytes == 0)
        return Error::bad_value;
    header.userdata = rest.subspan(1, userdata_bytes);
    return Error::none;
}

u32 write_long_section_header(std::byte* out, u32 chunk_step, u32 payload_bytes, u64 gone) {
    u32 bytes = put_varint(out, chunk_step);
    bytes += put_varint(out + bytes, payload_bytes << 1 | (gone != 0));
    if (gone) {
        std::byte& map = out[bytes++];
        u32 which = 0;
        for (u32 i = 0; i < 8; ++i)
            if (const u64 byte = gone >> 8 * i & 0xff) {
                which |= 1u << i;
                out[bytes++] = static_cast<std::byte>(byte);
            }
        map = static_cast<std::byte>(which);
    }
    return bytes;
}
Error read_section_header(Bytes message, u32& offset, SectionHeader& header) {
    u32 size = 0;
    if (const Error error = get_varint(message, offset, header.chunk_step); error != Error::none)
        return error;
    if (const Error error = get_varint(message, offset, size); error != Error::none)
        return error;
    header.gone = 0;
    if (size & 1) {
        if (offset >= message.size())
            return Error::truncated;
        const u32 which = std::to_integer<u32>(message[offset++]);
        for (u32 i = 0; i < 8; ++i)
            if (which >> i & 1) {
                if (offset >= message.size())
                    return Error::truncated;
                const u64 byte = std::to_integer<u64>(message[offset++]);
                if (byte == 0)
                    return Error::bad_value;
                header.gone |= byte << 8 * i;
            }
        if (header.gone == 0)
            return Error::bad_value;
    }
    size >>= 1;
    if (size == 0 && header.gone == 0)
        return Error::bad_value;
    if (size > message.size() - offset)
        return Error::truncated;
    header.payload = message.subspan(offset, size);
    offset += size;
    return Error::none;
}

Error read_acks(Bytes message, const AckSink& sink) {
    if (message.size() < 2 || !is_kind(message, MessageKind::ack))
        return Error::bad_value;
    // Twice over the same bytes: first to find them valid, then to report.
    for (const bool report : {false, true}) {
        u32 offset = 2;
        const u32 blocks = std::to_integer<u32>(message[1]);
        for (u32 i = 0; i < blocks; ++i, offset += 10) {
            if (message.size() - offset < 10)
                return Error::truncated;
            if (report)
                sink.block(sink.context, get<u16>(message.data() + offset), get<u64>(message.data() + offset + 2));
        }
        u32 unapplied = 0;
        if (const Error error = get_varint(message, offset, unapplied); error != Error::none)
            return error;
        if (unapplied > unapplied_sections_max)
            return Error::too_large;
        for (u32 i = 0; i < unapplied; ++i) {
            if (message.size() - offset < 2)
                return Error::truncated;
            const u16 id = get<u16>(message.data() + offset);
            offset += 2;
            u32 section = 0;
            if (const Error error = get_varint(message, offset, section); error != Error::none)
                return error;
            if (section > 0xffff)
                return Error::bad_value;
            if (report)
                sink.unapplied(sink.context, id, static_cast<u16>(section));
        }
        if (offset >= message.size())
            return Error::truncated;
        const u32 has_hash = std::to_integer<u32>(message[offset++]);
        if (has_hash > 1 || message.size() - offset != has_hash * 12)
            return Error::bad_value;
        if (report && has_hash)
            sink.hash(sink.context, get<u32>(message.data() + offset), get<u64>(message.data() + offset + 4));
    }
    return Error::none;
}

} // namespace throng
