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
using transport::Sheet;

namespace {

Message* alone(MessagePool& pool, u32 hint, u32 size_bytes) {
    Sheet* sheet = pool.acquire(hint, MessagePool::message_bytes(size_bytes));
    Message* message = MessagePool::add(*sheet, size_bytes);
    pool.release(hint, sheet);
    return message;
}

} // namespace

TEST_SUITE("transport") {
    TEST_CASE("messages hold their size, do not overlap, and their memory is used again") {
        MessagePool pool(default_allocator());
        std::vector<Message*> messages;
        const u32 sizes[] = {0, 1, 128, 129, 1200, 1536, 1537, 65'536, loopback_message_bytes_limit};
        for (u32 round = 0; round < 3; ++round)
            for (u32 size : sizes) {
                Message* message = alone(pool, round, size);
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
                alone(pool, round + 5, size); // found from others
        CHECK(pool.memory_bytes() == bytes);
    }

    TEST_CASE("a reserve serves any mix of packet sizes without growth") {
        MessagePool pool(default_allocator());
        pool.reserve(100);
        const std::size_t bytes = pool.memory_bytes();
        CHECK(bytes > 0);
        std::set<Message*> messages;
        for (u32 i = 0; i < 100; ++i)
            messages.insert(alone(pool, i % 2, i * 13 % 1500));
        CHECK(messages.size() == 100);
        CHECK(pool.memory_bytes() == bytes);
        MessagePool empty(default_allocator());
        empty.reserve(0);
        CHECK(empty.memory_bytes() == 0);
    }

    TEST_CASE("messages of a sheet lie one behind the other, and the last holder gives it back") {
        MessagePool pool(default_allocator());
        Sheet* sheet = pool.acquire(3, 4 * MessagePool::message_bytes(1200));
        const std::size_t bytes = pool.memory_bytes();
        Message* messages[4] = {};
        for (u32 i = 0; i < 4; ++i) {
            CHECK(sheet->capacity_bytes - sheet->used_bytes >= MessagePool::message_bytes(1200));
            messages[i] = MessagePool::add(*sheet, 1200);
            CHECK(messages[i]->sheet() == sheet);
            std::memset(messages[i]->data(), int(i + 1), 1200);
        }
        for (u32 i = 0; i + 1 < 4; ++i)
            CHECK(messages[i]->data() + MessagePool::message_bytes(1200) == messages[i + 1]->data());
        for (u32 i = 0; i < 4; ++i)
            CHECK(messages[i]->bytes()[1199] == static_cast<std::byte>(i + 1));
        for (u32 i : {2u, 0u, 3u})
            pool.release(3, messages[i]);
        pool.release(3, sheet);
        CHECK(sheet->holders == 1); // one message is left
        Sheet* other = pool.acquire(3, 4 * MessagePool::message_bytes(1200));
        CHECK(other != sheet);
        pool.release(3, messages[1]);
        CHECK(pool.acquire(3, 4 * MessagePool::message_bytes(1200)) == sheet);
        CHECK(pool.memory_bytes() == bytes);
    }

    TEST_CASE("after a reserve a smaller sheet is better than growth") {
        MessagePool pool(default_allocator());
        CHECK(pool.acquire(0, MessagePool::shared_bytes_max, 64)->capacity_bytes == MessagePool::shared_bytes_max);
        pool.reserve(8);
        const std::size_t bytes = pool.memory_bytes();
        const Sheet* smaller = pool.acquire(0, MessagePool::shared_bytes_max, MessagePool::message_bytes(1536));
        CHECK(smaller->capacity_bytes < MessagePool::shared_bytes_max);
        CHECK(pool.memory_bytes() == bytes);
    }

    TEST_CASE("threads that share a shard get blocks of their own") {
        MessagePool pool(default_allocator());
        u32 torn[2] = {};
        const auto work = [&](u32 thread) {
            std::vector<Message*> mine;
            for (u32 i = 0; i < 3000; ++i) {
                Message* message = alone(pool, i % 2, 64);
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
