#pragma once
// A component with diffs: a text, of which lines are put at the end, as bytes. Neither order nor number of lines can be wrong unnoticed.
#include "throng/protocol.hpp"
#include <algorithm>
#include <string>

namespace throng_test {

struct Journal {
    std::string text;
    bool operator==(const Journal&) const = default;
};
struct Line {
    std::string text;
};
inline constexpr throng::u32 journal_bytes_max = 2000;

inline throng::u32 write_text(const std::string& text, std::span<std::byte> out) {
    if (text.size() <= out.size())
        std::copy_n(reinterpret_cast<const std::byte*>(text.data()), text.size(), out.data());
    return static_cast<throng::u32>(text.size());
}
inline throng::u32 write_journal(const void* component, std::span<std::byte> out) {
    return write_text(static_cast<const Journal*>(component)->text, out);
}
inline throng::Error read_journal(void* component, std::span<const std::byte> in) {
    static_cast<Journal*>(component)->text.assign(reinterpret_cast<const char*>(in.data()), in.size());
    return throng::Error::none;
}
inline throng::u32 write_line(const Line& line, std::span<std::byte> out) {
    return write_text(line.text, out);
}
inline throng::Error read_line(Line& line, std::span<const std::byte> in) {
    line.text.assign(reinterpret_cast<const char*>(in.data()), in.size());
    return throng::Error::none;
}
inline throng::Error put_line(Journal& journal, const Line& line) {
    if (journal.text.size() + line.text.size() > journal_bytes_max)
        return throng::Error::too_large;
    journal.text += line.text;
    return throng::Error::none;
}

inline throng::OpaqueBuilder journal(throng::Protocol& protocol, const throng::DiffOptions& options = {}) {
    return protocol.opaque<Journal>("journal", journal_bytes_max, write_journal, read_journal)
        .diffs(write_line, read_line, put_line, options);
}
/// The same without diffs.
inline throng::OpaqueBuilder whole_journal(throng::Protocol& protocol) {
    return protocol.opaque<Journal>("journal", journal_bytes_max, write_journal, read_journal);
}

} // namespace throng_test
