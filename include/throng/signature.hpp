#pragma once
// The set of component types an entity has, as a bit set that also answers "how many below this one" (rank).
#include "throng/entity.hpp"
#include <bit>

namespace throng {

/// A set of component ids below MaxC. rank turns an id into a position in the entity's list of row numbers, which is kept in
/// id order; build with hardware popcount (-mpopcnt or -march=x86-64-v2), it doubles the speed of World::get.
template <u32 MaxC>
class Signature {
    static_assert(MaxC % 64 == 0 && MaxC > 0 && MaxC <= 32768);

public:
    static constexpr u32 word_count = MaxC / 64;

    /// Ids must be below MaxC.
    constexpr bool test(u32 id) const { return (words_[id >> 6] >> (id & 63) & 1) != 0; }
    constexpr void set(u32 id) { words_[id >> 6] |= u64(1) << (id & 63); }
    constexpr void reset(u32 id) { words_[id >> 6] &= ~(u64(1) << (id & 63)); }
    constexpr void clear() { *this = Signature{}; }
    static constexpr std::size_t no_rank = ~std::size_t(0);
    /// rank of a member; no_rank for others, also for any number from MaxC on. In fewer steps than test, then rank.
    constexpr std::size_t find(u32 id) const {
        std::size_t before = no_rank;
        for (u32 w = 0; w < word_count; ++w) {
            if (id < w * 64 + 64) {
                const u64 upto = words_[w] << (~id & 63); // the id's own bit comes to the top
                return upto >> 63 != 0 ? before + static_cast<std::size_t>(std::popcount(upto)) : no_rank;
            }
            before += static_cast<std::size_t>(std::popcount(words_[w]));
        }
        return no_rank;
    }
    /// Number of members below `id`, itself not counted.
    constexpr u32 rank(u32 id) const {
        u32 below = count_bits(words_[id >> 6] & ((u64(1) << (id & 63)) - 1));
        if constexpr (word_count <= 4) { // no loop for what is one or two counts
            for (u32 w = 0; w + 1 < word_count; ++w)
                below += w < id >> 6 ? count_bits(words_[w]) : 0;
        } else {
            for (u32 w = 0; w < id >> 6; ++w)
                below += count_bits(words_[w]);
        }
        return below;
    }
    constexpr u32 count() const {
        u32 members = 0;
        for (u64 word : words_)
            members += count_bits(word);
        return members;
    }
    constexpr bool any() const {
        u64 all = 0;
        for (u64 word : words_)
            all |= word;
        return all != 0;
    }
    /// All members of `other` are members here.
    constexpr bool contains(const Signature& other) const {
        u64 absent = 0;
        for (u32 w = 0; w < word_count; ++w)
            absent |= other.words_[w] & ~words_[w];
        return absent == 0;
    }
    constexpr bool intersects(const Signature& other) const {
        u64 common = 0;
        for (u32 w = 0; w < word_count; ++w)
            common |= other.words_[w] & words_[w];
        return common != 0;
    }
    constexpr Signature& operator|=(const Signature& other) {
        for (u32 w = 0; w < word_count; ++w)
            words_[w] |= other.words_[w];
        return *this;
    }
    /// Calls f(u32 id) in ascending order.
    template <class F>
    constexpr void for_each(F&& f) const {
        for (u32 w = 0; w < word_count; ++w)
            for (u64 left = words_[w]; left != 0; left &= left - 1)
                f(w * 64 + static_cast<u32>(std::countr_zero(left)));
    }
    constexpr u64 word(u32 w) const { return words_[w]; }
    friend constexpr bool operator==(const Signature&, const Signature&) = default;

private:
    static constexpr u32 count_bits(u64 word) { return static_cast<u32>(std::popcount(word)); }
    u64 words_[word_count] = {};
};

} // namespace throng
