// The client against a plain model of its rules (R1, R3, R5, R7, R8), message by message: random sections, lost, late and
// doubled, also ones that no honest server would send. The model keeps whole lanes in lists; the client must show the same.
#include "tests/client/fake_server.hpp"
#include <algorithm>
#include <doctest/doctest.h>
#include <random>
#include <set>

using namespace client_test;

namespace {

constexpr u32 lanes_used = 5;
constexpr u32 chunks_used = 2;
constexpr u32 ring_max = 5;
constexpr Tick late_max = 12;

struct ModelLane {
    NetId id{};
    u32 hp = 0;
};
struct ModelVersion {
    Tick tick = 0;
    ModelLane lanes[lanes_used];
    Tick carried[lanes_used] = {};
};
struct ModelRing {
    std::vector<ModelVersion> versions = std::vector<ModelVersion>(1);
    Tick newest_named = 0;
    ModelVersion& live() { return versions.back(); }

    std::optional<ModelLane> look_up(u32 lane, Tick baseline) {
        for (std::size_t v = versions.size(); v-- > 0;)
            if (versions[v].tick <= baseline)
                return versions[v].lanes[lane].id ? std::optional(versions[v].lanes[lane]) : std::nullopt;
        if (versions[0].carried[lane] <= baseline && versions[0].lanes[lane].id)
            return versions[0].lanes[lane];
        return std::nullopt;
    }
    void write(Tick tick, const std::map<u32, ModelLane>& values) {
        std::size_t start = 0;
        if (tick >= versions[0].tick) {
            while (start + 1 < versions.size() && versions[start + 1].tick <= tick)
                ++start;
            if (versions[start].tick < tick) {
                ModelVersion copy = versions[start];
                copy.tick = tick;
                versions.insert(versions.begin() + static_cast<std::ptrdiff_t>(++start), copy);
            }
        }
        for (const auto& [lane, value] : values)
            for (std::size_t v = start; v < versions.size() && versions[v].carried[lane] <= tick; ++v) {
                versions[v].lanes[lane] = value;
                versions[v].carried[lane] = tick;
            }
    }
    void prune() {
        while (versions.size() > 1 && (versions[1].tick <= newest_named || versions.size() > ring_max))
            versions.erase(versions.begin());
    }
};
struct ModelSection {
    Part part;
    std::map<u32, NetId> ids;      // full
    std::map<u32, u32> hp;         // full: value; delta: difference
};
struct ModelMessage {
    u16 id = 0;
    Tick tick = 0, due = 0;
    std::vector<ModelSection> sections;
    std::vector<std::byte> bytes;
};

struct ModelClient {
    ModelRing rings[chunks_used];
    struct Place {
        u32 chunk, lane;
        Tick tick;
    };
    std::map<NetId, Place> place;
    std::map<NetId, Tick> tombstones;
    std::map<u16, std::vector<u16>> results;
    Tick newest = 0;

    void receive(const ModelMessage& message) {
        if (message.tick + late_max < newest || results.count(message.id))
            return;
        newest = std::max(newest, message.tick);
        std::erase_if(tombstones, [&](const auto& t) { return t.second + late_max < newest; });
        std::vector<std::map<u32, ModelLane>> decoded;
        std::set<u16> unapplied;
        bool stopped = false;
        for (u16 i = 0; i < message.sections.size(); ++i) {
            decoded.emplace_back();
            if (!decode(message.sections[i], message.tick, decoded.back())) {
                unapplied.insert(i);
                stopped |= !message.sections[i].part.baseline;
            }
        }
        for (const ModelSection& section : message.sections)
            for (const auto& [lane, id] : section.ids) {
                const ModelVersion& live = rings[section.part.chunk].live();
                const bool shown_as_new = place.count(id) && place[id].tick >= message.tick;
                stopped |= !shown_as_new && live.carried[lane] > message.tick && live.lanes[lane].id != id;
            }
        for (u16 i = 0; i < message.sections.size(); ++i) {
            const ModelSection& section = message.sections[i];
            if (stopped && !section.part.baseline && section.part.lanes)
                unapplied.insert(i);
            if (!unapplied.count(i))
                commit(section.part.chunk, message.tick, decoded[i]);
            if (section.part.baseline)
                rings[section.part.chunk].newest_named = std::max(rings[section.part.chunk].newest_named, *section.part.baseline);
        }
        for (ModelRing& ring : rings)
            ring.prune();
        results[message.id] = {unapplied.begin(), unapplied.end()};
    }
    bool decode(const ModelSection& section, Tick tick, std::map<u32, ModelLane>& values) {
        ModelRing& ring = rings[section.part.chunk];
        bool held = true, superseded = true;
        for (u32 lane = 0; section.part.baseline && lane < lanes_used; ++lane)
            if (section.part.lanes >> lane & 1) {
                held &= ring.look_up(lane, *section.part.baseline).has_value();
                superseded &= tick < ring.versions[0].carried[lane];
            }
        if (!held && !superseded)
            return false;
        for (u32 lane = 0; lane < lanes_used; ++lane) {
            if (section.part.gone >> lane & 1)
                values[lane] = {};
            if (!(section.part.lanes >> lane & 1) || !held)
                continue;
            ModelLane value;
            if (section.part.baseline) {
                const ModelLane base = *ring.look_up(lane, *section.part.baseline);
                value = {base.id, base.hp + section.hp.at(lane)};
            } else {
                value = {section.ids.at(lane), section.hp.at(lane)};
            }
            const auto tombstone = tombstones.find(value.id);
            if (tick >= ring.live().carried[lane] && tombstone != tombstones.end() && tombstone->second > tick)
                return false;
            values[lane] = value;
        }
        return true;
    }
    void commit(u32 chunk, Tick tick, const std::map<u32, ModelLane>& values) {
        ModelRing& ring = rings[chunk];
        std::map<u32, NetId> before;
        for (const auto& [lane, value] : values)
            before[lane] = ring.live().lanes[lane].id;
        ring.write(tick, values);
        // All that leave, then all that arrive: an entity that changes lanes within one section moves.
        for (const auto& [lane, old] : before) {
            const auto it = place.find(old);
            if (ring.live().carried[lane] == tick && old && old != ring.live().lanes[lane].id && it != place.end() &&
                it->second.chunk == chunk && it->second.lane == lane) {
                place.erase(it);
                tombstones[old] = tick;
            }
        }
        for (const auto& [lane, old] : before) {
            const NetId id = ring.live().lanes[lane].id;
            if (ring.live().carried[lane] == tick && id && (!place.count(id) || tick >= place[id].tick))
                place[id] = {chunk, lane, tick};
        }
    }
};

struct Run {
    std::mt19937 random;
    ClientConfig config;
    Setup s;
    ModelClient model;
    std::vector<ModelMessage> in_flight;
    std::map<Tick, std::map<u32, Chunk>> truth;
    u32 generation = 0;

    static ClientConfig make_config() {
        ClientConfig c;
        c.ring_versions_max = ring_max;
        c.max_late_ticks = late_max;
        return c;
    }
    explicit Run(u32 seed) : random(seed), config(make_config()), s(config, true, 1) { model.newest = 1; }
    u32 below(u32 n) { return static_cast<u32>(random() % n); }

    void change_world() {
        for (u32 i = below(4); i > 0; --i) {
            const u32 chunk = below(chunks_used), lane = below(lanes_used);
            Chunk& lanes = s.server.world[chunk];
            const auto it = lanes.find(lane);
            if (it == lanes.end()) {
                lanes[lane] = {};
                lanes[lane].id = NetId::make(below(4), ++generation);
                lanes[lane].hp = static_cast<i32>(random());
            } else if (const u32 what = below(10); what < 5) {
                it->second.hp = *it->second.hp + static_cast<i32>(below(100)) - 50;
            } else if (what < 7) {
                lanes.erase(it);
            } else {
                const LaneValue moved = it->second;
                const u32 to_chunk = below(chunks_used), to_lane = below(lanes_used);
                if (s.server.world[to_chunk].count(to_lane))
                    continue;
                lanes.erase(it);
                s.server.world[to_chunk][to_lane] = moved;
            }
        }
    }
    /// The lane kept its occupant from `from` to `to`.
    bool kept(u32 chunk, u32 lane, Tick from, Tick to) {
        for (Tick t = from; t <= to; ++t) {
            Chunk& lanes = truth.at(t)[chunk];
            if (!lanes.count(lane) || lanes.at(lane).id != truth.at(to)[chunk].at(lane).id)
                return false;
        }
        return true;
    }
    ModelMessage make_message(Tick tick) {
        ModelMessage message;
        message.tick = tick;
        message.id = s.server.next_id;
        std::vector<Part> parts;
        for (u32 chunk = 0; chunk < chunks_used; ++chunk) {
            u64 free = (u64(1) << lanes_used) - 1;
            for (u32 n = below(4) & 2 ? 0 : 1 + below(2); n > 0; --n) {
                ModelSection section;
                section.part.chunk = chunk;
                if (below(3) > 0 && tick > 10)
                    section.part.baseline = tick - 1 - below(8);
                for (u32 lane = 0; lane < lanes_used; ++lane) {
                    if (!(free >> lane & 1) || below(2))
                        continue;
                    Chunk& lanes = truth.at(tick)[chunk];
                    if (!lanes.count(lane)) {
                        section.part.gone |= bit(lane);
                    } else if (!section.part.baseline) {
                        section.ids[lane] = lanes[lane].id;
                        section.hp[lane] = static_cast<u32>(*lanes[lane].hp);
                    } else if (kept(chunk, lane, *section.part.baseline, tick)) {
                        const Chunk& before = truth.at(*section.part.baseline)[chunk];
                        section.hp[lane] = static_cast<u32>(*lanes[lane].hp) - static_cast<u32>(*before.at(lane).hp);
                    } else {
                        continue;
                    }
                    free &= ~bit(lane);
                    if (section.hp.count(lane))
                        section.part.lanes |= bit(lane);
                }
                if (!section.part.lanes)
                    section.part.baseline.reset(); // only gone lanes: no payload
                if (!section.part.lanes && !section.part.gone)
                    continue;
                parts.push_back(section.part);
                message.sections.push_back(section);
            }
        }
        message.bytes = s.server.message(tick, parts);
        return message;
    }
    void deliver(const ModelMessage& message) {
        const Error error = s.receive(message.bytes);
        REQUIRE(error == Error::none);
        model.receive(message);
        REQUIRE(s.world.entity_count() == model.place.size());
        for (const auto& [id, place] : model.place)
            REQUIRE(static_cast<u32>(s.hp(id)) == model.rings[place.chunk].live().lanes[place.lane].hp);
        const Acks acks = s.acks();
        REQUIRE(acks.judged.count(message.id) == model.results.count(message.id));
        if (acks.judged.count(message.id))
            REQUIRE(acks.judged.at(message.id) == model.results.at(message.id));
    }
    void run() {
        for (Tick tick = 2; tick < 90; ++tick) {
            change_world();
            s.server.snapshot(tick);
            truth[tick] = s.server.world;
            for (u32 n = 1 + below(3); n > 0; --n) {
                ModelMessage message = make_message(tick);
                message.due = tick + (below(4) ? below(2) : below(late_max + 4));
                if (below(6) > 0)
                    in_flight.push_back(message);
                if (below(6) == 0) { // doubled
                    message.due = tick + below(late_max);
                    in_flight.push_back(message);
                }
            }
            std::shuffle(in_flight.begin(), in_flight.end(), random);
            const auto later = std::partition(in_flight.begin(), in_flight.end(), [&](const ModelMessage& m) { return m.due <= tick; });
            std::for_each(in_flight.begin(), later, [&](const ModelMessage& m) { deliver(m); });
            in_flight.erase(in_flight.begin(), later);
        }
    }
};

} // namespace

TEST_SUITE("client") {
    TEST_CASE("shows and reports what a plain model of the rules does") {
        u64 baseline = 0, tombstone = 0, overtaken = 0, old = 0, late = 0;
        for (u32 seed = 1; seed <= 150; ++seed) {
            CAPTURE(seed);
            Run run(seed);
            run.run();
            const ClientStats& stats = run.s.client->stats();
            baseline += stats.unapplied_baseline;
            tombstone += stats.unapplied_tombstone;
            overtaken += stats.unapplied_overtaken;
            old += stats.old_lanes;
            late += stats.late_drops;
        }
        // The runs reach what they are there for.
        CHECK(baseline > 100);
        CHECK(tombstone > 15);
        CHECK(overtaken > 100);
        CHECK(old > 100);
        CHECK(late > 10);
    }
}
