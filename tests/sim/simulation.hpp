#pragma once
// One seed: a fault phase (random world, bad network, clients that come and go), then a heal phase (still world, perfect links), after
// which every client must show exactly what the server means it to see.
#include "bench/verify.hpp"
#include "tests/sim/actions.hpp"
#include "tests/sim/ruled.hpp"
#include "tests/sim/peer.hpp"
#include <atomic>

namespace throng_sim {

struct Options {
    throng::Executor* executor = nullptr;
    throng::u32 fault_ticks = 120;
    throng::u32 heal_ticks = 260; // at most
    bool trace = false;
    throng_verify::Kind sabotage = throng_verify::Kind::none;
};

struct Outcome {
    std::string failure; // empty: none
    throng::OutputHash output;
    throng::u32 heal_ticks = 0;
    throng::u64 messages = 0, checks = 0, compared = 0, unapplied = 0, lost = 0, hashes_equal = 0, malformed = 0, limit_drops = 0,
                refused = 0;
};

class Simulation {
public:
    Simulation(const throng::Protocol& protocol, throng::u64 seed, const Options& options);
    Outcome run();

private:
    void tick(bool faults);
    void check_report(const throng::TickReport& report);
    void check_promises();
    void check_under_way();
    void random_action();
    void view_action(Action action, Peer& peer);
    void random_rule();
    void random_listing();
    void random_lasting();
    void random_priority();
    static throng::Verdict on_hello(void* context, throng::ClientId client, const throng::ClientHello& hello);
    void decide();
    void join(bool faults);
    void leave(std::size_t index);
    void receive(Peer& peer);
    Peer* any_joined();
    void look(Peer& peer);
    void heal();
    bool healed();
    bool heard();

    static void* counted_allocate(void* context, std::size_t bytes, std::size_t alignment);
    static void counted_free(void* context, void* memory, std::size_t bytes, std::size_t alignment);

    const throng::Protocol& protocol_;
    throng::ReceiveRules function_rules_, compare_rules_; // of some clients
    Options options_;
    std::atomic<throng::u64> allocations_{0};
    Outcome outcome_;
    throng::u32 dirty_chunks_ = 0; // of the last tick
    Failure failure_;
    Plan plan_; // refers to allocations_ and outcome_
    Random random_, rules_, lists_, priorities_, verdicts_; // the others are for what came later: seeds keep what they drew without it
    throng::World world_;
    throng::LoopbackNetwork network_;
    throng::Server server_;
    Actions actions_;
    RuledActions ruled_;
    Truth truth_;
    std::vector<std::unique_ptr<Peer>> peers_;
    throng_verify::Verifier verifier_;
    throng::TimeUs now_ = 0;
    throng::u32 names_ = 0;
    throng::Tick still_since_ = 0;
    throng_verify::Difference last_difference_;
    Peer* frozen_ = nullptr; // sabotage: stale
    bool healing_ = false;
};

} // namespace throng_sim
