#pragma once
// Independent readers of changes. Writers mark rows in the pool's change bits and know nothing of readers. A reader holds a set of
// entity slots; whoever consumes change bits first hands what they say to the set of each reader of the type (a fold), and to
// a set for the one consumer that works on the bits themselves (the server). Sets are by slot, not by row, so that
// removals and sorts have nothing to keep in step: a slot whose entity lost the component is skipped when it is read, and one that
// got it anew was marked. There is no tick: nothing is compared with a time, so nothing wraps, however seldom a reader reads.
// (bevy stamps rows with a tick, and must clamp them; flecs and gaia-ecs count per table or chunk.)
#include "throng/pool.hpp"
#include <bit>

namespace throng {

struct ChangeReaderOptions {
    /// Removals kept for the readers of a type, at least; rounded up to a power of two, and as large as the largest that a
    /// reader of the type asked for. A reader that is further behind must start over (take_resync).
    u32 removals_max = 1024;
    /// Whether the rows that are there when the reader is made count as changed.
    bool present_changed = true;
};

/// The end of a component: taken off a living entity, or gone with it.
struct Removal {
    Entity entity;
    bool destroyed;
};

struct DestroyReaderOptions {
    /// Destructions kept for the readers, at least; rounded up to a power of two, and as many as the reader that asked for the most. A
    /// reader that is further behind must start over (take_resync).
    u32 destroyed_max = 1024;
};

namespace detail {

/// The newest entries of an endless list, each under the number that it was pushed as. Readers keep the number of the next one.
template <class T>
class EventRing {
public:
    explicit EventRing(const Allocator& allocator) : entries_(allocator) {}
    /// Keeps `count` entries from now on, rounded up to a power of two, if that is more. May throw what the allocator throws.
    void grow(u32 count) {
        count = std::bit_ceil(count < 1 ? 1u : count);
        if (count <= entries_.size())
            return;
        Array<T> wider(entries_.allocator()); // entries keep their place modulo the size, so they are laid out anew
        wider.resize(count);
        for (u64 i = pushed_ - (pushed_ < entries_.size() ? pushed_ : entries_.size()); i < pushed_; ++i)
            wider[static_cast<std::size_t>(i & (count - 1))] = (*this)[i];
        entries_ = std::move(wider);
    }
    /// grow came before.
    void push(const T& entry) {
        entries_[static_cast<std::size_t>(pushed_ & (entries_.size() - 1))] = entry;
        ++pushed_;
    }
    u64 pushed() const { return pushed_; }
    u32 capacity() const { return entries_.size(); }
    /// One of the newest `capacity()`.
    const T& operator[](u64 number) const { return entries_[static_cast<std::size_t>(number & (entries_.size() - 1))]; }
    /// Gives the memory back; numbers go on.
    void end() { entries_ = Array<T>(entries_.allocator()); }
    u64 memory_bytes() const { return u64(entries_.capacity()) * sizeof(T); }

private:
    Array<T> entries_;
    u64 pushed_ = 0;
};

/// What the readers of the destructions of a world share.
struct DestroyStream {
    explicit DestroyStream(const Allocator& allocator) : ended(allocator) {}
    EventRing<Entity> ended;
    u64 resyncs = 0; // how often the state of the world was replaced
    u32 readers = 0;
};

/// A set of entity slots, with a summary bit for each word.
class SlotSet {
public:
    explicit SlotSet(Allocator allocator) : words_(allocator), summary_(allocator) {}
    /// Room for slots below `slots`. May throw what the allocator throws; the set is as it was then.
    void reserve(u32 slots);
    void set(u32 slot) {
        words_[slot >> 6] |= u64(1) << (slot & 63);
        summary_[slot >> 12] |= u64(1) << (slot >> 6 & 63);
    }
    void add(u32 word, u64 bits) {
        words_[word] |= bits;
        summary_[word >> 6] |= u64(bits != 0) << (word & 63);
    }
    bool test(u32 slot) const { return slot >> 6 < words_.size() && (words_[slot >> 6] >> (slot & 63) & 1) != 0; }
    bool empty() const;
    u64 memory_bytes() const { return (u64(words_.capacity()) + summary_.capacity()) * sizeof(u64); }
    void clear();
    u32 summary_words() const { return summary_.size(); }
    u64 summary(u32 word) const { return summary_[word]; }
    /// The bits of a word, which are cleared.
    u64 take(u32 word) { return std::exchange(words_[word], 0); }
    void end_summary(u32 word) { summary_[word] = 0; }
    /// Sets the summary bit of each word that has bits again, after a walk that did not end.
    void repair(u32 summary_word);

private:
    Array<u64> words_;
    Array<u64> summary_;
};

struct ChangeReaderState {
    explicit ChangeReaderState(Allocator allocator) : changed(allocator) {}
    SlotSet changed;
    u64 read_removals = 0;
    bool resync = false;
    ChangeReaderState* next = nullptr;
};

/// What the readers of one type share. Made with the first, ended with the last.
class ChangeStream {
public:
    explicit ChangeStream(Allocator allocator) : removals_(allocator), owed_(allocator), allocator_(allocator) {}
    ~ChangeStream();
    ChangeReaderState* add_reader(PoolBase& pool, const ChangeReaderOptions& options);
    /// False when it was the last.
    bool drop_reader(ChangeReaderState* reader);
    /// Change bits of the pool -> all readers and the owed set; clears the bits.
    void fold(PoolBase& pool);
    /// The set owed to the consumer of the bits: what folds took away from it.
    SlotSet& owed() { return owed_; }
    const SlotSet& owed() const { return owed_; }
    /// All but the stream itself.
    u64 memory_bytes() const {
        u64 bytes = owed_.memory_bytes() + removals_.memory_bytes();
        for (const ChangeReaderState* reader = readers_; reader; reader = reader->next)
            bytes += sizeof(*reader) + reader->changed.memory_bytes();
        return bytes;
    }
    void push_removal(const Removal& removal) { removals_.push(removal); }
    const EventRing<Removal>& removals() const { return removals_; }
    /// All readers start over: the rows became others. reserve_slots came before.
    void resync_all(const PoolBase& pool);
    void mark_all(ChangeReaderState& reader, const PoolBase& pool);

    /// Room in all sets for slots below `slots`, so that marking them allocates nothing.
    void reserve_slots(u32 slots);

private:
    EventRing<Removal> removals_;
    SlotSet owed_;
    ChangeReaderState* readers_ = nullptr;
    u32 slots_ = 0; // room in all sets
    Allocator allocator_;
};

} // namespace detail
} // namespace throng
