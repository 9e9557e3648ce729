#pragma once
// The typed messages of the simulator: one struct under every combination of options that makes a difference.
#include "throng/typed.hpp"
#include <string>
#include <utility>
#include <vector>

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

/// One function for all kinds, by number: what call(std::integral_constant<u32, kind>) returns.
template <class Call>
throng::Error by_kind(throng::u32 kind, Call&& call) {
    return [&]<throng::u32... kinds>(std::integer_sequence<throng::u32, kinds...>) {
        throng::Error error = throng::Error::none;
        ((kind == kinds ? static_cast<void>(error = call(std::integral_constant<throng::u32, kinds>())) : static_cast<void>(0)), ...);
        return error;
    }
    (std::make_integer_sequence<throng::u32, letter_kinds>());
}

template <throng::u32 kind>
Letter<kind> letter_of(const LetterBody& body) {
    Letter<kind> letter;
    static_cast<LetterBody&>(letter) = body;
    return letter;
}

/// Handlers of all kinds that go that way, which call f(kind, context, body, sender). F captures nothing.
template <class Context, class F>
std::vector<throng::MessageHandler> letter_handlers(throng::Route way, Context* context, F) {
    std::vector<throng::MessageHandler> out;
    const auto add = [&]<throng::u32 kind>(std::integral_constant<throng::u32, kind>) {
        constexpr auto hears = [](void* at, const Letter<kind>& letter, const throng::Sender& sender) {
            F{}(kind, *static_cast<Context*>(at), letter, sender);
        };
        if (letter_kind(kind).goes(way))
            out.push_back(throng::handler<Letter<kind>>(+hears, context));
    };
    [&]<throng::u32... kinds>(std::integer_sequence<throng::u32, kinds...>) {
        (add(std::integral_constant<throng::u32, kinds>()), ...);
    }
    (std::make_integer_sequence<throng::u32, letter_kinds>());
    return out;
}

} // namespace throng_sim
