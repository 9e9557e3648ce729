#include "bench/traces/builder.hpp"
#include "bench/traces/reader.hpp"
#include <algorithm>
#include <charconv>
#include <cmath>

namespace scenarios {

static constexpr double pi = 3.14159265358979323846;

bool parse_number(std::string_view text, double& out) {
    if (!text.empty() && text.front() == '+')
        text.remove_prefix(1);
    const char* end = text.data() + text.size();
    const auto [stop, problem] = std::from_chars(text.data(), end, out);
    return problem == std::errc() && stop == end && std::isfinite(out) && std::fabs(out) <= 1e9;
}

double heading_of_compass(double degrees) {
    double radians = (90 - std::fmod(degrees, 360.0)) * (pi / 180);
    if (radians > pi)
        radians -= 2 * pi;
    if (radians <= -pi)
        radians += 2 * pi;
    return radians;
}

bool TraceBuilder::frame(double time_s) {
    if (times_.size() >= limits_.frames_max) {
        reader_.fail("more than " + std::to_string(limits_.frames_max) + " frames");
        return false;
    }
    times_.push_back(time_s);
    return true;
}

bool TraceBuilder::row(std::string_view id, const TraceRow& row) {
    if (rows_.size() >= limits_.samples_max) {
        reader_.fail("more than " + std::to_string(limits_.samples_max) + " samples");
        return false;
    }
    if (id.empty()) {
        reader_.fail("an id is empty");
        return false;
    }
    const auto [place, is_new] = ids_.try_emplace(std::string(id), static_cast<std::uint32_t>(ids_.size()));
    if (is_new && ids_.size() > limits_.entities_max) {
        reader_.fail("more than " + std::to_string(limits_.entities_max) + " different ids");
        return false;
    }
    rows_.push_back({row.time_s, place->second, static_cast<std::uint32_t>(reader_.line_number()), static_cast<float>(row.x),
                     static_cast<float>(row.y), static_cast<float>(row.z), static_cast<float>(row.heading), static_cast<float>(row.speed)});
    return true;
}

void set_frame_time(Trace& trace) {
    std::vector<double> steps;
    for (std::size_t f = 1; f < trace.time_s.size(); ++f)
        steps.push_back(trace.time_s[f] - trace.time_s[f - 1]);
    trace.frame_s = 0;
    if (steps.empty())
        return;
    std::nth_element(steps.begin(), steps.begin() + static_cast<std::ptrdiff_t>(steps.size() / 2), steps.end());
    trace.frame_s = steps[steps.size() / 2];
}

bool TraceBuilder::finish(const char* source, Trace& out) {
    if (reader_.failed())
        return false;
    if (rows_.empty()) {
        reader_.fail("no samples", false);
        return false;
    }
    const auto before = [](const Row& a, const Row& b) { return a.time_s != b.time_s ? a.time_s < b.time_s : a.id < b.id; };
    if (!std::is_sorted(rows_.begin(), rows_.end(), before))
        std::stable_sort(rows_.begin(), rows_.end(), before);
    for (std::size_t i = 1; i < rows_.size(); ++i) {
        if (rows_[i].time_s == rows_[i - 1].time_s && rows_[i].id == rows_[i - 1].id) {
            std::string id;
            for (const auto& [text, number] : ids_)
                if (number == rows_[i].id)
                    id = text;
            const std::uint32_t line = std::max(rows_[i].line, rows_[i - 1].line);
            reader_.fail_at(line, "id " + id.substr(0, 40) + " occurs twice at time " + std::to_string(rows_[i].time_s));
            return false;
        }
    }
    std::vector<double> times = times_;
    for (std::size_t i = 0; i < rows_.size(); ++i)
        if (i == 0 || rows_[i].time_s != rows_[i - 1].time_s)
            times.push_back(rows_[i].time_s);
    std::sort(times.begin(), times.end());
    times.erase(std::unique(times.begin(), times.end()), times.end());
    if (times.size() > limits_.frames_max) {
        reader_.fail("more than " + std::to_string(limits_.frames_max) + " frames", false);
        return false;
    }
    // Ids were given in order of lines; a file sorted by id needs them in order of first appearance in time.
    std::vector<std::uint32_t> dense(ids_.size(), Trace::none);
    std::uint32_t next = 0;
    out = {};
    out.source = source;
    out.entity_count = static_cast<std::uint32_t>(ids_.size());
    out.time_s = std::move(times);
    const std::size_t n = rows_.size();
    for (auto* column : {&out.x, &out.y, &out.z, &out.heading, &out.speed})
        column->reserve(n);
    out.id.reserve(n);
    std::size_t i = 0;
    for (std::size_t f = 0; f < out.time_s.size(); ++f) {
        out.begin.push_back(static_cast<std::uint32_t>(i));
        std::size_t last = i;
        while (last < n && rows_[last].time_s == out.time_s[f]) {
            std::uint32_t& id = dense[rows_[last].id];
            if (id == Trace::none)
                id = next++;
            rows_[last].id = id;
            ++last;
        }
        std::sort(rows_.begin() + static_cast<std::ptrdiff_t>(i), rows_.begin() + static_cast<std::ptrdiff_t>(last), before);
        for (; i < last; ++i) {
            out.id.push_back(rows_[i].id);
            out.x.push_back(rows_[i].x);
            out.y.push_back(rows_[i].y);
            out.z.push_back(rows_[i].z);
            out.heading.push_back(rows_[i].heading);
            out.speed.push_back(rows_[i].speed);
        }
    }
    out.begin.push_back(static_cast<std::uint32_t>(n));
    set_frame_time(out);
    derive_motion(out, !heading_given_, !speed_given_);
    return true;
}

void derive_motion(Trace& trace, bool heading, bool speed) {
    if (!heading && !speed)
        return;
    std::vector<std::uint32_t> previous(trace.entity_count, Trace::none);
    std::vector<std::uint8_t> first(trace.entity_count, 1); // the next motion also counts for the first sample
    for (std::uint32_t f = 0; f < trace.frame_count(); ++f) {
        for (std::uint32_t i = trace.begin[f]; i < trace.begin[f + 1]; ++i) {
            std::uint32_t& p = previous[trace.id[i]];
            if (p != Trace::none) {
                const std::uint32_t g = static_cast<std::uint32_t>(
                    std::upper_bound(trace.begin.begin(), trace.begin.end(), p) - trace.begin.begin() - 1);
                const float dx = trace.x[i] - trace.x[p], dy = trace.y[i] - trace.y[p];
                const float distance = std::sqrt(dx * dx + dy * dy);
                if (heading)
                    trace.heading[i] = distance > 0.001f ? std::atan2(dy, dx) : trace.heading[p];
                if (speed)
                    trace.speed[i] = distance / static_cast<float>(trace.time_s[f] - trace.time_s[g]);
                if (first[trace.id[i]]) {
                    first[trace.id[i]] = 0;
                    if (heading)
                        trace.heading[p] = trace.heading[i];
                    if (speed)
                        trace.speed[p] = trace.speed[i];
                }
            }
            p = i;
        }
    }
}

void split_returning(Trace& trace) {
    std::vector<std::uint32_t> number(trace.entity_count, Trace::none), last(trace.entity_count, 0), order;
    std::uint32_t next = 0;
    Trace old = trace;
    for (std::uint32_t f = 0; f < trace.frame_count(); ++f) {
        const std::uint32_t first = trace.begin[f], end = trace.begin[f + 1];
        order.clear();
        for (std::uint32_t i = first; i < end; ++i) {
            const std::uint32_t id = old.id[i];
            if (number[id] == Trace::none || last[id] + 1 != f)
                number[id] = next++;
            last[id] = f;
            old.id[i] = number[id];
            order.push_back(i);
        }
        std::sort(order.begin(), order.end(), [&](std::uint32_t a, std::uint32_t b) { return old.id[a] < old.id[b]; });
        for (std::uint32_t i = first; i < end; ++i) {
            const std::uint32_t from = order[i - first];
            trace.id[i] = old.id[from];
            trace.x[i] = old.x[from];
            trace.y[i] = old.y[from];
            trace.z[i] = old.z[from];
            trace.heading[i] = old.heading[from];
            trace.speed[i] = old.speed[from];
        }
    }
    trace.entity_count = next;
}

TraceExtent extent(const Trace& trace) {
    TraceExtent e;
    if (trace.sample_count() == 0)
        return e;
    e.min_x = *std::min_element(trace.x.begin(), trace.x.end());
    e.max_x = *std::max_element(trace.x.begin(), trace.x.end());
    e.min_y = *std::min_element(trace.y.begin(), trace.y.end());
    e.max_y = *std::max_element(trace.y.begin(), trace.y.end());
    e.mean_present = double(trace.sample_count()) / trace.frame_count();
    for (std::uint32_t f = 0; f < trace.frame_count(); ++f)
        e.most_present = std::max(e.most_present, trace.begin[f + 1] - trace.begin[f]);
    return e;
}

} // namespace scenarios
