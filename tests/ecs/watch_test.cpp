#include "throng/ecs.hpp"
#include <doctest/doctest.h>
#include <vector>

using namespace throng;

// Whether a change of structure has more to do than to move rows is one byte of the pool, which must follow what is logged, hooked and
// read, whichever comes first.

namespace {
struct Early {
    int value;
};
struct Late {
    int value;
};
using Wide = BasicWorld<256>;
} // namespace

TEST_CASE("What was logged before its pool was there is logged") {
    Wide world;
    world.log_structure(component_id<Early, 256>(), true);
    const Entity e = world.create();
    world.add<Early>(e, Early{1});
    CHECK(world.remove<Early>(e));
    const Entity other = world.spawn(Early{2});
    world.destroy(other);
    std::vector<StructureEvent::Kind> kinds;
    for (const StructureEvent& event : world.structure_log())
        kinds.push_back(event.kind);
    using Kind = StructureEvent::Kind;
    CHECK(kinds == std::vector<Kind>{Kind::added, Kind::removed, Kind::added, Kind::destroyed});
    world.log_structure(component_id<Early, 256>(), false);
    world.clear_structure_log();
    world.add<Early>(e, Early{1});
    world.remove<Early>(e);
    CHECK(world.structure_log().empty());
}

TEST_CASE("Hooks, the log and change readers of a type come and go independently") {
    Wide world;
    const Entity e = world.spawn(Late{1});
    u32 removed = 0, added = 0;
    const HookId on_remove = world.on_remove<Late>([&](Wide&, Entity) { ++removed; });
    const HookId on_add = world.on_add<Late>([&](Wide&, Entity) { ++added; });
    world.log_structure(component_id<Late, 256>(), true);
    {
        BasicChangeReader<Late, 256> reader(world);
        CHECK(world.remove<Late>(e));
        CHECK(reader.each_removed([](const Removal&) {}) == 1);
        CHECK(removed == 1);
        world.unhook(on_remove);
        world.unhook(on_add);
        world.add<Late>(e, Late{2});
        CHECK(world.remove<Late>(e));
        CHECK(reader.each_removed([](const Removal&) {}) == 1);
        CHECK(removed == 1);
        CHECK(added == 0);
        CHECK(world.structure_log().size() == 3);
    }
    world.add<Late>(e, Late{2});
    CHECK(world.remove<Late>(e)); // the reader has gone, the log has not
    CHECK(world.structure_log().size() == 5);
}
