#include "src/client/ack_log.hpp"
#include "throng/wire.hpp"

namespace throng {
namespace {
constexpr u32 block_bytes = 10;
constexpr u32 hash_bytes = 12;
constexpr u32 blocks_max = AckLog::window / 64 + 1;
constexpr std::byte kind_ack{5};

template <class T>
std::byte* put(std::byte* out, T value) {
    for (u32 i = 0; i < sizeof(T); ++i)
        *out++ = static_cast<std::byte>(static_cast<u64>(value) >> (8 * i));
    return out;
}
} // namespace

AckLog::Seen AckLog::look_up(u16 id) const {
    const i32 ahead = any_ ? static_cast<i16>(id - newest_) : 1;
    if (ahead > 0)
        return Seen::fresh;
    if (ahead <= -static_cast<i32>(window))
        return Seen::late;
    return judged_[id % window] ? Seen::duplicate : Seen::fresh;
}

void AckLog::advance(u16 id) {
    const u32 steps = any_ ? static_cast<u16>(id - newest_) : window;
    for (u32 i = 0; i < (steps < window ? steps : window); ++i) {
        const u32 slot = static_cast<u16>(id - i) % window;
        waiting_ -= sends_left_[slot] > 0;
        sends_left_[slot] = 0;
        judged_[slot] = false;
    }
    newest_ = id;
    any_ = true;
    for (std::size_t i = unapplied_.size(); i-- > 0;)
        if (static_cast<u16>(newest_ - unapplied_[i].id) >= window)
            unapplied_.erase_unordered(i);
}

void AckLog::judged(u16 id) {
    THRONG_ASSERT(look_up(id) == Seen::fresh);
    if (!any_ || static_cast<i16>(id - newest_) > 0)
        advance(id);
    judged_[id % window] = true;
    wait(id);
}

u32 AckLog::unapplied_bytes(u16 id) const {
    u32 bytes = 0;
    for (const Unapplied& entry : unapplied_)
        if (entry.id == id)
            bytes += 2 + varint_bytes(entry.section);
    return bytes;
}

u32 AckLog::write(std::span<std::byte> out, Batch& batch) {
    THRONG_ASSERT(out.size() >= ack_bytes_min);
    struct Block {
        u16 newest;
        u64 mask;
    } blocks[blocks_max];
    u32 block_count = 0;
    bool here[window] = {};
    const bool with_hash = hash_sends_left_ > 0 && !batch.hash;
    // kind, block count, count of unapplied sections, hash
    u32 bytes = 1 + 1 + varint_bytes(unapplied_max) + 1 + (with_hash ? hash_bytes : 0);
    for (u32 back = 0; waiting_ > 0 && back < window; ++back) {
        const u16 id = static_cast<u16>(newest_ - back);
        const u32 slot = id % window;
        if (sends_left_[slot] == 0 || batch.taken[slot])
            continue;
        const bool opens = block_count == 0 || static_cast<u16>(blocks[block_count - 1].newest - id) >= 64;
        const u32 needed = (opens ? block_bytes : 0) + unapplied_bytes(id);
        if (bytes + needed > out.size())
            break;
        bytes += needed;
        if (opens)
            blocks[block_count++] = {id, 0};
        Block& block = blocks[block_count - 1];
        block.mask |= u64(1) << static_cast<u16>(block.newest - id);
        here[slot] = batch.taken[slot] = true;
    }
    if (block_count == 0 && !with_hash)
        return 0;

    std::byte* cursor = out.data();
    *cursor++ = kind_ack;
    cursor = put(cursor, static_cast<u8>(block_count));
    for (u32 b = 0; b < block_count; ++b)
        cursor = put(put(cursor, blocks[b].newest), blocks[b].mask);
    u32 listed = 0;
    for (const Unapplied& entry : unapplied_)
        listed += here[entry.id % window];
    cursor += write_varint({cursor, varint_bytes_max}, listed);
    for (const Unapplied& entry : unapplied_) {
        if (!here[entry.id % window])
            continue;
        cursor = put(cursor, entry.id);
        cursor += write_varint({cursor, varint_bytes_max}, entry.section);
    }
    cursor = put(cursor, static_cast<u8>(with_hash));
    if (with_hash) {
        cursor = put(put(cursor, hash_tick_), hash_);
        batch.hash = true;
    }
    return static_cast<u32>(cursor - out.data());
}

void AckLog::sent(const Batch& batch) {
    for (u32 slot = 0; slot < window; ++slot)
        if (batch.taken[slot] && sends_left_[slot] > 0)
            waiting_ -= --sends_left_[slot] == 0;
    if (batch.hash && hash_sends_left_ > 0)
        --hash_sends_left_;
}

void AckLog::clear() {
    unapplied_.clear();
    for (u32 slot = 0; slot < window; ++slot) {
        sends_left_[slot] = 0;
        judged_[slot] = false;
    }
    any_ = false;
    newest_ = 0;
    hash_sends_left_ = 0;
    waiting_ = 0;
}

} // namespace throng
