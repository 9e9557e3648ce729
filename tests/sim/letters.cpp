#include "tests/sim/letters.hpp"
#include <cstring>
#include <utility>

using namespace throng;

namespace throng_sim {
namespace {

constexpr Channel ordered = Channel::ordered, unordered = Channel::unordered, unreliable = Channel::unreliable;
constexpr Route down = Route::to_client, up = Route::to_server, both = Route::both;

constexpr LetterKind kinds[letter_kinds] = {
    {"ordered", {.channel = ordered, .route = both, .bytes_max = 400}},
    {"ordered too", {.channel = ordered, .route = down, .bytes_max = 400}},
    {"ordered, by tick", {.channel = ordered, .route = down, .waits_for_tick = true, .bytes_max = 400}},
    {"ordered, independent", {.channel = ordered, .route = both, .independent = true, .bytes_max = 400}},
    {"ordered, plain", {.channel = ordered, .route = both, .bytes_max = 300}, true},
    {"ordered, long", {.channel = ordered, .route = both, .bytes_max = 5000}},
    {"ordered, longer than a message", {.channel = ordered, .route = both, .bytes_max = 9000}, true},
    {"unordered", {.channel = unordered, .route = both, .bytes_max = 400}},
    {"unordered, by tick", {.channel = unordered, .route = both, .waits_for_tick = true, .bytes_max = 2000}},
    {"unordered, independent", {.channel = unordered, .route = down, .independent = true, .bytes_max = 400}},
    {"unordered, plain", {.channel = unordered, .route = up, .bytes_max = 400}, true},
    {"unreliable", {.channel = unreliable, .route = both, .bytes_max = 400}},
    {"unreliable, by tick", {.channel = unreliable, .route = down, .waits_for_tick = true, .bytes_max = 400}, true},
    {"unreliable, independent", {.channel = unreliable, .route = both, .independent = true, .bytes_max = 400}},
    {"unreliable, longer than a packet", {.channel = unreliable, .route = both, .bytes_max = 1500}},
};

constexpr u32 value_bits = 32 + 64 + 11 + 1;
constexpr u32 reference_bytes = 10, tick_bytes = 4;

template <u32 kind>
u32 write_text(const void* message, std::span<std::byte> out) {
    const std::string& text = static_cast<const Letter<kind>*>(message)->text;
    if (text.size() <= out.size())
        std::memcpy(out.data(), text.data(), text.size());
    return static_cast<u32>(text.size());
}
template <u32 kind>
Error read_text(void* message, Bytes in) {
    static_cast<Letter<kind>*>(message)->text.assign(reinterpret_cast<const char*>(in.data()), in.size());
    return Error::none;
}

template <u32 kind>
void register_letter(Protocol& protocol) {
    using T = Letter<kind>;
    auto builder = protocol.message<T>(kinds[kind].name, kinds[kind].options);
    builder.field(static_cast<u32 T::*>(&LetterBody::serial)).field(static_cast<i64 T::*>(&LetterBody::number));
    builder.field(static_cast<double T::*>(&LetterBody::share), Range{-10, 10, 0.01}).field(static_cast<bool T::*>(&LetterBody::urgent));
    if (!kinds[kind].plain)
        builder.field(static_cast<Entity T::*>(&LetterBody::first)).field(static_cast<Entity T::*>(&LetterBody::second));
    builder.rest(write_text<kind>, read_text<kind>);
}

} // namespace

const LetterKind& letter_kind(u32 kind) {
    return kinds[kind];
}

u32 letter_bytes_max(const LetterKind& kind, u32 text_bytes) {
    return (kind.options.waits_for_tick ? tick_bytes : 0) + (kind.plain ? 0 : 2 * reference_bytes) + (value_bits + 7) / 8 + text_bytes;
}

u32 text_bytes_max(const LetterKind& kind) {
    return kind.options.bytes_max - letter_bytes_max(kind, 0);
}

void register_letters(Protocol& protocol) {
    [&]<u32... kind>(std::integer_sequence<u32, kind...>) {
        (register_letter<kind>(protocol), ...);
    }
    (std::make_integer_sequence<u32, letter_kinds>());
}

} // namespace throng_sim
