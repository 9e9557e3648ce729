#pragma once
// What the multiplexers' halves share (docs/wire.md 8): control messages, what is staged for a flush, and what has arrived for a world.
//
// The first byte of a message is its stream. A client gives each stay in a world a stream of its own, in turn, so that a late message of an
// earlier stay is nobody's. Stream 255 is control.
#include "throng/array.hpp"
#include "throng/assert.hpp"
#include "throng/multiplexer.hpp"
#include <cstddef>
#include <cstring>

namespace throng::multiplexer {

inline constexpr u8 control_stream = 255;

inline void check_config(const MultiplexerConfig& config) {
    THRONG_ASSERT(config.worlds_max >= 1 && config.worlds_max <= multiplexer_worlds_limit);
    constexpr u32 most = 1u << 30;
    THRONG_ASSERT(config.unreliable_bytes_max <= most && config.reliable_bytes_max <= most && config.inbox_bytes_max <= most);
}
/// Of a message of `bytes`.
inline u32 beside_stream(u32 bytes) {
    THRONG_ASSERT(bytes > 1);
    return bytes - 1;
}

/// Opens or closes a stream. A server only closes.
struct Control {
    enum class What : u8 { open = 1, close = 2 };
    What what = What::close;
    u8 stream = 0;
    u32 world = 0; // to open
};
inline constexpr u32 control_bytes_max = 4;
/// Returns the bytes written.
inline u32 write_control(std::byte (&out)[control_bytes_max], const Control& control) {
    out[0] = static_cast<std::byte>(control_stream);
    out[1] = static_cast<std::byte>(control.what);
    out[2] = static_cast<std::byte>(control.stream);
    out[3] = static_cast<std::byte>(control.world);
    return control.what == Control::What::open ? 4 : 3;
}
inline Error read_control(Bytes message, Control& control) {
    if (message.size() < 3 || std::to_integer<u8>(message[0]) != control_stream)
        return Error::truncated;
    control = {static_cast<Control::What>(message[1]), std::to_integer<u8>(message[2]), 0};
    const bool opens = control.what == Control::What::open;
    if ((!opens && control.what != Control::What::close) || control.stream == control_stream || message.size() != (opens ? 4u : 3u))
        return Error::bad_value;
    if (opens)
        control.world = std::to_integer<u32>(message[3]);
    return Error::none;
}

/// Room that is made at first, so that what rests, and says a packet's worth at most a tick, needs no more.
inline constexpr u32 first_bytes = 2048, first_events = 16;

/// Messages one behind the other, each behind a head. Memory stays.
class ByteQueue {
public:
    explicit ByteQueue(const Allocator& allocator) : allocator_(allocator) {}
    ByteQueue(ByteQueue&& other) noexcept
        : allocator_(other.allocator_), data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)),
          capacity_(std::exchange(other.capacity_, 0)) {}
    ~ByteQueue() { release(); }

    u32 size() const { return size_; }
    bool empty() const { return size_ == 0; }
    void clear() { size_ = 0; }
    void release() {
        allocator_.free(data_, capacity_, alignof(std::max_align_t));
        data_ = nullptr;
        size_ = capacity_ = 0;
    }
    /// Room for a message, stream included, to be written before put().
    std::byte* room(u32 bytes) {
        const u32 needed = size_ + head_bytes + bytes;
        if (needed > capacity_)
            grow(needed);
        return data_ + size_ + head_bytes;
    }
    void reserve(u32 bytes) {
        if (bytes > capacity_)
            grow(bytes);
    }
    /// The message in the room is complete.
    void put(Channel channel, u32 bytes) {
        const Head head{bytes, channel};
        std::memcpy(data_ + size_, &head, head_bytes);
        size_ += head_bytes + bytes;
    }
    /// Gives messages to f(channel, bytes) in order, and takes those away for which it returns true; it stops at the first other one.
    template <class F>
    void take(F&& f) {
        u32 at = 0;
        while (at < size_) {
            Head head;
            std::memcpy(&head, data_ + at, head_bytes);
            if (!f(head.channel, Bytes(data_ + at + head_bytes, head.bytes)))
                break;
            at += head_bytes + head.bytes;
        }
        if (at > 0 && at < size_)
            std::memmove(data_, data_ + at, size_ - at);
        size_ -= at;
    }

private:
    struct Head {
        u32 bytes;
        Channel channel;
    };
    static constexpr u32 head_bytes = sizeof(Head);
    void grow(u32 needed) {
        const u32 least = capacity_ > 0 ? capacity_ * 2 : first_bytes;
        const u32 capacity = needed > least ? needed : least;
        auto* const data = static_cast<std::byte*>(allocator_.allocate(capacity, alignof(std::max_align_t)));
        if (size_ > 0)
            std::memcpy(data, data_, size_);
        allocator_.free(data_, capacity_, alignof(std::max_align_t));
        data_ = data;
        capacity_ = capacity;
    }
    Allocator allocator_;
    std::byte* data_ = nullptr;
    u32 size_ = 0, capacity_ = 0;
};

/// What one end sends on one stream, until the flush.
class Staged {
public:
    explicit Staged(const Allocator& allocator) : unreliable_(allocator), reliable_(allocator) {}
    bool empty() const { return unreliable_.empty() && reliable_.empty(); }
    /// Room for the first messages, so that what is said later of a world that rests takes none.
    void reserve() { unreliable_.reserve(first_bytes); }
    void release() {
        unreliable_.release();
        reliable_.release();
        behind_ = false;
        count_ = 0;
        window_ = no_window;
    }
    SendResult send(const MultiplexerConfig& config, u8 stream, Channel channel, Bytes message) {
        const u32 bytes = static_cast<u32>(message.size());
        const std::span<std::byte> room = room_for(config, stream, channel, bytes);
        if (!room.data())
            return SendResult::refused;
        if (bytes > 0)
            std::memcpy(room.data(), message.data(), bytes);
        if (channel == Channel::unreliable)
            put_unreliable(bytes);
        else
            reliable_.put(channel, 1 + bytes);
        return SendResult::accepted;
    }
    /// Null data: a limit.
    std::span<std::byte> room_for(const MultiplexerConfig& config, u8 stream, Channel channel, u32 bytes) {
        const bool unreliable = channel == Channel::unreliable;
        ByteQueue& queue = unreliable ? unreliable_ : reliable_;
        const u32 limit = unreliable ? config.unreliable_bytes_max : config.reliable_bytes_max;
        if (queue.size() > limit || bytes > limit - queue.size() || (unreliable ? count_ >= window_ : behind_))
            return {};
        std::byte* const room = queue.room(1 + bytes);
        *room = static_cast<std::byte>(stream);
        return {room + 1, bytes};
    }
    void put_unreliable(u32 bytes) {
        unreliable_.put(Channel::unreliable, 1 + bytes);
        ++count_;
    }
    /// Gives all to `send(channel, bytes)`. What it refuses stays if it is reliable, and what is behind it. Returns how many were dropped:
    /// from then on no more are staged than were taken, and one more (of many an eighth) each time that all of so many were.
    template <class Send>
    u32 forward(Send&& send) {
        u32 dropped = 0;
        reliable_.take([&](Channel channel, Bytes message) { return send(channel, message) == SendResult::accepted; });
        behind_ = !reliable_.empty();
        unreliable_.take([&](Channel channel, Bytes message) {
            dropped += send(channel, message) != SendResult::accepted;
            return true;
        });
        if (dropped > 0)
            window_ = count_ > dropped ? count_ - dropped : 1;
        else if (count_ == window_)
            window_ += 1 + window_ / 8;
        count_ = 0;
        return dropped;
    }

private:
    static constexpr u32 no_window = ~0u;
    ByteQueue unreliable_, reliable_;
    bool behind_ = false;    // the backend has refused some of reliable_: until it has taken that, the world shall know
    u32 count_ = 0;          // messages in unreliable_
    u32 window_ = no_window; // how many of them the backend is thought to take
};

/// What has arrived for one world, in order.
class Inbox {
public:
    explicit Inbox(const Allocator& allocator) : events_(allocator), bytes_(allocator) {}
    enum class Kind : u8 { connect, disconnect, message };
    struct Event {
        Kind kind;
        Channel channel;
        u32 who;       // a client's number; at the client the session
        u32 at, count; // of a message's bytes
    };
    void add(Kind kind, u32 who) { events_.push_back({kind, Channel::ordered, who, 0, 0}); }
    /// `used` counts what waits of one client, at most `limit`; take() does not change it.
    bool add_message(u32& used, u32 limit, u32 who, Channel channel, Bytes message) {
        const u64 needed = used + sizeof(Event) + message.size();
        if (needed > limit)
            return false;
        used = static_cast<u32>(needed);
        events_.reserve(first_events);
        bytes_.reserve(first_bytes);
        events_.push_back({Kind::message, channel, who, static_cast<u32>(bytes_.size()), static_cast<u32>(message.size())});
        bytes_.append(message.data(), message.size());
        return true;
    }
    /// Calls f(event, bytes) for each, and is empty after it.
    template <class F>
    void take(F&& f) {
        for (std::size_t i = 0; i < events_.size(); ++i)
            f(events_[i], Bytes(bytes_.data() + events_[i].at, events_[i].count));
        clear();
    }
    void clear() {
        events_.clear();
        bytes_.clear();
    }

private:
    Array<Event> events_;
    Array<std::byte> bytes_;
};

} // namespace throng::multiplexer
