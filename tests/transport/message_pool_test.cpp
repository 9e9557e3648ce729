#include "src/transport/message_pool.hpp"
#include "throng/loopback.hpp"
#include <cstring>
#include <doctest/doctest.h>
#include <set>
#include <thread>
#include <vector>

using namespace throng;
using transport::Message;
using transport::MessagePool;

TEST_SUITE("transport") {
    TEST_CASE("blocks hold their size, do not overlap and are used again") {
        MessagePool pool(default_allocator());
        std::vector<Message*> messages;
        const u32 sizes[] = {0, 1, 128, 129, 1200, 1536, 1537, 65'536, loopback_message_bytes_limit};
        for (u32 round = 0; round < 3; ++round)
            for (u32 size : sizes) {
                Message* message = pool.acquire(round, size);
                CHECK(message->size_bytes == size);
                std::memset(message->data(), int(messages.size() + 1), size);
                messages.push_back(message);
            }
        for (std::size_t i = 0; i < messages.size(); ++i)
            for (std::byte b : messages[i]->bytes())
                if (b != static_cast<std::byte>(i + 1)) {
                    CHECK(b == static_cast<std::byte>(i + 1));
                    break;
                }
        const std::size_t bytes = pool.memory_bytes();
        for (Message* message : messages)
            pool.release(0, message); // all to one shard
        for (u32 round = 0; round < 3; ++round)
            for (u32 size : sizes)
                pool.acquire(round + 5, size); // found from others
        CHECK(pool.memory_bytes() == bytes);
    }

    TEST_CASE("a reserve serves any mix of packet sizes without growth") {
        MessagePool pool(default_allocator());
        pool.reserve(100);
        const std::size_t bytes = pool.memory_bytes();
        CHECK(bytes > 0);
        std::set<Message*> messages;
        for (u32 i = 0; i < 100; ++i)
            messages.insert(pool.acquire(i % 2, i * 13 % 1500));
        CHECK(messages.size() == 100);
        CHECK(pool.memory_bytes() == bytes);
        MessagePool empty(default_allocator());
        empty.reserve(0);
        CHECK(empty.memory_bytes() == 0);
    }

    TEST_CASE("packets are taken together, as many as the list has") {
        MessagePool pool(default_allocator());
        Message* messages[40] = {};
        CHECK(pool.acquire_packets(3, messages, 40) == 0); // it does not grow
        pool.reserve(8 * MessagePool::shard_count - MessagePool::shard_count);
        const std::size_t bytes = pool.memory_bytes();
        const u32 count = pool.acquire_packets(3, messages, 40);
        CHECK(count == 8);
        std::set<Message*> all(messages, messages + count);
        CHECK(all.size() == count);
        CHECK(pool.acquire_packets(3, messages + count, 1) == 0);
        for (u32 i = 0; i < count; ++i)
            std::memset(messages[i]->data(), 1, MessagePool::packet_bytes_max);
        pool.release(3, messages, count);
        CHECK(pool.acquire_packets(3, messages, 5) == 5);
        CHECK(pool.acquire_packets(3, messages + 5, 5) == 3);
        CHECK(pool.memory_bytes() == bytes);
    }

    TEST_CASE("threads that share a shard get blocks of their own") {
        MessagePool pool(default_allocator());
        u32 torn[2] = {};
        const auto work = [&](u32 thread) {
            std::vector<Message*> mine;
            for (u32 i = 0; i < 3000; ++i) {
                Message* message = pool.acquire(i % 2, 64);
                std::memset(message->data(), int(thread + 1), 64);
                mine.push_back(message);
                if (mine.size() == 20)
                    for (; !mine.empty(); mine.pop_back()) {
                        for (std::byte b : mine.back()->bytes())
                            torn[thread] += b != static_cast<std::byte>(thread + 1);
                        pool.release(i % 3, mine.back());
                    }
            }
        };
        std::thread other(work, 1);
        work(0);
        other.join();
        CHECK(torn[0] == 0);
        CHECK(torn[1] == 0);
    }
}
