#include "support.hpp"
#include "throng/ecs.hpp"
#include <doctest/doctest.h>
#include <memory>
#include <string>

using namespace throng;

namespace {
struct Clock {
    int hour, minute;
};
struct Motd {
    std::string text;
};
struct alignas(128) Wide {
    std::unique_ptr<int> value;
};
struct Fails {
    Fails() { throw std::runtime_error("no"); }
};
/// Makes another resource when it ends.
struct Restless {
    Resources* resources;
    explicit Restless(Resources* r) : resources(r) {}
    ~Restless() {
        resources->emplace<std::string>("left");
        resources->emplace<long>(5);
    }
};
} // namespace

TEST_SUITE("ecs") {
    TEST_CASE("resources: one value of a type, with a version") {
        ecs_test::CountingMemory memory;
        {
            World world({.allocator = memory.allocator()});
            CHECK(memory.live_bytes == 0);
            Resources& resources = world.resources();
            CHECK(resources.get<Clock>() == nullptr);
            CHECK(resources.mut<Clock>() == nullptr);
            CHECK_FALSE(resources.remove<Clock>());
            CHECK(resources.version<Clock>() == 0);
            CHECK(resources.emplace<Clock>(8, 30).minute == 30);
            resources.emplace<Motd>(std::string(100, 'x'));
            resources.emplace<Wide>(std::make_unique<int>(4));
            CHECK(resources.has<Clock>());
            CHECK(resources.get<Clock>()->hour == 8);
            CHECK(*resources.get<Wide>()->value == 4);
            CHECK(reinterpret_cast<std::uintptr_t>(resources.get<Wide>()) % 128 == 0);
            const u32 before = resources.version<Clock>();
            CHECK(resources.version<Clock>() == before); // reading is no change
            resources.mut<Clock>()->hour = 9;
            CHECK(resources.version<Clock>() == before + 1);
            resources.emplace<Clock>(1, 2); // in place of the old one
            CHECK(resources.get<Clock>()->hour == 1);
            CHECK(resources.version<Clock>() == before + 2);
            CHECK(resources.remove<Clock>());
            CHECK_FALSE(resources.has<Clock>());
            CHECK(resources.version<Clock>() == before + 3);
            CHECK_THROWS_AS(resources.emplace<Fails>(), std::runtime_error);
            CHECK_FALSE(resources.has<Fails>());
            // a snapshot leaves them alone
            const WorldSnapshot snapshot = world.snapshot();
            resources.mut<Motd>()->text = "later";
            CHECK(world.restore(snapshot) == Error::none);
            CHECK(resources.get<Motd>()->text == "later");
            // another world has its own
            World other;
            CHECK_FALSE(other.resources().has<Motd>());
            CHECK(world.entity_count() == 0);
        }
        CHECK(memory.live_bytes == 0);
    }
    TEST_CASE("a resource may make others while it ends") {
        Resources resources;
        resources.emplace<Restless>(&resources);
        CHECK(resources.remove<Restless>());
        CHECK(*resources.get<std::string>() == "left");
        CHECK(*resources.get<long>() == 5);
        Resources moved = std::move(resources);
        CHECK(*moved.get<long>() == 5);
        moved.clear();
        CHECK_FALSE(moved.has<std::string>());
    }
}
