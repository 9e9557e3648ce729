#include "src/transport/message_pool.hpp"
#include "src/memory/huge_pages.hpp"
#include "throng/assert.hpp"
#include <algorithm>
#include <new>
#include <thread>
#include <utility>

namespace throng::transport {

void MessagePool::SpinLock::lock() {
    // Sections are a few instructions; the holder may still be off the processor, so give way after a while.
    for (u32 spins = 0; flag_.test_and_set(std::memory_order_acquire); ++spins)
        if (spins >= 64)
            std::this_thread::yield();
}

MessagePool::~MessagePool() {
    while (slabs_) {
        Slab* next = slabs_->next;
        allocator_.free(slabs_, slabs_->bytes, alignof(Slab));
        slabs_ = next;
    }
    for (Shard& shard : shards_)
        for (FreeList& list : shard.free)
            allocator_.free(list.sheets, list.capacity * sizeof(Sheet*), alignof(Sheet*));
}

Sheet* MessagePool::take(Shard& shard, u32 size_class) {
    constexpr u32 ahead = 2; // sheets are cold
    Guard guard(shard.lock);
    FreeList& list = shard.free[size_class];
    if (list.count == 0)
        return nullptr;
    if (list.count > ahead)
        for (u32 byte = 0; byte < 1024 && byte < class_bytes[size_class]; byte += 64)
            detail::prefetch_write(reinterpret_cast<const std::byte*>(list.sheets[list.count - 1 - ahead]) + byte);
    if (list.count == 1)
        shard.stocked.store(shard.stocked.load(std::memory_order_relaxed) & ~(1u << size_class), std::memory_order_relaxed);
    return list.sheets[--list.count];
}

void MessagePool::Shard::put(u32 size_class, Sheet* sheet) {
    FreeList& list = free[size_class];
    if (list.count == 0)
        stocked.store(stocked.load(std::memory_order_relaxed) | 1u << size_class, std::memory_order_relaxed);
    list.sheets[list.count++] = sheet;
}

/// Of the smallest class that has one; null if none has.
Sheet* MessagePool::find(u32 hint, u32 first_class, u32 last_class) {
    for (u32 size_class = first_class; size_class <= last_class; ++size_class)
        for (u32 i = 0; i < shard_count; ++i)
            if (Shard& shard = shards_[(hint + i) % shard_count]; shard.has(size_class))
                if (Sheet* sheet = take(shard, size_class))
                    return sheet;
    return nullptr;
}

Sheet* MessagePool::acquire(u32 hint, u32 wanted_bytes, u32 least_bytes) {
    const auto class_of = [](u32 bytes) {
        u32 size_class = 0;
        while (class_bytes[size_class] < sizeof(Sheet) + bytes) {
            ++size_class;
            THRONG_ASSERT(size_class < class_count);
        }
        return size_class;
    };
    const u32 wanted_class = class_of(wanted_bytes);
    // A larger sheet is borrowed before the pool grows: which sizes are in use varies from tick to tick, their number much less.
    Sheet* sheet = nullptr;
    while (!(sheet = find(hint, wanted_class, std::max(wanted_class, shared_class)))) {
        if (reserved_ && (sheet = find(hint, class_of(least_bytes), wanted_class)))
            break;
        grow(wanted_class, 0, shards_[hint % shard_count]); // others may take all of it
    }
    sheet->used_bytes = 0;
    sheet->holders = 1;
    return sheet;
}

Message* MessagePool::add(Sheet& sheet, u32 size_bytes) {
    Message* message = ::new (reinterpret_cast<std::byte*>(&sheet + 1) + sheet.used_bytes) Message;
    message->next = message->prev = nullptr;
    message->sheet_offset = static_cast<u32>(sizeof(Sheet)) + sheet.used_bytes;
    message->size_bytes = size_bytes;
    sheet.used_bytes += message_bytes(size_bytes);
    ++sheet.holders;
    return message;
}

void MessagePool::release(u32 hint, Sheet* sheet) {
    if (--sheet->holders != 0)
        return;
    Shard& shard = shards_[hint % shard_count];
    Guard guard(shard.lock);
    shard.put(sheet->size_class, sheet);
}

void MessagePool::reserve(u32 count) {
    for (Shard& shard : shards_)
        if (const u32 share = count / shard_count + 1; count > 0)
            grow(packet_class, share, shard);
    reserved_ = count > 0;
}

void MessagePool::grow(u32 size_class, u32 count, Shard& shard) {
    Guard guard(grow_lock_);
    const std::size_t sheet_bytes = class_bytes[size_class];
    if (count == 0) // by half, so that growth ends soon when the load is steady
        count = std::max({1u, static_cast<u32>(16'384 / sheet_bytes), sheets_[size_class] / 2});
    const std::size_t slab_bytes = sizeof(Slab) + sheet_bytes * count;
    Slab* slab = new (allocator_.allocate(slab_bytes, alignof(Slab))) Slab{slabs_, slab_bytes};
    advise_huge_pages(slab, slab_bytes);
    slabs_ = slab;
    sheets_[size_class] += count;
    memory_bytes_ += slab_bytes;
    // Any shard may be given all sheets of the class.
    for (Shard& other : shards_) {
        FreeList& list = other.free[size_class];
        const u32 capacity = std::max(sheets_[size_class], 2 * list.capacity);
        if (sheets_[size_class] <= list.capacity)
            continue;
        Sheet** sheets = static_cast<Sheet**>(allocator_.allocate(capacity * sizeof(Sheet*), alignof(Sheet*)));
        memory_bytes_ += (capacity - list.capacity) * sizeof(Sheet*);
        Sheet** old = sheets;
        u32 old_capacity = capacity;
        {
            Guard list_guard(other.lock);
            std::copy_n(list.sheets, list.count, sheets);
            std::swap(list.sheets, old);
            std::swap(list.capacity, old_capacity);
        }
        allocator_.free(old, old_capacity * sizeof(Sheet*), alignof(Sheet*));
    }
    Guard shard_guard(shard.lock);
    std::byte* memory = reinterpret_cast<std::byte*>(slab + 1);
    for (u32 i = count; i > 0; --i) { // the lowest is taken first
        Sheet* sheet = new (memory + sheet_bytes * (i - 1)) Sheet{};
        sheet->size_class = static_cast<u8>(size_class);
        sheet->capacity_bytes = static_cast<u32>(sheet_bytes - sizeof(Sheet));
        shard.put(size_class, sheet);
    }
}

} // namespace throng::transport
