#include "throng/changes.hpp"
#include <bit>

namespace throng::detail {

void SlotSet::reserve(u32 slots) {
    const std::size_t words = std::size_t(slots >> 6) + 1;
    if (words <= words_.size())
        return;
    summary_.resize(words / 64 + 1);
    words_.resize(words);
}

bool SlotSet::empty() const {
    for (const u64 word : summary_)
        if (word != 0)
            return false;
    return true;
}

void SlotSet::clear() {
    for (u32 s = 0; s < summary_.size(); ++s) {
        for (u64 left = summary_[s]; left != 0; left &= left - 1)
            words_[s * 64 + static_cast<u32>(std::countr_zero(left))] = 0;
        summary_[s] = 0;
    }
}

void SlotSet::repair(u32 summary_word) {
    u64 bits = 0;
    for (u32 i = 0; i < 64 && summary_word * 64 + i < words_.size(); ++i)
        bits |= u64(words_[summary_word * 64 + i] != 0) << i;
    summary_[summary_word] = bits;
}

ChangeStream::~ChangeStream() {
    THRONG_ASSERT(!readers_ && "a change reader outlives its world");
}

void ChangeStream::reserve_slots(u32 slots) {
    if (slots <= slots_)
        return;
    const u32 room = slots > 0x7fffffff ? 0xffffffff : std::bit_ceil(slots < 4096 ? 4096 : slots);
    owed_.reserve(room);
    for (ChangeReaderState* reader = readers_; reader; reader = reader->next)
        reader->changed.reserve(room);
    slots_ = room;
}

ChangeReaderState* ChangeStream::add_reader(PoolBase& pool, const ChangeReaderOptions& options) {
    struct Fresh {
        const Allocator& allocator;
        ChangeReaderState* state;
        ~Fresh() {
            if (state) {
                state->~ChangeReaderState();
                allocator.free(state, sizeof(*state), alignof(ChangeReaderState));
            }
        }
    } fresh{allocator_, ::new (allocator_.allocate(sizeof(ChangeReaderState), alignof(ChangeReaderState))) ChangeReaderState(allocator_)};
    removals_.grow(options.removals_max);
    fresh.state->read_removals = removals_.pushed();
    fold(pool); // what changed before now is for the others
    fresh.state->changed.reserve(slots_);
    fresh.state->next = readers_;
    readers_ = fresh.state;
    if (options.present_changed)
        mark_all(*fresh.state, pool);
    return std::exchange(fresh.state, nullptr);
}

bool ChangeStream::drop_reader(ChangeReaderState* reader) {
    ChangeReaderState** link = &readers_;
    while (*link != reader)
        link = &(*link)->next;
    *link = reader->next;
    reader->~ChangeReaderState();
    allocator_.free(reader, sizeof(*reader), alignof(ChangeReaderState));
    return readers_ != nullptr;
}

void ChangeStream::fold(PoolBase& pool) {
    for (u32 b = 0; b < pool.block_count(); ++b) {
        const u64 summary = pool.change_summary(b);
        if (summary == 0)
            continue;
        u64* const words = pool.change_words(b);
        const u32* const owners = pool.owners(b);
        // Room first: after that nothing fails, and no bit is lost.
        u32 highest = 0;
        for (u64 left = summary; left != 0; left &= left - 1) {
            const u32 word = static_cast<u32>(std::countr_zero(left));
            for (u64 bits = words[word]; bits != 0; bits &= bits - 1) {
                const u32 owner = owners[word * 64 + static_cast<u32>(std::countr_zero(bits))];
                highest = owner > highest ? owner : highest;
            }
        }
        reserve_slots(highest + 1);
        for (u64 left = summary; left != 0; left &= left - 1) {
            const u32 word = static_cast<u32>(std::countr_zero(left));
            for (u64 bits = std::exchange(words[word], 0); bits != 0; bits &= bits - 1) {
                const u32 owner = owners[word * 64 + static_cast<u32>(std::countr_zero(bits))];
                owed_.set(owner);
                for (ChangeReaderState* reader = readers_; reader; reader = reader->next)
                    reader->changed.set(owner);
            }
        }
        pool.end_changes(b);
    }
}

void ChangeStream::mark_all(ChangeReaderState& reader, const PoolBase& pool) {
    for (u32 pass = 0; pass < 2; ++pass)
        for (u32 b = 0; b < pool.block_count(); ++b)
            for (u32 i = 0; i < pool.rows_in_block(b); ++i) {
                const u32 owner = pool.owners(b)[i];
                if (pass == 0)
                    reserve_slots(owner + 1);
                else
                    reader.changed.set(owner);
            }
}

void ChangeStream::resync_all(const PoolBase& pool) {
    owed_.clear();
    for (ChangeReaderState* reader = readers_; reader; reader = reader->next) {
        reader->changed.clear();
        mark_all(*reader, pool);
        reader->read_removals = removals_.pushed();
        reader->resync = true;
    }
}

} // namespace throng::detail
