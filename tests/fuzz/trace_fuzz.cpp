// Recordings of any format (the bench's and the demo's input). What is accepted is whole: as many values as samples, frames in order of
// time, ids inside their range; and it can be written as a .throngtrace that is read again.
#include "bench/traces/trace.hpp"
#include "tests/fuzz/fuzz.hpp"
#include "tests/fuzz/fuzz_protocol.hpp"
#include <cmath>

throng::u64 throng::fuzz::accepted_count = 0;

extern "C" int LLVMFuzzerTestOneInput(const throng::u8* data, std::size_t size_bytes) {
    using throng::fuzz::require;
    scenarios::TraceLimits limits;
    limits.samples_max = limits.entities_max = 1u << 14;
    limits.frames_max = 1u << 10;
    limits.line_bytes_max = 1u << 10;
    limits.unpacked_bytes_max = 1u << 20;
    scenarios::Trace trace;
    const std::string problem = scenarios::parse_trace({reinterpret_cast<const std::byte*>(data), size_bytes}, "input", trace, limits);
    if (!problem.empty()) {
        require(problem.find('\n') == std::string::npos && trace.sample_count() == 0);
        return 0;
    }
    const std::size_t samples = trace.sample_count();
    require(trace.x.size() == samples && trace.y.size() == samples && trace.z.size() == samples && trace.heading.size() == samples &&
            trace.speed.size() == samples && trace.begin.size() == trace.time_s.size() + 1 && trace.begin.back() == samples);
    for (std::uint32_t frame = 0; frame < trace.frame_count(); ++frame) {
        require(trace.begin[frame] <= trace.begin[frame + 1] && (frame == 0 || trace.time_s[frame - 1] < trace.time_s[frame]));
        for (std::uint32_t i = trace.begin[frame]; i < trace.begin[frame + 1]; ++i)
            require(trace.id[i] < trace.entity_count && (i == trace.begin[frame] || trace.id[i - 1] < trace.id[i]) &&
                    std::isfinite(trace.x[i]) && std::isfinite(trace.y[i]) && std::isfinite(trace.z[i]) &&
                    std::isfinite(trace.heading[i]) && std::isfinite(trace.speed[i]));
    }
    ++throng::fuzz::accepted_count;
    scenarios::split_returning(trace);
    std::vector<std::byte> out;
    if (scenarios::write_recording(trace, out).empty()) {
        scenarios::Trace again;
        require(scenarios::parse_trace(out, "again", again).empty() && again.sample_count() == trace.sample_count());
    }
    return 0;
}
