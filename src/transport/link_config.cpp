#include "throng/loopback.hpp"

namespace throng {

const char* invalid_field(const LinkConfig& config) {
    const struct {
        const char* name;
        double value;
    } percents[] = {{"loss_percent", config.loss_percent},
                    {"burst_enter_percent", config.burst_enter_percent},
                    {"burst_leave_percent", config.burst_leave_percent},
                    {"burst_loss_percent", config.burst_loss_percent},
                    {"reorder_percent", config.reorder_percent},
                    {"duplicate_percent", config.duplicate_percent},
                    {"truncate_percent", config.truncate_percent},
                    {"corrupt_percent", config.corrupt_percent}};
    for (const auto& percent : percents)
        if (!(percent.value >= 0 && percent.value <= 100)) // also refuses NaN
            return percent.name;
    constexpr u32 hour_us = 3'600'000'000u; // sums of four such values stay far from the end of TimeUs
    if (config.delay_us > hour_us)
        return "delay_us";
    if (config.jitter_us > hour_us)
        return "jitter_us";
    if (config.reorder_extra_us > hour_us)
        return "reorder_extra_us";
    // So that nanoseconds of the longest queue fit 64 bits.
    if (config.rate_bytes_per_s != 0 && config.rate_bytes_per_s < 1000)
        return "rate_bytes_per_s";
    if (config.packet_overhead_bytes > 65'535)
        return "packet_overhead_bytes";
    for (const Blackout& blackout : config.blackouts)
        if (blackout.from_us > blackout.until_us)
            return "blackouts";
    for (const ScriptStep& step : config.script)
        if (step.action > ScriptAction::corrupt)
            return "script";
    return nullptr;
}

const char* to_string(Fate fate) {
    constexpr const char* names[fate_count] = {"delivered", "lost", "burst", "blacked_out", "rate_dropped", "overflowed",
                                               "truncated", "corrupted", "discarded", "sent", "duplicated",
                                               "reordered", "retransmitted"};
    return static_cast<u32>(fate) < fate_count ? names[static_cast<u32>(fate)] : "unknown";
}

LinkCounters& LinkCounters::operator+=(const LinkCounters& other) {
    sent += other.sent;
    sent_bytes += other.sent_bytes;
    delivered += other.delivered;
    delivered_bytes += other.delivered_bytes;
    lost += other.lost;
    burst += other.burst;
    blacked_out += other.blacked_out;
    rate_dropped += other.rate_dropped;
    overflowed += other.overflowed;
    truncated += other.truncated;
    corrupted += other.corrupted;
    duplicated += other.duplicated;
    reordered += other.reordered;
    retransmitted += other.retransmitted;
    discarded += other.discarded;
    refused += other.refused;
    in_flight += other.in_flight;
    return *this;
}

} // namespace throng
