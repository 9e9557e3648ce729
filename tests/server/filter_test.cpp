// Filters of views: a component of the entity against a value of the client.
#include "src/server/state.hpp"
#include "tests/allocation_count.hpp"
#include "tests/support/replication_world.hpp"
#include "throng/world.hpp"
#include <doctest/doctest.h>
#include <string_view>
#include <utility>

using namespace throng;
using namespace throng_test;

namespace {

struct Guild {
    u32 id = 0;
};
struct Rank {
    u8 least = 0;
};
struct Haunted {}; // a tag
struct Member {
    u32 guild = 0;
};
struct Grade {
    u64 value = 0;
};
struct Medium {}; // no bytes

u32 calls = 0; // of same_guild
bool same_guild(const Guild& guild, const Member* member) {
    __atomic_fetch_add(&calls, 1u, __ATOMIC_RELAXED);
    return member && member->guild == guild.id;
}
bool high_enough(const Rank& rank, const Grade* grade) {
    return rank.least == 0 || (grade && grade->value >= rank.least);
}
bool sees_ghosts(const Haunted&, const Medium* medium) {
    return medium != nullptr;
}
bool not_rival(const Guild& guild, const Grade* grade) {
    return !grade || grade->value != guild.id;
}

struct Net : ReplicationWorld {
    explicit Net(u32 clients = 3, ServerConfig config = {.heartbeat_ticks = 0, .compression = Compression::never},
                 LoopbackConfig links = {})
        : ReplicationWorld(config, links, make_protocol(2000, true)) {
        for (u32 i = 0; i < clients; ++i)
            connect();
        steps(3);
        for (u32 i = 0; i < clients; ++i)
            server.view(peers[i]->id).look_at(0, 0, {.radius = 60});
        calls = 0;
    }
    Error by_guild() { return server.add_filter<Guild, Member>("guild", same_guild); }
    View view(u32 i) { return server.view(peers[i]->id); }
    bool shows(u32 i, Entity entity) { return peers[i]->world->alive(peers[i]->client->entity(server.net_id(entity))); }
    /// Bits: the clients that show it, after some ticks; the server says the same.
    u32 who(Entity entity) {
        steps(4);
        u32 bits = 0;
        for (u32 i = 0; i < peers.size(); ++i) {
            CHECK(server.visible(peers[i]->id, entity) == shows(i, entity));
            bits |= u32(shows(i, entity)) << i;
        }
        return bits;
    }
    bool settled() const {
        for (const auto& peer : peers)
            if (!server.settled(peer->id))
                return false;
        return client_errors == 0;
    }
};

} // namespace

TEST_CASE("filters: without the component all see it, without a value the function decides, and values come and go on either side") {
    Net net;
    REQUIRE(net.by_guild() == Error::none);
    const Entity plain = net.world.spawn(Place{1, 0}, Replicated{});
    const Entity banner = net.world.spawn(Place{2, 0}, Health{1, false}, Guild{7}, Replicated{});
    CHECK(net.who(plain) == 7);
    CHECK(net.who(banner) == 0);
    CHECK(net.view(0).set(Member{7}) == Error::none);
    CHECK(net.view(1).set(Member{8}) == Error::none);
    CHECK(net.view(0).get<Member>()->guild == 7);
    CHECK(net.view(2).get<Member>() == nullptr);
    net.step();
    CHECK(net.server.visible(net.peers[0]->id, banner)); // from the next tick on
    CHECK(net.who(banner) == 1);
    net.world.mut<Guild>(banner)->id = 8;
    net.world.mut<Health>(banner)->hp = 2; // while it comes and goes
    net.step();
    CHECK_FALSE(net.server.visible(net.peers[0]->id, banner));
    CHECK(net.who(banner) == 2);
    CHECK(net.peers[1]->world->get<Health>(net.peers[1]->client->entity(net.server.net_id(banner)))->hp == 2);
    net.world.remove<Guild>(banner);
    CHECK(net.who(banner) == 7);
    net.world.add<Guild>(banner, Guild{7});
    CHECK(net.who(banner) == 1);
    CHECK(net.view(0).clear<Member>() == Error::none);
    CHECK(net.view(0).get<Member>() == nullptr);
    CHECK(net.who(banner) == 0);
    CHECK(net.who(plain) == 7);
    CHECK(net.settled());
}

TEST_CASE("filters: several must all allow, also of one component, with one value for several, and with a tag and a value without bytes") {
    Net net;
    REQUIRE(net.by_guild() == Error::none);
    REQUIRE(net.server.add_filter<Rank, Grade>("rank", high_enough) == Error::none);
    REQUIRE(net.server.add_filter<Haunted, Medium>("haunted", sees_ghosts) == Error::none);
    REQUIRE(net.server.add_filter<Guild, Grade>("rivals", not_rival) == Error::none);
    const Entity vault = net.world.spawn(Place{1, 0}, Guild{3}, Rank{5}, Replicated{});
    const Entity ghost = net.world.spawn(Place{1, 0}, Haunted{}, Replicated{});
    for (u32 i = 0; i < 3; ++i)
        CHECK(net.view(i).set(Member{3}) == Error::none);
    CHECK(net.view(0).set(Grade{4}) == Error::none);
    CHECK(net.view(1).set(Grade{5}) == Error::none);
    CHECK(net.view(2).set(Medium{}) == Error::none);
    CHECK(net.who(vault) == 2);
    CHECK(net.who(ghost) == 4);
    CHECK(net.view(0).set(Grade{9}) == Error::none);
    CHECK(net.who(vault) == 3);
    net.world.mut<Rank>(vault)->least = 3;
    CHECK(net.view(0).set(Grade{3}) == Error::none); // a rival
    CHECK(net.who(vault) == 2);
    net.world.remove<Haunted>(ghost);
    net.world.add<Haunted>(vault);
    CHECK(net.who(ghost) == 7);
    CHECK(net.who(vault) == 0);
    CHECK(net.view(1).set(Medium{}) == Error::none);
    CHECK(net.who(vault) == 2);
    CHECK(net.settled());
}

TEST_CASE(
    "filters: they combine with the view, its list and layers, and go with an entity into another cell and not to the next in its lane") {
    Net net;
    REQUIRE(net.by_guild() == Error::none);
    for (u32 i = 0; i < 2; ++i)
        CHECK(net.view(i).set(Member{7}) == Error::none);
    const Entity banner = net.world.spawn(Place{-5, -5}, Guild{7}, VisibleTo{.any_of = 2}, Replicated{});
    CHECK(net.who(banner) == 0);
    net.view(0).set_layers(2);
    net.view(2).set_layers(2);
    CHECK(net.who(banner) == 1);
    net.view(0).hide(banner);
    CHECK(net.who(banner) == 0);
    net.view(0).show(banner);
    *net.world.mut<Place>(banner) = {500, 5};
    CHECK(net.who(banner) == 0);
    *net.world.mut<Place>(banner) = {40, 5}; // another cell
    const Entity open = net.world.spawn(Place{-5, -5}, Replicated{});
    CHECK(net.who(banner) == 1);
    CHECK(net.who(open) == 7);
    net.world.destroy(banner);
    const Entity next = net.world.spawn(Place{40, 5}, Replicated{});
    CHECK(net.who(next) == 7);
    CHECK(net.settled());
}

TEST_CASE("filters: a filter of what is there already counts from the next tick on") {
    Net net;
    const Entity banner = net.world.spawn(Place{1, 0}, Guild{7}, Replicated{}), plain = net.world.spawn(Place{2, 0}, Replicated{});
    CHECK(net.who(banner) == 7);
    CHECK(net.view(1).set(Member{7}) == Error::bad_value); // nobody asks
    REQUIRE(net.by_guild() == Error::none);
    CHECK(net.view(1).set(Member{7}) == Error::none);
    CHECK(net.who(banner) == 2);
    CHECK(net.who(plain) == 7);
}

TEST_CASE("filters: the function is asked once for a pair of values, however many entities, clients and ticks there are") {
    Net net(6);
    REQUIRE(net.by_guild() == Error::none);
    std::vector<Entity> all;
    for (u32 i = 0; i < 200; ++i)
        all.push_back(net.world.spawn(Place{float(i % 20), float(i / 20)}, Guild{i % 4}, Replicated{}));
    for (u32 i = 0; i < 5; ++i)
        CHECK(net.view(i).set(Member{i % 2}) == Error::none); // and one without
    const auto run = [&](int ticks) {
        for (int t = 0; t < ticks; ++t) {
            for (u32 i = 0; i < 200; i += 3)
                net.world.mut<Place>(all[i])->x += 0.5f;
            net.view(u32(t) % 6).look_at(double(t % 3), 0, {.radius = 60});
            net.step();
        }
    };
    run(30);
    CHECK(calls == 4 * 3);
    net.world.mut<Guild>(all[0])->id = 1; // a value that is known
    CHECK(net.view(4).set(Member{1}) == Error::none);
    run(10);
    CHECK(calls == 4 * 3);
    net.world.mut<Guild>(all[0])->id = 9; // one that is not
    run(10);
    CHECK(calls == 5 * 3);
    CHECK(net.view(4).set(Member{9}) == Error::none);
    run(10);
    CHECK(calls == 5 * 4);
    CHECK(net.who(all[0]) == 16);
    net.world.each_mut<Guild>([](Entity, Guild&) {}); // written, and the same
    run(5);
    CHECK(calls == 5 * 4);
}

TEST_CASE("filters: values that nobody has any more take no room, and their numbers are used again with answers of their own") {
    Net net;
    REQUIRE(net.by_guild() == Error::none);
    const Entity banner = net.world.spawn(Place{1, 0}, Guild{0}, Replicated{}),
                 other = net.world.spawn(Place{1, 0}, Guild{1}, Replicated{});
    for (u32 t = 0; t < 300; ++t) {
        net.world.mut<Guild>(banner)->id = t;
        CHECK(net.view(t % 3).set(Member{t}) == Error::none);
        net.step();
        for (u32 i = 0; i < 3; ++i) {
            CHECK(net.server.visible(net.peers[i]->id, banner) == (i == t % 3));
            const Member* member = net.view(i).get<Member>();
            CHECK(net.server.visible(net.peers[i]->id, other) == (member && member->guild == 1));
        }
    }
    const ViewFilters& filters = net.server.state().filters;
    REQUIRE(filters.list.size() == 2);
    CHECK(filters.list[1].classes.end() <= 6);
    CHECK(filters.kinds[0].values.end() <= 8);
    for (u32 i = 0; i < 500; ++i) { // many at a time, and none
        std::vector<Entity> made;
        for (u32 k = 0; k < 40; ++k)
            made.push_back(net.world.spawn(Place{float(i % 5) * 150, 0}, Guild{1000 + i * 40 + k}, Replicated{})); // five cells
        net.step();
        for (const Entity e : made)
            net.world.destroy(e);
    }
    CHECK(filters.list[1].classes.end() <= 100);
    CHECK(net.who(other) == 0);
    CHECK(net.view(2).set(Member{1}) == Error::none);
    CHECK(net.who(other) == 4);
}

TEST_CASE("filters: a value ends with the connection, whoever gets the client's id") {
    Net net(2);
    REQUIRE(net.by_guild() == Error::none);
    REQUIRE(net.server.add_filter<Rank, Grade>("rank", high_enough) == Error::none);
    const GroupId group = net.server.make_group();
    const Entity banner = net.world.spawn(Guild{7}, Replicated{}), ours = net.world.spawn(VisibleToGroup{group}, Replicated{});
    net.server.add_to_group(group, net.peers[1]->id);
    CHECK(net.view(1).set(Member{7}) == Error::none);
    CHECK(net.who(banner) == 2);
    CHECK(net.who(ours) == 2);
    const ClientId left = net.peers[1]->id;
    net.network.disconnect(left);
    net.peers[1]->left = true;
    net.steps(3);
    const ClientId id = net.connect().id;
    REQUIRE(id == left);
    net.steps(3);
    CHECK(net.server.joined(id));
    CHECK_FALSE(net.server.visible(id, banner));
    CHECK_FALSE(net.server.visible(id, ours));
    CHECK(net.server.view(id).get<Member>() == nullptr);
    CHECK(net.server.view(id).set(Member{7}) == Error::none);
    net.steps(3);
    CHECK(net.server.visible(id, banner));
    net.server.disconnect(id); // with its value
    net.peers[2]->left = true;
    net.steps(2);
    CHECK_FALSE(net.server.visible(id, banner));
}

TEST_CASE("filters: a group sees what is visible to it, and a client may be in several") {
    Net net;
    const GroupId reds = net.server.make_group(), blues = net.server.make_group();
    const Entity red = net.world.spawn(Place{1, 0}, VisibleToGroup{reds}, Replicated{});
    const Entity blue = net.world.spawn(Place{1, 0}, VisibleToGroup{blues}, Replicated{});
    CHECK(net.who(red) == 0);
    net.server.add_to_group(reds, net.peers[0]->id);
    net.server.add_to_group(reds, net.peers[1]->id);
    net.server.add_to_group(blues, net.peers[1]->id);
    CHECK(net.who(red) == 3);
    CHECK(net.who(blue) == 2);
    net.server.remove_from_group(reds, net.peers[0]->id);
    CHECK(net.who(red) == 2);
    net.world.mut<VisibleToGroup>(red)->group = blues;
    CHECK(net.who(red) == 2);
    net.server.add_to_group(blues, net.peers[2]->id);
    CHECK(net.who(red) == 6);
    net.server.drop_group(blues);
    CHECK(net.who(red) == 0);
    CHECK(net.server.make_group() == blues); // its id is another's now
    net.server.add_to_group(blues, net.peers[0]->id);
    CHECK(net.who(blue) == 1);
    net.world.remove<VisibleToGroup>(blue);
    CHECK(net.who(blue) == 7);
    CHECK(net.settled());
}

TEST_CASE("filters: what lasts stays as it was, hidden by a filter as by anything else") {
    Net net;
    REQUIRE(net.by_guild() == Error::none);
    CHECK(net.view(0).set(Member{7}) == Error::none);
    const Entity lasts = net.world.spawn(Health{1, false}, Guild{7}, Lasting{}, Replicated{});
    const Entity start = net.world.spawn(Health{1, false}, Guild{7}, Lasting{.from_start = true}, Replicated{});
    net.steps(6);
    CHECK(net.shows(0, lasts));
    CHECK_FALSE(net.shows(1, lasts));
    CHECK(net.shows(1, start)); // and hidden since
    net.world.each_mut<Guild>([](Entity, Guild& guild) { guild.id = 8; });
    net.steps(3);
    net.world.mut<Health>(lasts)->hp = 2;
    net.world.mut<Health>(start)->hp = 2;
    net.steps(6);
    for (const Entity e : {lasts, start}) {
        CHECK_FALSE(net.server.visible(net.peers[0]->id, e));
        REQUIRE(net.shows(0, e));
        CHECK(net.peers[0]->world->get<Health>(net.peers[0]->client->entity(net.server.net_id(e)))->hp == 1);
        const Why why = net.server.why(e, net.peers[0]->id);
        CHECK(why.reason == WhyReason::frozen);
        CHECK(why.cause == WhyReason::refused_by_filter);
    }
    CHECK(net.view(1).set(Member{8}) == Error::none);
    CHECK(net.view(0).set(Member{8}) == Error::none);
    net.steps(6);
    for (u32 i = 0; i < 2; ++i)
        for (const Entity e : {lasts, start})
            CHECK(net.peers[i]->world->get<Health>(net.peers[i]->client->entity(net.server.net_id(e)))->hp == 2);
    CHECK(net.settled());
}

TEST_CASE("filters: of a paused entity nothing changes before it goes on") {
    Net net;
    REQUIRE(net.by_guild() == Error::none);
    CHECK(net.view(0).set(Member{7}) == Error::none);
    const Entity e = net.world.spawn(Health{1, false}, Guild{7}, Replicated{});
    CHECK(net.who(e) == 1);
    net.world.remove<Replicated>(e);
    net.step();
    net.world.mut<Guild>(e)->id = 8;
    CHECK(net.view(1).set(Member{8}) == Error::none);
    CHECK(net.who(e) == 1);
    net.world.add<Replicated>(e);
    CHECK(net.who(e) == 2);
    CHECK(net.settled());
}

TEST_CASE("filters: what is told of what a client sees is by them, too") {
    Net net;
    REQUIRE(net.by_guild() == Error::none);
    CHECK(net.view(2).set(Member{7}) == Error::none);
    const Entity e = net.world.spawn(Guild{7}, Replicated{});
    CHECK(net.who(e) == 4);
    u32 seen = 0; // by each_visible
    for (u32 i = 0; i < 3; ++i)
        net.server.each_visible(
            net.peers[i]->id, [](void* count, Entity) { ++*static_cast<u32*>(count); }, &seen);
    CHECK(seen == 1);
}

TEST_CASE("filters: why names the filter that refuses, as it would now") {
    Net net;
    REQUIRE(net.by_guild() == Error::none);
    REQUIRE(net.server.add_filter<Rank, Grade>("rank", high_enough) == Error::none);
    const ClientId id = net.peers[0]->id;
    const GroupId group = net.server.make_group();
    const Entity e = net.world.spawn(Place{1, 0}, Guild{7}, Rank{2}, VisibleToGroup{group}, Replicated{});
    const auto refused = [&](std::string_view name) {
        const Why why = net.server.why(e, id);
        CHECK(why.reason == WhyReason::refused_by_filter);
        CHECK(why.cause == WhyReason::refused_by_filter);
        REQUIRE(why.filter);
        CHECK(std::string_view(why.filter) == name);
    };
    net.steps(3);
    refused("VisibleToGroup");
    net.server.add_to_group(group, id);
    refused("guild"); // before any tick
    CHECK(net.view(0).set(Member{7}) == Error::none);
    refused("rank");
    CHECK(net.view(0).set(Grade{2}) == Error::none);
    CHECK(net.server.why(e, id).reason == WhyReason::next_tick);
    CHECK(net.server.why(e, id).filter == nullptr);
    net.steps(4);
    CHECK(net.server.why(e, id).reason == WhyReason::current);
}

namespace {
template <u32 N>
struct Ring {
    u32 value = 0;
};
template <u32... N>
void register_all(Server& server, std::integer_sequence<u32, N...>, Error (&out)[sizeof...(N)]) {
    ((out[N] = server.add_filter<Guild, Ring<N>>("ring",
                                                 [](const Guild& guild, const Ring<N>* ring) { return ring && ring->value == guild.id; })),
     ...);
}
} // namespace

TEST_CASE("filters: 32 of them, each once") {
    Net net(1);
    CHECK(net.server.add_filter<Guild, Ring<1>>(nullptr, [](const Guild&, const Ring<1>*) { return true; }) == Error::bad_value);
    CHECK(net.server.add_filter<Guild, Ring<1>>("ring", nullptr) == Error::bad_value);
    Error errors[filters_max];
    register_all(net.server, std::make_integer_sequence<u32, filters_max>(), errors);
    for (const Error error : errors)
        CHECK(error == Error::none);
    CHECK(net.server.add_filter<Guild, Ring<3>>("again", [](const Guild&, const Ring<3>*) { return true; }) == Error::bad_value);
    CHECK(net.by_guild() == Error::limit_reached);
    const GroupId group = net.server.make_group(); // this one is beside them
    const Entity e = net.world.spawn(Place{1, 0}, Guild{5}, VisibleToGroup{group}, Replicated{});
    [&]<u32... N>(std::integer_sequence<u32, N...>) {
        const auto give = [&](Error error) {
            CHECK(net.who(e) == 0);
            CHECK(error == Error::none);
        };
        (give(net.view(0).set(Ring<N>{5})), ...);
    }
    (std::make_integer_sequence<u32, filters_max>());
    CHECK(net.who(e) == 0);
    net.server.add_to_group(group, net.peers[0]->id);
    CHECK(net.who(e) == 1);
    CHECK(net.view(0).set(Ring<31>{4}) == Error::none);
    CHECK(net.who(e) == 0);
}

TEST_CASE("filters: a restored world is seen as its components say") {
    Net net;
    REQUIRE(net.by_guild() == Error::none);
    CHECK(net.view(0).set(Member{7}) == Error::none);
    CHECK(net.view(1).set(Member{8}) == Error::none);
    const Entity e = net.world.spawn(Place{1, 0}, Guild{7}, Replicated{}), f = net.world.spawn(Place{1, 0}, Replicated{});
    CHECK(net.who(e) == 1);
    const auto snapshot = net.world.snapshot();
    net.world.mut<Guild>(e)->id = 8;
    net.world.add<Guild>(f, Guild{8});
    CHECK(net.who(e) == 2);
    CHECK(net.who(f) == 2);
    REQUIRE(net.world.restore(snapshot) == Error::none);
    CHECK(net.who(e) == 1);
    CHECK(net.who(f) == 7);
    CHECK(net.settled());
}

TEST_CASE("filters: nothing changes on the wire when values change and what is seen does not") {
    Net net;
    REQUIRE(net.server.add_filter<Rank, Grade>("rank", high_enough) == Error::none);
    const Entity e = net.world.spawn(Place{1, 0}, Rank{5}, Replicated{});
    CHECK(net.view(0).set(Grade{7}) == Error::none);
    CHECK(net.who(e) == 1);
    u64 bytes = 0;
    for (u32 t = 0; t < 20; ++t) {
        net.world.mut<Rank>(e)->least = static_cast<u8>(3 + t % 4);
        CHECK(net.view(0).set(Grade{7 + t % 3}) == Error::none);
        CHECK(net.view(1).set(Grade{t % 3}) == Error::none);
        CHECK(net.view(2).set(Grade{1}) == Error::none);
        CHECK(net.view(2).clear<Grade>() == Error::none);
        bytes += net.step().bytes;
    }
    CHECK(bytes == 0);
    CHECK(net.who(e) == 1);
}

// ---------------------------------------------------------------------------------------------------- all at once, at random
namespace {

std::string secret(u64 entity_id, u32 version) {
    return "<secret " + std::to_string(entity_id) + " " + std::to_string(version) + ">";
}

/// Entities with secrets, that clients may see by filters alone; everything about who may changes all the time, over lossy links.
struct Leaks {
    explicit Leaks(Executor* executor, u32 seed)
        : net(4, {.executor = executor, .heartbeat_ticks = 0, .compression = Compression::never}, {.seed = seed, .trace = {look, this}}),
          state(seed) {
        CHECK(net.by_guild() == Error::none);
        CHECK(net.server.add_filter<Rank, Grade>("rank", high_enough) == Error::none);
        for (GroupId& group : groups)
            group = net.server.make_group();
        for (const auto& peer : net.peers) {
            net.network.set_link(peer->id, Direction::down, {.loss_percent = 10, .delay_us = 60'000, .jitter_us = 40'000});
            net.network.set_link(peer->id, Direction::up, {.loss_percent = 10, .delay_us = 60'000, .jitter_us = 40'000});
            net.view(peer->id).look_at(0, 0, {.radius = 1000});
        }
        for (u32 i = 0; i < 120; ++i)
            all.push_back(net.world.spawn(Place{float(below(200)), float(below(200))}, Name{}, Replicated{}));
    }
    u32 below(u32 n) { return static_cast<u32>((state = state * 6364136223846793005u + 1442695040888963407u) >> 33) % n; }
    void tick(int t) {
        for (u32 left = 12; left > 0; --left)
            act();
        for (std::size_t i = 0; i < all.size(); i += 3)
            net.world.mut<Name>(all[i])->text = secret(all[i].entity_id, static_cast<u32>(t));
        net.step();
    }
    void act() {
        const Entity e = all[below(120)];
        const u32 c = below(4);
        View view = net.view(c);
        World& world = net.world;
        switch (below(10)) {
        case 0:
            return void(world.add<Guild>(e, Guild{below(3)}));
        case 1:
            if (Guild* guild = world.mut<Guild>(e))
                guild->id = below(3) ? below(3) : below(1000);
            return;
        case 2:
            return void(world.remove<Guild>(e));
        case 3:
            return void(world.add<Rank>(e, Rank{static_cast<u8>(below(4))}));
        case 4:
            return void(world.remove<Rank>(e));
        case 5:
            CHECK((below(4) ? view.set(Member{below(3)}) : view.clear<Member>()) == Error::none);
            return;
        case 6:
            CHECK((below(4) ? view.set(Grade{below(4)}) : view.clear<Grade>()) == Error::none);
            return;
        case 7:
            return below(3) ? void(world.add<VisibleToGroup>(e, VisibleToGroup{groups[below(2)]})) : void(world.remove<VisibleToGroup>(e));
        case 8:
            return below(2) ? net.server.add_to_group(groups[below(2)], c) : net.server.remove_from_group(groups[below(2)], c);
        default:
            *world.mut<Place>(e) = {float(below(200)), float(below(200))};
        }
    }
    bool may_see(ClientId c, Entity e) {
        const Guild* guild = net.world.get<Guild>(e);
        const Rank* rank = net.world.get<Rank>(e);
        const VisibleToGroup* group = net.world.get<VisibleToGroup>(e);
        const View view = net.server.view(c);
        return (!guild || (view.get<Member>() && view.get<Member>()->guild == guild->id)) &&
               (!rank || high_enough(*rank, view.get<Grade>())) && (!group || net.server.in_group(group->group, c));
    }
    static void look(void* context, const TraceRecord& record) {
        auto& leaks = *static_cast<Leaks*>(context);
        if (record.fate == Fate::sent)
            leaks.hash.add(record.time_us, record.client, record.channel, record.message);
        if (record.direction == Direction::down && record.fate == Fate::sent)
            leaks.search(record.client, {reinterpret_cast<const char*>(record.message.data()), record.message.size()});
    }
    void search(ClientId c, std::string_view bytes) {
        constexpr std::string_view head = "<secret ";
        for (std::size_t at = bytes.find(head); at != bytes.npos; at = bytes.find(head, at + 1)) {
            const u64 entity_id = std::stoull(std::string(bytes.substr(at + head.size(), 8)));
            ++found;
            for (const Entity e : all)
                leaked += e.entity_id == entity_id && !may_see(c, e);
        }
    }
    OutputHash hash;
    Net net;
    u64 state;
    GroupId groups[2];
    std::vector<Entity> all;
    u32 found = 0, leaked = 0;
};

} // namespace

TEST_CASE("filters: nothing of what they hide is in the bytes, clients end with what they may see, and workers change no byte") {
    OutputHash hashes[3];
    for (u32 run = 0; run < 3; ++run) {
        const ExecutorHandle executor = run ? make_threads_executor(run * 2) : make_serial_executor();
        Leaks leaks(executor.get(), 77);
        for (int t = 0; t < 150; ++t)
            leaks.tick(t);
        CHECK(leaks.found > 1000);
        CHECK(leaks.leaked == 0);
        leaks.net.steps(60);
        CHECK(leaks.net.settled());
        u32 seen = 0;
        for (u32 c = 0; c < 4; ++c)
            for (const Entity e : leaks.all) {
                seen += leaks.may_see(c, e);
                CHECK(leaks.net.shows(c, e) == leaks.may_see(c, e));
                CHECK(leaks.net.server.visible(c, e) == leaks.may_see(c, e));
            }
        CHECK(seen > 50);
        CHECK(seen < 430);
        hashes[run] = leaks.hash;
    }
    CHECK(hashes[1] == hashes[0]);
    CHECK(hashes[2] == hashes[0]);
}

TEST_CASE("filters: values that come and go take no memory once there have been as many" *
          doctest::skip(!throng::tests::counts_allocations)) {
    Net net;
    REQUIRE(net.by_guild() == Error::none);
    const GroupId group = net.server.make_group();
    std::vector<Entity> all;
    for (u32 i = 0; i < 100; ++i)
        all.push_back(net.world.spawn(Place{float(i % 10), float(i / 10)}, Guild{i % 5}, VisibleToGroup{group}, Replicated{}));
    u64 before = 0;
    for (u32 t = 0; t < 400; ++t) {
        for (u32 i = 0; i < 10; ++i)
            net.world.mut<Guild>(all[(t + i * 10) % 100])->id = t / 3 + i % 5;
        CHECK(net.view(t % 3).set(Member{t / 3}) == Error::none);
        t % 2 ? net.server.add_to_group(group, net.peers[0]->id) : net.server.remove_from_group(group, net.peers[0]->id);
        if (t == 200)
            before = throng::tests::allocation_count();
        net.step();
    }
    CHECK(throng::tests::allocation_count() == before);
}
