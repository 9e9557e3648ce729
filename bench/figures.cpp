#include "bench/figures.hpp"
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <initializer_list>
#include <numeric>
#include <string_view>
#include <sys/resource.h>
#include <sys/utsname.h>
#include <thread>

namespace scenarios {

void Run::set(const std::string& name, double value) {
    for (auto& [key, old] : figures) {
        if (key == name) {
            old = value;
            return;
        }
    }
    figures.emplace_back(name, value);
}

const double* Run::get(const std::string& name) const {
    for (const auto& [key, value] : figures)
        if (key == name)
            return &value;
    return nullptr;
}

double median(std::vector<double> values) {
    if (values.empty())
        return 0;
    std::sort(values.begin(), values.end());
    const std::size_t n = values.size();
    return n % 2 ? values[n / 2] : (values[n / 2 - 1] + values[n / 2]) / 2;
}

double percentile(std::vector<double> values, double share) {
    if (values.empty())
        return 0;
    std::sort(values.begin(), values.end());
    const auto rank = static_cast<std::size_t>(std::ceil(std::clamp(share, 0.0, 1.0) * static_cast<double>(values.size())));
    return values[rank == 0 ? 0 : rank - 1];
}

/// One value of those of all windows: the median, but of what says how bad it gets the largest, and of what must not happen the mean.
static double of_windows(const std::string& name, std::vector<double> values) {
    if (name.ends_with("_max"))
        return *std::max_element(values.begin(), values.end());
    if (name == "allocs_per_tick")
        return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
    return median(std::move(values));
}

Run median_run(const std::vector<Run>& repeats) {
    Run out = repeats.front();
    out.repeat = static_cast<std::uint32_t>(repeats.size());
    for (auto& [name, value] : out.figures) {
        std::vector<double> values;
        for (const Run& r : repeats)
            if (const double* v = r.get(name))
                values.push_back(*v);
        value = of_windows(name, std::move(values));
    }
    for (StageFigure& stage : out.stages) {
        std::vector<double> cpu, wall;
        for (const Run& r : repeats) {
            for (const StageFigure& s : r.stages) {
                if (s.name == stage.name) {
                    cpu.push_back(s.cpu_ns);
                    wall.push_back(s.wall_ns);
                }
            }
        }
        stage.cpu_ns = median(std::move(cpu));
        stage.wall_ns = median(std::move(wall));
    }
    for (const Run& r : repeats)
        if (r.output_hash != out.output_hash)
            out.output_hash.clear();
    return out;
}

static std::string quoted(const std::string& text) {
    std::string out = "\"";
    for (const char c : text) {
        if (c == '"' || c == '\\') {
            out += '\\';
            out += c;
        } else if (static_cast<unsigned char>(c) < 0x20) {
            char escape[8];
            std::snprintf(escape, sizeof escape, "\\u%04x", static_cast<unsigned>(c));
            out += escape;
        } else {
            out += c;
        }
    }
    out += '"';
    return out;
}

/// Shortest form that reads back to 9 digits; whole numbers have no fraction.
static std::string number(double value) {
    char text[40];
    if (value == std::floor(value) && std::fabs(value) < 9e15)
        std::snprintf(text, sizeof text, "%.0f", value == 0 ? 0.0 : value);
    else
        std::snprintf(text, sizeof text, "%.9g", value);
    return text;
}

/// Appends all parts. (g++ 12 warns about memcpy inside chains of operator+.)
static void add(std::string& out, std::initializer_list<std::string_view> parts) {
    for (const std::string_view part : parts)
        out.append(part);
}

std::string to_json(const std::vector<Run>& runs) {
    std::string out = "{\"runs\": [";
    const char* run_separator = "\n {";
    for (const Run& r : runs) {
        add(out, {run_separator, "\"scenario\": ", quoted(r.scenario)});
        run_separator = ",\n {";
        if (!r.bench_case.empty())
            add(out, {", \"case\": ", quoted(r.bench_case)});
        if (!r.cache.empty())
            add(out, {", \"cache\": ", quoted(r.cache)});
        add(out, {", \"workers\": ", std::to_string(r.workers), ", \"executor\": ", quoted(r.executor)});
        add(out, {", \"engine\": ", quoted(r.engine)});
        add(out, {", \"seed\": ", std::to_string(r.seed), ", \"repeat\": ", std::to_string(r.repeat)});
        add(out, {", \"quick\": ", r.quick ? "true" : "false"});
        if (!r.output_hash.empty())
            add(out, {", \"output_hash\": ", quoted(r.output_hash)});
        for (const auto& [name, value] : r.figures)
            if (std::isfinite(value))
                add(out, {",\n  ", quoted(name), ": ", number(value)});
        if (!r.stages.empty()) {
            const char* separator = ",\n  \"stages\": {\n   ";
            for (const StageFigure& s : r.stages) {
                add(out, {separator, quoted(s.name), ": {\"cpu_ns\": ", number(s.cpu_ns), ", \"wall_ns\": ", number(s.wall_ns)});
                add(out, {", \"parallel\": ", s.parallel ? "true" : "false", "}"});
                separator = ",\n   ";
            }
            out += '}';
        }
        if (!r.machine.empty()) {
            const char* separator = ",\n  \"machine\": {";
            for (const auto& [name, value] : r.machine) {
                add(out, {separator, quoted(name), ": ", quoted(value)});
                separator = ", ";
            }
            out += '}';
        }
        out += '}';
    }
    out += "\n]}\n";
    return out;
}

static std::string csv_cell(const std::string& text) {
    if (text.find_first_of(",\"\n") == std::string::npos)
        return text;
    std::string out = "\"";
    for (const char c : text)
        out.append(c == '"' ? 2 : 1, c);
    out += '"';
    return out;
}

std::string to_csv(const std::vector<Run>& runs) {
    std::vector<std::string> names;
    for (const Run& r : runs)
        for (const auto& [name, value] : r.figures)
            if (std::find(names.begin(), names.end(), name) == names.end())
                names.push_back(name);
    std::string out = "scenario,case,cache,engine,executor,workers,seed,repeat,quick,output_hash";
    for (const std::string& name : names)
        add(out, {",", csv_cell(name)});
    out += '\n';
    for (const Run& r : runs) {
        add(out, {csv_cell(r.scenario), ",", csv_cell(r.bench_case), ",", r.cache, ",", r.engine, ",", r.executor, ",",
                  std::to_string(r.workers), ","});
        add(out, {std::to_string(r.seed), ",", std::to_string(r.repeat), ",", r.quick ? "true" : "false", ",", r.output_hash});
        for (const std::string& name : names) {
            const double* value = r.get(name);
            add(out, {",", value && std::isfinite(*value) ? number(*value) : std::string()});
        }
        out += '\n';
    }
    return out;
}

std::vector<std::pair<std::string, std::string>> machine_description() {
    std::vector<std::pair<std::string, std::string>> out;
    std::ifstream cpu("/proc/cpuinfo");
    for (std::string line; std::getline(cpu, line);) {
        if (line.rfind("model name", 0) == 0 && line.find(": ") != std::string::npos) {
            out.emplace_back("cpu", line.substr(line.find(": ") + 2));
            break;
        }
    }
    out.emplace_back("cores", std::to_string(std::thread::hardware_concurrency()));
#if defined(__clang__)
    out.emplace_back("compiler", "clang " __clang_version__);
#elif defined(__GNUC__)
    out.emplace_back("compiler", "g++ " __VERSION__);
#endif
    if (utsname system{}; uname(&system) == 0)
        out.emplace_back("kernel", std::string(system.release));
    return out;
}

double peak_rss_mib() {
    rusage usage{};
    return getrusage(RUSAGE_SELF, &usage) == 0 ? static_cast<double>(usage.ru_maxrss) / 1024 : 0;
}

double memcpy_gb_s() {
    static const double measured = [] {
        constexpr std::size_t bytes = std::size_t{64} << 20;
        std::vector<char> from(bytes, 1), to(bytes, 2);
        double best_ns = 0;
        for (int i = 0; i < 5; ++i) {
            const double start = wall_ns();
            std::memcpy(to.data(), from.data(), bytes);
            asm volatile("" : : "r"(to.data()) : "memory"); // not left out
            const double ns = wall_ns() - start;
            best_ns = i == 0 ? ns : std::min(best_ns, ns);
        }
        return static_cast<double>(bytes) / best_ns;
    }();
    return measured;
}

std::string hash_text(std::uint64_t high, std::uint64_t low) {
    char text[33];
    std::snprintf(text, sizeof text, "%016llx%016llx", static_cast<unsigned long long>(high), static_cast<unsigned long long>(low));
    return text;
}

bool write_file(const std::string& path, const std::string& text) {
    std::FILE* file = std::fopen(path.c_str(), "wb");
    if (!file)
        return false;
    const bool written = std::fwrite(text.data(), 1, text.size(), file) == text.size();
    return std::fclose(file) == 0 && written;
}

} // namespace scenarios
