#pragma once
// One seed: a fault phase (random world, bad network, clients that come and go), then a heal phase (still world, perfect links), after
// which every client must show exactly what the server means it to see.
#include "bench/verify.hpp"
#include "tests/sim/actions.hpp"
#include "tests/sim/bundles.hpp"
#include "tests/sim/component_counts.hpp"
#include "tests/sim/diffs.hpp"
#include "tests/sim/family.hpp"
#include "tests/sim/filters.hpp"
#include "tests/sim/messages.hpp"
#include "tests/sim/peer.hpp"
#include "tests/sim/ruled.hpp"
#include "tests/sim/second_world.hpp"
#include "throng/multiplexer.hpp"
#include <atomic>
#include <optional>

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
    Tally tally;
    throng::u32 heal_ticks = 0;
    throng::u64 messages = 0, checks = 0, compared = 0, unapplied = 0, lost = 0, hashes_equal = 0, malformed = 0, limit_drops = 0,
                refused = 0;
};

/// One world of a multiplexer as if it were alone: what is done between the calls of several worlds is done with its own.
class OneWorld final : public throng::ServerBackend {
public:
    OneWorld(throng::ServerBackend& backend, const throng::Allocator& allocator)
        : mux(backend, {.allocator = allocator}), world_(mux.open(number)) {}
    void poll(throng::TimeUs now, throng::ServerBackendSink& sink) override {
        mux.poll(now);
        world_.poll(now, sink);
    }
    throng::SendResult send(throng::ClientId client, throng::Channel channel, throng::Bytes message) override {
        return world_.send(client, channel, message);
    }
    std::span<std::byte> room_in_place(throng::ClientId client, throng::u32 bytes) override { return world_.room_in_place(client, bytes); }
    throng::SendResult send_in_place(throng::ClientId client, throng::u32 bytes) override { return world_.send_in_place(client, bytes); }
    void flush(throng::TimeUs now) override { mux.flush(now); }
    void disconnect(throng::ClientId client) override { world_.disconnect(client); }
    throng::u32 message_bytes_max(throng::Channel channel) const override { return world_.message_bytes_max(channel); }

    static constexpr throng::u32 number = 7;
    throng::ServerMultiplexer mux;

private:
    throng::ServerBackend& world_;
};

/// The client's half. It asks for a world that is not open, too.
class OneRoom final : public throng::ClientBackend {
public:
    OneRoom(throng::ClientBackend& backend, const throng::Allocator& allocator)
        : mux_(backend, {.allocator = allocator}), room_(*mux_.join(OneWorld::number)) {
        mux_.join(OneWorld::number + 1);
    }
    void poll(throng::TimeUs now, throng::ClientBackendSink& sink) override {
        mux_.poll(now);
        room_.poll(now, sink);
    }
    throng::SendResult send(throng::Channel channel, throng::Bytes message) override { return room_.send(channel, message); }
    void flush(throng::TimeUs now) override { mux_.flush(now); }
    throng::u32 message_bytes_max(throng::Channel channel) const override { return room_.message_bytes_max(channel); }
    throng::ClientMultiplexer& mux() { return mux_; }

private:
    throng::ClientMultiplexer mux_;
    throng::ClientBackend& room_;
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
    bool is_ticket(throng::Bytes data) const;
    void dismiss(Peer& peer);
    void dismiss_last();
    void decide();
    void find_seats();
    void note_joins();
    throng::ServerBackend& server_backend();
    void random_signature();
    void random_scope();
    void random_private(throng::Entity entity);
    void join(bool faults);
    void count(const Peer& peer); // that has left, or stays to the end
    void leave(std::size_t index);
    void closed_by_server(std::size_t index);
    void receive(Peer& peer);
    Peer* any_joined();
    void look(Peer& peer);
    void heal();
    void settle_ended();
    bool healed();
    bool heard();
    void check_worlds();

    static void* counted_allocate(void* context, std::size_t bytes, std::size_t alignment);
    static void counted_free(void* context, void* memory, std::size_t bytes, std::size_t alignment);

    Options options_;
    std::atomic<throng::u64> allocations_{0};
    Outcome outcome_;
    throng::u32 dirty_chunks_ = 0; // of the last tick
    Failure failure_;
    Plan plan_; // refers to allocations_ and outcome_
    /// A protocol, and rules of some of its clients.
    struct Side {
        Side(const throng::Protocol& protocol, bool requires_more);
        const throng::Protocol& protocol;
        throng::ReceiveRules functions, compare;
    };
    std::unique_ptr<throng::Protocol> builds_[2]; // the server's, and the other one, where they differ
    Side own_;
    std::optional<Side> other_;
    // The others are for what came later: seeds keep what they drew without it.
    Random random_, rules_, lists_, priorities_, scopes_, verdicts_, bonds_, lifetimes_, signatures_, ends_, badges_, dismissals_;
    throng::World world_;
    throng::LoopbackNetwork network_;
    std::optional<OneWorld> worlds_;
    std::vector<std::unique_ptr<OneRoom>> rooms_; // of peers_, or null
    throng::Server server_;
    Actions actions_;
    RuledActions ruled_;
    BundleActions bundles_;
    FamilyActions family_;
    DiffActions diffs_;
    Truth truth_;
    std::vector<throng::GroupId> groups_;
    throng::u32 purses_ = 0;
    std::vector<std::unique_ptr<Peer>> peers_;
    FilterActions filters_;
    Messages messages_;
    ComponentCounts component_counts_;
    std::vector<throng::ClientId> turned_away_; // since find_seats looked
    throng_verify::Verifier verifier_;
    std::unique_ptr<throng::Protocol> common_; // of what clients of the other build show as others do
    std::optional<throng_verify::Verifier> other_verifier_;
    throng::TimeUs now_ = 0;
    throng::u32 names_ = 0;
    throng::Tick still_since_ = 0;
    throng_verify::Difference last_difference_;
    Peer* frozen_ = nullptr; // sabotage: stale
    bool healing_ = false;
    std::optional<SecondWorld> second_; // before worlds_ and rooms_ end
};

} // namespace throng_sim
