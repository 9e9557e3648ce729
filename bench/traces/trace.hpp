#pragma once
// Recordings of real motion: what the demo, the benches and the tests replay. Program code, not part of the library.
//
// Axes: x and y span the ground plane in metres, z is the height, heading is in radians counter-clockwise from +x.
// A world whose ground plane is (x, z) takes world x = x, world y = z, world z = y (TiledTrace does that).
//
// The project's own recording format, ".throngtrace", little-endian:
//   "THRTRACE"  u32 version (1)  u32 frames  u32 entities  u32 samples  u32 flags (1: heights are all 0)
//   f64 first_time_s  f64 frame_s                        time of frame i = first_time_s + i * frame_s
//   u32 stream_bytes[6]  u32 packed_bytes                then packed_bytes of one zstd frame with a content checksum
// The zstd frame holds six streams: presence, heading, speed, x, y, z. Numbers in them are LEB128 varints; signed ones are
// zigzag. Ids are dense in order of first appearance, so that new ids of a frame need no number:
//   presence  per frame: count of ids that left, their places in the previous frame's list (differences), count of new ids
//   heading   per sample in frame order: difference to the entity's previous heading, in 1/4096 turn, wrapped
//   speed     difference to the previous speed, in cm/s
//   x, y      difference to a prediction: previous position + speed * frame_s along the heading, in cm
//   z         difference to the previous height, in cm
// An entity's first sample is stored against zeros, position unpredicted. The prediction uses a sine of our own
// (quarter_wave_sine in trace.cpp: + - * only), so every machine rebuilds the same centimetres.
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace scenarios {

struct Trace {
    static constexpr std::uint32_t none = 0xffffffffu;

    std::string source = {};                  // "SUMO FCD XML", "CSV", ...
    std::uint32_t entity_count = 0;           // ids are 0 .. entity_count - 1
    double frame_s = 0;                       // median distance of two frames; 0 with fewer than two frames
    std::vector<double> time_s = {};          // [frame], ascending
    std::vector<std::uint32_t> begin = {};    // [frame + 1]: the samples of frame f are begin[f] .. begin[f + 1] - 1
    std::vector<std::uint32_t> id = {};       // [sample], ascending inside a frame
    std::vector<float> x = {}, y = {}, z = {}, heading = {}, speed = {}; // [sample]

    std::uint32_t frame_count() const { return static_cast<std::uint32_t>(time_s.size()); }
    std::uint32_t sample_count() const { return static_cast<std::uint32_t>(id.size()); }
    /// From the first frame to one frame after the last, seconds.
    double duration_s() const { return time_s.empty() ? 0 : time_s.back() - time_s.front() + frame_s; }
};

struct TraceExtent {
    float min_x = 0, min_y = 0, max_x = 0, max_y = 0;
    double mean_present = 0; // entities in a frame, on average
    std::uint32_t most_present = 0;
};
TraceExtent extent(const Trace& trace);

/// What an import may use; a larger input is refused with a message that names the limit.
struct TraceLimits {
    std::uint32_t samples_max = 32u << 20;
    std::uint32_t frames_max = 4u << 20;
    std::uint32_t entities_max = 4u << 20;
    std::uint32_t line_bytes_max = 64u << 10;           // also of an XML tag
    std::uint64_t unpacked_bytes_max = 4ull << 30;      // after zstd
};

/// Imports a recording whose format is told by its content, zstd-compressed or not: SUMO FCD XML (vehicles, persons and
/// containers), CSV (id,time,x,y[,z,heading,speed]; a header line may name the columns in any order), city traffic text
/// ("T seconds" and "id x y angle speed" lines), pedestrian text ("id frame x y z", centimetres, 16 Hz), rigid-body cubes
/// (frames of 901 x 8 int32) and .throngtrace. Speeds and headings that a format lacks are derived from the motion.
/// Returns an empty string, or one line "file:line: what" and an empty trace. Memory is bounded by the limits.
std::string load_trace(const std::string& path, Trace& out, const TraceLimits& limits = {});
/// The same from memory; `name` stands for the path in messages.
std::string parse_trace(std::span<const std::byte> bytes, const std::string& name, Trace& out, const TraceLimits& limits = {});

/// Makes everyone who is missing in some frame and comes back a new entity, as .throngtrace needs.
void split_returning(Trace& trace);

/// Writes .throngtrace bytes: positions to 1 cm, speed to 1 cm/s, heading to 1/4096 turn. Frames must be evenly spaced (to
/// 1 % of frame_s). Returns an empty string or what is wrong.
std::string write_recording(const Trace& trace, std::vector<std::byte>& out);

/// The cubes file as it is: [frame][cube][8]. Empty string or the problem.
inline constexpr std::uint32_t cube_count = 901;
inline constexpr double cube_frame_s = 1.0 / 60;
struct CubeFrames {
    std::uint32_t frame_count = 0;
    std::vector<std::int32_t> values = {};
};
std::string load_cubes(const std::string& path, CubeFrames& out);

} // namespace scenarios
