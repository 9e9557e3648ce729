#include "support.hpp"
#include "throng/array.hpp"
#include <doctest/doctest.h>
#include <memory>
#include <string>

using ecs_test::CountingMemory;
using throng::Array;

TEST_SUITE("ecs") {
    TEST_CASE("an array grows, keeps its elements and gives its memory back") {
        CountingMemory memory;
        {
            Array<int> numbers(memory.allocator());
            CHECK(memory.allocations == 0);
            for (int i = 0; i < 1000; ++i)
                numbers.push_back(i);
            CHECK(numbers.size() == 1000);
            CHECK(numbers.front() == 0);
            CHECK(numbers.back() == 999);
            CHECK(memory.allocations < 10);
            const throng::u64 before = memory.allocations;
            numbers.clear();
            numbers.resize(1000);
            CHECK(numbers[500] == 0);
            CHECK(memory.allocations == before);
            numbers.resize(1200, 7);
            CHECK(numbers[1199] == 7);
            CHECK(numbers[999] == 0);
        }
        CHECK(memory.live_bytes == 0);
    }
    TEST_CASE("an array takes its own elements as arguments while it grows") {
        Array<std::string> words;
        words.push_back("a word that is longer than any small string buffer");
        for (int i = 0; i < 100; ++i)
            words.push_back(words[0]);
        CHECK(words.back() == words.front());
        CHECK(words.back().size() == 50);
    }
    TEST_CASE("an array holds move-only elements and moves as a whole") {
        CountingMemory memory;
        {
            Array<std::unique_ptr<int>> pointers(memory.allocator());
            for (int i = 0; i < 20; ++i)
                pointers.emplace_back(std::make_unique<int>(i));
            Array<std::unique_ptr<int>> taken(std::move(pointers));
            CHECK(pointers.empty());
            CHECK(*taken[19] == 19);
            taken.erase_unordered(0);
            CHECK(*taken[0] == 19);
            CHECK(taken.size() == 19);
            pointers = std::move(taken);
            CHECK(pointers.size() == 19);
            pointers.pop_back();
            CHECK(*pointers.back() == 17);
        }
        CHECK(memory.live_bytes == 0);
    }
    TEST_CASE("an array is unchanged when growing fails") {
        CountingMemory memory;
        Array<int> numbers(memory.allocator());
        numbers.reserve(4);
        const int four[] = {1, 2, 3, 4};
        numbers.append(four, 4);
        memory.fail_at = memory.allocations;
        CHECK_THROWS_AS(numbers.push_back(5), std::bad_alloc);
        CHECK(numbers.size() == 4);
        CHECK(numbers[3] == 4);
    }
}
