#pragma once
// What the bench program reports: runs of named figures, as JSON (bench.schema.json) and CSV.
#include "bench/metered_executor.hpp"
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace scenarios {

/// One run. Figures keep the order in which they were first set; names are those of bench.schema.json.
struct Run {
    std::string scenario = {}, bench_case = {}, executor = "serial", engine = "throng", output_hash = {};
    std::string cache = {}; // ECS cases: "warm" or "cold"
    std::uint32_t workers = 1, repeat = 1;
    std::uint64_t seed = 1;
    bool quick = false;
    std::vector<std::pair<std::string, double>> figures = {};
    std::vector<StageFigure> stages = {}; // per tick
    std::vector<std::pair<std::string, std::string>> machine = {};

    void set(const std::string& name, double value);
    /// Null when it was not set.
    const double* get(const std::string& name) const;
};

/// Middle value (of an even count the mean of the middle two); 0 when there is none.
double median(std::vector<double> values);
/// Smallest value that at least `share` (0..1) of the values do not exceed; 0 when there is none.
double percentile(std::vector<double> values, double share);
/// One run out of repeats of the same scenario: the median of each figure and stage time, but of figures named ..._max the largest, and
/// of allocations the mean. Exact figures (bytes, keys) are equal in all repeats, so their median is the value; the hash is empty if the
/// repeats differ. Needs at least one.
Run median_run(const std::vector<Run>& repeats);

/// {"runs": [...]}. Numbers that are not finite are left out.
std::string to_json(const std::vector<Run>& runs);
/// One line a run; the columns are all figures that any run has.
std::string to_csv(const std::vector<Run>& runs);
/// Processor name, cores, compiler, kernel: whatever the system tells.
std::vector<std::pair<std::string, std::string>> machine_description();
/// Peak resident set of the process so far; 0 where unknown.
double peak_rss_mib();
/// How fast one thread copies memory that no cache holds, in 10^9 bytes a second; measured once a process, about 50 ms.
double memcpy_gb_s();
/// 32 lower-case hex digits, most significant first.
std::string hash_text(std::uint64_t high, std::uint64_t low);
/// False if the file cannot be written whole.
bool write_file(const std::string& path, const std::string& text);

} // namespace scenarios
