#pragma once
// Collects the rows of a text format and turns them into a Trace.
#include "bench/traces/trace.hpp"
#include <string_view>
#include <unordered_map>

namespace scenarios {

class TraceReader;

struct TraceRow {
    double time_s = 0;
    double x = 0, y = 0, z = 0, heading = 0, speed = 0;
};

class TraceBuilder {
public:
    TraceBuilder(TraceReader& reader, const TraceLimits& limits) : reader_(reader), limits_(limits) {}

    /// Makes a frame exist although nobody is in it. Problems go to the reader.
    bool frame(double time_s);
    bool row(std::string_view id, const TraceRow& row);
    void lacks_heading() { heading_given_ = false; }
    void lacks_speed() { speed_given_ = false; }
    /// Sorts rows into frames; false after a problem.
    bool finish(const char* source, Trace& out);

private:
    struct Row {
        double time_s;
        std::uint32_t id, line;
        float x, y, z, heading, speed;
    };
    TraceReader& reader_;
    const TraceLimits& limits_;
    bool heading_given_ = true, speed_given_ = true;
    std::vector<Row> rows_ = {};
    std::vector<double> times_ = {};
    std::unordered_map<std::string, std::uint32_t> ids_ = {};
};

/// A finite number that is the whole of `text`, at most 1e9 in size.
bool parse_number(std::string_view text, double& out);
/// Degrees clockwise from north (SUMO) to radians counter-clockwise from +x, in (-pi, pi].
double heading_of_compass(double degrees);
/// Fills heading and/or speed from the motion of each entity.
void derive_motion(Trace& trace, bool heading, bool speed);
/// Sets frame_s to the median distance between frames.
void set_frame_time(Trace& trace);

/// The parsers; each reads from the start of the stream and reports through the reader.
bool parse_fcd_xml(TraceReader& reader, const TraceLimits& limits, Trace& out);
bool parse_csv(TraceReader& reader, const TraceLimits& limits, Trace& out);
bool parse_city_text(TraceReader& reader, const TraceLimits& limits, Trace& out);
bool parse_pedestrian_text(TraceReader& reader, const TraceLimits& limits, Trace& out);
bool parse_cubes(TraceReader& reader, const TraceLimits& limits, Trace& out);
bool parse_recording(TraceReader& reader, const TraceLimits& limits, Trace& out);
bool read_cubes(TraceReader& reader, std::uint32_t frames_max, CubeFrames& out);

} // namespace scenarios
