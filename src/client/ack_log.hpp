#pragma once
// Which state messages were judged, for the acks (docs/wire.md 3). Acks are unreliable, so each is repeated; they are
// idempotent, so repeating is harmless (R5).
#include "throng/array.hpp"
#include "throng/transport.hpp"

namespace throng {

class AckLog {
public:
    /// Message ids remembered; an older one counts as late.
    static constexpr u32 window = 256;
    /// A judged message is reported by this many sends.
    static constexpr u8 repeats = 3;
    /// Unapplied sections remembered for the messages of the window.
    static constexpr u32 unapplied_max = 4096;
    /// Of one message; one with more is dropped whole, and the server takes it for lost.
    static constexpr u32 unapplied_per_message_max = 100;

    explicit AckLog(Allocator allocator) : unapplied_(allocator) {}

    enum class Seen : u8 { fresh, duplicate, late };
    /// What is known of a message id. Changes nothing.
    Seen look_up(u16 id) const;
    /// A duplicate is acked again in the same way.
    void repeat(u16 id) { wait(id); }
    bool has_room(std::size_t unapplied_count) const {
        return unapplied_count <= unapplied_per_message_max && unapplied_.size() + unapplied_count <= unapplied_max;
    }
    /// Records a judged message (look_up said fresh, has_room said yes).
    void judged(u16 id);
    /// Adds a section that could not be applied to the message just judged.
    void unapplied(u16 id, u16 section) { unapplied_.push_back({id, section}); }
    void hash(Tick settled, u64 state_hash) {
        hash_tick_ = settled;
        hash_ = state_hash;
        hash_sends_left_ = repeats;
    }
    /// True while something waits to be reported.
    bool pending() const { return waiting_ > 0 || hash_sends_left_ > 0; }

    /// Room that an ack message needs at least, whatever it reports.
    static constexpr u32 ack_bytes_min = 512;
    /// What the ack messages of one send hold.
    struct Batch {
        bool taken[window] = {}; // by slot: id % window
        bool hash = false;
    };
    /// Writes one ack message of at most out.size() bytes (at least ack_bytes_min) with what `batch` does not hold yet, and adds
    /// that to it. Returns the byte count; 0: nothing is left to report in this send.
    u32 write(std::span<std::byte> out, Batch& batch);
    /// Call when the backend accepted the messages of the batch: one repetition is done.
    void sent(const Batch& batch);
    void clear();

private:
    struct Unapplied {
        u16 id, section;
    };
    void wait(u16 id) {
        waiting_ += sends_left_[id % window] == 0;
        sends_left_[id % window] = repeats;
    }
    void advance(u16 id);
    u32 unapplied_bytes(u16 id) const;

    Array<Unapplied> unapplied_;
    u8 sends_left_[window] = {};
    bool judged_[window] = {};
    bool any_ = false;
    u16 newest_ = 0;
    u8 hash_sends_left_ = 0;
    u32 waiting_ = 0; // slots with sends_left_ > 0
    Tick hash_tick_ = 0;
    u64 hash_ = 0;
};

} // namespace throng
