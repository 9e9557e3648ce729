// What the server keeps for an entity or a client in lists of its own: ops that wait, masks of lanes, Lasting entities.
#include "src/server/lasting_list.hpp"
#include "src/server/op_queue.hpp"
#include "src/server/scopes.hpp"
#include <doctest/doctest.h>
#include <map>
#include <random>
#include <string>
#include <vector>

using namespace throng;

namespace {
DiffFunctions functions(void (*apply)()) {
    DiffFunctions out;
    out.apply = apply;
    return out;
}
std::string ops_of(const OpQueue& queue, u32 entity, ComponentId component, const DiffFunctions& diffs) {
    std::string out;
    queue.each(entity, component, diffs,
               [&](std::span<const std::byte> op) { out.append(reinterpret_cast<const char*>(op.data()), op.size()).append(1, ' '); });
    return out;
}
} // namespace

TEST_SUITE("server") {
    TEST_CASE("waiting ops are given by entity, component and functions, in their order, until they are forgotten") {
        OpQueue queue(default_allocator());
        const DiffFunctions a = functions([] {}), b = functions([] { std::string(); }), as_a = a; // equal functions, another name
        const auto add = [&](u32 entity, ComponentId component, const DiffFunctions& diffs, const std::string& op) {
            queue.add(entity, component, diffs, std::as_bytes(std::span(op)));
        };
        CHECK_FALSE(queue.any(0));
        CHECK_FALSE(queue.any(1000));
        for (int round = 0; round < 3; ++round) {
            CHECK(queue.bytes() == 0);
            add(7, 1, a, "one");
            add(3, 1, a, "else");
            add(7, 2, a, "other");
            add(7, 1, b, "strange");
            add(7, 1, as_a, "two");
            add(7, 1, a, "");
            CHECK(ops_of(queue, 7, 1, a) == "one two  ");
            CHECK(ops_of(queue, 7, 1, b) == "strange ");
            CHECK(ops_of(queue, 7, 2, a) == "other ");
            CHECK(ops_of(queue, 3, 1, a) == "else ");
            CHECK(ops_of(queue, 3, 2, a).empty());
            CHECK(queue.any(3));
            CHECK_FALSE(queue.any(4)); // beside them
            CHECK_FALSE(queue.any(8));
            CHECK(queue.bytes() > 22);
            queue.clear();
            CHECK_FALSE(queue.any(3));
            CHECK_FALSE(queue.any(7));
        }
    }

    TEST_CASE("lane masks are replaced chunk by chunk, and stay in order") {
        LaneMasks masks(default_allocator());
        std::map<u32, std::vector<LaneMasks::Entry>> expected; // by chunk
        std::mt19937 random(11);
        for (int step = 0; step < 2000; ++step) {
            const u32 chunk = static_cast<u32>(random() % 20);
            std::vector<LaneMasks::Entry> entries;
            for (u32 lane = 0; lane < lane_count; ++lane)
                if (random() % 16 == 0)
                    entries.push_back({.place = chunk * lane_count + lane,
                                       .components = static_cast<u32>(random()),
                                       .kept = static_cast<u32>(random()),
                                       .introduced = random() % 2 == 0});
            if (random() % 3 == 0)
                entries.clear();
            masks.replace(chunk, entries);
            expected[chunk] = entries;
            u32 size = 0;
            for (const auto& [number, wanted] : expected) {
                const std::span<const LaneMasks::Entry> found = masks.of(number);
                REQUIRE(std::vector<LaneMasks::Entry>(found.begin(), found.end()) == wanted);
                size += static_cast<u32>(wanted.size());
            }
            REQUIRE(masks.size() == size);
        }
        CHECK(masks.of(1000).empty());
        const LaneMasks::Entry entry{.components = 0x80000001u, .kept = 0x40000000u};
        CHECK(seen_of(entry.sees()) == 0x80000001u);
        CHECK(kept_of(entry.sees()) == 0x40000000u);
    }

    TEST_CASE("Lasting entities: ends are told in turn, again when they were lost, and go when they are acknowledged") {
        LastingList list(default_allocator());
        const auto id = [](u32 index) { return NetId::make(index, 1); };
        for (const u32 index : {5u, 1u, 9u, 3u, 7u})
            list.add(id(index));
        CHECK(list.size() == 5);
        CHECK(list.find(id(3)));
        CHECK_FALSE(list.find(id(4)));
        CHECK_FALSE(list.end(id(4))); // which the client never had
        for (const u32 index : {9u, 1u, 5u})
            CHECK(list.end(id(index)));
        CHECK(list.open_ends() == 3);
        const auto sent = [&](u32 count_max, u32 message) {
            std::vector<u32> out;
            list.send_ends(count_max, message, [&](NetId ended) { out.push_back(ended.index()); });
            return out;
        };
        CHECK(sent(2, 100) == std::vector<u32>{1, 5}); // ascending
        CHECK(list.unsent_ends() == 1);
        CHECK(sent(2, 101) == std::vector<u32>{9});
        CHECK(sent(2, 102).empty());
        list.lost(100);
        CHECK(list.unsent_ends() == 2);
        list.acked(100); // of what was sent again, or waits to be: nothing
        CHECK(list.open_ends() == 3);
        list.acked(101);
        CHECK(list.open_ends() == 2);
        CHECK_FALSE(list.find(id(9)));
        CHECK(sent(10, 103) == std::vector<u32>{1, 5});
        list.acked(103);
        CHECK(list.open_ends() == 0);
        CHECK(list.size() == 2);
        CHECK(list.find(id(3)));
        CHECK(list.find(id(7)));
    }
}
