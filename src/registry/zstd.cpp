#define ZSTD_STATIC_LINKING_ONLY // contexts in our own memory, magicless frames
#include "src/registry/zstd.hpp"
#include "throng/assert.hpp"
#include <zstd.h>

namespace throng {
namespace {
constexpr int compression_level = 1; // higher ones gain nothing on payloads of some KiB
constexpr std::size_t memory_alignment = 64;

std::size_t rounded(std::size_t bytes) { return (bytes + memory_alignment - 1) & ~(memory_alignment - 1); }

// True for a whole frame of the one kind that ZstdEncoder writes: nothing optional in its header, one block, nothing behind
// it. zstd itself would also take frames and blocks without end, each of which costs it a set-up.
bool is_one_block(std::span<const std::byte> frame) {
    constexpr std::size_t head_bytes = 5; // descriptor, window size, block header
    if (frame.size() < head_bytes || frame[0] != std::byte{0})
        return false;
    const u32 header = static_cast<u32>(frame[2]) | static_cast<u32>(frame[3]) << 8 | static_cast<u32>(frame[4]) << 16;
    const bool last = (header & 1) != 0;
    const u32 type = header >> 1 & 3; // raw, run, compressed
    const std::size_t bytes = type == 1 ? 1 : header >> 3; // a run has one byte whatever its length
    return last && type != 3 && frame.size() - head_bytes == bytes;
}
} // namespace

ZstdEncoder::ZstdEncoder(std::span<const std::byte> dictionary, u32 source_bytes_max, Allocator allocator)
    : allocator_(allocator), source_bytes_max_(source_bytes_max) {
    const ZSTD_compressionParameters parameters = ZSTD_getCParams(compression_level, source_bytes_max, dictionary.size());
    const std::size_t context_bytes = rounded(ZSTD_estimateCCtxSize_usingCParams(parameters));
    const std::size_t dictionary_bytes =
        dictionary.empty() ? 0 : rounded(ZSTD_estimateCDictSize_advanced(dictionary.size(), parameters, ZSTD_dlm_byRef));
    memory_bytes_ = context_bytes + dictionary_bytes;
    memory_ = allocator_.allocate(memory_bytes_, memory_alignment);
    context_ = ZSTD_initStaticCCtx(memory_, context_bytes);
    THRONG_ASSERT(context_ != nullptr);
    const auto set = [this](ZSTD_cParameter parameter, int value) {
        const std::size_t result = ZSTD_CCtx_setParameter(context_, parameter, value);
        THRONG_ASSERT(!ZSTD_isError(result));
    };
    set(ZSTD_c_compressionLevel, compression_level);
    set(ZSTD_c_windowLog, static_cast<int>(parameters.windowLog));
    set(ZSTD_c_hashLog, static_cast<int>(parameters.hashLog));
    set(ZSTD_c_chainLog, static_cast<int>(parameters.chainLog));
    set(ZSTD_c_searchLog, static_cast<int>(parameters.searchLog));
    set(ZSTD_c_minMatch, static_cast<int>(parameters.minMatch));
    set(ZSTD_c_targetLength, static_cast<int>(parameters.targetLength));
    set(ZSTD_c_strategy, static_cast<int>(parameters.strategy));
    set(ZSTD_c_format, ZSTD_f_zstd1_magicless);
    set(ZSTD_c_contentSizeFlag, 0);
    set(ZSTD_c_checksumFlag, 0);
    set(ZSTD_c_dictIDFlag, 0);
    if (!dictionary.empty()) {
        const ZSTD_CDict* loaded =
            ZSTD_initStaticCDict(static_cast<std::byte*>(memory_) + context_bytes, dictionary_bytes, dictionary.data(),
                                 dictionary.size(), ZSTD_dlm_byRef, ZSTD_dct_auto, parameters);
        THRONG_ASSERT(loaded != nullptr && "the zstd dictionary is damaged");
        const std::size_t result = ZSTD_CCtx_refCDict(context_, loaded);
        THRONG_ASSERT(!ZSTD_isError(result));
    }
}

ZstdEncoder::~ZstdEncoder() { allocator_.free(memory_, memory_bytes_, memory_alignment); }

u32 ZstdEncoder::compress(std::span<const std::byte> source, std::span<std::byte> out) {
    THRONG_ASSERT(source.size() <= source_bytes_max_);
    const std::size_t result = ZSTD_compress2(context_, out.data(), out.size(), source.data(), source.size());
    if (ZSTD_isError(result) || !is_one_block(out.first(result)))
        return 0; // newer versions of zstd may cut a source of the largest size into two blocks
    return static_cast<u32>(result);
}

ZstdDecoder::ZstdDecoder(std::span<const std::byte> dictionary, Allocator allocator) : allocator_(allocator) {
    const std::size_t context_bytes = rounded(ZSTD_estimateDCtxSize());
    const std::size_t dictionary_bytes =
        dictionary.empty() ? 0 : rounded(ZSTD_estimateDDictSize(dictionary.size(), ZSTD_dlm_byRef));
    memory_bytes_ = context_bytes + dictionary_bytes;
    memory_ = allocator_.allocate(memory_bytes_, memory_alignment);
    context_ = ZSTD_initStaticDCtx(memory_, context_bytes);
    THRONG_ASSERT(context_ != nullptr);
    const std::size_t result = ZSTD_DCtx_setParameter(context_, ZSTD_d_format, ZSTD_f_zstd1_magicless);
    THRONG_ASSERT(!ZSTD_isError(result));
    if (!dictionary.empty()) {
        const ZSTD_DDict* loaded = ZSTD_initStaticDDict(static_cast<std::byte*>(memory_) + context_bytes, dictionary_bytes,
                                                        dictionary.data(), dictionary.size(), ZSTD_dlm_byRef, ZSTD_dct_auto);
        THRONG_ASSERT(loaded != nullptr && "the zstd dictionary is damaged");
        const std::size_t referenced = ZSTD_DCtx_refDDict(context_, loaded);
        THRONG_ASSERT(!ZSTD_isError(referenced));
    }
}

ZstdDecoder::~ZstdDecoder() { allocator_.free(memory_, memory_bytes_, memory_alignment); }

bool ZstdDecoder::decompress(std::span<const std::byte> frame, std::span<std::byte> out) {
    if (!is_one_block(frame))
        return false;
    return ZSTD_decompressDCtx(context_, out.data(), out.size(), frame.data(), frame.size()) == out.size();
}

} // namespace throng
