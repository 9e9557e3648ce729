#pragma once
// What the demo prints: progress lines, the live table and the summary. A terminal is updated in place, anything else gets
// plain lines.
#include "tools/demo_program/session.hpp"
#include "tools/demo_program/text.hpp"
#include <cstdio>
#include <string>

namespace demo {

/// The measurements between two updates of the table.
struct Window {
    Sums sums = {};
    double simulated_s = 0, wall_s = 0;
    throng::LinkCounters down = {}, up = {}; // at its end, since the start
};

class Display {
public:
    explicit Display(bool plain);

    /// A step of the preparation: "name ..." now, on a terminal; "name: result (seconds)" when it is done.
    void begin_step(const std::string& name);
    void end_step(const std::string& result);
    /// Plain mode: what the columns of the table mean.
    void begin_table(const Options& options);
    void update(const Options& options, const Session& session, const Window& window);
    /// The table stays as it is, what follows goes below.
    void end_table();
    /// One line that the next one replaces (terminal), or nothing.
    void passing(const std::string& text);
    void line(const std::string& text);
    void summary(const Options& options, const Session& session, const Window& whole);

private:
    void table(const Options& options, const Session& session, const Window& window);
    void plain_line(const Options& options, const Session& session, const Window& window);

    bool in_place_;
    u32 table_lines_ = 0;
    bool passing_shown_ = false;
    std::string step_ = {};
    u64 step_start_ns_ = 0;
};

/// "12,345".
std::string grouped(double value);

/// The run as an object of bench.schema.json, in a file of the same form; false if it cannot be written.
bool write_json(const Options& options, Session& session, const Window& whole);

} // namespace demo
