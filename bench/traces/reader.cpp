#include "bench/traces/reader.hpp"
#include <algorithm>
#include <cerrno>
#include <cstring>
#include <zstd.h>

namespace scenarios {

static constexpr std::size_t piece_bytes = 256u << 10;

TraceReader::TraceReader(std::string name, std::uint64_t bytes_max) : name_(std::move(name)), bytes_max_(bytes_max) {
    in_.resize(piece_bytes);
    buffer_.resize(2 * piece_bytes);
}

TraceReader::~TraceReader() {
    if (file_)
        std::fclose(file_);
    ZSTD_freeDCtx(zstd_);
}

bool TraceReader::open_file(const std::string& path) {
    file_ = std::fopen(path.c_str(), "rb");
    if (!file_)
        fail(std::string("cannot be opened: ") + std::strerror(errno), false);
    return file_ != nullptr;
}

void TraceReader::open_memory(std::span<const std::byte> bytes) { memory_ = bytes; }

void TraceReader::fail(const std::string& what, bool with_line) {
    if (error_.empty())
        error_ = with_line && line_number() > 0 ? name_ + ":" + std::to_string(line_number()) + ": " + what : name_ + ": " + what;
}

std::size_t TraceReader::raw(char* to, std::size_t bytes) {
    if (!file_) {
        const std::size_t n = std::min(bytes, memory_.size());
        if (n > 0)
            std::memcpy(to, memory_.data(), n);
        memory_ = memory_.subspan(n);
        return n;
    }
    const std::size_t n = std::fread(to, 1, bytes, file_);
    if (n < bytes && std::ferror(file_))
        fail(std::string("cannot be read: ") + std::strerror(errno), false);
    return n;
}

// Appends at least one byte to the buffer, or returns false at the end.
bool TraceReader::more() {
    if (ended_ || failed())
        return false;
    if (position_ > 0) {
        std::memmove(buffer_.data(), buffer_.data() + position_, size_ - position_);
        size_ -= position_;
        position_ = 0;
    }
    if (buffer_.size() - size_ < piece_bytes)
        buffer_.resize(size_ + piece_bytes);
    if (!started_) {
        started_ = true;
        in_size_ = raw(in_.data(), in_.size());
        const unsigned char magic[4] = {0x28, 0xb5, 0x2f, 0xfd};
        if (in_size_ >= 4 && std::memcmp(in_.data(), magic, 4) == 0) {
            zstd_ = ZSTD_createDCtx();
            (void)ZSTD_DCtx_setParameter(zstd_, ZSTD_d_windowLogMax, 27);
        }
    }
    const std::size_t before = size_;
    while (size_ == before) {
        if (in_position_ == in_size_) {
            in_position_ = 0;
            in_size_ = raw(in_.data(), in_.size());
            if (in_size_ == 0) {
                ended_ = true;
                if (frame_open_)
                    fail("the compressed data ends too early", false);
                return false;
            }
        }
        if (!zstd_) {
            const std::size_t n = std::min(buffer_.size() - size_, in_size_ - in_position_);
            std::memcpy(buffer_.data() + size_, in_.data() + in_position_, n);
            in_position_ += n;
            size_ += n;
        } else {
            ZSTD_inBuffer in{in_.data(), in_size_, in_position_};
            ZSTD_outBuffer out{buffer_.data(), buffer_.size(), size_};
            const std::size_t result = ZSTD_decompressStream(zstd_, &out, &in);
            if (ZSTD_isError(result)) {
                fail(std::string("broken zstd data: ") + ZSTD_getErrorName(result), false);
                return false;
            }
            frame_open_ = result != 0;
            in_position_ = in.pos;
            size_ = out.pos;
        }
    }
    total_ += size_ - before;
    if (total_ > bytes_max_) {
        fail("larger than " + std::to_string(bytes_max_) + " bytes unpacked", false);
        return false;
    }
    return true;
}

std::string_view TraceReader::peek(std::size_t wanted) {
    while (size_ - position_ < wanted && more()) {
    }
    return {buffer_.data() + position_, size_ - position_};
}

bool TraceReader::until(char stop, std::string_view& out, std::size_t bytes_max) {
    std::size_t searched = 0;
    tags_ = stop != '\n';
    for (;;) {
        const char* start = buffer_.data() + position_;
        const std::size_t held = size_ - position_;
        const void* found = held > searched ? std::memchr(start + searched, stop, held - searched) : nullptr;
        if (found) {
            const auto length = static_cast<std::size_t>(static_cast<const char*>(found) - start);
            if (length > bytes_max) {
                fail("longer than " + std::to_string(bytes_max) + " bytes");
                return false;
            }
            out = {start, length};
            if (stop == '\n')
                ++line_;
            else
                line_ += static_cast<std::uint64_t>(std::count(start, start + length, '\n'));
            position_ += length + 1;
            return true;
        }
        searched = held;
        if (held > bytes_max) {
            if (stop == '\n')
                ++line_;
            fail("longer than " + std::to_string(bytes_max) + " bytes");
            return false;
        }
        if (!more())
            return false;
    }
}

bool TraceReader::line(std::string_view& out, std::size_t bytes_max) {
    if (!until('\n', out, bytes_max)) {
        if (failed() || position_ == size_)
            return false;
        out = {buffer_.data() + position_, size_ - position_}; // the last line has no end
        position_ = size_;
        ++line_;
    }
    if (!out.empty() && out.back() == '\r')
        out.remove_suffix(1);
    return true;
}

} // namespace scenarios
