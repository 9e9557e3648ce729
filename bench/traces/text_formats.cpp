// The text formats: SUMO FCD XML, CSV, city traffic and pedestrians.
#include "bench/traces/builder.hpp"
#include "bench/traces/reader.hpp"
#include <algorithm>

namespace scenarios {

static std::string quoted(std::string_view text) {
    std::string out = "\"";
    for (const char c : text.substr(0, 40))
        out += c >= ' ' && c < 127 ? c : '?';
    return out + (text.size() > 40 ? "...\"" : "\"");
}

static bool is_space(char c) { return c == ' ' || c == '\t' || c == '\r' || c == '\n'; }

static std::string_view trim(std::string_view text) {
    while (!text.empty() && is_space(text.front()))
        text.remove_prefix(1);
    while (!text.empty() && is_space(text.back()))
        text.remove_suffix(1);
    return text;
}

// --- SUMO FCD XML

/// Takes the next name="value" off `tag`; false at the end, and `bad` when there is something else.
static bool next_attribute(std::string_view& tag, std::string_view& name, std::string_view& value, bool& bad) {
    tag = trim(tag);
    if (tag.empty() || tag == "/" || tag == "?")
        return false;
    bad = true;
    const std::size_t equals = tag.find('=');
    if (equals == std::string_view::npos)
        return false;
    name = trim(tag.substr(0, equals));
    tag = trim(tag.substr(equals + 1));
    if (tag.empty() || (tag.front() != '"' && tag.front() != '\''))
        return false;
    const std::size_t end = tag.find(tag.front(), 1);
    if (end == std::string_view::npos)
        return false;
    value = tag.substr(1, end - 1);
    tag.remove_prefix(end + 1);
    bad = false;
    return true;
}

namespace {
class FcdParser {
public:
    FcdParser(TraceReader& reader, const TraceLimits& limits) : reader_(reader), limits_(limits), builder_(reader, limits) {}

    bool parse(Trace& out) {
        std::string_view text, tag;
        while (!closed_ && reader_.until('<', text, limits_.line_bytes_max)) {
            if (!trim(text).empty() && (in_root_ || text != "\xef\xbb\xbf")) {
                reader_.fail("text " + quoted(trim(text)) + " between the tags");
                return false;
            }
            if (!reader_.until('>', tag, limits_.line_bytes_max)) {
                if (!reader_.failed())
                    reader_.fail("a tag is not closed before the end of the file");
                return false;
            }
            if (!handle(tag))
                return false;
        }
        if (reader_.failed())
            return false;
        if (!closed_) {
            reader_.fail(in_root_ ? "the file ends before </fcd-export>" : "there is no <fcd-export>");
            return false;
        }
        return builder_.finish("SUMO FCD XML", out);
    }

private:
    bool handle(std::string_view tag) {
        if (tag.starts_with("!--"))
            return skip_comment(tag);
        if (tag.starts_with("?") || tag.starts_with("!"))
            return true;
        const bool closing = tag.starts_with("/");
        if (closing)
            tag.remove_prefix(1);
        std::size_t length = 0;
        while (length < tag.size() && !is_space(tag[length]) && tag[length] != '/')
            ++length;
        const std::string_view name = tag.substr(0, length);
        const bool empty = tag.ends_with("/");
        tag.remove_prefix(length);
        if (!in_root_ && name != "fcd-export") {
            reader_.fail("the root is " + quoted(name) + ", not fcd-export");
            return false;
        }
        if (name == "fcd-export") {
            if (closing && in_step_)
                return expected("</timestep>");
            if (!closing && in_root_)
                return expected("one fcd-export only");
            in_root_ = true;
            closed_ = closing || empty;
            return true;
        }
        if (name == "timestep") {
            if (closing != in_step_)
                return expected(in_step_ ? "</timestep>" : "<timestep>");
            in_step_ = !closing && !empty;
            return closing || start_step(tag);
        }
        if (name != "vehicle" && name != "person" && name != "container")
            return true; // something that later versions of SUMO may write
        if (closing)
            return true;
        return in_step_ ? sample(name, tag) : expected("<timestep>");
    }

    bool skip_comment(std::string_view tag) {
        bool done = tag.size() >= 5 && tag.ends_with("--");
        while (!done) {
            if (!reader_.until('>', tag, limits_.line_bytes_max)) {
                if (!reader_.failed())
                    reader_.fail("a comment is not closed before the end of the file");
                return false;
            }
            done = tag.ends_with("--");
        }
        return true;
    }

    bool expected(const char* what) {
        reader_.fail(std::string("expected ") + what);
        return false;
    }

    bool number(std::string_view name, std::string_view value, double& out) {
        if (parse_number(value, out))
            return true;
        reader_.fail(quoted(value) + " is no number (" + std::string(name) + ")");
        return false;
    }

    bool start_step(std::string_view tag) {
        std::string_view name, value;
        bool bad = false, found = false;
        while (next_attribute(tag, name, value, bad)) {
            if (name != "time")
                continue;
            found = true;
            const double before = time_s_;
            if (!number(name, value, time_s_))
                return false;
            if (steps_ > 0 && time_s_ <= before) {
                reader_.fail("time " + std::string(value) + " is not after the time before it");
                return false;
            }
        }
        if (bad || !found) {
            reader_.fail(bad ? "a broken attribute in <timestep>" : "a timestep without a time");
            return false;
        }
        ++steps_;
        return builder_.frame(time_s_);
    }

    bool sample(std::string_view kind, std::string_view tag) {
        std::string_view name, value;
        TraceRow row;
        row.time_s = time_s_;
        id_.clear();
        unsigned found = 0;
        bool bad = false;
        while (next_attribute(tag, name, value, bad)) {
            if (name == "id") {
                id_ = kind == "vehicle" ? "" : std::string(kind) + " "; // a person may have a vehicle's id
                id_ += value;
                found |= 1;
            } else if (name == "x" || name == "y" || name == "z" || name == "angle" || name == "speed") {
                double v = 0;
                if (!number(name, value, v))
                    return false;
                switch (name[0]) {
                case 'x':
                    row.x = v, found |= 2;
                    break;
                case 'y':
                    row.y = v, found |= 4;
                    break;
                case 'z':
                    row.z = v;
                    break;
                case 'a':
                    row.heading = heading_of_compass(v), found |= 8;
                    break;
                default:
                    row.speed = v, found |= 16;
                }
            }
        }
        if (bad || (found & 7) != 7) {
            reader_.fail(bad ? "a broken attribute in <" + std::string(kind) + ">" : "a " + std::string(kind) + " without id, x and y");
            return false;
        }
        if (!(found & 8))
            builder_.lacks_heading();
        if (!(found & 16))
            builder_.lacks_speed();
        return builder_.row(id_, row);
    }

    TraceReader& reader_;
    const TraceLimits& limits_;
    TraceBuilder builder_;
    std::string id_ = {};
    double time_s_ = 0;
    std::uint64_t steps_ = 0;
    bool in_root_ = false, in_step_ = false, closed_ = false;
};
} // namespace

bool parse_fcd_xml(TraceReader& reader, const TraceLimits& limits, Trace& out) { return FcdParser(reader, limits).parse(out); }

// --- CSV

static std::size_t split(std::string_view line, char separator, std::span<std::string_view> cells) {
    std::size_t count = 0;
    for (;;) {
        const std::size_t end = line.find(separator);
        std::string_view cell = trim(line.substr(0, end));
        if (cell.size() >= 2 && cell.front() == '"' && cell.back() == '"')
            cell = cell.substr(1, cell.size() - 2);
        if (count < cells.size())
            cells[count] = cell;
        ++count;
        if (end == std::string_view::npos)
            return count;
        line.remove_prefix(end + 1);
    }
}

bool parse_csv(TraceReader& reader, const TraceLimits& limits, Trace& out) {
    static constexpr std::size_t cells_max = 64;
    static constexpr std::string_view names[7] = {"id", "time", "x", "y", "z", "heading", "speed"};
    TraceBuilder builder(reader, limits);
    std::string_view line, cells[cells_max];
    int column[7] = {0, 1, 2, 3, -1, -1, -1};
    std::size_t columns = 0; // 0: no line seen yet
    while (reader.line(line, limits.line_bytes_max)) {
        if (columns == 0 && line.starts_with("\xef\xbb\xbf"))
            line.remove_prefix(3);
        if (trim(line).empty() || trim(line).front() == '#')
            continue;
        const std::size_t count = split(line, ',', cells);
        if (count > cells_max) {
            reader.fail("more than " + std::to_string(cells_max) + " columns");
            return false;
        }
        if (columns == 0) {
            columns = count;
            int found[7] = {-1, -1, -1, -1, -1, -1, -1};
            for (std::size_t c = 0; c < count; ++c) {
                std::string lower(cells[c]);
                std::transform(lower.begin(), lower.end(), lower.begin(), [](char a) { return a >= 'A' && a <= 'Z' ? char(a + 32) : a; });
                for (int k = 0; k < 7; ++k)
                    if (lower == names[k])
                        found[k] = static_cast<int>(c);
            }
            double ignored = 0;
            const bool header = count < 2 || !parse_number(cells[1], ignored);
            if (header && (found[0] < 0 || found[1] < 0 || found[2] < 0 || found[3] < 0)) {
                reader.fail("the header must name the columns id, time, x and y");
                return false;
            }
            if (header)
                std::copy(found, found + 7, column);
            else
                for (int k = 4; k < 7; ++k)
                    column[k] = count > std::size_t(k) ? k : -1;
            if (column[5] < 0)
                builder.lacks_heading();
            if (column[6] < 0)
                builder.lacks_speed();
            if (header)
                continue;
        }
        if (count != columns || count < 4) {
            reader.fail(std::to_string(count) + " columns instead of " + std::to_string(std::max<std::size_t>(columns, 4)));
            return false;
        }
        double values[7] = {};
        for (int k = 1; k < 7; ++k) {
            if (column[k] >= 0 && !parse_number(cells[column[k]], values[k])) {
                reader.fail(quoted(cells[column[k]]) + " is no number (" + std::string(names[k]) + ")");
                return false;
            }
        }
        TraceRow row;
        row.time_s = values[1], row.x = values[2], row.y = values[3], row.z = values[4], row.heading = values[5], row.speed = values[6];
        if (!builder.row(cells[column[0]], row))
            return false;
    }
    return builder.finish("CSV", out);
}

// --- city traffic and pedestrians

/// Splits at white space into exactly N numbers, the first of which is also kept as text.
template <std::size_t N>
static bool numbers(TraceReader& reader, std::string_view line, double (&out)[N], std::string_view& first) {
    for (std::size_t k = 0; k < N; ++k) {
        line = trim(line);
        std::size_t length = 0;
        while (length < line.size() && !is_space(line[length]))
            ++length;
        const std::string_view word = line.substr(0, length);
        if (k == 0)
            first = word;
        if (!parse_number(word, out[k])) {
            reader.fail(word.empty() ? std::to_string(k) + " values instead of " + std::to_string(N) : quoted(word) + " is no number");
            return false;
        }
        line.remove_prefix(length);
    }
    if (!trim(line).empty()) {
        reader.fail("more than " + std::to_string(N) + " values");
        return false;
    }
    return true;
}

bool parse_city_text(TraceReader& reader, const TraceLimits& limits, Trace& out) {
    TraceBuilder builder(reader, limits);
    std::string_view line, id;
    double time_s = 0;
    bool started = false;
    while (reader.line(line, limits.line_bytes_max)) {
        if (trim(line).empty())
            continue;
        if (line.starts_with("T ")) {
            double value[1];
            if (!numbers(reader, line.substr(2), value, id))
                return false;
            if (started && value[0] <= time_s) {
                reader.fail("time " + std::string(id) + " is not after the time before it");
                return false;
            }
            time_s = value[0];
            started = true;
            if (!builder.frame(time_s))
                return false;
            continue;
        }
        double value[5];
        if (!numbers(reader, line, value, id))
            return false;
        TraceRow row;
        row.time_s = time_s, row.x = value[1], row.y = value[2], row.heading = heading_of_compass(value[3]), row.speed = value[4];
        if (!builder.row(id, row))
            return false;
    }
    return builder.finish("city traffic text", out);
}

bool parse_pedestrian_text(TraceReader& reader, const TraceLimits& limits, Trace& out) {
    static constexpr double frames_hz = 16;
    TraceBuilder builder(reader, limits);
    builder.lacks_heading();
    builder.lacks_speed();
    std::string_view line, id;
    while (reader.line(line, limits.line_bytes_max)) {
        if (trim(line).empty())
            continue;
        double value[5];
        if (!numbers(reader, line, value, id))
            return false;
        TraceRow row;
        row.time_s = value[1] / frames_hz, row.x = value[2] / 100, row.y = value[3] / 100, row.z = value[4] / 100;
        if (!builder.row(id, row))
            return false;
    }
    return builder.finish("pedestrian text", out);
}

} // namespace scenarios
