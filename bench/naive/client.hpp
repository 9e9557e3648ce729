#pragma once
// Client half of the naive engine: decodes messages into a flat table and acknowledges what it has applied.
#include "bench/naive/state.hpp"
#include "throng/transport.hpp"

namespace naive {

/// Thread rule: one thread at a time per client.
class Client final : public throng::ClientBackendSink {
public:
    explicit Client(throng::ClientBackend& backend, u32 tick_hz = 20) : backend_(backend), factor_(prediction_factor(tick_hz)) {}

    /// Applies what has arrived by `now` and sends one acknowledgement if there was anything.
    void update(throng::TimeUs now);

    /// Calls f(entity number, generation, state) for every entity that is there.
    template <class F>
    void each(F&& f) const {
        for (const Slot& s : slots_)
            if (s.used && s.alive)
                f(s.entity, s.generation, s.state[(s.count - 1) % ring]);
    }
    u32 entity_count() const { return alive_; }
    u64 applied_records() const { return applied_; }
    u64 bad_messages() const { return bad_; }
    /// Deltas whose baseline was not held; their message is not acknowledged.
    u64 missing_baselines() const { return missing_; }

    void on_connect() override {}
    void on_disconnect() override {}
    void on_message(throng::Channel channel, throng::Bytes message) override;

private:
    // Received states an entity keeps: enough for the round trips of the scenarios; a miss costs a resend.
    static constexpr u32 ring = 10;
    static constexpr u32 tombstone_ticks = 64;
    struct Place {
        u32 key = 0;
        u32 slot = 0;
    };
    struct Slot {
        u32 entity = 0, newest = 0, count = 0; // newest: tick of the last record that counted
        u8 generation = 0;
        bool alive = false, used = false;
        u32 tick[ring] = {};
        State state[ring] = {};
    };
    struct Tombstone {
        u32 entity, tick;
    };
    Slot& slot_of(u32 entity);
    void apply(u32 entity, u32 tick, u8 generation, const State& state, bool full);
    void bury(u32 tick);

    throng::ClientBackend& backend_;
    i32 factor_;
    EntityMap<Place> places_ = {};
    std::vector<Slot> slots_ = {};
    std::vector<u32> free_ = {};
    std::vector<Tombstone> tombstones_ = {};
    std::size_t buried_ = 0;
    u32 newest_number_ = 0;
    u64 received_[ack_words_max] = {}; // bit k of word w: message newest - 64 w - k was applied
    u32 tick_of_newest_ = 0, numbers_in_window_ = 64;
    bool fresh_ = false;
    u32 alive_ = 0;
    u64 applied_ = 0, bad_ = 0, missing_ = 0;
};

} // namespace naive
