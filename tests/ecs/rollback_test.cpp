// Rollback rings: frames against full snapshots of a twin, what is copied, what is allocated, and what readers learn.
#include "components.hpp"
#include <cstring>
#include <doctest/doctest.h>
#include <map>
#include <memory>
#include <string>

using namespace throng;
using namespace ecs_test;

namespace {
struct Place {
    i32 x, y, z;
};
struct Label {
    std::string text;
};
struct Team {
    u32 number;
};
struct Burning {};
struct alignas(128) Wall {
    u64 bricks[16];
};
template <int N>
struct Part {
    int value;
};
struct Unique {
    std::unique_ptr<int> value;
};
} // namespace
template <>
inline constexpr bool throng::direct_index<Team> = true;

namespace {
template <class... Ts>
concept CanSave = requires(RollbackRing& ring) {
    ring.template save<Ts...>(1);
};
static_assert(CanSave<Place, Label>);
static_assert(!CanSave<Place, Unique>);

/// Differences between two worlds but for change bits: slots, handles, counters, rows in order, links, log.
u32 differences(const World& a, const World& b) {
    u32 wrong = a.entity_count() != b.entity_count() || a.entity_slots() != b.entity_slots() || a.last_entity_id() != b.last_entity_id();
    for (u32 i = 0; i < a.entity_slots() && wrong == 0; ++i) {
        const Entity e = a.entity_at(i);
        wrong += e != b.entity_at(i) || a.signature(e) != b.signature(e);
        wrong += sources<ChildOf>(a, e) != sources<ChildOf>(b, e) || a.target<ChildOf>(e) != b.target<ChildOf>(e);
        const Team* const team_a = a.get<Team>(e);
        const Team* const team_b = b.get<Team>(e);
        wrong += (team_a ? team_a->number : 0) != (team_b ? team_b->number : 0);
    }
    for (ComponentId id = 0; id < World::max_components && wrong == 0; ++id) {
        const PoolBase* const x = a.pool_of(id);
        const PoolBase* const y = b.pool_of(id);
        if ((x ? x->size() : 0) != (y ? y->size() : 0))
            return wrong + 1;
        for (u32 i = 0; x && i < x->size(); ++i) {
            wrong += x->owner(i) != y->owner(i);
            wrong += a.dense_index(x->owner(i), id) != i || b.dense_index(x->owner(i), id) != i;
            if (id == component_id<Label>())
                wrong += static_cast<const Label*>(x->row(i))->text != static_cast<const Label*>(y->row(i))->text;
            else
                wrong += std::memcmp(x->row(i), y->row(i), x->row_stride()) != 0;
        }
    }
    const auto log_a = a.structure_log(), log_b = b.structure_log();
    wrong += log_a.size() != log_b.size();
    for (std::size_t i = 0; wrong == 0 && i < log_a.size(); ++i)
        wrong += log_a[i].entity_id != log_b[i].entity_id || log_a[i].component != log_b[i].component || log_a[i].kind != log_b[i].kind;
    return wrong;
}

/// Marks where there is no row.
u32 stray_marks(const World& world) {
    u32 wrong = 0;
    for (ComponentId id = 0; id < World::max_components; ++id)
        if (const PoolBase* const pool = world.pool_of(id))
            for (u32 b = 0; b < pool->block_count(); ++b)
                for (u32 row = pool->rows_in_block(b); row < pool->block_rows(); ++row)
                    wrong += u32(pool->change_words(b)[row / 64] >> (row % 64) & 1);
    return wrong;
}

template <int... Ns>
Entity spawn_wide(World& world, int value, std::integer_sequence<int, Ns...>) {
    return world.spawn(Part<Ns>{value}..., Place{value, 0, 0});
}

/// One random change, a function of the random numbers and of the world's state alone. Returns a handle or a number to compare.
u64 change(World& world, Random& random, Executor* executor) {
    const auto any = [&] { return world.entity_at(random.below(world.entity_slots() + 1)); };
    const Entity e = any();
    const int value = static_cast<int>(random.below(1'000'000));
    switch (random.below(25)) {
    case 0:
    case 1:
    case 2:
        return world.spawn(Place{value, 1, 2}, Label{"made with a text that is not short " + std::to_string(value)}).entity_id;
    case 3:
        return world.spawn(Place{value, 1, 2}, Team{u32(value)}, Burning{}).entity_id;
    case 4:
        return spawn_wide(world, value, std::make_integer_sequence<int, 12>{}).entity_id;
    case 5:
        return world.create().entity_id;
    case 6:
    case 7:
    case 8:
        return world.destroy(e);
    case 9:
        return world.add<Wall>(e, Wall{{u64(value), 1, 2}}) != nullptr;
    case 10:
        return world.set(e, Label{std::to_string(value)}) != nullptr;
    case 11:
        return world.remove<Place>(e) + 2u * world.remove<Team>(e);
    case 12:
        return world.remove<Label>(e) + 2u * world.remove<Part<3>>(e);
    case 13:
        return world.set(e, Team{u32(value)}) != nullptr;
    case 14: {
        const Entity parent = any();
        return e && parent ? static_cast<u64>(world.relate<ChildOf>(e, parent)) : 0;
    }
    case 15:
        return world.remove<ChildOf>(e);
    case 16: {
        if (Place* const place = world.mut<Place>(e))
            place->y = value;
        return 0;
    }
    case 17: {
        Entity doomed[40];
        for (Entity& d : doomed)
            d = any();
        return random.below(4) == 0 ? world.destroy_batch(doomed) : 0;
    }
    case 18: {
        Entity made[70];
        world.instantiate_n(Prefab::of(Place{value, 3, 4}, Label{"copy"}, Burning{}), made);
        return made[69].entity_id;
    }
    case 19: {
        const auto step = [&](Place& place) { place.z += value; };
        executor ? world.each_mut<Place>(*executor, step) : world.each_mut<Place>(step);
        return 0;
    }
    case 20: {
        const auto step = [&](Row<Label> row) {
            if (row.dense() % 50 == u32(value) % 50)
                row.mut().text += "!";
        };
        executor ? world.each_row<Label>(*executor, step) : world.each_row<Label>(step);
        return 0;
    }
    case 21:
        if (random.below(8) == 0)
            world.sort<Place>([](const Place& a, const Place& b) { return a.x < b.x; });
        return 0;
    case 22: {
        if (random.below(8) == 0)
            world.clear_changes();
        return 0;
    }
    case 23: { // rows of several pools, in step or not
        u64 sum = 0;
        world.each_mut<Place, const Label, Maybe<const Team>>([&](u32 slot, Place& place, const Label& label, const Team* team) {
            place.z ^= static_cast<i32>(label.text.size());
            sum = sum * 31 + slot + u32(place.x) + label.text.size() + (team ? team->number : 7);
        });
        return sum;
    }
    default:
        return world.clone(e).entity_id;
    }
}

/// What a reader of changes knows of the components of a type.
class Index {
public:
    explicit Index(World& world, u32 removals_max) : world_(&world), reader_(world, {.removals_max = removals_max}) {}
    void update() {
        if (reader_.take_resync()) {
            ++resyncs;
            texts_.clear();
        }
        reader_.each_removed([&](const Removal& removal) { texts_.erase(removal.entity.entity_id); });
        reader_.each([&](Entity e, const Label& label) { texts_[e.entity_id] = label.text; });
    }
    u32 wrong() const {
        u32 count = 0, found = 0;
        world_->each<Label>([&](Entity e, const Label& label) {
            const auto it = texts_.find(e.entity_id);
            ++found;
            count += it == texts_.end() || it->second != label.text;
        });
        return count + (found != texts_.size());
    }
    u32 resyncs = 0;

private:
    World* world_;
    ChangeReader<Label> reader_;
    std::map<u64, std::string> texts_;
};
} // namespace

TEST_SUITE("ecs") {
    TEST_CASE("frames of a rollback ring are what full snapshots are, under random operations") {
        for (const u32 block_rows : {64u, 256u, 4096u}) {
            CAPTURE(block_rows);
            World world({.block_rows = block_rows}), twin({.block_rows = block_rows});
            world.log_structure(component_id<Team>(), true);
            twin.log_structure(component_id<Team>(), true);
            RollbackRing ring(world, 7);
            Index index(world, 1 << 16);
            ThreadsForTest executor(3);
            std::map<u64, WorldSnapshot> frames;
            Random random{block_rows + 5};
            Random same{99};
            u32 wrong = 0, restores = 0, forward = 0;
            for (u64 number = 1; number <= 500; ++number) {
                for (u32 i = random.below(30); i > 0; --i) {
                    Random a = same, b = same;
                    wrong += change(world, a, &executor) != change(twin, b, nullptr);
                    same = a;
                }
                if (random.below(3) == 0) {
                    index.update();
                    wrong += index.wrong();
                }
                if (random.below(40) == 0) { // what is no work of the ring
                    const WorldSnapshot whole = world.snapshot();
                    CHECK(world.restore(whole) == Error::none);
                    world.clear_structure_log();
                    twin.clear_structure_log();
                }
                if (random.below(40) == 0) {
                    const ComponentId types[] = {world.pool<Place>().component(), world.pool<Label>().component()};
                    for (World* w : {&world, &twin}) {
                        w->pool<Place>(), w->pool<Label>();
                        PartialSnapshot part;
                        CHECK(w->snapshot_into(part, types) == Error::none);
                        Random burst{number};
                        for (u32 i = 0; i < 20; ++i)
                            change(*w, burst, nullptr);
                        CHECK(w->restore(part) == Error::none);
                    }
                }
                CAPTURE(wrong);
                REQUIRE(differences(world, twin) == 0);
                if (random.below(4) != 0 || frames.empty()) {
                    CHECK(ring.save(number) == Error::none);
                    frames.erase(frames.upper_bound(number), frames.end());
                    frames[number] = twin.snapshot();
                    while (frames.size() > ring.frames_max())
                        frames.erase(frames.begin());
                } else {
                    auto to = frames.begin();
                    std::advance(to, random.below(static_cast<u32>(frames.size())));
                    if (to->first < ring.newest_frame() && random.below(3) == 0) { // there and on again
                        CHECK(ring.restore(to->first) == Error::none);
                        to = frames.begin();
                        std::advance(to, random.below(static_cast<u32>(frames.size())));
                        ++forward;
                    }
                    CHECK(ring.restore(to->first) == Error::none);
                    CHECK(twin.restore(to->second) == Error::none);
                    ++restores;
                    if (random.below(2) == 0) { // what comes next is a frame after that one
                        index.update();
                        wrong += index.wrong();
                    }
                    frames.erase(std::next(to), frames.end());
                    CHECK(ring.save(number) == Error::none);
                    frames[number] = twin.snapshot();
                    while (frames.size() > ring.frames_max())
                        frames.erase(frames.begin());
                }
                wrong += differences(world, twin) + stray_marks(world) + (ring.frame_count() != frames.size());
                CAPTURE(number);
                REQUIRE(wrong == 0);
            }
            CHECK(restores > 80);
            CHECK(forward > 10);
            CHECK(world.entity_count() > 200);
        }
    }
    TEST_CASE("a save copies the runs that were written, a restore those that differ") {
        World world;
        std::vector<Entity> all;
        for (int i = 0; i < 6400; ++i)
            all.push_back(world.spawn(Place{i, 0, 0}, Label{std::to_string(i)}));
        RollbackRing ring(world, 4);
        CHECK(ring.save(1) == Error::none);
        CHECK(ring.copied_runs() == 300); // rows of two pools, and slots
        CHECK(ring.save(2) == Error::none);
        CHECK(ring.copied_runs() == 0);
        world.mut<Place>(all[0])->y = 1;
        world.mut<Place>(all[63])->y = 1;
        world.mut<Place>(all[4095])->y = 1;
        world.mut<Label>(all[6399])->text = "last";
        world.clear_changes(); // takes nothing from the ring
        CHECK(ring.save(3) == Error::none);
        CHECK(ring.copied_runs() == 3);
        CHECK(world.pool<Place>().change_summary(0) == 0);
        world.each<Place>([](const Place&) {});
        CHECK(ring.save(4) == Error::none);
        CHECK(ring.copied_runs() == 0);
        CHECK(ring.restore(1) == Error::none);
        CHECK(ring.copied_runs() == 3);
        CHECK(world.get<Place>(all[4095])->y == 0);
        CHECK(world.get<Label>(all[6399])->text == "6399");
        CHECK(world.pool<Place>().changed(64 * 63)); // the run was written, whatever it held
        CHECK_FALSE(world.pool<Place>().changed(64));
        CHECK(ring.restore(4) == Error::none); // forward again
        CHECK(ring.copied_runs() == 3);
        CHECK(world.get<Label>(all[6399])->text == "last");
        ThreadsForTest executor(3);
        world.each_mut<Place>(executor, [](Place& place) { ++place.z; });
        CHECK(ring.save(5) == Error::none);
        CHECK(ring.copied_runs() == 100);
        CHECK(ring.oldest_frame() == 2);
        world.destroy(all[70]); // one row moves in each pool, and the slots of two entities change
        CHECK(ring.save(6) == Error::none);
        CHECK(ring.copied_runs() == 4);
        CHECK(ring.copied_bytes() < 4 * 64 * 128);
    }
    TEST_CASE("a world that repeats itself allocates nothing for its frames") {
        CountingMemory memory;
        {
            World world({.allocator = memory.allocator()});
            RollbackRing ring(world, 8);
            ChangeReader<Place> reader(world);
            Random random{7};
            std::vector<Entity> all;
            for (u32 i = 0; i < 3000; ++i)
                all.push_back(spawn_wide(world, int(i), std::make_integer_sequence<int, 10>{}));
            u64 number = 0, before = 0;
            for (u32 round = 0; round < 120; ++round) {
                if (round == 60)
                    before = memory.allocations;
                for (u32 tick = 0; tick < 4; ++tick) {
                    world.each_mut<Part<1>>([](Part<1>& part) { ++part.value; });
                    for (u32 i = 0; i < 40; ++i)
                        world.mut<Place>(all[random.below(3000)])->x += 1;
                    for (u32 i = 0; i < 20; ++i) {
                        Entity& e = all[random.below(3000)];
                        world.destroy(e);
                        e = spawn_wide(world, int(i), std::make_integer_sequence<int, 10>{});
                    }
                    CHECK(ring.save(++number) == Error::none);
                }
                const std::vector<Entity> now = all;
                world.destroy(all[5]);
                CHECK(ring.restore(number) == Error::none);
                reader.each_removed([](const Removal&) {});
                reader.each([](Entity, const Place&) {});
                CHECK(world.alive(all[5]));
            }
            CHECK(memory.allocations == before);
            CHECK(memory.live_bytes == world.memory_report().total + ring.memory_bytes());
        }
        CHECK(memory.live_bytes == 0);
    }
    TEST_CASE("readers learn what a restore takes and brings") {
        World world;
        const Entity stays = world.spawn(Label{"stays"});
        const Entity goes = world.spawn(Label{"goes"}, Place{});
        RollbackRing ring(world, 2);
        Index index(world, 64);
        index.update();
        CHECK(ring.save(1) == Error::none);
        world.destroy(goes);
        const Entity later = world.spawn(Label{"later"});
        const Entity more = world.spawn(Label{"more"}, Place{});
        world.mut<Label>(stays)->text = "changed";
        index.update();
        CHECK(index.wrong() == 0);
        CHECK(ring.restore(1) == Error::none);
        CHECK_FALSE(world.alive(later));
        CHECK(world.alive(goes));
        index.update();
        CHECK(index.wrong() == 0);
        CHECK(index.resyncs == 0);
        world.destroy(goes);
        CHECK(world.spawn(Label{"later"}) == later); // a replay gives the same handles
        CHECK(world.spawn(Label{"more"}, Place{}) == more);
    }
    TEST_CASE("what a ring refuses") {
        World world;
        RollbackRing ring(world, 2);
        CHECK(ring.restore(0) == Error::bad_value);
        CHECK(ring.save(5) == Error::none);
        CHECK(ring.save(5) == Error::bad_value);
        CHECK(ring.save<Place, Label>(6) == Error::none);
        CHECK(ring.save(7) == Error::none);
        CHECK_FALSE(ring.holds(5));
        CHECK(ring.restore(6) == Error::none);
        CHECK(ring.holds(7)); // until the next save
        CHECK(ring.save(7) == Error::none);
        CHECK(ring.frame_count() == 2);
        const Entity e = world.spawn(Unique{std::make_unique<int>(1)});
        CHECK(ring.save(8) == Error::unsupported);
        world.remove<Unique>(e);
        CHECK(ring.save(8) == Error::none);
        const ThrowingAsserts asserts;
        world.add<Place>(e, 1, 2, 3);
        CHECK_THROWS_AS(world.each_mut<Place>([&](Place&) { (void)ring.save(9); }), AssertFailed);
        CHECK_THROWS_AS(world.each<Place>([&](const Place&) { (void)ring.restore(8); }), AssertFailed);
        CHECK_THROWS_AS(RollbackRing(world, 2), AssertFailed);
        CHECK_THROWS_AS((void)ring.save<Label>(9), AssertFailed);
    }
    TEST_CASE("copies that throw harm neither frames nor rows") {
        {
            World world({.block_rows = 64});
            std::vector<Entity> all;
            for (int i = 0; i < 300; ++i)
                all.push_back(world.spawn(Place{i, 0, 0}, Moody(i)));
            RollbackRing ring(world, 3);
            CHECK(ring.save(1) == Error::none);
            world.each_mut<Place, Moody>([](Place& p, Moody& f) { p.y = ++f.value; });
            world.destroy(all[3]);
            Moody::throw_in = 150;
            CHECK_THROWS((void)ring.save(2));
            CHECK(ring.frame_count() == 1);
            Moody::throw_in = -1;
            CHECK(ring.save(2) == Error::none); // nothing was forgotten
            for (int i = 0; i < 70; ++i)
                world.spawn(Moody(i)); // they end with the restore
            CHECK(ring.restore(1) == Error::none);
            CHECK(world.get<Moody>(all[299])->value == 299);
            Moody::throw_in = 150;
            CHECK_THROWS((void)ring.restore(2));
            CHECK(world.entity_count() == 0);
            CHECK(world.pool<Moody>().size() == 0);
            Moody::throw_in = -1;
            CHECK(ring.restore(2) == Error::none);
            CHECK(world.entity_count() == 299);
            CHECK_FALSE(world.alive(all[3]));
            u32 wrong = 0;
            for (int i = 0; i < 300; ++i)
                wrong += i != 3 && (world.get<Moody>(all[u32(i)])->value != i + 1 || world.get<Place>(all[u32(i)])->y != i + 1);
            CHECK(wrong == 0);
        }
        CHECK(Moody::living == 0);
    }
    TEST_CASE("a save that runs out of memory changes nothing") {
        CountingMemory memory;
        World world({.allocator = memory.allocator(), .block_rows = 64});
        std::vector<Entity> all;
        for (int i = 0; i < 500; ++i)
            all.push_back(spawn_wide(world, i, std::make_integer_sequence<int, 12>{}));
        RollbackRing ring(world, 2);
        u32 failures = 0;
        for (u64 more = 0; ring.frame_count() == 0; ++more) {
            memory.fail_at = memory.allocations + more;
            try {
                const Error error = ring.save(1);
                CHECK(error == Error::none);
            } catch (const std::bad_alloc&) {
                ++failures;
            }
        }
        memory.fail_at = ~u64(0);
        CHECK(failures > 10);
        const WorldSnapshot before = world.snapshot();
        world.destroy_batch(all);
        CHECK(ring.restore(1) == Error::none);
        CHECK(differences(world, *before.world()) == 0);
    }
}
