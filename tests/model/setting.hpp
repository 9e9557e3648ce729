#pragma once
// What all parts of one run share: its sizes, its rules, its chances, its counters, its trace.
#include "tests/model/rules.hpp"
#include "tests/model/values.hpp"

#include <algorithm>
#include <cstdarg>
#include <cstdio>
#include <stdexcept>
#include <utility>

namespace model {

/// A promise of the protocol that was broken. The text begins with its kind, see `kind_of`.
class Violation : public std::runtime_error {
public:
    using std::runtime_error::runtime_error;
};

/// A pseudo-random sequence that is the same everywhere (splitmix64).
class Random {
public:
    explicit Random(std::uint64_t seed) : state_(seed * 0x9e3779b97f4a7c15u + 0x1234567u) {}
    std::uint64_t next() {
        state_ += 0x9e3779b97f4a7c15u;
        std::uint64_t z = state_;
        z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
        z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
        return z ^ (z >> 31);
    }
    int below(int n) { return int(next() % std::uint64_t(n)); }
    bool chance(int per_mille) { return below(1000) < per_mille; }
    int between(int low, int high) { return low + below(high - low + 1); }
    template <std::size_t n>
    int one_of(const int (&values)[n]) {
        return values[below(int(n))];
    }

private:
    std::uint64_t state_;
};

enum class Direction : std::uint8_t { to_client, to_server };

/// Ticks until each copy of a packet arrives; none when it is dropped.
struct Deliveries {
    int copies = 0;
    std::array<int, 2> delays{};
    void add(int delay) { delays[copies++] = delay; }
};

/// Everything that neither side decides: the network, the backend, the budget. Random or enumerated.
class Environment {
public:
    virtual ~Environment() = default;
    virtual Deliveries deliveries(Direction direction) = 0;
    virtual bool backend_refuses() = 0;
    virtual bool budget_skips() = 0; // R16: this lane is not sent in this tick
    virtual int pick(int n) = 0;     // an order that may be any: n - 1 keeps things as they are

    template <class T>
    void shuffle(std::vector<T>& things) {
        for (int i = int(things.size()) - 1; i > 0; --i)
            std::swap(things[i], things[pick(i + 1)]);
    }
};

/// Sizes and rules of one run.
struct Setting {
    Rules rules;
    Variants variants;
    int clients = 2;
    int mirror_depth = 8;          // R14: versions in a mirror's ring
    int client_ring = 8;           // R7: the client's cap
    int record_ring = 8;           // R6
    int messages_per_tick = 2;     // budget
    int sections_per_message = 3;  // packet size
    int max_late_ticks = 9;        // R3
    int loss_timeout_ticks = 9;    // R6
    int loss_later_messages = 3;   // R6
    int heartbeat_ticks = 4;       // R18
    int chunks() const { return home_chunk_count + clients; }
};

/// Sums over a run. The byte weights are rough: they compare variants, and predict nothing.
struct Counters {
    long messages = 0, sections = 0, lanes_full = 0, lanes_delta = 0, lanes_gone = 0;
    long flickers = 0;          // an entity that the client should have vanished between two slots
    long ack_refused = 0;       // lanes that an ack could not take out of limbo
    long held_back = 0;         // acks that would have stranded more lanes than they gained
    long unapplied = 0;         // sections reported unapplied, by reason:
    long baseline_not_held = 0; //   the client's ring does not know the baseline
    long named_pruned = 0;      //     of these: pruned because the server had named a newer one, not because of the cap
    long shadowed = 0;          //   stopped by a tombstone
    long overtaken = 0;         //   limbo sections of an entity that would appear in part
    long superseded = 0;        // lanes skipped because all that is kept is newer
    long pruned_pending = 0;    // lanes that prune-pending did not send
    long absolute_needed = 0;   // a delta that R2-absolute had to stop
    long settled_checks = 0;
    long heal_ticks = 0, worst_heal_ticks = 0;
    long bytes() const { return 12 * messages + 6 * sections + 14 * lanes_full + 3 * lanes_delta; }
    void add(const Counters& other);
};

/// The trace of a run, off unless asked for.
class Trace {
public:
    bool on = false;
    Tick tick = 0;
    [[gnu::format(printf, 2, 3)]] void line(const char* format, ...) const {
        if (!on)
            return;
        std::printf("%4d  ", tick);
        va_list arguments;
        va_start(arguments, format);
        std::vprintf(format, arguments);
        va_end(arguments);
        std::printf("\n");
    }
};

/// What a run hands to its parts.
struct Context {
    const Setting& setting;
    Environment& environment;
    Counters& counters;
    Trace& trace;
    bool rules(Rule rule) const { return setting.rules(rule); }
    bool variants(Variant variant) const { return setting.variants(variant); }
};

} // namespace model
