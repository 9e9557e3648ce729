#pragma once
// The frame around sections: message kinds, the headers of state messages and sections, handshake and acks (docs/wire.md 1 to 3).
#include "src/registry/layout.hpp"
#include "throng/admission.hpp"

namespace throng {

enum class MessageKind : u8 { hello = 1, welcome = 2, reject = 3, state = 4, ack = 5, ends = 7, table = 8 };
inline constexpr u8 hash_wanted_bit = 0x80; // of the kind byte of a state message, or one of ends
inline constexpr u8 userdata_bit = 0x40;    // likewise

enum class RejectReason : u8 { protocol = 1, full = 2, unauthorized = 3 };
inline constexpr u8 reject_reason_max = 3;

inline constexpr u32 hash_bytes = 16;
void write_hash(std::byte* out, const ProtocolHash& hash);
ProtocolHash read_hash(const std::byte* in);

struct Hello {
    u32 format_version = wire_format_version;
    ProtocolHash hash; // the client's; or the server's, once it has read the server's table
    Bytes data = {};   // the game's own
};
struct Welcome {
    ProtocolHash hash;
    Tick tick = 0;
    u16 tick_hz = 0;
    u32 cell_steps = 0;
};
struct Reject {
    RejectReason reason = RejectReason::protocol;
    std::string_view text; // for people
};
inline constexpr u32 hello_bytes = 5 + hash_bytes, welcome_bytes = 11 + hash_bytes, reject_text_max = refusal_text_max;
/// `out` has room for hello_bytes and the data, at most hello_data_bytes_max. Returns the bytes written.
u32 write_hello(std::byte* out, const Hello& hello);
/// The data is that of the message.
Error read_hello(Bytes message, Hello& hello);
void write_welcome(std::byte* out, const Welcome& welcome);
Error read_welcome(Bytes message, Welcome& welcome);
/// `out` has room for 2 bytes and the text, of which reject_text_max bytes are written at most. Returns the bytes written.
u32 write_reject(std::byte* out, const Reject& reject);
/// The text is that of the message.
Error read_reject(Bytes message, Reject& reject);

struct StateHeader {
    u16 id = 0;
    Tick tick = 0;
    u8 settled_age = 255;
    bool hash_wanted = false;
    bool ends = false;   // net ids follow, not sections
    Bytes userdata = {}; // 255 bytes at most
};
inline constexpr u32 state_header_bytes = 8; // without userdata
constexpr u32 header_bytes(u32 userdata_bytes) { return state_header_bytes + (userdata_bytes ? 1 + userdata_bytes : 0); }
/// `out` has room for header_bytes(of the userdata). Returns that.
u32 write_state_header(std::byte* out, const StateHeader& header);
/// The userdata is that of the message. What follows begins behind header_bytes(of the userdata).
Error read_state_header(Bytes message, StateHeader& header);

/// Step, size and gone mask at their longest.
inline constexpr u32 section_header_bytes_max = 5 + 5 + 9;
u32 write_long_section_header(std::byte* out, u32 chunk_step, u32 payload_bytes, u64 gone);
/// Returns the bytes written.
inline u32 write_section_header(std::byte* out, u32 chunk_step, u32 payload_bytes, u64 gone) {
    if (gone || chunk_step >= 0x80 || payload_bytes >= 1u << 13)
        return write_long_section_header(out, chunk_step, payload_bytes, gone);
    const u32 size = payload_bytes << 1, longer = size >= 0x80; // nearly all: varints of one, and of one or two bytes
    out[0] = static_cast<std::byte>(chunk_step);
    out[1] = static_cast<std::byte>(longer ? size | 0x80 : size);
    out[2] = static_cast<std::byte>(size >> 7);
    return 2 + longer;
}
struct SectionHeader {
    u32 chunk_step = 0;
    u64 gone = 0;
    Bytes payload;
};
/// Reads the section at `offset` of a state message and moves the offset behind it.
Error read_section_header(Bytes message, u32& offset, SectionHeader& header);

/// Reads an ack message into callbacks. Total; nothing is called before the whole message has been found valid.
struct AckSink {
    void* context = nullptr;
    void (*block)(void* context, u16 newest, u64 mask) = nullptr;
    void (*unapplied)(void* context, u16 message, u16 section) = nullptr;
    void (*hash)(void* context, Tick settled, u64 hash) = nullptr;
};
inline constexpr u32 unapplied_sections_max = 1024; // in one ack message
Error read_acks(Bytes message, const AckSink& sink);

} // namespace throng
