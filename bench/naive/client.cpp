#include "bench/naive/client.hpp"
#include <algorithm>

namespace naive {

Client::Slot& Client::slot_of(u32 entity) {
    if (const Place* place = places_.find(entity))
        return slots_[place->slot];
    u32 index = 0;
    if (!free_.empty()) {
        index = free_.back();
        free_.pop_back();
    } else {
        index = static_cast<u32>(slots_.size());
        slots_.emplace_back();
    }
    places_.insert(entity)->slot = index;
    Slot& slot = slots_[index];
    slot.entity = entity;
    slot.newest = slot.count = 0;
    slot.alive = false;
    slot.used = true;
    return slot;
}

void Client::apply(u32 entity, u32 tick, u8 generation, const State& state, bool full) {
    Slot& slot = slot_of(entity);
    if (slot.newest != 0 && throng::tick_newer(slot.newest, tick))
        return; // old state never replaces newer state
    if (full) {
        if (slot.generation != generation)
            slot.count = 0; // states of another entity are no baselines
        slot.generation = generation;
        alive_ += !slot.alive;
        slot.alive = true;
    }
    slot.newest = tick;
    slot.tick[slot.count % ring] = tick;
    slot.state[slot.count % ring] = state;
    ++slot.count;
    ++applied_;
}

// Forgets the dead once no late message can bring them back.
void Client::bury(u32 tick) {
    while (buried_ < tombstones_.size() && tick - tombstones_[buried_].tick > tombstone_ticks) {
        const Tombstone& t = tombstones_[buried_++];
        const Place* place = places_.find(t.entity);
        if (!place || slots_[place->slot].alive || slots_[place->slot].newest != t.tick)
            continue;
        slots_[place->slot].used = false;
        free_.push_back(place->slot);
        places_.erase(t.entity);
    }
    if (buried_ > 64 && buried_ * 2 > tombstones_.size()) {
        tombstones_.erase(tombstones_.begin(), tombstones_.begin() + static_cast<std::ptrdiff_t>(buried_));
        buried_ = 0;
    }
}

void Client::on_message(throng::Channel, throng::Bytes message) {
    const auto* bytes = reinterpret_cast<const u8*>(message.data());
    Reader reader{bytes, bytes + message.size()};
    const u32 tick = reader.raw<u32>(), number = reader.raw<u32>();
    if (!reader.ok) {
        ++bad_;
        return;
    }
    bool complete = true;
    while (reader.ok && reader.at != reader.end) {
        const u32 entity = reader.varint();
        const u32 kind = reader.varint();
        if (!reader.ok || entity > 1u << 24) {
            reader.ok = false;
            break;
        }
        if (kind == kind_gone) {
            const u8 generation = reader.byte();
            Slot& slot = slot_of(entity);
            if (!reader.ok || (slot.newest != 0 && throng::tick_newer(slot.newest, tick)))
                continue;
            alive_ -= slot.alive;
            slot.alive = false;
            slot.count = 0;
            slot.generation = generation;
            slot.newest = tick;
            tombstones_.push_back({entity, tick});
        } else if (kind == kind_full) {
            const u8 generation = reader.byte();
            const State state = reader.difference(State{});
            if (reader.ok)
                apply(entity, tick, generation, state, true);
        } else {
            const u32 age = kind - kind_delta, wanted = tick - age;
            const State* base = nullptr;
            if (const Place* place = places_.find(entity)) {
                const Slot& slot = slots_[place->slot];
                for (u32 i = 0; i < std::min(slot.count, ring) && slot.alive; ++i) {
                    const u32 at = (slot.count - 1 - i) % ring;
                    if (slot.tick[at] == wanted) {
                        base = &slot.state[at];
                        break;
                    }
                }
            }
            const State state = reader.difference(base ? predict(*base, age, factor_) : State{});
            if (!base) {
                ++missing_;
                complete = false;
            } else if (reader.ok) {
                apply(entity, tick, 0, state, false);
            }
        }
    }
    if (!reader.ok) {
        ++bad_;
        return;
    }
    bury(tick);
    if (!complete)
        return;
    const u32 ahead = number - newest_number_;
    if (ahead != 0 && ahead < 1u << 31) {
        if (ahead >= ack_words_max * 64) {
            std::fill(std::begin(received_), std::end(received_), 0);
        } else {
            const u32 words = ahead / 64, bits = ahead % 64;
            for (u32 w = ack_words_max; w-- > 0;) {
                u64 v = w >= words ? received_[w - words] << bits : 0;
                if (bits != 0 && w > words)
                    v |= received_[w - words - 1] >> (64 - bits);
                received_[w] = v;
            }
        }
        if (tick != tick_of_newest_)
            numbers_in_window_ = std::max(64u, std::min(ack_words_max * 64, std::max(numbers_in_window_ * 7 / 8, ahead * 12)));
        tick_of_newest_ = tick;
        newest_number_ = number;
    }
    const u32 back = newest_number_ - number;
    if (back < ack_words_max * 64)
        received_[back / 64] |= u64(1) << (back % 64);
    // The window covers about a dozen ticks of messages, so that a few lost acknowledgements cost nothing.
    fresh_ = true;
}

void Client::update(throng::TimeUs now) {
    backend_.poll(now, *this);
    if (fresh_) {
        fresh_ = false;
        u8 buffer[5 + ack_words_max * 8];
        std::memcpy(buffer, &newest_number_, 4);
        const u32 words = ack_words_max; // trailing zero words are left out below
        u32 used = words;
        while (used > 1 && (received_[used - 1] == 0 || used > (numbers_in_window_ + 63) / 64 + 1))
            --used;
        buffer[4] = static_cast<u8>(used);
        std::memcpy(buffer + 5, received_, std::size_t(used) * 8);
        (void)backend_.send(throng::Channel::unreliable, {reinterpret_cast<const std::byte*>(buffer), 5 + std::size_t(used) * 8});
    }
    backend_.flush(now);
}

} // namespace naive
