// Telling the formats apart, and the two binary ones: cubes and .throngtrace.
#include "bench/traces/trace.hpp"
#include "bench/traces/builder.hpp"
#include "bench/traces/reader.hpp"
#include <algorithm>
#include <cmath>
#include <cstring>
#include <zstd.h>

namespace scenarios {

static constexpr double pi = 3.14159265358979323846;
static constexpr std::size_t cube_frame_bytes = std::size_t(cube_count) * 8 * 4;

// --- cubes

static bool cube_plausible(const std::int32_t v[8]) {
    for (int k = 1; k < 4; ++k)
        if (v[k] < 0 || v[k] > 511)
            return false;
    for (int k = 4; k < 7; ++k)
        if (v[k] < -(1 << 20) || v[k] > 1 << 20)
            return false;
    return v[0] >= 0 && v[0] <= 3 && (v[7] == 0 || v[7] == 1);
}

bool read_cubes(TraceReader& reader, std::uint32_t frames_max, CubeFrames& out) {
    out = {};
    for (;;) {
        const std::string_view bytes = reader.peek(cube_frame_bytes);
        if (reader.failed())
            return false;
        const std::string where = "frame " + std::to_string(out.frame_count);
        if (bytes.empty() && out.frame_count > 0)
            return true;
        if (bytes.size() < cube_frame_bytes) {
            reader.fail(where + " is cut short", false);
            return false;
        }
        if (out.frame_count == frames_max) {
            reader.fail("more than " + std::to_string(frames_max) + " frames", false);
            return false;
        }
        const std::size_t base = out.values.size();
        out.values.resize(base + std::size_t(cube_count) * 8);
        std::memcpy(out.values.data() + base, bytes.data(), cube_frame_bytes);
        for (std::uint32_t c = 0; c < cube_count; ++c) {
            if (!cube_plausible(out.values.data() + base + std::size_t(c) * 8)) {
                reader.fail(where + ", cube " + std::to_string(c) + ": a value outside its range", false);
                return false;
            }
        }
        ++out.frame_count;
        reader.consume(cube_frame_bytes);
    }
}

/// Yaw of a smallest-three quaternion (x, y, z, w): the left-out component is the largest.
static float cube_yaw(const std::int32_t v[8]) {
    double q[4] = {}, rest = 1;
    for (int k = 0, i = 1; k < 4; ++k) {
        if (k == v[0])
            continue;
        q[k] = (v[i++] - 256) / 256.0 * 0.70710678118654752;
        rest -= q[k] * q[k];
    }
    q[v[0]] = std::sqrt(std::max(0.0, rest));
    return static_cast<float>(std::atan2(2 * (q[3] * q[2] + q[0] * q[1]), 1 - 2 * (q[1] * q[1] + q[2] * q[2])));
}

bool parse_cubes(TraceReader& reader, const TraceLimits& limits, Trace& out) {
    CubeFrames cubes;
    if (!read_cubes(reader, std::min(limits.frames_max, limits.samples_max / cube_count), cubes))
        return false;
    out = {};
    out.source = "cubes";
    out.entity_count = cube_count;
    for (std::uint32_t f = 0; f < cubes.frame_count; ++f) {
        out.time_s.push_back(f * cube_frame_s);
        out.begin.push_back(f * cube_count);
        for (std::uint32_t c = 0; c < cube_count; ++c) {
            const std::int32_t* v = cubes.values.data() + (std::size_t(f) * cube_count + c) * 8;
            out.id.push_back(c);
            out.x.push_back(static_cast<float>(v[4]) / 512);
            out.y.push_back(static_cast<float>(v[5]) / 512);
            out.z.push_back(static_cast<float>(v[6]) / 512);
            out.heading.push_back(cube_yaw(v));
            out.speed.push_back(0);
        }
    }
    out.begin.push_back(cubes.frame_count * cube_count);
    set_frame_time(out);
    derive_motion(out, false, true);
    return true;
}

std::string load_cubes(const std::string& path, CubeFrames& out) {
    TraceReader reader(path, std::uint64_t(1) << 30);
    if (reader.open_file(path))
        (void)read_cubes(reader, 1u << 15, out);
    if (reader.failed())
        out = {};
    return reader.error();
}

// --- .throngtrace

static constexpr char magic[8] = {'T', 'H', 'R', 'T', 'R', 'A', 'C', 'E'};
static constexpr std::uint32_t version = 1, flag_flat = 1, heading_steps = 4096;
enum Stream { presence, headings, speeds, xs, ys, zs, stream_count };
static constexpr std::size_t header_bytes = 8 + 5 * 4 + 2 * 8 + stream_count * 4 + 4;

/// Sine of i/1024 of a quarter turn by its series; only + - * and /, so it is the same everywhere.
static double quarter_wave_sine(std::uint32_t i) {
    const double a = i * (pi / 2 / 1024), square = a * a;
    double term = a, sum = a;
    for (int k = 1; k <= 7; ++k) {
        term = -term * square / ((2 * k) * (2 * k + 1));
        sum += term;
    }
    return sum;
}

namespace {
/// The state both directions predict from.
class Predictor {
public:
    struct Cm {
        std::int64_t x = 0, y = 0, z = 0, speed = 0;
        std::uint32_t heading = 0;
        bool known = false;
    };
    Predictor(std::uint32_t entities, double frame_s) : last(entities), frame_s_(frame_s) {
        for (std::uint32_t i = 0; i <= 1024; ++i)
            sine_[i] = quarter_wave_sine(i);
    }
    std::int64_t x(const Cm& from, const Cm& now) const { return from.x + step(from, now, sine(now.heading + 1024)); }
    std::int64_t y(const Cm& from, const Cm& now) const { return from.y + step(from, now, sine(now.heading)); }
    std::vector<Cm> last;

private:
    double sine(std::uint32_t heading) const {
        const std::uint32_t h = heading % heading_steps, i = h % 1024;
        switch (h / 1024) {
        case 0:
            return sine_[i];
        case 1:
            return sine_[1024 - i];
        case 2:
            return -sine_[i];
        default:
            return -sine_[1024 - i];
        }
    }
    std::int64_t step(const Cm& from, const Cm& now, double sine) const {
        return from.known ? static_cast<std::int64_t>(std::floor(static_cast<double>(now.speed) * frame_s_ * sine + 0.5)) : 0;
    }
    double frame_s_;
    double sine_[1025];
};

struct ByteWriter {
    std::vector<std::byte> bytes = {};
    void unsigned_number(std::uint64_t v) {
        for (; v >= 128; v >>= 7)
            bytes.push_back(static_cast<std::byte>(v | 128));
        bytes.push_back(static_cast<std::byte>(v));
    }
    void signed_number(std::int64_t v) { unsigned_number(static_cast<std::uint64_t>(v) << 1 ^ static_cast<std::uint64_t>(v >> 63)); }
    template <class T>
    void raw(T v) {
        const std::byte* p = reinterpret_cast<const std::byte*>(&v);
        bytes.insert(bytes.end(), p, p + sizeof v);
    }
};

struct ByteReader {
    const std::byte* at = nullptr;
    const std::byte* end = nullptr;
    bool ok = true;
    std::uint64_t unsigned_number() {
        std::uint64_t v = 0;
        for (unsigned shift = 0; shift < 64; shift += 7) {
            if (at == end)
                break;
            const auto b = static_cast<std::uint64_t>(*at++);
            v |= (b & 127) << shift;
            if (b < 128)
                return v;
        }
        ok = false;
        return 0;
    }
    std::int64_t signed_number() {
        const std::uint64_t v = unsigned_number();
        return static_cast<std::int64_t>(v >> 1) ^ -static_cast<std::int64_t>(v & 1);
    }
};
} // namespace

// What a recording may hold; writer and reader agree.
static constexpr double frame_s_max = 3600;
static constexpr std::int64_t speed_max = 100'000'000; // cm/s
static std::int64_t centi(float v) { return std::llround(static_cast<double>(v) * 100); }

std::string write_recording(const Trace& trace, std::vector<std::byte>& out) {
    const std::uint32_t frames = trace.frame_count();
    if (frames == 0 || trace.sample_count() == 0)
        return "there is nothing to write";
    if (!(trace.frame_s <= frame_s_max))
        return "its frames are more than an hour apart";
    for (std::uint32_t f = 0; f < frames; ++f)
        if (std::fabs(trace.time_s[f] - trace.time_s[0] - f * trace.frame_s) > trace.frame_s * 0.01)
            return "frame " + std::to_string(f) + " is not evenly spaced: at " + std::to_string(trace.time_s[f]) + " s";
    ByteWriter streams[stream_count];
    Predictor predictor(trace.entity_count, trace.frame_s);
    bool flat = true;
    std::vector<std::uint32_t> before, gone;
    std::uint32_t seen = 0;
    for (std::uint32_t f = 0; f < frames; ++f) {
        const std::span<const std::uint32_t> now(trace.id.data() + trace.begin[f], trace.begin[f + 1] - trace.begin[f]);
        gone.clear();
        for (std::uint32_t p = 0; p < before.size(); ++p)
            if (!std::binary_search(now.begin(), now.end(), before[p]))
                gone.push_back(p);
        std::uint32_t fresh = 0;
        for (const std::uint32_t id : now) {
            if (id >= seen + fresh)
                ++fresh;
            else if (!std::binary_search(before.begin(), before.end(), id))
                return "id " + std::to_string(id) + " leaves and comes back, which this format does not hold";
        }
        streams[presence].unsigned_number(gone.size());
        std::uint32_t place = 0;
        for (const std::uint32_t p : gone) {
            streams[presence].unsigned_number(p - place);
            place = p + 1;
        }
        streams[presence].unsigned_number(fresh);
        seen += fresh;
        before.assign(now.begin(), now.end());
        for (std::uint32_t i = trace.begin[f]; i < trace.begin[f + 1]; ++i) {
            Predictor::Cm& last = predictor.last[trace.id[i]];
            Predictor::Cm cm;
            cm.x = centi(trace.x[i]), cm.y = centi(trace.y[i]), cm.z = centi(trace.z[i]), cm.speed = centi(trace.speed[i]);
            if (std::abs(cm.speed) > speed_max)
                return "a speed out of range: " + std::to_string(trace.speed[i]) + " m/s";
            cm.heading = static_cast<std::uint32_t>(std::llround(trace.heading[i] * (heading_steps / (2 * pi)))) % heading_steps;
            cm.known = true;
            flat = flat && cm.z == 0;
            const auto turn = static_cast<std::int32_t>((cm.heading - last.heading + heading_steps / 2) % heading_steps);
            streams[headings].signed_number(turn - std::int32_t(heading_steps / 2));
            streams[speeds].signed_number(cm.speed - last.speed);
            streams[xs].signed_number(cm.x - predictor.x(last, cm));
            streams[ys].signed_number(cm.y - predictor.y(last, cm));
            streams[zs].signed_number(cm.z - last.z);
            last = cm;
        }
    }
    if (flat)
        streams[zs].bytes.clear();
    std::vector<std::byte> all;
    for (const ByteWriter& s : streams)
        all.insert(all.end(), s.bytes.begin(), s.bytes.end());
    std::vector<std::byte> packed(ZSTD_compressBound(all.size()));
    ZSTD_CCtx* context = ZSTD_createCCtx();
    (void)ZSTD_CCtx_setParameter(context, ZSTD_c_compressionLevel, 19);
    (void)ZSTD_CCtx_setParameter(context, ZSTD_c_checksumFlag, 1);
    const std::size_t size = ZSTD_compress2(context, packed.data(), packed.size(), all.data(), all.size());
    ZSTD_freeCCtx(context);
    if (ZSTD_isError(size))
        return std::string("zstd: ") + ZSTD_getErrorName(size);
    ByteWriter head;
    for (const char c : magic)
        head.raw(c);
    head.raw(version), head.raw(frames), head.raw(seen), head.raw(trace.sample_count());
    head.raw(flat ? flag_flat : 0u), head.raw(trace.time_s[0]), head.raw(trace.frame_s);
    for (const ByteWriter& s : streams)
        head.raw(static_cast<std::uint32_t>(s.bytes.size()));
    head.raw(static_cast<std::uint32_t>(size));
    out = std::move(head.bytes);
    out.insert(out.end(), packed.begin(), packed.begin() + static_cast<std::ptrdiff_t>(size));
    return {};
}

template <class T>
static T take(std::string_view& bytes) {
    T v;
    std::memcpy(&v, bytes.data(), sizeof v);
    bytes.remove_prefix(sizeof v);
    return v;
}

static const char* decode_recording(TraceReader& reader, const TraceLimits& limits, Trace& out) {
    std::string_view head = reader.peek(header_bytes);
    if (head.size() < header_bytes)
        return "the header is cut short";
    head.remove_prefix(sizeof magic);
    if (take<std::uint32_t>(head) != version)
        return "a recording of an unknown version";
    const auto frames = take<std::uint32_t>(head), entities = take<std::uint32_t>(head), samples = take<std::uint32_t>(head);
    const auto flags = take<std::uint32_t>(head);
    const auto first_s = take<double>(head), frame_s = take<double>(head);
    std::uint32_t stream_bytes[stream_count];
    std::uint64_t total = 0;
    for (std::uint32_t& b : stream_bytes)
        total += b = take<std::uint32_t>(head);
    const auto packed_bytes = take<std::uint32_t>(head);
    if (frames == 0 || frames > limits.frames_max || samples == 0 || samples > limits.samples_max || entities > samples)
        return "the header holds counts outside the limits";
    if (!(frame_s >= 0 && frame_s <= frame_s_max && first_s >= -1e9 && first_s <= 1e9) || (frame_s == 0 && frames > 1))
        return "the header holds impossible times";
    if (flags > flag_flat || total > std::uint64_t(samples) * 50 + std::uint64_t(frames) * 20 || packed_bytes > total + 1024)
        return "the header holds impossible sizes";
    reader.consume(header_bytes);
    const std::string_view packed = reader.peek(packed_bytes + 1);
    if (packed.size() != packed_bytes)
        return packed.size() < packed_bytes ? "the data is cut short" : "bytes after the end";
    if (ZSTD_getFrameContentSize(packed.data(), packed.size()) != total)
        return "the compressed data does not match the header";
    std::vector<std::byte> all(total);
    if (ZSTD_decompress(all.data(), all.size(), packed.data(), packed.size()) != total)
        return "the compressed data is broken";
    ByteReader streams[stream_count];
    const std::byte* at = all.data();
    for (int s = 0; s < stream_count; ++s) {
        streams[s].at = at;
        streams[s].end = at += stream_bytes[s];
    }
    out.entity_count = entities;
    out.frame_s = frame_s;
    Predictor predictor(entities, frame_s);
    std::vector<std::uint32_t> now, kept;
    std::uint32_t seen = 0;
    for (std::uint32_t f = 0; f < frames; ++f) {
        const std::uint64_t gone = streams[presence].unsigned_number();
        if (gone > now.size())
            return "a frame loses more than it had";
        kept.clear();
        std::size_t place = 0;
        for (std::uint64_t g = 0; g < gone; ++g) {
            const std::uint64_t skip = streams[presence].unsigned_number();
            if (!streams[presence].ok || skip >= now.size() - place)
                return "a place outside its frame";
            const auto from = now.begin() + static_cast<std::ptrdiff_t>(place);
            kept.insert(kept.end(), from, from + static_cast<std::ptrdiff_t>(skip));
            place += skip + 1;
        }
        kept.insert(kept.end(), now.begin() + static_cast<std::ptrdiff_t>(place), now.end());
        now.swap(kept);
        const std::uint64_t fresh = streams[presence].unsigned_number();
        if (!streams[presence].ok || fresh > entities - seen || out.id.size() + now.size() + fresh > samples)
            return "more entities or samples than the header holds";
        for (std::uint64_t k = 0; k < fresh; ++k)
            now.push_back(seen++);
        out.time_s.push_back(first_s + f * frame_s);
        out.begin.push_back(static_cast<std::uint32_t>(out.id.size()));
        for (const std::uint32_t id : now) {
            Predictor::Cm& last = predictor.last[id];
            Predictor::Cm cm;
            const std::int64_t turn = streams[headings].signed_number();
            cm.heading = (last.heading + static_cast<std::uint32_t>(turn)) % heading_steps;
            // Sums stay below 2^40 for any accepted input, so they cannot overflow.
            constexpr std::int64_t limit = std::int64_t(1) << 40;
            cm.speed = last.speed + std::clamp(streams[speeds].signed_number(), -limit, limit);
            if (std::abs(cm.speed) > speed_max)
                return "a speed out of range";
            cm.x = predictor.x(last, cm) + std::clamp(streams[xs].signed_number(), -limit, limit);
            cm.y = predictor.y(last, cm) + std::clamp(streams[ys].signed_number(), -limit, limit);
            cm.z = last.z + (flags & flag_flat ? 0 : std::clamp(streams[zs].signed_number(), -limit, limit));
            for (const std::int64_t v : {cm.x, cm.y, cm.z})
                if (v > 100'000'000'000 || v < -100'000'000'000)
                    return "a position out of range";
            cm.known = true;
            last = cm;
            float heading = static_cast<float>(cm.heading * (2 * pi / heading_steps));
            if (cm.heading > heading_steps / 2)
                heading = static_cast<float>(cm.heading * (2 * pi / heading_steps) - 2 * pi);
            out.id.push_back(id);
            out.x.push_back(static_cast<float>(static_cast<double>(cm.x) / 100));
            out.y.push_back(static_cast<float>(static_cast<double>(cm.y) / 100));
            out.z.push_back(static_cast<float>(static_cast<double>(cm.z) / 100));
            out.heading.push_back(heading);
            out.speed.push_back(static_cast<float>(static_cast<double>(cm.speed) / 100));
        }
    }
    out.begin.push_back(static_cast<std::uint32_t>(out.id.size()));
    for (const ByteReader& s : streams)
        if (!s.ok || s.at != s.end)
            return "a stream does not match the header";
    if (out.id.size() != samples || seen != entities)
        return "fewer entities or samples than the header holds";
    out.source = "throngtrace";
    return nullptr;
}

bool parse_recording(TraceReader& reader, const TraceLimits& limits, Trace& out) {
    out = {};
    if (const char* problem = decode_recording(reader, limits, out); problem)
        reader.fail(problem, false);
    return !reader.failed();
}

// --- any format

static bool dispatch(TraceReader& reader, const TraceLimits& limits, Trace& out) {
    std::string_view start = reader.peek(cube_frame_bytes);
    if (reader.failed())
        return false;
    if (start.empty()) {
        reader.fail("is empty", false);
        return false;
    }
    if (start.size() >= sizeof magic && std::memcmp(start.data(), magic, sizeof magic) == 0)
        return parse_recording(reader, limits, out);
    if (start.substr(0, 64).find('\0') != std::string_view::npos) {
        std::int32_t first[8] = {-1};
        if (start.size() >= sizeof first)
            std::memcpy(first, start.data(), sizeof first);
        if (cube_plausible(first))
            return parse_cubes(reader, limits, out);
        reader.fail("not a recording of a known format", false);
        return false;
    }
    if (start.starts_with("\xef\xbb\xbf"))
        start.remove_prefix(3);
    while (!start.empty() && (start.front() == ' ' || start.front() == '\t' || start.front() == '\r' || start.front() == '\n'))
        start.remove_prefix(1);
    if (start.starts_with("<"))
        return parse_fcd_xml(reader, limits, out);
    if (start.starts_with("T "))
        return parse_city_text(reader, limits, out);
    if (start.starts_with("#") || start.substr(0, start.find('\n')).find(',') != std::string_view::npos)
        return parse_csv(reader, limits, out);
    if (!start.empty() && start.front() >= '0' && start.front() <= '9')
        return parse_pedestrian_text(reader, limits, out);
    reader.fail("not a recording of a known format (SUMO FCD XML, CSV, city or pedestrian text, cubes, throngtrace)", false);
    return false;
}

static std::string run(TraceReader& reader, const TraceLimits& limits, Trace& out) {
    if (!reader.failed())
        (void)dispatch(reader, limits, out);
    if (reader.failed())
        out = {};
    return reader.error();
}

std::string load_trace(const std::string& path, Trace& out, const TraceLimits& limits) {
    TraceReader reader(path, limits.unpacked_bytes_max);
    (void)reader.open_file(path);
    return run(reader, limits, out);
}

std::string parse_trace(std::span<const std::byte> bytes, const std::string& name, Trace& out, const TraceLimits& limits) {
    TraceReader reader(name, limits.unpacked_bytes_max);
    reader.open_memory(bytes);
    return run(reader, limits, out);
}

} // namespace scenarios
