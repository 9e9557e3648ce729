#include "src/scene/json_text.hpp"
#include <charconv>

namespace throng {
namespace {

constexpr char hex_digits[] = "0123456789abcdef";

/// 16: none. Upper case is for escapes only.
u32 hex_value(char c) {
    if (c >= '0' && c <= '9')
        return static_cast<u32>(c - '0');
    return c >= 'a' && c <= 'f' ? static_cast<u32>(c - 'a') + 10 : 16;
}
bool is_digit(char c) {
    return c >= '0' && c <= '9';
}

/// Writes a code point in UTF-8; returns the bytes.
u32 utf8(u32 code_point, char (&out)[4]) {
    if (code_point < 0x80) {
        out[0] = static_cast<char>(code_point);
        return 1;
    }
    const u32 count = code_point < 0x800 ? 2 : code_point < 0x10000 ? 3 : 4;
    for (u32 i = count - 1; i > 0; --i, code_point >>= 6)
        out[i] = static_cast<char>(0x80 | (code_point & 0x3f));
    out[0] = static_cast<char>((0xf00 >> count & 0xff) | code_point);
    return count;
}

template <class T>
bool parse(std::string_view token, T& value) {
    const char* const end = token.data() + token.size();
    const std::from_chars_result result = std::from_chars(token.data(), end, value);
    return result.ec == std::errc() && result.ptr == end;
}

template <class T>
void put_number(Array<std::byte>& out, T value) {
    char digits[32];
    const char* const end = std::to_chars(digits, digits + sizeof digits, value).ptr;
    json_put(out, {digits, static_cast<std::size_t>(end - digits)});
}

} // namespace

Error JsonText::take_word(std::string_view word) {
    const std::string_view found = text_.substr(offset(), word.size());
    if (found != word)
        return word.substr(0, found.size()) == found ? Error::truncated : Error::bad_value;
    at_ += word.size();
    return Error::none;
}

Error JsonText::hex_unit(u32& unit) {
    unit = 0;
    for (u32 i = 0; i < 4; ++i, ++at_) {
        if (at_ == text_.size())
            return Error::truncated;
        const char c = text_[at_];
        const u32 digit = hex_value(c >= 'A' && c <= 'F' ? static_cast<char>(c + 32) : c);
        if (digit > 15)
            return Error::bad_value;
        unit = unit << 4 | digit;
    }
    return Error::none;
}

/// Behind the backslash.
Error JsonText::unescape(u32& code_point) {
    if (at_ == text_.size())
        return Error::truncated;
    const char c = text_[at_];
    constexpr std::string_view plain = "\"\\/", letters = "bfnrt", meant = "\b\f\n\r\t";
    if (plain.find(c) != std::string_view::npos) {
        code_point = static_cast<u32>(c);
    } else if (const std::size_t letter = letters.find(c); letter != std::string_view::npos) {
        code_point = static_cast<u32>(meant[letter]);
    } else if (c != 'u') {
        return Error::bad_value;
    }
    ++at_;
    if (c != 'u')
        return Error::none;
    if (const Error error = hex_unit(code_point); error != Error::none)
        return error;
    if (code_point < 0xd800 || code_point > 0xdfff)
        return Error::none;
    u32 low = 0;
    if (text_.size() - at_ < 2)
        return Error::truncated;
    if (code_point > 0xdbff || text_[at_] != '\\' || text_[at_ + 1] != 'u')
        return Error::bad_value;
    at_ += 2;
    if (const Error error = hex_unit(low); error != Error::none)
        return error;
    if (low < 0xdc00 || low > 0xdfff)
        return Error::bad_value;
    code_point = 0x10000 + ((code_point - 0xd800) << 10 | (low - 0xdc00));
    return Error::none;
}

Error JsonText::string(std::span<char> out, std::string_view& value) {
    if (!take('"'))
        return missing();
    for (std::size_t size = 0; at_ < text_.size();) {
        const char c = text_[at_];
        if (c == '"') {
            ++at_;
            value = {out.data(), size};
            return Error::none;
        }
        if (static_cast<u8>(c) < 0x20)
            return Error::bad_value;
        char bytes[4] = {c};
        u32 count = 1;
        ++at_;
        if (c == '\\') {
            u32 code_point = 0;
            if (const Error error = unescape(code_point); error != Error::none)
                return error;
            count = utf8(code_point, bytes);
        }
        if (count > out.size() - size)
            return Error::too_large;
        for (u32 i = 0; i < count; ++i)
            out[size++] = bytes[i];
    }
    return Error::truncated;
}

Error JsonText::hex(Array<std::byte>& out, u32 bytes_max) {
    out.clear();
    if (!take('"'))
        return missing();
    for (; text_.size() - at_ >= 2 && text_[at_] != '"'; at_ += 2) {
        const u32 high = hex_value(text_[at_]), low = hex_value(text_[at_ + 1]);
        if (high > 15 || low > 15)
            return Error::bad_value;
        if (out.size() == bytes_max)
            return Error::too_large;
        out.push_back(static_cast<std::byte>(high << 4 | low));
    }
    if (at_ == text_.size() || text_[at_] != '"')
        return Error::truncated;
    ++at_;
    return Error::none;
}

Error JsonText::number(std::string_view& token) {
    const std::size_t begin = offset();
    const auto digits = [&] {
        const std::size_t first = at_;
        while (at_ < text_.size() && is_digit(text_[at_]))
            ++at_;
        return at_ > first;
    };
    const auto next = [&](char a, char b) {
        const bool found = at_ < text_.size() && (text_[at_] == a || text_[at_] == b);
        at_ += found;
        return found;
    };
    // A failure is at the place where a digit is missing.
    const auto digit_missing = [&] { return at_ == text_.size() ? Error::truncated : Error::bad_value; };
    next('-', '-');
    const std::size_t whole = at_;
    if (!digits())
        return digit_missing();
    if (text_[whole] == '0' && at_ - whole > 1) {
        at_ = whole;
        return Error::bad_value;
    }
    if (next('.', '.') && !digits())
        return digit_missing();
    if (next('e', 'E')) {
        next('+', '-');
        if (!digits())
            return digit_missing();
    }
    token = text_.substr(begin, at_ - begin);
    return Error::none;
}

bool json_value(std::string_view token, float& value) {
    return parse(token, value);
}
bool json_value(std::string_view token, double& value) {
    return parse(token, value);
}
bool json_value(std::string_view token, i64& value) {
    return parse(token, value);
}
bool json_value(std::string_view token, u64& value) {
    return parse(token, value);
}

void json_put(Array<std::byte>& out, std::string_view text) {
    out.append(reinterpret_cast<const std::byte*>(text.data()), text.size());
}

void json_put_string(Array<std::byte>& out, std::string_view text) {
    json_put(out, "\"");
    for (const char& c : text) {
        if (static_cast<u8>(c) < 0x20) {
            json_put(out, "\\u");
            json_put_hex_number(out, static_cast<u8>(c), 4);
        } else {
            if (c == '"' || c == '\\')
                json_put(out, "\\");
            json_put(out, {&c, 1});
        }
    }
    json_put(out, "\"");
}

void json_put_hex(Array<std::byte>& out, Bytes bytes) {
    json_put(out, "\"");
    for (const std::byte byte : bytes)
        json_put_hex_number(out, static_cast<u64>(byte), 2);
    json_put(out, "\"");
}

void json_put_number(Array<std::byte>& out, float value) {
    put_number(out, value);
}
void json_put_number(Array<std::byte>& out, double value) {
    put_number(out, value);
}
void json_put_number(Array<std::byte>& out, i64 value) {
    put_number(out, value);
}
void json_put_number(Array<std::byte>& out, u64 value) {
    put_number(out, value);
}

void json_put_hex_number(Array<std::byte>& out, u64 value, u32 digits) {
    while (digits-- > 0)
        json_put(out, {&hex_digits[value >> (4 * digits) & 15], 1});
}

} // namespace throng
