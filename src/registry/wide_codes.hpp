#pragma once
// Codes of a wide body: in byte planes, so that zstd finds what is alike. The lowest byte of codes of several bytes is noise in nearly
// every column, and would spoil the one table of symbol lengths that a zstd block has: it goes beside the frame as it is.
#include "throng/wire.hpp"

namespace throng::section {

/// Where the noise bytes of a body go. Too many make the body not fit.
struct NoiseWriter {
    std::span<std::byte> out;
    u32 bytes = 0;
    bool failed = false;

    void put(u64 code) {
        if (bytes < out.size())
            out[bytes++] = static_cast<std::byte>(code);
        else
            failed = true;
    }
};

struct NoiseReader {
    Bytes in;
    u32 at = 0;

    bool has(u32 count) const { return in.size() - at >= count; }
    u64 get() { return std::to_integer<u64>(in[at++]); }
    bool finished() const { return at == in.size(); }
};

/// width: a multiple of 8, at least 8.
inline void put_planes(BitWriter& writer, NoiseWriter& noise, const u64* codes, u32 count, u32 width) {
    u32 shift = 0;
    if (width > 8) {
        for (u32 i = 0; i < count; ++i)
            noise.put(codes[i]);
        shift = 8;
    }
    writer.align();
    for (; shift < width; shift += 8)
        for (u32 i = 0; i < count; ++i)
            writer.put(codes[i] >> shift & 0xff, 8);
}

/// False when the noise is too short; the reader's own failures show there.
inline bool get_planes(BitReader& reader, NoiseReader& noise, u64* codes, u32 count, u32 width) {
    for (u32 i = 0; i < count; ++i)
        codes[i] = 0;
    u32 shift = 0;
    if (width > 8) {
        if (!noise.has(count))
            return false;
        for (u32 i = 0; i < count; ++i)
            codes[i] = noise.get();
        shift = 8;
    }
    reader.align();
    for (; shift < width; shift += 8)
        for (u32 i = 0; i < count; ++i)
            codes[i] |= reader.get(8) << shift;
    return true;
}

} // namespace throng::section
