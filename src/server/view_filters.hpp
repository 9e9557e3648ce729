#pragma once
// What a server keeps of its filters (throng/view_filter.hpp). The values that entities have of a filter's component are numbered, those
// that clients have of a type are, too; a lane has the number of its entity's value (ChunkFilters), a client the numbers of its values. For
// each filter a table of two bits a pair of numbers says: not asked yet, refused, allowed.
//
// Written by structure (numbers of lanes) and between ticks (numbers of clients), serially; the bits are set by interest, by any worker, as
// an atomic OR of what is the same whoever asks. A number of which nobody is left is kept with its answers until another value needs one.
#include "throng/array.hpp"
#include "throng/view_filter.hpp"
#include <bit>

namespace throng {

/// Distinct values of one type, each under a number from 1 on, with a count of its users.
class ValueTable {
public:
    ValueTable(u32 value_bytes, Allocator allocator);
    /// The number of a value, with one user more. `anew`: it was another value's until now.
    u32 take(const void* value, bool& anew);
    void release(u32 number);
    bool is(u32 number, const void* value) const { return std::memcmp(this->value(number), value, value_bytes_) == 0; }
    const void* value(u32 number) const { return &values_[std::size_t(number) * units_]; }
    /// All numbers are below.
    u32 end() const { return entries_.size(); }

private:
    struct Entry {
        u32 uses = 0;
        u32 next = 0; // in its bucket
        u32 hash = 0;
        bool listed = false; // in idle_
    };
    struct alignas(16) Unit {
        std::byte bytes[16];
    };
    u32 hash(const void* value) const;
    u32& bucket(u32 hash) { return buckets_[hash & (buckets_.size() - 1)]; }
    u32 unused_number();

    u32 value_bytes_, units_;
    Array<Unit> values_;
    Array<Entry> entries_;
    Array<u32> buckets_; // a power of two of them: the first number of each
    Array<u32> idle_;    // numbers that had no user once; room for all
};

/// Two bits for each pair of a client's number and an entity's.
class Verdicts {
public:
    enum : u32 { unknown = 0, refused = 2, allowed = 3 };
    explicit Verdicts(Allocator allocator) : words_(allocator), forgotten_(allocator) {}
    /// Room for numbers below these, and what was forgotten is gone. Serial, like the two that follow.
    void reserve(u32 viewers, u32 classes);
    void forget_viewer(u32 viewer);
    /// At the next reserve, for all such numbers in one pass: a number is a column, whose words are far apart.
    void forget_class(u32 number) { forgotten_.push_back(number); }
    /// Any worker.
    u64* row(u32 viewer) const { return const_cast<u64*>(words_.data()) + std::size_t(viewer) * stride_; }
    static u32 get(const u64* row, u32 number) { return __atomic_load_n(row + number / 32, __ATOMIC_RELAXED) >> number % 32 * 2 & 3; }
    static void set(u64* row, u32 number, u32 verdict) {
        __atomic_fetch_or(row + number / 32, u64(verdict) << number % 32 * 2, __ATOMIC_RELAXED);
    }

private:
    Array<u64> words_; // [viewer * stride_ + class / 32]
    Array<u32> forgotten_; // classes
    u32 viewers_ = 0, stride_ = 0;
};

struct ViewFilter {
    ViewFilter(const detail::FilterType& t, u32 k, Allocator a) : type(t), kind(k), classes(t.entity_bytes, a), verdicts(a) {}
    detail::FilterType type;
    detail::FilterChanges* changes = nullptr;
    u32 kind; // of the clients' values
    ValueTable classes;
    Verdicts verdicts;
};

struct ViewFilters {
    explicit ViewFilters(Allocator a) : list(a), kinds(a) {}
    static constexpr u32 count_max = filters_max + 1;
    static constexpr u32 group = 0; // VisibleToGroup: of it, a client's number is its ClientId
    struct Kind {
        Kind(const void* t, u32 value_bytes, Allocator a) : type(t), values(value_bytes, a), numbers(a) {}
        const void* type;
        ValueTable values;
        Array<u32> numbers; // by ClientId, as far as one has had a value; 0: none
        u32 number_of(ClientId client) const { return client < numbers.size() ? numbers[client] : 0; }
    };
    Array<ViewFilter> list;
    Array<Kind> kinds; // types of values that clients have
    /// The client's row of a filter's verdicts.
    u32 viewer(const ViewFilter& filter, ClientId client) const {
        return &filter == &list[group] ? client : kinds[filter.kind].number_of(client);
    }
};

/// Of the lanes of a chunk, by filter: those whose entity has the component, and the number of its value. Written by structure.
struct ChunkFilters {
    u64 some = 0; // filters of which a lane has, or had, a number
    u64 lanes[ViewFilters::count_max] = {};
    u32* numbers[ViewFilters::count_max] = {}; // [lane]; null until there is one
};

} // namespace throng
