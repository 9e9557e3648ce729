#pragma once
// The typed messages of the simulator: one struct under every combination of options that makes a difference.
#include "throng/protocol.hpp"
#include <string>

namespace throng_sim {

struct LetterBody {
    throng::u32 serial = 0; // of the letter, from 1
    throng::i64 number = 0;
    double share = 0; // in hundredths
    bool urgent = false;
    throng::Entity first, second; // not of the plain kinds
    std::string text;
};
template <throng::u32 kind>
struct Letter : LetterBody {};

struct LetterKind {
    const char* name;
    throng::MessageOptions options;
    bool plain = false; // names no entities
    bool goes(throng::Route way) const { return (static_cast<throng::u32>(options.route) & static_cast<throng::u32>(way)) != 0; }
    bool reliable() const { return options.channel != throng::Channel::unreliable; }
    bool ordered() const { return options.channel == throng::Channel::ordered; }
    /// Whether a client may have to hold it back.
    bool waits() const { return !options.independent && (!plain || options.waits_for_tick); }
};
inline constexpr throng::u32 letter_kinds = 15;
const LetterKind& letter_kind(throng::u32 kind);

/// Most bytes of a letter's text, as docs/wire.md has it.
throng::u32 text_bytes_max(const LetterKind& kind);
/// Most bytes on the wire of a letter with so much text, without what its bundle has in front.
throng::u32 letter_bytes_max(const LetterKind& kind, throng::u32 text_bytes);

void register_letters(throng::Protocol& protocol);

} // namespace throng_sim
