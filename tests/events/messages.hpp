#pragma once
// Message types that several tests use.
#include "throng/typed.hpp"
#include <cstring>
#include <memory>
#include <stdexcept>
#include <string>

namespace events_test {
using namespace throng;

enum class Part : u8 { head, arm, leg };
struct Hit {
    Entity target, source;
    float damage = 0, angle = 0;
    i16 delta = 0;
    Part part = Part::head;
    bool critical = false;
    u64 serial = 0;
};
struct Chat {
    Entity speaker;
    u8 tone = 0;
    std::string text;
};
struct Ping {};

inline u32 write_text(const void* message, std::span<std::byte> out) {
    const std::string& text = static_cast<const Chat*>(message)->text;
    if (!text.empty() && text.size() <= out.size())
        std::memcpy(out.data(), text.data(), text.size());
    return static_cast<u32>(text.size());
}
/// Refuses what starts with '!'.
inline Error read_text(void* message, std::span<const std::byte> in) {
    if (!in.empty() && in[0] == std::byte{'!'})
        return Error::bad_value;
    static_cast<Chat*>(message)->text.assign(reinterpret_cast<const char*>(in.data()), in.size());
    return Error::none;
}

inline void add_hit(Protocol& protocol, MessageOptions options = {}) {
    protocol.message<Hit>("hit", options)
        .field(&Hit::target)
        .field(&Hit::damage, Range{-100, 500, 0.25})
        .field(&Hit::angle, Angle{10})
        .field(&Hit::delta)
        .field(&Hit::source)
        .field(&Hit::part)
        .field(&Hit::critical)
        .field(&Hit::serial);
}
inline void add_chat(Protocol& protocol, MessageOptions options = {.bytes_max = 200}) {
    protocol.message<Chat>("chat", options).field(&Chat::speaker).field(&Chat::tone).rest(write_text, read_text);
}

} // namespace events_test
