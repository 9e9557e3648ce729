// The graph of related entities against connected components that are searched for anew each time.
#include "src/server/relation_graph.hpp"
#include "throng/memory.hpp"
#include <algorithm>
#include <doctest/doctest.h>
#include <map>
#include <random>
#include <set>
#include <vector>

using namespace throng;

namespace {

struct Plain { // what is true
    static constexpr u32 relations = 2;
    std::map<u32, u64> replicated; // slot -> id
    std::map<std::pair<u32, u32>, Entity> links;

    std::set<std::set<u32>> clusters() const {
        std::map<u32, u32> part;
        for (const auto& [slot, id] : replicated)
            part[slot] = slot;
        for (bool again = true; again;) {
            again = false;
            for (const auto& [from, to] : links) {
                const auto target = replicated.find(to.entity_idx);
                if (target == replicated.end() || target->second != to.entity_id)
                    continue;
                u32 &a = part[from.first], &b = part[to.entity_idx];
                again |= a != b;
                a = b = std::min(a, b);
            }
        }
        std::map<u32, std::set<u32>> sets;
        for (const auto& [slot, first] : part)
            sets[first].insert(slot);
        std::set<std::set<u32>> out;
        for (const auto& [first, set] : sets)
            if (set.size() > 1)
                out.insert(set);
        return out;
    }
};

std::set<std::set<u32>> clusters_of(const RelationGraph& graph, u32 slots) {
    std::set<std::set<u32>> out;
    for (u32 slot = 0; slot < slots; ++slot)
        if (const u32 cluster = graph.cluster_of(slot); cluster != RelationGraph::none) {
            std::set<u32> members;
            graph.each_member(cluster, [&](u32 member) {
                members.insert(member);
                CHECK(graph.cluster_of(member) == cluster);
            });
            CHECK(members.size() == graph.count(cluster));
            CHECK(members.count(slot) == 1);
            out.insert(members);
        }
    return out;
}

} // namespace

TEST_SUITE("server") {
    TEST_CASE("relation graph: random links, ends and returns are the connected components") {
        for (u32 seed = 0; seed < 20; ++seed) {
            std::mt19937 generator(seed);
            const auto random = [&] { return static_cast<u32>(generator()); };
            constexpr u32 slots = 40;
            Plain plain;
            RelationGraph graph(Plain::relations, 8, default_allocator());
            u64 next_id = 1;
            std::vector<u64> ids(slots);
            std::set<std::set<u32>> before;
            for (u32 tick = 0; tick < 300; ++tick) {
                std::set<u32> begun;
                for (u32 step = random() % 6; step > 0; --step) {
                    const u32 slot = random() % slots;
                    if (random() % 3 == 0) { // begins, ends, or is another one
                        if (plain.replicated.count(slot)) {
                            graph.remove(slot);
                            plain.replicated.erase(slot);
                            for (u32 r = 0; r < Plain::relations; ++r)
                                plain.links.erase({slot, r});
                        } else {
                            if (random() % 2 || !ids[slot])
                                ids[slot] = next_id++;
                            graph.add(slot, ids[slot]);
                            begun.insert(slot);
                            plain.replicated[slot] = ids[slot];
                        }
                    } else if (plain.replicated.count(slot)) {
                        const u32 relation = random() % Plain::relations, to = random() % slots;
                        const Entity target = random() % 4 && ids[to] ? Entity{ids[to], to, 0} : Entity{};
                        graph.link(slot, relation, target);
                        if (target.entity_id)
                            plain.links[{slot, relation}] = target;
                        else
                            plain.links.erase({slot, relation});
                    }
                }
                graph.settle();
                const std::set<std::set<u32>> now = plain.clusters();
                REQUIRE(clusters_of(graph, slots) == now);
                // What is new is listed, and who is alone now is named.
                std::set<std::set<u32>> listed;
                for (const u32 cluster : graph.changed())
                    if (graph.count(cluster)) {
                        std::set<u32> members;
                        graph.each_member(cluster, [&](u32 member) { members.insert(member); });
                        listed.insert(members);
                    }
                const std::set<u32> left(graph.left().begin(), graph.left().end());
                for (const std::set<u32>& set : now)
                    CHECK((before.count(set) || listed.count(set) || set.size() > 8));
                for (const std::set<u32>& set : before)
                    for (const u32 slot : set)
                        if (plain.replicated.count(slot) && !begun.count(slot) && graph.cluster_of(slot) == RelationGraph::none)
                            CHECK(left.count(slot) == 1);
                for (const u32 cluster : graph.changed())
                    if (graph.count(cluster))
                        graph.set_root(cluster, 0, graph.too_large(cluster) ? graph.count(cluster) : 0);
                u32 apart = 0;
                for (const std::set<u32>& set : now)
                    apart += set.size() > 8 ? static_cast<u32>(set.size()) : 0;
                CHECK(graph.apart() == apart);
                graph.clear_changes();
                before = now;
            }
        }
    }

    TEST_CASE("relation graph: takes no more memory for links that come and go") {
        RelationGraph graph(1, 64, default_allocator());
        u64 bytes = 0;
        for (u32 slot = 0; slot < 100; ++slot)
            graph.add(slot, slot + 1);
        for (u32 round = 0; round < 100; ++round) {
            for (u32 slot = 1; slot < 100; ++slot)
                graph.link(slot, 0, slot % 10 ? Entity{slot, slot - 1, 0} : Entity{});
            graph.settle();
            CHECK(graph.changed().size() == 10);
            graph.clear_changes();
            for (u32 slot = 1; slot < 100; ++slot)
                graph.link(slot, 0, {});
            graph.settle();
            CHECK(graph.left().size() == 100);
            graph.clear_changes();
            if (round == 1)
                bytes = graph.memory_bytes();
        }
        CHECK(graph.memory_bytes() == bytes);
    }
}
