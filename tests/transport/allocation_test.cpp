// A program of its own: it replaces the global operator new to count every allocation.
#include "throng/loopback.hpp"
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <new>

namespace {
unsigned long allocations = 0;

void* counted(std::size_t bytes, std::size_t alignment) {
    ++allocations;
    void* memory = std::aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment);
    if (!memory)
        std::abort();
    return memory;
}
} // namespace

void* operator new(std::size_t bytes) { return counted(bytes, 16); }
void* operator new[](std::size_t bytes) { return counted(bytes, 16); }
void* operator new(std::size_t bytes, std::align_val_t alignment) { return counted(bytes, static_cast<std::size_t>(alignment)); }
void* operator new[](std::size_t bytes, std::align_val_t alignment) { return counted(bytes, static_cast<std::size_t>(alignment)); }
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete[](void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
void operator delete[](void* memory, std::size_t) noexcept { std::free(memory); }
void operator delete(void* memory, std::align_val_t) noexcept { std::free(memory); }
void operator delete[](void* memory, std::align_val_t) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t, std::align_val_t) noexcept { std::free(memory); }
void operator delete[](void* memory, std::size_t, std::align_val_t) noexcept { std::free(memory); }

namespace {

using namespace throng;

struct ServerCount final : ServerBackendSink {
    u64 messages = 0;
    void on_connect(ClientId) override {}
    void on_disconnect(ClientId) override {}
    void on_message(ClientId, Channel, Bytes) override { ++messages; }
};
struct ClientCount final : ClientBackendSink {
    u64 messages = 0;
    void on_connect() override {}
    void on_disconnect() override {}
    void on_message(Channel, Bytes) override { ++messages; }
};

constexpr u32 client_count = 200;

/// Allocations of `measured` ticks after `warm_up` ticks, with every fault on and message sizes that vary.
unsigned long run(u32 warm_up, u32 measured, u32 reserve_messages, u64& delivered) {
    LoopbackConfig config;
    config.client_max = client_count;
    config.reserve_messages = reserve_messages;
    LoopbackNetwork network(config);
    LinkConfig link;
    link.loss_percent = 5;
    link.burst_enter_percent = 1;
    link.burst_leave_percent = 30;
    link.delay_us = 40'000;
    link.jitter_us = 60'000;
    link.reorder_percent = 5;
    link.reorder_extra_us = 50'000;
    link.duplicate_percent = 5;
    link.truncate_percent = 1;
    link.corrupt_percent = 1;
    link.rate_bytes_per_s = 100'000;
    for (u32 i = 0; i < client_count; ++i)
        network.connect(link);
    ServerCount server_count;
    ClientCount client_counts;
    std::byte bytes[1200];
    std::memset(bytes, 7, sizeof(bytes));
    unsigned long before = 0;
    for (u32 tick = 0; tick < warm_up + measured; ++tick) {
        if (tick == warm_up)
            before = allocations;
        const TimeUs now = tick * TimeUs(50'000);
        network.server().poll(now, server_count);
        for (ClientId id = 0; id < client_count; ++id)
            for (u32 m = 0; m < 4; ++m) {
                const Bytes message(bytes, 1 + (id * 131 + tick * 37 + m * 499) % 1200);
                if (network.server().send(id, Channel(m % 3), message) != SendResult::accepted)
                    std::abort();
            }
        network.server().flush(now);
        for (ClientId id = 0; id < client_count; ++id) {
            ClientBackend& client = network.client(id);
            client.poll(now, client_counts);
            if (client.send(Channel(tick % 3), Bytes(bytes, 1 + (id + tick * 53) % 300)) != SendResult::accepted)
                std::abort();
            client.flush(now);
        }
    }
    const unsigned long during = allocations - before;
    delivered = server_count.messages + client_counts.messages;
    return during;
}

} // namespace

int main() {
    u64 delivered = 0;
    const unsigned long cold = run(0, 20, 0, delivered);
    if (cold == 0) {
        std::puts("the counter counts nothing");
        return 1;
    }
    const unsigned long warm = run(100, 200, 0, delivered);
    const unsigned long reserved = run(1, 100, 8000, delivered);
    std::printf("allocations: %lu while warming up, %lu in 200 ticks after it, %lu with a reserve\n", cold, warm, reserved);
    return warm == 0 && reserved == 0 && delivered > 50'000 ? 0 : 1;
}
