// Readers of destructions: which entities have ended, whatever they had.
#include "support.hpp"
#include "throng/commands.hpp"
#include "throng/ecs.hpp"
#include <doctest/doctest.h>
#include <map>

using namespace throng;
using namespace ecs_test;

namespace {
struct Mass {
    int grams;
};
struct Spark {};

/// Who keeps a map of entities, and learns from a reader alone who has ended.
class Book {
public:
    Book(World& world, u32 destroyed_max) : world_(&world), reader_(world, {.destroyed_max = destroyed_max}) { start_over(); }
    void made(Entity e) { entries_[e.entity_id] = e; }
    void update() {
        if (reader_.take_resync()) {
            ++resyncs;
            start_over();
        }
        reader_.each([&](Entity e) {
            wrong += entries_.erase(e.entity_id) != 1;
            ++given;
        });
    }
    u32 differences() const {
        u32 count = entries_.size() != world_->entity_count();
        for (const auto& [id, e] : entries_)
            count += !world_->alive(e);
        return count;
    }
    u32 resyncs = 0, wrong = 0, given = 0;

private:
    void start_over() {
        entries_.clear();
        for (u32 slot = 0; slot < world_->entity_slots(); ++slot)
            if (const Entity e = world_->entity_at(slot))
                entries_[e.entity_id] = e;
    }
    World* world_;
    DestroyReader reader_;
    std::map<u64, Entity> entries_;
};
} // namespace

TEST_SUITE("ecs") {
    TEST_CASE("readers of destructions learn of each end, at their own pace") {
        World world;
        const Entity before = world.spawn(Mass{1});
        world.destroy(before);
        Book quick(world, 1 << 14), slow(world, 1); // one ring, as long as the longest that was asked for
        CommandQueue queue(world);
        Random random{17};
        const auto make = [&](Entity e) {
            quick.made(e);
            slow.made(e);
            return e;
        };
        u32 wrong = 0, ended = 0;
        for (u32 step = 0; step < 4000; ++step) {
            const Entity e = world.entity_at(random.below(world.entity_slots() + 1));
            const u32 count = world.entity_count();
            switch (random.below(8)) {
            case 0: make(world.create()); break;
            case 1: make(world.spawn(Mass{int(step)})); break;
            case 2: make(e ? world.spawn(ChildOf{e}, Spark{}) : world.create()); break;
            case 3: ended += world.destroy(e) ? count - world.entity_count() : 0; break; // and all below it
            case 4: {
                Entity some[9];
                for (Entity& s : some)
                    s = world.entity_at(random.below(world.entity_slots() + 1));
                some[8] = some[0];
                if (random.below(6) == 0) {
                    world.destroy_batch(some);
                    ended += count - world.entity_count();
                }
                break;
            }
            case 5: {
                Commands commands = queue.commands();
                commands.destroy(e);
                queue.apply();
                ended += count - world.entity_count();
                break;
            }
            case 6: quick.update(); break;
            default:
                if (random.below(20) == 0)
                    slow.update();
            }
            if (random.below(100) == 0) {
                quick.update();
                slow.update();
                wrong += quick.differences() + slow.differences();
            }
        }
        quick.update();
        slow.update();
        CHECK(wrong + quick.differences() + slow.differences() == 0);
        CHECK(quick.wrong + slow.wrong == 0);
        CHECK(quick.resyncs + slow.resyncs == 0);
        CHECK(ended > 500);
        CHECK(quick.given == ended);
        CHECK(slow.given == ended);
    }
    TEST_CASE("a reader of destructions that is too far behind is told to start over, and nothing is given twice") {
        World world;
        std::vector<Entity> all(100);
        for (Entity& e : all)
            e = world.create();
        DestroyReader reader(world, {.destroyed_max = 16});
        const u64 bytes = world.memory_report().change_readers;
        CHECK(bytes == 16 * sizeof(Entity)); // the whole of the memory, however many end
        for (u32 i = 0; i < 16; ++i)
            world.destroy(all[i]);
        CHECK_FALSE(reader.take_resync());
        CHECK(reader.each([](Entity) {}) == 16);
        world.destroy_batch({all.data() + 16, 17});
        CHECK(reader.each([](Entity) {}) == 0);
        CHECK(reader.take_resync());
        CHECK_FALSE(reader.take_resync());
        world.destroy(all[40]);
        std::vector<u64> ids;
        const auto note = [&](Entity e) {
            ids.push_back(e.entity_id);
            if (ids.size() == 1)
                world.destroy(all[41]); // while it is told
        };
        CHECK(reader.each(note) == 2);
        CHECK(ids == std::vector<u64>{all[40].entity_id, all[41].entity_id});
        CHECK(world.memory_report().change_readers == bytes);
        {
            DestroyReader other(world, {.destroyed_max = 40});
            CHECK(world.memory_report().change_readers == 64 * sizeof(Entity));
            world.destroy(all[42]);
            DestroyReader moved(std::move(other));
            CHECK(moved.each([](Entity) {}) == 1);
            reader = std::move(moved);
        }
        world.destroy(all[43]);
        CHECK(reader.each([](Entity) {}) == 1);
        reader.skip();
        CHECK(reader.each([](Entity) {}) == 0);
    }
    TEST_CASE("restores and readers of destructions") {
        World world;
        std::vector<Entity> all(200);
        for (Entity& e : all)
            e = world.spawn(Mass{1});
        Book book(world, 256);
        RollbackRing ring(world, 3);
        CHECK(ring.save(1) == Error::none);
        const WorldSnapshot whole = world.snapshot();
        for (u32 i = 0; i < 50; ++i)
            book.made(world.create());
        world.destroy(all[7]);
        book.update();
        CHECK(ring.restore(1) == Error::none);
        book.made(all[7]); // alive again
        book.update();
        CHECK(book.given == 51);
        CHECK(book.resyncs == 0);
        CHECK(book.wrong + book.differences() == 0);
        world.destroy(all[8]);
        CHECK(world.restore(whole) == Error::none);
        book.update();
        CHECK(book.resyncs == 1);
        CHECK(book.given == 51);
        CHECK(book.differences() == 0);
    }
}
