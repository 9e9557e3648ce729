#pragma once
// Byte input for the trace parsers: a file or memory, zstd-compressed or not, as a stream of lines or blocks.
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <span>
#include <string>
#include <string_view>
#include <vector>

struct ZSTD_DCtx_s;

namespace scenarios {

/// Reads a stream in pieces of a fixed size; a zstd magic number at the start switches decompression on. Bounded memory:
/// two buffers and a zstd window of at most 2^27 bytes.
class TraceReader {
public:
    TraceReader(std::string name, std::uint64_t bytes_max);
    ~TraceReader();
    TraceReader(const TraceReader&) = delete;
    TraceReader& operator=(const TraceReader&) = delete;

    bool open_file(const std::string& path);
    void open_memory(std::span<const std::byte> bytes);

    /// The next bytes that are not consumed yet, at least `wanted` unless the stream ends before.
    std::string_view peek(std::size_t wanted);
    void consume(std::size_t bytes) { position_ += bytes; }
    /// The next line without its end, or false at the end of the stream (or on an error, or over `bytes_max`).
    bool line(std::string_view& out, std::size_t bytes_max);
    /// Consumes through the next `stop` character; `out` is what precedes it. Counts lines.
    bool until(char stop, std::string_view& out, std::size_t bytes_max);

    bool failed() const { return !error_.empty(); }
    /// Records the first problem as "name:line: what".
    void fail(const std::string& what, bool with_line = true);
    void fail_at(std::uint64_t line, const std::string& what) {
        line_ = line;
        tags_ = 0;
        fail(what);
    }
    const std::string& error() const { return error_; }
    /// Of the last line read, or where the last tag ended; 0 before anything was read.
    std::uint64_t line_number() const { return line_ + tags_; }
    std::uint64_t bytes_read() const { return total_; }

private:
    bool more();
    std::size_t raw(char* to, std::size_t bytes);

    std::string name_;
    std::string error_ = {};
    std::uint64_t bytes_max_;
    std::uint64_t total_ = 0;
    std::uint64_t line_ = 0; // lines read, or line ends passed
    std::uint64_t tags_ = 0; // 1 when the stream is read by tags
    std::FILE* file_ = nullptr;
    std::span<const std::byte> memory_ = {};
    bool started_ = false, ended_ = false, frame_open_ = false;
    ZSTD_DCtx_s* zstd_ = nullptr;
    std::vector<char> in_ = {};
    std::size_t in_position_ = 0, in_size_ = 0;
    std::vector<char> buffer_ = {};
    std::size_t position_ = 0, size_ = 0;
};

} // namespace scenarios
