// throng_trace: shows and converts recordings of motion.
#include "bench/traces/trace.hpp"
#include <cstdio>
#include <cstring>

static const char* const usage = R"(throng_trace info FILE
    Shows what a recording holds.
throng_trace convert FILE OUT [--from SECONDS] [--seconds SECONDS]
    Writes a recording as .throngtrace (1 cm, 1 cm/s, 1/4096 turn), whole or in part.

FILE is SUMO FCD XML, CSV (id,time,x,y[,z,heading,speed]; headings in radians counter-clockwise from +x), city traffic or
pedestrian text, cubes or .throngtrace, compressed with zstd or not. The format is told by the content.
Exit codes: 0 done, 2 bad input or options (one line on the error stream).
)";

static int refuse(const std::string& problem) {
    std::fprintf(stderr, "throng_trace: %s\n", problem.c_str());
    return 2;
}

static void cut(scenarios::Trace& trace, double from_s, double seconds) {
    scenarios::Trace out;
    out.source = trace.source;
    out.entity_count = trace.entity_count;
    out.frame_s = trace.frame_s;
    for (std::uint32_t f = 0; f < trace.frame_count(); ++f) {
        const double at = trace.time_s[f] - trace.time_s[0];
        if (at < from_s - 1e-9 || at >= from_s + seconds - 1e-9)
            continue;
        out.time_s.push_back(trace.time_s[f]);
        out.begin.push_back(out.sample_count());
        for (std::uint32_t i = trace.begin[f]; i < trace.begin[f + 1]; ++i) {
            out.id.push_back(trace.id[i]);
            out.x.push_back(trace.x[i]);
            out.y.push_back(trace.y[i]);
            out.z.push_back(trace.z[i]);
            out.heading.push_back(trace.heading[i]);
            out.speed.push_back(trace.speed[i]);
        }
    }
    out.begin.push_back(out.sample_count());
    trace = std::move(out);
}

static bool seconds_of(const char* text, double& out) {
    char* end = nullptr;
    out = std::strtod(text, &end);
    return end != text && *end == 0 && out >= 0 && out <= 1e9;
}

int main(int argc, char** argv) {
    if (argc >= 2 && (std::strcmp(argv[1], "--help") == 0 || std::strcmp(argv[1], "-h") == 0)) {
        std::fputs(usage, stdout);
        return 0;
    }
    const std::string command = argc >= 2 ? argv[1] : "";
    const bool convert = command == "convert";
    if ((command != "info" && !convert) || argc < (convert ? 4 : 3))
        return refuse("expected 'info FILE' or 'convert FILE OUT' (see --help)");
    double from_s = 0, seconds = 1e9;
    for (int i = convert ? 4 : 3; i < argc; i += 2) {
        double* to = std::strcmp(argv[i], "--from") == 0 ? &from_s : std::strcmp(argv[i], "--seconds") == 0 ? &seconds : nullptr;
        if (!convert || !to)
            return refuse(std::string("unknown option ") + argv[i] + " (see --help)");
        if (i + 1 == argc || !seconds_of(argv[i + 1], *to))
            return refuse(std::string(argv[i]) + " needs a number of seconds");
    }
    scenarios::Trace trace;
    if (const std::string problem = scenarios::load_trace(argv[2], trace); !problem.empty())
        return refuse(problem);
    if (!convert) {
        const scenarios::TraceExtent e = scenarios::extent(trace);
        std::printf("%s: %u entities, %u frames, %u samples, %.2f s at %.2f Hz\n", trace.source.c_str(), trace.entity_count,
                    trace.frame_count(), trace.sample_count(), trace.duration_s(), trace.frame_s > 0 ? 1 / trace.frame_s : 0.0);
        std::printf("ground %.1f x %.1f m, present %.1f on average, %u at most\n", double(e.max_x) - e.min_x, double(e.max_y) - e.min_y,
                    e.mean_present, e.most_present);
        return 0;
    }
    cut(trace, from_s, seconds);
    scenarios::split_returning(trace);
    std::vector<std::byte> bytes;
    if (const std::string problem = scenarios::write_recording(trace, bytes); !problem.empty())
        return refuse(std::string(argv[2]) + ": " + problem);
    std::FILE* file = std::fopen(argv[3], "wb");
    if (!file || std::fwrite(bytes.data(), 1, bytes.size(), file) != bytes.size() || std::fclose(file) != 0)
        return refuse(std::string(argv[3]) + ": cannot be written");
    std::printf("%s: %zu bytes, %.2f bytes a sample\n", argv[3], bytes.size(), double(bytes.size()) / trace.sample_count());
    return 0;
}
