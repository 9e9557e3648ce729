#pragma once
// JSON token by token: a strict reader and what a writer needs. The reader keeps no tree, follows no nesting and allocates nothing, so it
// does not matter how a file nests; the caller knows which token may come. Numbers read back to the same bits.
#include "throng/array.hpp"
#include "throng/transport.hpp"
#include <string_view>

namespace throng {

/// Tokens of a text (RFC 8259), front to back. Every call skips spaces first; one that fails has an error and the place where it failed.
class JsonText {
public:
    explicit JsonText(Bytes text) : text_(reinterpret_cast<const char*>(text.data()), text.size()) {}

    /// Where the next token begins.
    std::size_t offset() {
        skip_space();
        return at_;
    }
    bool at_end() { return offset() == text_.size(); }
    /// Whether the next token begins with it.
    bool sees(char c) { return !at_end() && text_[at_] == c; }
    /// Takes it if it is next.
    bool take(char c) {
        const bool found = sees(c);
        at_ += found;
        return found;
    }
    /// The same for a word; truncated: the text ends inside it. Takes it as a whole or not at all.
    Error take_word(std::string_view word);
    /// What to call it that something is missing here.
    Error missing() { return at_end() ? Error::truncated : Error::bad_value; }

    /// A string, its escapes resolved, into `out`; too_large where that is full. Bytes above 0x7f are taken as they are.
    Error string(std::span<char> out, std::string_view& value);
    /// A string of pairs of digits 0-9, a-f, one pair a byte, into `out`, in place of what it holds.
    Error hex(Array<std::byte>& out, u32 bytes_max);
    /// The characters of a number.
    Error number(std::string_view& token);

private:
    void skip_space() {
        while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\n' || text_[at_] == '\r' || text_[at_] == '\t'))
            ++at_;
    }
    Error unescape(u32& code_point);
    Error hex_unit(u32& unit);
    std::string_view text_;
    std::size_t at_ = 0;
};

/// Values of number tokens; false: out of range (also below the smallest float), or not a whole number. -0 keeps its sign as a float.
bool json_value(std::string_view token, float& value);
bool json_value(std::string_view token, double& value);
bool json_value(std::string_view token, i64& value);
bool json_value(std::string_view token, u64& value);

void json_put(Array<std::byte>& out, std::string_view text);
void json_put_string(Array<std::byte>& out, std::string_view text);
void json_put_hex(Array<std::byte>& out, Bytes bytes);
/// The shortest text that reads back to the same bits. Finite.
void json_put_number(Array<std::byte>& out, float value);
void json_put_number(Array<std::byte>& out, double value);
void json_put_number(Array<std::byte>& out, i64 value);
void json_put_number(Array<std::byte>& out, u64 value);
/// `digits` hexadecimal digits.
void json_put_hex_number(Array<std::byte>& out, u64 value, u32 digits);

} // namespace throng
