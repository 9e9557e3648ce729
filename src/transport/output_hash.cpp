#include "throng/loopback.hpp"
#include <xxhash.h>

namespace throng {

void OutputHash::add(u64 tick_or_time, ClientId client, Channel channel, Bytes message) {
    const XXH128_hash_t body = XXH3_128bits(message.data(), message.size());
    const u64 words[] = {low, high, tick_or_time, u64(client) | u64(channel) << 32, message.size(), body.low64, body.high64};
    unsigned char bytes[sizeof(words)]; // little-endian on every host
    for (std::size_t i = 0; i < sizeof(words); ++i)
        bytes[i] = static_cast<unsigned char>(words[i / 8] >> (i % 8 * 8));
    const XXH128_hash_t chained = XXH3_128bits(bytes, sizeof(bytes));
    low = chained.low64;
    high = chained.high64;
}

TraceHook OutputHash::hook() {
    return {[](void* context, const TraceRecord& record) {
                if (record.fate == Fate::sent && record.direction == Direction::down)
                    static_cast<OutputHash*>(context)->add(record.time_us, record.client, record.channel, record.message);
            },
            this};
}

} // namespace throng
