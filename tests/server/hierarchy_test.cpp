// Relations over the network: a replicated ChildOf is a hierarchy on the client, too.
#include "throng/client.hpp"
#include "throng/loopback.hpp"
#include "throng/server.hpp"
#include <algorithm>
#include <doctest/doctest.h>
#include <memory>
#include <vector>

using namespace throng;

namespace {
struct Spot {
    float x = 0, z = 0;
};

/// A server and one client that sees 60 units around the origin.
struct Family {
    explicit Family(bool faulty = false) {
        const Range map{-500, 500, 0.01};
        protocol.component<Spot>("spot").field(&Spot::x, map).field(&Spot::z, map).spatial(&Spot::x, &Spot::z);
        protocol.component<ChildOf>("child of").field(&ChildOf::target);
        REQUIRE(protocol.finish() == Error::none);
        server = std::make_unique<Server>(world, protocol, network.server());
        LinkConfig link;
        link.loss_percent = faulty ? 30 : 0;
        link.jitter_us = faulty ? 120'000 : 0;
        id = network.connect(link, link);
        client = std::make_unique<Client>(shown_world, protocol, network.client(id));
        steps(faulty ? 20 : 2);
        server->view(id).look_at(0, 0, {.radius = 60});
    }
    void steps(int count) {
        for (int i = 0; i < count; ++i) {
            now += 50'000;
            server->receive(now);
            server->tick(now);
            CHECK(client->receive(now) == Error::none);
            CHECK(client->send(now) == Error::none);
        }
    }
    Entity shown(Entity entity) const { return client->entity(server->net_id(entity)); }
    /// The client's children are the server's that it sees, and each says so itself.
    void check_children(Entity parent) {
        std::vector<u64> expected, found;
        world.each_source<ChildOf>(parent, [&](Entity child) {
            if (server->visible(id, child))
                expected.push_back(shown(child).entity_id);
        });
        shown_world.each_source<ChildOf>(shown(parent), [&](Entity child) {
            found.push_back(child.entity_id);
            CHECK(shown_world.get<ChildOf>(child)->target == shown(parent));
        });
        std::sort(expected.begin(), expected.end());
        std::sort(found.begin(), found.end());
        CHECK(found == expected);
    }

    Protocol protocol;
    World world, shown_world;
    LoopbackNetwork network{{}};
    std::unique_ptr<Server> server;
    std::unique_ptr<Client> client;
    ClientId id = 0;
    TimeUs now = 0;
};
} // namespace

TEST_SUITE("server") {
    TEST_CASE("hierarchy: children are linked on the client, whoever arrives first, change parents and go with them") {
        Family net;
        const Entity ship = net.world.spawn(Spot{0, 0}, Replicated{});
        const Entity other = net.world.spawn(Spot{5, 0}, Replicated{});
        std::vector<Entity> crew;
        for (int i = 0; i < 5; ++i)
            crew.push_back(net.world.spawn(Spot{float(i), 1}, ChildOf{ship}, Replicated{}));
        const Entity pet = net.world.spawn(Spot{1, 2}, ChildOf{crew[0]}, Replicated{});
        net.steps(6);
        REQUIRE(net.shown_world.alive(net.shown(ship)));
        net.check_children(ship);
        net.check_children(crew[0]);
        CHECK(net.shown_world.source_count<ChildOf>(net.shown(ship)) == 5);
        CHECK(net.shown_world.target<ChildOf>(net.shown(pet)) == net.shown(crew[0]));
        REQUIRE(net.world.relate<ChildOf>(crew[0], other) == Error::none);
        net.steps(4);
        net.check_children(ship);
        net.check_children(other);
        CHECK(net.shown_world.source_count<ChildOf>(net.shown(other)) == 1);
        net.world.remove<ChildOf>(crew[1]);
        net.steps(4);
        CHECK_FALSE(net.shown_world.target<ChildOf>(net.shown(crew[1])));
        net.check_children(ship);
        net.world.destroy(other); // takes crew[0] and its pet along
        net.steps(4);
        CHECK(net.shown_world.entity_count() == 5); // the ship and crew 1 to 4
        CHECK(net.server->settled(net.id));
    }

    TEST_CASE("hierarchy: a parent out of sight takes no visible child along, and is its parent again when it comes back") {
        Family net;
        const Entity ship = net.world.spawn(Spot{0, 0}, Replicated{});
        const Entity sailor = net.world.spawn(Spot{1, 0}, ChildOf{ship}, Replicated{});
        net.steps(5);
        const Entity shown_sailor = net.shown(sailor);
        REQUIRE(net.shown_world.alive(shown_sailor));
        for (int round = 0; round < 3; ++round) {
            net.server->view(net.id).hide(ship);
            net.steps(4);
            CHECK_FALSE(net.shown_world.alive(net.shown(ship)));
            REQUIRE(net.shown_world.alive(shown_sailor));
            CHECK_FALSE(net.shown_world.get<ChildOf>(shown_sailor)->target);
            CHECK_FALSE(net.shown_world.target<ChildOf>(shown_sailor));
            net.server->view(net.id).show(ship);
            net.steps(4);
            CHECK(net.shown_world.target<ChildOf>(shown_sailor) == net.shown(ship));
            net.check_children(ship);
        }
        *net.world.mut<Spot>(ship) = {400, 400}; // by distance instead
        net.steps(4);
        CHECK(net.shown_world.alive(shown_sailor));
        CHECK_FALSE(net.shown_world.target<ChildOf>(shown_sailor));
    }

    TEST_CASE("hierarchy: a parent that the client's game has destroyed takes nobody along that comes later") {
        Family net;
        const Entity ship = net.world.spawn(Spot{0, 0}, Replicated{});
        const Entity sailor = net.world.spawn(Spot{1, 0}, Replicated{});
        net.steps(5);
        net.shown_world.destroy(net.shown(ship));
        REQUIRE(net.world.relate<ChildOf>(sailor, ship) == Error::none);
        const Entity cook = net.world.spawn(Spot{2, 0}, ChildOf{ship}, Replicated{});
        net.steps(5);
        for (const Entity one : {sailor, cook}) {
            REQUIRE(net.shown_world.alive(net.shown(one)));
            CHECK_FALSE(net.shown_world.get<ChildOf>(net.shown(one))->target);
        }
        net.server->view(net.id).hide(ship);
        net.steps(5);
        net.server->view(net.id).show(ship);
        net.steps(5);
        net.check_children(ship);
        CHECK(net.shown_world.source_count<ChildOf>(net.shown(ship)) == 2);
    }

    TEST_CASE("hierarchy: random trees under loss and reordering end as the server's") {
        Family net(true);
        std::vector<Entity> all;
        u64 state = 7;
        const auto below = [&](u64 n) {
            state = state * 6364136223846793005u + 1442695040888963407u;
            return (state >> 33) % n;
        };
        for (int tick = 0; tick < 400; ++tick) {
            std::erase_if(all, [&](Entity e) { return !net.world.alive(e); });
            const Entity one = all.empty() ? Entity{} : all[below(all.size())];
            switch (below(6)) {
            case 0:
            case 1:
                all.push_back(one && below(3) ? net.world.spawn(Spot{float(below(80)), 1}, ChildOf{one}, Replicated{})
                                              : net.world.spawn(Spot{float(below(80)), 2}, Replicated{}));
                break;
            case 2:
                if (one)
                    static_cast<void>(net.world.relate<ChildOf>(one, all[below(all.size())])); // a cycle is refused
                break;
            case 3:
                if (one)
                    net.world.remove<ChildOf>(one);
                break;
            case 4:
                if (one && all.size() > 20)
                    net.world.destroy(one);
                break;
            default:
                if (one)
                    net.world.mut<Spot>(one)->x = float(below(120));
            }
            net.steps(1);
        }
        for (const Direction direction : {Direction::down, Direction::up})
            net.network.set_link(net.id, direction, {});
        net.steps(80);
        std::erase_if(all, [&](Entity e) { return !net.world.alive(e); });
        CHECK(net.server->settled(net.id));
        u32 visible = 0, linked = 0;
        for (const Entity e : all) {
            if (!net.server->visible(net.id, e))
                continue;
            ++visible;
            REQUIRE(net.shown_world.alive(net.shown(e)));
            net.check_children(e);
            linked += net.shown_world.source_count<ChildOf>(net.shown(e));
        }
        CHECK(visible == net.shown_world.entity_count());
        CHECK(visible > 10);
        CHECK(linked > 3);
    }
}
