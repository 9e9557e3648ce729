#pragma once
// What the client knows of each net id: where the entity is (R3), its tombstone, and who refers to it (R11). One record per
// id that is shown, buried or referred to; all others are forgotten.
#include "throng/array.hpp"
#include "throng/entity.hpp"

namespace throng {

struct HeldChunk;

inline constexpr u32 no_record = 0xffffffff;
inline constexpr u32 no_link = 0xffffffff;

struct NetRecord {
    NetId id{};
    Entity entity{};              // while shown
    HeldChunk* chunk = nullptr; // its place; null: not shown
    u64 counters = 0;             // the insert counters that are applied to the world, 2 bits a component
    Tick tick = 0;                // of its place; if it has none, when it was last carried
    Tick tombstone = 0;
    u32 links_to = no_link;       // fields that name this entity
    u32 links_from = no_link;     // fields of this entity that name others
    u8 lane = 0;
    bool buried = false;          // the tombstone counts
    bool ended = false;           // the server has said so
    bool spawned = false;         // in the message at hand
    bool vanished = false;        // listed as such in the message at hand
    bool awaited = false;         // references named it before it was shown
};

/// A reference field of a shown entity: column `column` of `holder` names `target`.
struct RefLink {
    u32 holder, target;
    u32 next_from;        // other links of the holder
    u32 next_to, prev_to; // other links to the target
    u32 column;
};

class NetIndex {
public:
    NetIndex(Allocator allocator, u32 records_max, u32 links_max);

    u32 find(NetId id) const {
        if (table_.empty())
            return no_record;
        for (u32 slot = home(id);; slot = (slot + 1) & mask_) {
            const u32 record = table_[slot];
            if (record == no_record || records_[record].id == id)
                return record;
        }
    }
    /// The record of an id, made if there is none. Needs room(1).
    u32 obtain(NetId id);
    bool room(u32 count) const { return u64(live_) + count <= records_max_; }
    /// Forgets the record if nothing needs it any more.
    void release_unused(u32 record);

    NetRecord& operator[](u32 record) { return records_[record]; }
    const NetRecord& operator[](u32 record) const { return records_[record]; }
    u32 live_count() const { return live_; }
    /// Records by number: 0 <= number < capacity(); those without an id are free.
    u32 capacity() const { return static_cast<u32>(records_.size()); }

    /// Sets the tombstone (R3). `tick` becomes the newest one if it is.
    void bury(u32 record, Tick tick);
    /// No tombstone is newer than this, once any() holds.
    bool any_tombstone_newer(Tick tick) const { return !graves_empty() && tick_newer(newest_grave_, tick); }
    /// Drops tombstones older than `oldest` (those can stop nothing that is still accepted).
    void expire_tombstones(Tick oldest);

    /// Makes `column` of `holder` name `target` (no id: none). Returns the target's record, or no_record. Without room, the
    /// link is dropped, `dropped` is set, and the field reads as null until it is written again.
    u32 set_link(u32 holder, u32 column, NetId target, bool& dropped);
    void drop_links_from(u32 holder);
    /// Forgets the links of columns [first, first + count).
    void drop_links_from(u32 holder, u32 first, u32 count);
    const RefLink& link(u32 index) const { return links_[index]; }
    /// New records that the message at hand will need; links leave room for them.
    void set_reserved(u32 count) { reserved_ = count; }

    void clear();

private:
    struct Grave {
        u32 record;
        Tick tick;
        NetId id;
    };
    u32 home(NetId id) const {
        u64 h = id.value * 0x9e3779b97f4a7c15ull;
        return static_cast<u32>(h >> 32) & mask_;
    }
    bool graves_empty() const { return grave_first_ == graves_.size(); }
    void grow_table();
    void erase_from_table(NetId id);
    void drop_link(u32 index, u32& from_head);

    Array<NetRecord> records_;
    Array<u32> table_; // open addressing; record numbers
    Array<RefLink> links_;
    Array<Grave> graves_;
    std::size_t grave_first_ = 0;
    Tick newest_grave_ = 0;
    u32 mask_ = 0, live_ = 0, live_links_ = 0, reserved_ = 0;
    u32 free_record_ = no_record, free_link_ = no_link;
    u32 records_max_, links_max_;
};

} // namespace throng
