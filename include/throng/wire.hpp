#pragma once
// Bit streams and varints, as docs/wire.md defines them. The library's codec is built on these; the serialize functions of
// opaque components may use them too.
//
// Writing: the caller owns the bytes; a stream that outgrows them sets overflowed() and writes nothing more. Reading is
// total: reading past the end sets a sticky failed() and gives zeros. Neither allocates.
#include "throng/base.hpp"
#include <cstring>
#include <span>

namespace throng {
namespace detail {
inline u64 load_le64(const std::byte* bytes) {
#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
    u64 value = 0;
    for (u32 i = 0; i < 8; ++i)
        value |= static_cast<u64>(bytes[i]) << (8 * i);
    return value;
#else
    u64 value;
    std::memcpy(&value, bytes, 8);
    return value;
#endif
}
/// The low `count` (0..7) bytes of a word. Not in line: the kernels, compiled for two levels, may not bring copies of it.
void store_le_bytes(std::byte* bytes, u64 word, u32 count);
[[gnu::always_inline]] inline void store_le64(std::byte* bytes, u64 value) {
#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
    for (u32 i = 0; i < 8; ++i)
        bytes[i] = static_cast<std::byte>(value >> (8 * i));
#else
    std::memcpy(bytes, &value, 8);
#endif
}
/// The lowest `bits` (0..64) bits set.
constexpr u64 low_bits(u32 bits) { return bits >= 64 ? ~u64{0} : (u64{1} << bits) - 1; }
} // namespace detail

/// Fills bytes from their lowest bit. A plain value: a copy taken earlier can be assigned back to undo what followed.
class BitWriter {
public:
    BitWriter() = default;
    explicit BitWriter(std::span<std::byte> out)
        : begin_(out.data()), cursor_(out.data()), end_(out.data() + out.size()), words_end_(out.size() < 8 ? nullptr : end_ - 7) {}

    /// Appends the low `bits` (0..64) bits of `value`; the bits above must be zero. No branch depends on how many are pending: a word is
    /// stored each time, and its whole bytes stay (F. Giesen, "Reading bits in far too many ways", 2018, the same for writing).
    [[gnu::always_inline]] void put(u64 value, u32 bits) {
        if (bits > short_bits_max) [[unlikely]] {
            put_short(value & 0xffff'ffff, 32);
            value >>= 32;
            bits -= 32;
        }
        put_short(value, bits);
    }
    static constexpr u32 short_bits_max = 56;
    /// The same for at most short_bits_max bits.
    [[gnu::always_inline]] void put_short(u64 value, u32 bits) {
        accumulator_ |= value << filled_;
        filled_ += bits;
        u32 bytes = filled_ >> 3;
        if (cursor_ < words_end_) [[likely]] {
            detail::store_le64(cursor_, accumulator_);
        } else if (end_ - cursor_ >= bytes) {
            detail::store_le_bytes(cursor_, accumulator_, bytes);
        } else {
            overflowed_ = true;
            end_ = cursor_; // nothing more fits
            words_end_ = nullptr;
            bytes = 0;
        }
        cursor_ += bytes;
        accumulator_ >>= filled_ & 56;
        filled_ &= 7;
    }
    /// Zero bits up to the next byte.
    [[gnu::always_inline]] void align() { put_short(0, (0 - filled_) & 7); }
    /// Appends whole bytes. Call align() first.
    void put_bytes(const std::byte* bytes, std::size_t count) {
        if (static_cast<std::size_t>(end_ - cursor_) < count) {
            overflowed_ = true;
            return;
        }
        if (count != 0)
            std::memcpy(cursor_, bytes, count);
        cursor_ += count;
    }
    /// Aligns, writes what is pending and returns the bytes written so far; 0 when the stream did not fit.
    u32 finish() {
        align();
        return overflowed_ ? 0 : static_cast<u32>(cursor_ - begin_);
    }
    bool overflowed() const { return overflowed_; }
    /// Bits appended so far (meaningless after an overflow).
    u64 bit_count() const { return static_cast<u64>(cursor_ - begin_) * 8 + filled_; }

private:
    u64 accumulator_ = 0;
    u32 filled_ = 0; // bits in the accumulator, 0..7 between calls
    bool overflowed_ = false;
    std::byte* begin_ = nullptr;
    std::byte* cursor_ = nullptr;
    std::byte* end_ = nullptr;
    std::byte* words_end_ = nullptr; // a word may be stored anywhere before; null: nowhere
};

/// Reads what BitWriter wrote, or anything else.
class BitReader {
public:
    BitReader() = default;
    explicit BitReader(std::span<const std::byte> in) : begin_(in.data()), size_bytes_(in.size()), size_bits_(u64{in.size()} * 8) {}

    /// The next `bits` (0..64) bits; 0 from the first read that does not fit on.
    u64 get(u32 bits) {
        if (bits > size_bits_ - position_) {
            failed_ = true;
            position_ = size_bits_;
            return 0;
        }
        const u64 value = peek() & detail::low_bits(bits);
        position_ += bits;
        return value;
    }
    bool get_bit() { return get(1) != 0; }
    /// True when at least 57 bits are left that get_loaded may take without a check.
    bool can_load() const { return size_bits_ - position_ >= 64; }
    /// As get, for at most 57 bits and only after can_load.
    u64 get_loaded(u32 bits) {
        const u64 value = detail::load_le64(begin_ + (position_ >> 3)) >> (position_ & 7) & detail::low_bits(bits);
        position_ += bits;
        return value;
    }
    /// The next 64 bits without moving; zeros beyond the end.
    u64 peek() const {
        const std::size_t byte = static_cast<std::size_t>(position_ >> 3);
        const u32 shift = static_cast<u32>(position_ & 7);
        if (size_bytes_ - byte >= 9) {
            const u64 low = detail::load_le64(begin_ + byte) >> shift;
            return shift == 0 ? low : low | static_cast<u64>(begin_[byte + 8]) << (64 - shift);
        }
        return peek_tail(byte, shift);
    }
    /// Moves on by `bits`, which must have been seen with peek.
    void skip(u32 bits) {
        if (bits > size_bits_ - position_) {
            failed_ = true;
            position_ = size_bits_;
        } else {
            position_ += bits;
        }
    }
    /// Skips to the next byte; skipped bits that are not zero fail.
    void align() {
        const u32 bits = static_cast<u32>(-static_cast<i64>(position_)) & 7;
        if (get(bits) != 0)
            failed_ = true;
    }
    /// The next `count` whole bytes (call align() first), in place; empty when they are not there.
    std::span<const std::byte> get_bytes(std::size_t count) {
        const std::size_t byte = static_cast<std::size_t>(position_ >> 3);
        if (count > size_bytes_ - byte) {
            failed_ = true;
            position_ = size_bits_;
            return {};
        }
        position_ += u64{count} * 8;
        return {begin_ + byte, count};
    }
    bool failed() const { return failed_; }
    u64 bits_left() const { return size_bits_ - position_; }

private:
    u64 peek_tail(std::size_t byte, u32 shift) const {
        u64 value = 0;
        const std::size_t count = size_bytes_ - byte;
        for (std::size_t i = 0; i < count && i < 8; ++i)
            value |= static_cast<u64>(begin_[byte + i]) << (8 * i);
        return value >> shift;
    }
    const std::byte* begin_ = nullptr;
    std::size_t size_bytes_ = 0;
    u64 size_bits_ = 0;
    u64 position_ = 0; // bits
    bool failed_ = false;
};

/// Most bytes that a varint takes.
inline constexpr u32 varint_bytes_max = 5;

/// Bytes that write_varint uses.
constexpr u32 varint_bytes(u32 value) {
    u32 count = 1;
    for (; value >= 0x80; value >>= 7)
        ++count;
    return count;
}
/// Writes LEB128 and returns the byte count, or 0 when it does not fit.
inline u32 write_varint(std::span<std::byte> out, u32 value) {
    u32 count = 0;
    for (;;) {
        if (count == out.size())
            return 0;
        if (value < 0x80) {
            out[count++] = static_cast<std::byte>(value);
            return count;
        }
        out[count++] = static_cast<std::byte>(value | 0x80);
        value >>= 7;
    }
}
/// Reads LEB128 from the front of `in` and moves `in` behind it. truncated, or bad_value for more than 32 bits and for
/// superfluous zero bytes.
inline Error read_varint(std::span<const std::byte>& in, u32& value) {
    u32 result = 0;
    for (u32 i = 0; i < varint_bytes_max; ++i) {
        if (i == in.size())
            return Error::truncated;
        const u32 byte = static_cast<u32>(in[i]);
        if (i == 4 && byte > 0x0f)
            return Error::bad_value;
        if (i != 0 && byte == 0)
            return Error::bad_value;
        result |= (byte & 0x7f) << (7 * i);
        if (byte < 0x80) {
            in = in.subspan(i + 1);
            value = result;
            return Error::none;
        }
    }
    return Error::bad_value;
}

} // namespace throng
