#include "src/server/keys.hpp"
#include "throng/assert.hpp"
#include <new>

namespace throng {

KeyTable::KeyTable(u32 workers, Allocator allocator)
    : allocator_(allocator), stock_(sizeof(Key) * block_keys, allocator), workers_(allocator) {
    THRONG_ASSERT(workers >= 1 && workers <= worker_count_max);
    workers_.reserve(workers);
    for (u32 i = 0; i < workers; ++i)
        workers_.push_back(Worker(allocator));
    // All that there can ever be: others read a worker's list while it grows, so it must not move.
    for (Worker& worker : workers_)
        worker.blocks.reserve(keys_max / block_keys);
    resize(1u << 12);
}

KeyTable::~KeyTable() {
    for (Worker& worker : workers_)
        for (Key* block : worker.blocks)
            stock_.give(reinterpret_cast<std::byte*>(block));
    allocator_.free(slots_, sizeof(std::atomic<u64>) * slot_count_, 64);
}

void KeyTable::resize(u32 slots) {
    allocator_.free(slots_, sizeof(std::atomic<u64>) * slot_count_, 64);
    slots_ = static_cast<std::atomic<u64>*>(allocator_.allocate(sizeof(std::atomic<u64>) * slots, 64));
    for (u32 i = 0; i < slots; ++i)
        new (&slots_[i]) std::atomic<u64>(0);
    slot_count_ = slots;
    epoch_ = 0; // begin_tick makes it 1 or more
    for (Worker& worker : workers_)
        for (auto& recent : worker.recent)
            for (Worker::Recent& entry : recent)
                entry = {};
}

void KeyTable::begin_tick(Tick) {
    const u32 last = total();
    u32 slots = slot_count_;
    while (slots < last * 4)
        slots *= 2;
    if (slots != slot_count_ || epoch_ == 0xffffffffu)
        resize(slots);
    ++epoch_; // old slots are empty now
    const u32 blocks = (last + last / 8) / block_keys + workers_.size();
    stock_.provide(blocks);
    for (Worker& worker : workers_) {
        worker.count = 0;
        for (; worker.blocks.size() > 1; worker.blocks.pop_back())
            stock_.give(reinterpret_cast<std::byte*>(worker.blocks.back()));
    }
}

u32 KeyTable::total() const {
    u32 sum = 0;
    for (const Worker& worker : workers_)
        sum += worker.count;
    return sum;
}

u64 KeyTable::bytes() const {
    return u64(slot_count_) * 8 + u64(stock_.count()) * block_keys * sizeof(Key) +
           u64(workers_.size()) * (keys_max / block_keys) * sizeof(Key*);
}

KeyTable::Ref KeyTable::make(u32 index, u32 chunk, Tick baseline, u64 lanes, bool full, u64 sees) {
    Worker& worker = workers_[index];
    const u32 at = worker.count;
    THRONG_ASSERT(at < keys_max);
    if (at / block_keys == worker.blocks.size())
        worker.blocks.push_back(reinterpret_cast<Key*>(stock_.take()));
    ++worker.count;
    Key& key = *new (&worker.blocks[at / block_keys][at % block_keys]) Key;
    key.chunk = chunk;
    key.baseline = baseline;
    key.lanes = lanes;
    key.full = full;
    key.sees = sees;
    return index << 24 | at;
}

Key* KeyTable::find_in_table(u32 worker, u32 chunk, Tick baseline, u64 lanes, bool full, u64 sees) {
    const u64 tag = u64(epoch_) << 32;
    const u32 mask = slot_count_ - 1;
    Ref mine = none;
    u32 at = static_cast<u32>(hash(chunk, baseline, lanes, full, sees)) & mask;
    for (u32 probes = 0; probes < slot_count_; ++probes, at = (at + 1) & mask) {
        u64 slot = slots_[at].load(std::memory_order_acquire);
        while (slot >> 32 != epoch_) { // empty: try to put ours there
            if (mine == none)
                mine = make(worker, chunk, baseline, lanes, full, sees);
            if (slots_[at].compare_exchange_weak(slot, tag | mine, std::memory_order_acq_rel, std::memory_order_acquire))
                return &key(mine);
        }
        Key& found = key(static_cast<Ref>(slot));
        if (found.lanes == lanes && found.chunk == chunk && found.baseline == baseline && found.full == full &&
            found.sees == sees) {
            share(found);
            if (mine != none) // another worker was quicker: give our copy back
                --workers_[worker].count;
            return &found;
        }
    }
    // Every slot is taken (the first tick after a jump in load): an unshared key. The table grows before the next tick.
    return &key(mine == none ? make(worker, chunk, baseline, lanes, full, sees) : mine);
}

} // namespace throng
