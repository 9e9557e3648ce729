#pragma once
// One-shot zstd in memory that is taken at construction: nothing allocates afterwards. Frames have no magic number, content
// size, checksum or dictionary id, have one block, and refer to one dictionary (which may be empty).
#include "throng/memory.hpp"
#include <span>

struct ZSTD_CCtx_s;
struct ZSTD_DCtx_s;

namespace throng {

class ZstdEncoder {
public:
    /// The dictionary is kept by reference. source_bytes_max: at most 128 KiB (one block).
    ZstdEncoder(std::span<const std::byte> dictionary, u32 source_bytes_max, Allocator allocator);
    ~ZstdEncoder();
    ZstdEncoder(const ZstdEncoder&) = delete;
    ZstdEncoder& operator=(const ZstdEncoder&) = delete;
    /// Writes one frame and returns its bytes, or 0 when it does not fit `out`. Deterministic for a version of zstd.
    u32 compress(std::span<const std::byte> source, std::span<std::byte> out);

private:
    Allocator allocator_;
    void* memory_ = nullptr;
    std::size_t memory_bytes_ = 0;
    u32 source_bytes_max_ = 0;
    ZSTD_CCtx_s* context_ = nullptr;
};

class ZstdDecoder {
public:
    /// The dictionary is kept by reference.
    ZstdDecoder(std::span<const std::byte> dictionary, Allocator allocator);
    ~ZstdDecoder();
    ZstdDecoder(const ZstdDecoder&) = delete;
    ZstdDecoder& operator=(const ZstdDecoder&) = delete;
    /// Expands one frame as ZstdEncoder writes it that fills `out` exactly; false otherwise. Time is bounded by both sizes.
    bool decompress(std::span<const std::byte> frame, std::span<std::byte> out);

private:
    Allocator allocator_;
    void* memory_ = nullptr;
    std::size_t memory_bytes_ = 0;
    ZSTD_DCtx_s* context_ = nullptr;
};

} // namespace throng
