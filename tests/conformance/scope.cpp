// Who sees which components of an entity that it sees: audiences (owner, others, group), and scopes by layers.
#include "tests/conformance/state_support.hpp"

using namespace throng;
using namespace conformance::state;

namespace {

struct Purse { // its owner's
    int gold = 0;
    Entity spent_on;
};
struct Tactics { // its group's
    int plan = 0;
};
struct Rumour { // for all but the owner
    int heard = 0;
};
struct Diary { // its owner's, opaque
    std::string text;
};

u32 write_diary(const void* diary, std::span<std::byte> out) {
    return throng_test::write_name(&static_cast<const Diary*>(diary)->text, out);
}
Error read_diary(void* diary, std::span<const std::byte> in) {
    return throng_test::read_name(&static_cast<Diary*>(diary)->text, in);
}

/// With components of each audience.
std::unique_ptr<Protocol> make_scoped_protocol() {
    auto protocol = std::make_unique<Protocol>();
    protocol->component<Health>("health").field(&Health::hp).field(&Health::angry);
    protocol->component<Speed>("speed").field(&Speed::x, Range{-20, 20, 0.01}).field(&Speed::z, Range{-20, 20, 0.01});
    protocol->component<Purse>("purse").field(&Purse::gold).field(&Purse::spent_on).audience(Audience::owner);
    protocol->component<Tactics>("tactics").field(&Tactics::plan).audience(Audience::group);
    protocol->component<Rumour>("rumour").field(&Rumour::heard).audience(Audience::others);
    protocol->opaque<Diary>("diary", 200, write_diary, read_diary).audience(Audience::owner);
    protocol->component<Lasting>("lasting");
    if (protocol->finish() != Error::none)
        throw std::runtime_error(protocol->problem());
    return protocol;
}

struct Scoped : StateNet {
    explicit Scoped(const ServerConfig& config = {.heartbeat_ticks = 0}) : StateNet(config, {}, make_scoped_protocol()) {}
    int gold(const Peer& peer, Entity e) const {
        const Purse* purse = value<Purse>(peer, e);
        return purse ? purse->gold : -1;
    }
    int plan(const Peer& peer, Entity e) const {
        const Tactics* tactics = value<Tactics>(peer, e);
        return tactics ? tactics->plan : -1;
    }
    int heard(const Peer& peer, Entity e) const {
        const Rumour* rumour = value<Rumour>(peer, e);
        return rumour ? rumour->heard : -1;
    }
};

bool exact() {
    return conformance::setting().loss_percent == 0;
}

} // namespace

TEST_CASE("scope/owner_only") {
    Scoped net;
    auto &owner = net.join(), &other = net.join();
    const Entity mine = net.world.spawn(Health{1, false}, Purse{5, {}}, Diary{"dear"}, OwnedBy{owner.id}, Replicated{});
    const Entity nobodys = net.world.spawn(Health{2, false}, Purse{6, {}}, Replicated{});
    net.agree();
    CHECK(net.gold(owner, mine) == 5);
    CHECK(net.value<Diary>(owner, mine)->text == "dear");
    CHECK(net.gold(other, mine) == -1);
    CHECK_FALSE(net.value<Diary>(other, mine));
    CHECK(net.hp(other, mine) == 1);
    for (const StateNet::Peer* peer : {&owner, &other})
        CHECK(net.gold(*peer, nobodys) == -1);
    CHECK(net.server.visible<Purse>(owner.id, mine));
    CHECK_FALSE(net.server.visible<Purse>(other.id, mine));
    CHECK(net.server.visible<Health>(other.id, mine));
    CHECK(net.server.why<Purse>(mine, other.id).reason == WhyReason::not_its_audience);
    CHECK(net.server.why<Purse>(mine, owner.id).reason == WhyReason::current);
    CHECK(net.server.why<Health>(mine, other.id).reason == WhyReason::current);
    CHECK(net.server.component_report<Purse>().held == 1);
    CHECK(net.server.component_report<Health>().held == 4);
}

TEST_CASE("scope/owner_changes") {
    Scoped net;
    auto &first = net.join(), &second = net.join();
    const Entity e = net.world.spawn(Health{1, false}, Purse{5, {}}, Rumour{3}, OwnedBy{first.id}, Replicated{});
    net.agree();
    net.world.mut<OwnedBy>(e)->client = second.id;
    net.world.mut<Purse>(e)->gold = 6; // in the same tick: not for the first any more
    int seen = 0;
    for (int i = 0; i < 10; ++i) {
        net.step();
        seen += net.gold(first, e) == 6;
    }
    CHECK(seen == 0);
    net.agree();
    CHECK(net.gold(first, e) == -1);
    CHECK(net.heard(first, e) == 3);
    CHECK(net.gold(second, e) == 6);
    CHECK(net.heard(second, e) == -1);
    net.world.remove<OwnedBy>(e);
    net.agree();
    CHECK(net.gold(second, e) == -1);
    CHECK(net.heard(second, e) == 3);
    for (const StateNet::Peer* peer : {&first, &second}) {
        CHECK(peer->client->stats().spawns == 1);
        CHECK(peer->client->stats().despawns == 0);
    }
}

TEST_CASE("scope/owner_and_back") { // away and back again, at every distance in ticks
    for (int away = 0; away < 6; ++away) {
        CAPTURE(away);
        Scoped net;
        auto &first = net.join(), &second = net.join();
        const Entity e = net.world.spawn(Health{1, false}, Purse{5, {}}, OwnedBy{first.id}, Replicated{});
        net.agree();
        net.world.mut<OwnedBy>(e)->client = second.id;
        net.steps(away);
        net.world.mut<Purse>(e)->gold = 6;
        net.world.mut<OwnedBy>(e)->client = first.id;
        net.agree();
        CHECK(net.gold(first, e) == 6);
        CHECK(net.gold(second, e) == -1);
    }
}

TEST_CASE("scope/owner_id_is_given_to_another") {
    Scoped net;
    auto& first = net.join();
    const ClientId id = first.id;
    const Entity e = net.world.spawn(Health{1, false}, Purse{5, {}}, OwnedBy{id}, Replicated{});
    net.agree();
    REQUIRE(net.gold(first, e) == 5);
    net.network.disconnect(id);
    first.client.reset();
    first.left = true;
    net.steps(30);
    auto& second = net.join();
    REQUIRE(second.id == id);
    net.settle();
    CHECK(net.hp(second, e) == 1);
    CHECK(net.gold(second, e) == -1);
    net.world.mut<OwnedBy>(e)->client = id; // said again, so it is
    net.agree();
    CHECK(net.gold(second, e) == 5);
}

TEST_CASE("scope/others_only") {
    Scoped net;
    auto &owner = net.join(), &other = net.join();
    const Entity e = net.world.spawn(Health{1, false}, Rumour{3}, OwnedBy{owner.id}, Replicated{});
    const Entity free = net.world.spawn(Rumour{4}, Replicated{});
    net.agree();
    CHECK(net.heard(owner, e) == -1);
    CHECK(net.heard(other, e) == 3);
    CHECK(net.heard(owner, free) == 4);
    net.world.mut<Rumour>(e)->heard = 9;
    const u64 before = net.server.client_report(owner.id).total.sections;
    net.agree();
    CHECK(net.heard(other, e) == 9);
    CHECK(net.server.client_report(owner.id).total.sections == before);
}

TEST_CASE("scope/group") {
    Scoped net;
    auto &member = net.join(), &other = net.join();
    const GroupId group = net.server.make_group();
    net.server.add_to_group(group, member.id);
    const Entity e = net.world.spawn(Health{1, false}, Tactics{7}, SharedWith{group}, Replicated{});
    const Entity unshared = net.world.spawn(Health{1, false}, Tactics{8}, Replicated{});
    net.agree();
    CHECK(net.plan(member, e) == 7);
    CHECK(net.plan(other, e) == -1);
    CHECK(net.plan(member, unshared) == -1);
    net.server.add_to_group(group, other.id);
    net.agree();
    CHECK(net.plan(other, e) == 7);
    net.server.remove_from_group(group, member.id);
    net.agree();
    CHECK(net.plan(member, e) == -1);
    CHECK(net.plan(other, e) == 7);
    const GroupId second = net.server.make_group();
    net.server.add_to_group(second, member.id);
    net.world.mut<SharedWith>(e)->group = second;
    net.agree();
    CHECK(net.plan(member, e) == 7);
    CHECK(net.plan(other, e) == -1);
    net.server.drop_group(second);
    net.agree();
    CHECK(net.plan(member, e) == -1);
    CHECK(net.server.why<Tactics>(e, member.id).reason == WhyReason::not_its_audience);
}

TEST_CASE("scope/costs_others_nothing") {
    Scoped net({.history_ticks = 4, .heartbeat_ticks = 0});
    auto &owner = net.join(), &other = net.join();
    const Entity e = net.world.spawn(Health{1, false}, Purse{5, {}}, Diary{"a"}, OwnedBy{owner.id}, Replicated{});
    const Entity open = net.world.spawn(Health{1, false}, Replicated{});
    net.agree();
    const u64 before = net.server.client_report(other.id).total.bytes;
    for (int i = 0; i < 60; ++i) { // many times what is kept of the past
        net.world.mut<Purse>(e)->gold++;
        net.world.mut<Diary>(e)->text += 'b';
        net.step();
        if (exact())
            CHECK(net.server.settled(other.id));
    }
    CHECK(net.server.client_report(other.id).total.bytes == before);
    net.settle();
    CHECK(net.gold(owner, e) == 65);
    // What all see is told as ever: alone, and as a difference.
    const u64 full_lanes = net.server.client_report(other.id).total.full_lanes;
    net.world.mut<Health>(open)->hp = 2;
    net.step();
    net.world.mut<Health>(e)->hp = 3;
    net.world.mut<Purse>(e)->gold++;
    net.agree();
    CHECK(net.hp(other, e) == 3);
    CHECK(net.hp(other, open) == 2);
    if (exact())
        CHECK(net.server.client_report(other.id).total.full_lanes == full_lanes);
}

TEST_CASE("scope/late_acks_beyond_the_ring") { // a round trip that is longer than what is kept of the past
    Scoped net({.history_ticks = 4, .loss_timeout_ticks = 60, .heartbeat_ticks = 0});
    auto& owner = net.join();
    auto& far = net.connect({.delay_us = 400'000}, {.delay_us = 400'000}); // 16 ticks
    REQUIRE(net.until([&] { return net.server.joined(far.id); }));
    const Entity e = net.world.spawn(Health{1, false}, Purse{5, {}}, OwnedBy{owner.id}, Replicated{});
    for (int i = 0; i < 30; ++i) {
        net.world.mut<Purse>(e)->gold++;
        net.step();
    }
    CHECK(net.hp(far, e) == 1);
    CHECK(net.server.client_report(far.id).total.full_lanes == 1);
    CHECK(net.server.settled(far.id));
    net.agree();
}

TEST_CASE("scope/same_bytes_for_equal_views") { // those who see the same share payloads
    Scoped net;
    auto& owner = net.join();
    for (int i = 0; i < 3; ++i)
        net.join();
    const Entity e = net.world.spawn(Health{1, false}, Purse{5, {}}, OwnedBy{owner.id}, Replicated{});
    const Entity open = net.world.spawn(Health{1, false}, OwnedBy{owner.id}, Replicated{});
    net.agree();
    net.world.mut<Health>(e)->hp = 2;
    net.world.mut<Health>(open)->hp = 2;
    const TickReport& report = net.step();
    if (exact())
        CHECK(report.keys == 3); // of the others: both; the owner: both, apart, since it sees more of one
    net.world.mut<Health>(open)->hp = 3;
    net.agree();
}

TEST_CASE("scope/gain_and_loss_keep_the_rest") {
    Scoped net;
    auto& peer = net.join();
    const Entity e = net.world.spawn(Health{1, false}, Speed{1, 2}, ScopedTo(Scope::of<Speed>(), {.any_of = 1}), Replicated{});
    net.agree();
    for (int i = 0; i < 6; ++i) {
        net.server.view(peer.id).set_layers(i % 2 ? 0 : 1);
        net.world.mut<Health>(e)->hp = 10 + i;
        net.agree();
        CHECK(net.hp(peer, e) == 10 + i);
        CHECK((net.value<Speed>(peer, e) != nullptr) == (i % 2 == 0));
    }
    CHECK(peer.client->stats().spawns == 1);
}

TEST_CASE("scope/rule_changes") {
    Scoped net;
    auto& peer = net.join();
    const Entity e = net.world.spawn(Health{1, false}, Speed{1, 2}, Replicated{});
    net.agree();
    net.world.add<ScopedTo>(e, ScopedTo(Scope::of<Speed>(), {.any_of = 1}));
    net.agree();
    CHECK_FALSE(net.value<Speed>(peer, e));
    CHECK(net.server.why<Speed>(e, peer.id).reason == WhyReason::out_of_scope);
    CHECK(net.server.why<Link>(e, peer.id).reason == WhyReason::not_registered);
    *net.world.mut<ScopedTo>(e) = ScopedTo(Scope::of<Health>(), {.any_of = 1});
    net.agree();
    CHECK(net.value<Speed>(peer, e));
    CHECK(net.hp(peer, e) == -1);
    net.world.remove<ScopedTo>(e);
    net.agree();
    CHECK(net.hp(peer, e) == 1);
    CHECK(net.value<Speed>(peer, e));
}

TEST_CASE("scope/of_the_clients_own_entity") { // rules hold for the entity that stands for the client, too
    Scoped net;
    auto &peer = net.join(), &other = net.join();
    const Entity avatar = net.world.spawn(Health{1, false}, Speed{1, 2}, Purse{5, {}}, OwnedBy{peer.id},
                                          ScopedTo(Scope::of<Speed, Purse>(), {.none_of = 4}), Replicated{});
    net.server.view(peer.id).follow(avatar, {.radius = 60});
    net.agree();
    CHECK(net.value<Speed>(peer, avatar));
    CHECK(net.gold(peer, avatar) == 5);
    net.server.view(peer.id).set_layers(4);
    net.agree();
    CHECK_FALSE(net.value<Speed>(peer, avatar));
    CHECK(net.gold(peer, avatar) == -1);
    CHECK(net.value<Speed>(other, avatar));
    net.world.add<VisibleTo>(avatar, VisibleTo{.none_of = 4});
    net.agree();
    CHECK_FALSE(net.shown(peer, avatar));
    CHECK(net.shown(other, avatar));
}

TEST_CASE("scope/references") { // of what only the owner sees, to what it does not see, and back
    Scoped net;
    auto &owner = net.join(), &other = net.join();
    const Entity target = net.world.spawn(Health{9, false}, VisibleTo{.any_of = 8}, Replicated{});
    const Entity e = net.world.spawn(Purse{5, target}, OwnedBy{owner.id}, Replicated{});
    net.agree();
    CHECK(net.value<Purse>(owner, e)->spent_on == Entity{});
    net.server.view(owner.id).set_layers(8);
    net.agree();
    CHECK(net.value<Purse>(owner, e)->spent_on == net.shown(owner, target));
    CHECK(net.shown(owner, target));
    CHECK_FALSE(net.value<Purse>(other, e));
    net.world.destroy(target);
    net.agree();
    CHECK(net.value<Purse>(owner, e)->spent_on == Entity{});
}

TEST_CASE("scope/despawn_and_pause") {
    Scoped net;
    auto &owner = net.join(), &other = net.join();
    const Entity e = net.world.spawn(Health{1, false}, Purse{5, {}}, OwnedBy{owner.id}, Replicated{});
    const Entity next = net.world.spawn(Health{2, false}, Replicated{});
    net.agree();
    net.world.destroy(e);
    const Entity again = net.world.spawn(Purse{6, {}}, Health{3, false}, Replicated{}); // in its lane, and nobody's
    net.agree();
    CHECK(net.gold(owner, again) == -1);
    CHECK(net.hp(owner, again) == 3);
    CHECK(net.hp(other, next) == 2);
    net.world.add<OwnedBy>(again, OwnedBy{other.id});
    net.world.remove<Replicated>(again);
    net.steps(3);
    net.world.add<Replicated>(again);
    net.agree();
    CHECK(net.gold(other, again) == 6);
    CHECK(net.gold(owner, again) == -1);
}

TEST_CASE("scope/large_states_in_parts") { // more than a packet, in sections of several masks
    Scoped net({.message_bytes_max = 300, .heartbeat_ticks = 0});
    auto &owner = net.join(), &other = net.join();
    for (int i = 0; i < 100; ++i) {
        const Entity e = net.world.spawn(Health{i * 7919, i % 2 != 0}, Purse{i * 104729, {}}, Rumour{i * 15485863}, Replicated{});
        if (i % 2)
            net.world.add<OwnedBy>(e, OwnedBy{i % 4 == 1 ? owner.id : other.id});
    }
    net.agree();
    for (int i = 0; i < 5; ++i) {
        net.world.each_mut<Purse>([](Purse& purse) { purse.gold += 3; });
        net.world.each_mut<OwnedBy>([&](OwnedBy& owned) { owned.client = owned.client == owner.id ? other.id : owner.id; });
        net.steps(i);
    }
    net.agree();
    CHECK(owner.client->stats().spawns == 100);
}

TEST_CASE("scope/state_hash") {
    Scoped net({.heartbeat_ticks = 5, .hash_ticks = 4});
    auto &owner = net.join(), &other = net.join();
    u64 equal = 0, different = 0;
    const Entity e = net.world.spawn(Health{1, false}, Purse{5, {}}, Diary{"x"}, Rumour{1}, OwnedBy{owner.id}, Replicated{});
    for (int i = 0; i < 200; ++i) {
        if (i == 80)
            net.world.mut<OwnedBy>(e)->client = other.id;
        if (i == 120)
            net.world.add<ScopedTo>(e, ScopedTo(Scope::of<Health>(), {.any_of = 1}));
        const TickReport& report = net.step();
        equal += report.hashes_equal;
        different += report.hashes_different;
    }
    CHECK(different == 0);
    CHECK(equal > 20);
}

TEST_CASE("scope/lasting") { // the marker itself is always seen; what a client keeps out of sight is as it saw it last
    Scoped net;
    auto& peer = net.join();
    net.server.view(peer.id).set_layers(1 | 2);
    const Entity e = net.world.spawn(Health{1, false}, Speed{1, 0}, Lasting{}, VisibleTo{.any_of = 2},
                                     ScopedTo(Scope::all_except<Health>(), {.any_of = 1}), Replicated{});
    net.agree();
    net.server.view(peer.id).set_layers(2);
    net.agree();
    CHECK_FALSE(net.value<Speed>(peer, e));
    CHECK(net.value<Lasting>(peer, e));
    net.server.view(peer.id).set_layers(1);
    net.settle();
    CHECK(peer.client->frozen(net.shown(peer, e)));
    CHECK_FALSE(net.value<Speed>(peer, e));
    net.server.view(peer.id).set_layers(1 | 2);
    net.agree();
    CHECK(net.value<Speed>(peer, e));
    CHECK(peer.client->stats().spawns == 1);
}

TEST_CASE("scope/kept_value") { // while it is hidden: as it was; afterwards: as it is
    Scoped net;
    auto &peer = net.join(), &other = net.join();
    for (const ClientId id : {peer.id, other.id})
        net.server.view(id).set_layers(1);
    const Entity e =
        net.world.spawn(Health{1, false}, Speed{1, 0}, ScopedTo(Scope::of<Health>(), {.any_of = 1}, Lifetime::after_first), Replicated{});
    net.agree();
    CHECK_FALSE(peer.client->frozen<Health>(net.shown(peer, e)));
    net.server.view(peer.id).set_layers(0);
    net.world.mut<Health>(e)->hp = 2; // in the same tick
    net.agree();
    CHECK(net.hp(peer, e) == 1);
    CHECK(net.hp(other, e) == 2);
    CHECK(peer.client->frozen<Health>(net.shown(peer, e)));
    CHECK_FALSE(peer.client->frozen<Speed>(net.shown(peer, e)));
    CHECK_FALSE(peer.client->frozen(net.shown(peer, e)));
    CHECK_FALSE(other.client->frozen<Health>(net.shown(other, e)));
    CHECK_FALSE(net.server.visible<Health>(peer.id, e));
    const Why why = net.server.why<Health>(e, peer.id);
    CHECK(why.reason == WhyReason::frozen);
    CHECK(why.cause == WhyReason::out_of_scope);
    CHECK(why.held);
    ChangeReader<Health> changes(*peer.world);
    net.world.mut<Speed>(e)->x = 3;
    net.agree();
    CHECK(net.value<Speed>(peer, e)->x == 3);
    net.server.view(peer.id).set_layers(1);
    net.agree();
    CHECK(net.hp(peer, e) == 2);
    int removed = 0;
    changes.each_removed([&](const Removal&) { ++removed; });
    CHECK(removed == 0);
    CHECK_FALSE(peer.client->frozen<Health>(net.shown(peer, e)));
    CHECK(net.server.why<Health>(e, peer.id).reason == WhyReason::current);
    net.world.mut<Health>(e)->hp = 3;
    net.agree();
    CHECK(net.hp(peer, e) == 3);
}

TEST_CASE("scope/kept_value_ends") { // removed, or removed and given again, while it is hidden
    for (const bool given_again : {false, true})
        for (const int hidden_ticks : {0, 1, 3, 30}) {
            CAPTURE(hidden_ticks);
            Scoped net;
            auto& peer = net.join();
            net.server.view(peer.id).set_layers(1);
            const Entity e = net.world.spawn(Health{1, false}, Speed{1, 0},
                                             ScopedTo(Scope::of<Health>(), {.any_of = 1}, Lifetime::after_first), Replicated{});
            net.agree();
            ChangeReader<Health> changes(*peer.world);
            net.server.view(peer.id).set_layers(0);
            net.steps(hidden_ticks);
            net.world.remove<Health>(e);
            if (given_again)
                net.world.add<Health>(e, Health{5, true});
            net.steps(hidden_ticks);
            net.server.view(peer.id).set_layers(1);
            net.agree();
            CHECK(net.hp(peer, e) == (given_again ? 5 : -1));
            int removed = 0;
            changes.each_removed([&](const Removal&) { ++removed; });
            CHECK(removed == 1);
            net.world.add<Health>(e, Health{}); // unless it has it
            net.world.mut<Health>(e)->hp = 6;
            net.agree();
            CHECK(net.hp(peer, e) == 6);
        }
}

TEST_CASE("scope/shortest_lifetime") {
    Scoped net;
    auto& peer = net.join();
    constexpr u64 a = 1, b = 2, c = 4;
    net.server.view(peer.id).set_layers(a | b | c);
    const Entity e = net.world.spawn(Health{1, false}, Speed{1, 0}, Replicated{});
    net.world.add<ScopedTo>(e, ScopedTo(Scope::of<Health>(), {.any_of = a}, Lifetime::always)
                                   .also(Scope::of<Health>(), {.any_of = b}, Lifetime::after_first)
                                   .also(Scope::of<Health>(), {.any_of = c}));
    net.agree();
    net.server.view(peer.id).set_layers(b | c);
    net.agree();
    CHECK(net.hp(peer, e) == 1);
    net.server.view(peer.id).set_layers(c);
    net.agree();
    CHECK(net.hp(peer, e) == 1);
    net.world.mut<Health>(e)->hp = 2;
    net.server.view(peer.id).set_layers(0); // what was kept goes
    net.agree();
    CHECK(net.hp(peer, e) == -1);
    net.server.view(peer.id).set_layers(c); // and does not come back
    net.agree();
    CHECK(net.hp(peer, e) == -1);
    CHECK(net.server.why<Health>(e, peer.id).reason == WhyReason::out_of_scope);
    auto& late = net.join(); // `always` does not count where another hides it, too
    net.agree();
    CHECK(net.hp(late, e) == -1);
    net.server.view(peer.id).set_layers(a | b | c);
    net.agree();
    CHECK(net.hp(peer, e) == 2);
}

TEST_CASE("scope/audience_is_while_visible") { // whatever a scope says
    Scoped net;
    auto& owner = net.join();
    const Entity e = net.world.spawn(Health{1, false}, Purse{5, {}}, OwnedBy{owner.id},
                                     ScopedTo(Scope::of<Purse>(), {.any_of = 1}, Lifetime::always), Replicated{});
    net.agree();
    CHECK(net.gold(owner, e) == 5); // it came with the entity
    net.world.mut<Purse>(e)->gold = 6;
    net.agree();
    CHECK(net.gold(owner, e) == 5);
    net.world.remove<OwnedBy>(e);
    net.agree();
    CHECK(net.gold(owner, e) == -1);
}

TEST_CASE("scope/always_is_sent_until_acknowledged") {
    Scoped net;
    auto& peer = net.join();
    net.script_loss(peer, 100, 0);
    const Entity e =
        net.world.spawn(Health{1, false}, Speed{1, 0}, ScopedTo(Scope::of<Health>(), {.any_of = 1}, Lifetime::always), Replicated{});
    net.steps(3);
    CHECK(net.hp(peer, e) == -1);
    net.world.mut<Health>(e)->hp = 2; // nobody has heard of the first value
    net.steps(3);
    net.script_loss(peer, 0, 0);
    net.agree();
    CHECK(net.hp(peer, e) == 2);
    CHECK(peer.client->frozen<Health>(net.shown(peer, e)));
    CHECK(net.server.why<Health>(e, peer.id).held);
    net.world.mut<Health>(e)->hp = 3;
    CHECK(net.state_bytes(10) == 0);
    CHECK(net.hp(peer, e) == 2);
    auto& late = net.join(); // has what there is when it comes
    net.agree();
    CHECK(net.hp(late, e) == 3);
    CHECK(net.hp(peer, e) == 2);
    net.server.view(peer.id).hide(e); // it goes, and comes anew
    net.agree();
    net.server.view(peer.id).show(e);
    net.agree();
    CHECK(net.hp(peer, e) == 3);
}

TEST_CASE("scope/kept_with_the_entity") { // the next one in its lane has nothing of it
    Scoped net;
    auto& peer = net.join();
    net.server.view(peer.id).set_layers(1);
    const ScopedTo scoped(Scope::of<Health>(), {.any_of = 1}, Lifetime::after_first);
    const Entity e = net.world.spawn(Health{1, false}, Speed{1, 0}, ScopedTo(scoped), Replicated{});
    net.agree();
    net.server.view(peer.id).set_layers(0);
    net.agree();
    CHECK(net.hp(peer, e) == 1);
    net.world.destroy(e);
    const Entity next = net.world.spawn(Health{2, false}, Speed{2, 0}, ScopedTo(scoped), Replicated{});
    net.agree();
    CHECK(net.hp(peer, next) == -1);
    net.world.remove<ScopedTo>(next);
    net.agree();
    CHECK(net.hp(peer, next) == 2);
    CHECK(peer.client->stats().spawns == 2);
}

TEST_CASE("scope/kept_rule_changes") {
    Scoped net;
    auto& peer = net.join();
    const Entity e = net.world.spawn(Health{1, false}, Speed{1, 0}, Replicated{});
    net.agree();
    net.world.add<ScopedTo>(e, ScopedTo(Scope::of<Health>(), {.any_of = 1}, Lifetime::always)); // it is there already: nothing is new
    net.world.mut<Health>(e)->hp = 2;
    net.agree();
    CHECK(net.hp(peer, e) == 1);
    *net.world.mut<ScopedTo>(e) = ScopedTo(Scope::of<Health, Speed>(), {.any_of = 1}, Lifetime::after_first);
    net.agree();
    CHECK(net.hp(peer, e) == 1);
    CHECK(peer.client->frozen<Speed>(net.shown(peer, e)));
    *net.world.mut<ScopedTo>(e) = ScopedTo(Scope::of<Health, Speed>(), {.any_of = 1});
    net.agree();
    CHECK(net.hp(peer, e) == -1);
    CHECK_FALSE(net.value<Speed>(peer, e));
    net.world.remove<ScopedTo>(e);
    net.agree();
    CHECK(net.hp(peer, e) == 2);
}

TEST_CASE("scope/kept_and_lasting") { // out of sight and back, the component being hidden all the while
    Scoped net;
    auto& peer = net.join();
    net.server.view(peer.id).set_layers(1);
    const Entity e = net.world.spawn(Health{1, false}, Speed{1, 0}, Lasting{},
                                     ScopedTo(Scope::of<Health>(), {.any_of = 1}, Lifetime::after_first), Replicated{});
    net.agree();
    net.server.view(peer.id).set_layers(0);
    net.agree();
    net.server.view(peer.id).hide(e);
    net.settle();
    CHECK(peer.client->frozen<Health>(net.shown(peer, e)));
    CHECK(peer.client->frozen<Speed>(net.shown(peer, e)));
    net.world.mut<Health>(e)->hp = 2;
    net.world.mut<Speed>(e)->x = 2;
    net.server.view(peer.id).show(e);
    net.agree();
    CHECK(net.hp(peer, e) == 1);
    CHECK(net.value<Speed>(peer, e)->x == 2);
    net.server.view(peer.id).set_layers(1);
    net.agree();
    CHECK(net.hp(peer, e) == 2);
    CHECK(peer.client->stats().spawns == 1);
}

TEST_CASE("scope/kept_of_the_clients_own_entity") {
    Scoped net;
    auto& peer = net.join();
    net.server.view(peer.id).set_layers(1);
    const Entity e = net.world.spawn(Health{1, false}, Speed{1, 0}, OwnedBy{peer.id},
                                     ScopedTo(Scope::of<Health>(), {.any_of = 1}, Lifetime::after_first), Replicated{});
    net.server.view(peer.id).follow(e, {.radius = 50});
    net.agree();
    net.server.view(peer.id).set_layers(0);
    net.world.mut<Health>(e)->hp = 2;
    net.agree();
    CHECK(net.hp(peer, e) == 1);
    CHECK(peer.client->frozen<Health>(net.shown(peer, e)));
}

TEST_CASE("scope/kept_state_hash") { // what is kept is not part of it, on both sides
    Scoped net({.heartbeat_ticks = 1, .hash_ticks = 1});
    auto& peer = net.join();
    net.server.view(peer.id).set_layers(1);
    const Entity e =
        net.world.spawn(Health{1, false}, Speed{1, 0}, ScopedTo(Scope::of<Health>(), {.any_of = 1}, Lifetime::after_first), Replicated{});
    net.agree();
    net.server.view(peer.id).set_layers(0);
    u64 equal = 0, different = 0;
    for (int i = 0; i < 40; ++i) {
        net.world.mut<Health>(e)->hp++;
        const TickReport report = net.step();
        equal += report.hashes_equal;
        different += report.hashes_different;
    }
    CHECK(net.hp(peer, e) == 1);
    CHECK(equal > 0);
    CHECK(different == 0);
}

TEST_CASE("scope/why_names_rules") { // what keeps a component from all clients
    auto protocol = std::make_unique<Protocol>();
    protocol->component<Health>("health").field(&Health::hp).when(with<Speed>);
    protocol->component<Speed>("speed").field(&Speed::x, Range{-20, 20, 0.01});
    REQUIRE(protocol->finish() == Error::none);
    StateNet net({.heartbeat_ticks = 0}, {}, std::move(protocol));
    auto& peer = net.join();
    const Entity e = net.world.spawn(Health{1, false}, Replicated{});
    net.agree();
    CHECK(net.server.why<Health>(e, peer.id).reason == WhyReason::ruled_out);
    CHECK(std::string(to_string(WhyReason::ruled_out)).find("rules") != std::string::npos);
    net.world.add<Speed>(e, Speed{1, 0});
    net.agree();
    CHECK(net.server.why<Health>(e, peer.id).reason == WhyReason::current);
}

TEST_CASE("scope/priority") { // what waits for its tick waits for those who see it only
    Scoped net;
    auto &owner = net.join(), &other = net.join();
    const Entity e = net.world.spawn(Health{1, false}, Purse{5, {}}, OwnedBy{owner.id}, UpdatePriority{0.25f}, Replicated{});
    net.agree();
    const u64 before = net.server.client_report(other.id).total.bytes;
    for (int i = 0; i < 20; ++i) {
        net.world.mut<Purse>(e)->gold++;
        net.step();
    }
    net.settle();
    CHECK(net.gold(owner, e) == 25);
    CHECK(net.server.client_report(other.id).total.bytes == before);
    CHECK(net.server.view(other.id).set_priority(e, 0.25f));
    for (int i = 0; i < 20; ++i) {
        net.world.mut<Purse>(e)->gold++;
        net.step();
    }
    net.settle();
    CHECK(net.server.client_report(other.id).total.bytes == before);
}

namespace {

/// An entity with 64 scopes: scope k lets its components through to clients on layer k. It goes about the map.
struct SixtyFour : StateNet {
    static constexpr u32 count = ScopedTo::scopes_max;
    struct Seen {
        bool hp = true, speed = true, link = true, name = true;
        friend bool operator==(const Seen&, const Seen&) = default;
    };
    static Scope scope(u32 k) {
        const Scope all[] = {Scope::of<Health>(), Scope::of<Speed>(), Scope::of<Name>(), Scope::of<Link, Name>(),
                             Scope::all_except<Place, Health, Name>()};
        return all[k % 5];
    }
    /// All rules but one, of these lifetimes.
    static ScopedTo rules(u32 except = count, bool lasting = false) {
        ScopedTo out;
        for (u32 k = 0; k < count; ++k)
            if (k != except)
                out.also(scope(k), {.any_of = u64(1) << k}, lasting ? static_cast<Lifetime>(k % 2) : Lifetime::while_visible);
        return out;
    }
    /// Of a client that is on all layers but these.
    static Seen seen(u64 missing) {
        Seen out;
        for (u32 k = 0; k < count; ++k)
            if (missing >> k & 1) {
                out.hp &= !scope(k).has(component_id<Health>());
                out.speed &= !scope(k).has(component_id<Speed>());
                out.link &= !scope(k).has(component_id<Link>());
                out.name &= !scope(k).has(component_id<Name>());
            }
        return out;
    }
    void set_all(int to) {
        world.mut<Health>(e)->hp = to;
        world.mut<Speed>(e)->x = static_cast<float>(to % 20);
        world.mut<Link>(e)->target = to % 2 ? e : Entity{};
        world.mut<Name>(e)->text = words(8, to);
    }
    Seen shown_to(const Peer& peer) const {
        return {value<Health>(peer, e) != nullptr, value<Speed>(peer, e) != nullptr, value<Link>(peer, e) != nullptr,
                value<Name>(peer, e) != nullptr};
    }
    /// Whether a client has what was set last.
    bool has_last(const Peer& peer, const Seen& seen, int last) const {
        return (!seen.hp || hp(peer, e) == last) && (!seen.name || value<Name>(peer, e)->text == words(8, last)) &&
               (!seen.speed || std::abs(value<Speed>(peer, e)->x - static_cast<float>(last % 20)) < 0.01f);
    }
    Entity e = world.spawn(Place{0, 0}, Health{0, false}, Speed{0, 0}, Link{}, Name{}, Replicated{});
};

} // namespace

TEST_CASE("scope/sixty_four_of_one_entity") {
    SixtyFour net;
    auto &flips = net.join(), &all = net.join(), &none = net.join();
    for (const StateNet::Peer* peer : {&flips, &all, &none})
        net.server.view(peer->id).look_at(0, 0, {.radius = 600});
    net.world.add<ScopedTo>(net.e, SixtyFour::rules());
    net.server.view(flips.id).set_layers(~u64(0));
    net.server.view(all.id).set_layers(~u64(0));
    net.agree();
    int last = 0;
    const auto look = [&](u64 missing) { // what is hidden is hidden at once, and what is set in that tick not told
        net.server.view(flips.id).set_layers(~missing);
        net.set_all(++last);
        net.step();
        const SixtyFour::Seen seen = SixtyFour::seen(missing);
        CHECK(net.server.visible<Health>(flips.id, net.e) == seen.hp);
        CHECK(net.server.visible<Speed>(flips.id, net.e) == seen.speed);
        CHECK(net.server.visible<Link>(flips.id, net.e) == seen.link);
        CHECK(net.server.visible<Name>(flips.id, net.e) == seen.name);
        if (!seen.hp)
            CHECK(net.hp(flips, net.e) != last);
        net.settle();
        REQUIRE(net.shown_to(flips) == seen);
        CHECK(net.has_last(flips, seen, last));
        REQUIRE(net.shown_to(all) == SixtyFour::Seen{});
        CHECK(net.has_last(all, {}, last));
        CHECK(net.shown_to(none) == SixtyFour::Seen{false, false, false, false});
        CHECK(net.value<Place>(none, net.e));
    };
    for (u32 k = 0; k < SixtyFour::count; ++k) { // each alone, on the way from place to place
        CAPTURE(k);
        if (k % 3 == 0)
            net.world.mut<Place>(net.e)->x = static_cast<float>(k % 2 ? -300 : 300) + static_cast<float>(k);
        look(u64(1) << k);
        if (k % 7 == 0)
            look(0);
    }
    look(~u64(0));
    look(0);
    net.agree();
    for (const u32 k : {0u, 3u, 4u, 5u, 31u, 62u, 63u}) { // paused; it goes on, and layers have changed
        CAPTURE(k);
        net.world.remove<Replicated>(net.e);
        net.step();
        net.server.view(flips.id).set_layers(~(u64(1) << k));
        net.set_all(++last);
        net.steps(3);
        CHECK(net.hp(flips, net.e) != last);
        net.world.add<Replicated>(net.e);
        look(u64(1) << k);
        look(0);
    }
    for (const u32 k : {0u, 3u, 4u, 31u, 63u}) { // a rule that is gone hides nothing, the others do
        CAPTURE(k);
        const u32 other = (k + 5) % SixtyFour::count;
        *net.world.mut<ScopedTo>(net.e) = SixtyFour::rules(k);
        net.server.view(flips.id).set_layers(~(u64(1) << k));
        net.set_all(++last);
        net.settle();
        REQUIRE(net.shown_to(flips) == SixtyFour::Seen{});
        CHECK(net.has_last(flips, {}, last));
        net.server.view(flips.id).set_layers(~(u64(1) << other));
        net.agree();
        CHECK(net.shown_to(flips) == SixtyFour::seen(u64(1) << other));
    }
    *net.world.mut<ScopedTo>(net.e) = ScopedTo(Scope::of<Health>(), {.any_of = 2}); // one, in the room of many, and many again
    net.server.view(flips.id).set_layers(2);
    net.agree();
    CHECK(net.shown_to(flips) == SixtyFour::Seen{});
    *net.world.mut<ScopedTo>(net.e) = SixtyFour::rules();
    look(u64(1) << 60);
    net.agree();
}

TEST_CASE("scope/paused_while_its_audience_changes") { // lost and regained, in both orders, then it goes on, or ends
    enum class Then { goes_on, is_destroyed, is_let_go, is_destroyed_and_let_go };
    for (const bool by_layers : {false, true})
        for (const bool had : {true, false}) // at the start of the pause
            for (const int changes : {1, 2, 3})
                for (const Then then : {Then::goes_on, Then::is_destroyed, Then::is_let_go, Then::is_destroyed_and_let_go}) {
                    CAPTURE(by_layers);
                    CAPTURE(had);
                    CAPTURE(changes);
                    CAPTURE(static_cast<int>(then));
                    Scoped net;
                    auto &peer = net.join(), &other = net.join();
                    const Entity e = net.world.spawn(Health{1, false}, Purse{5, {}}, Replicated{});
                    if (by_layers)
                        net.world.add<ScopedTo>(e, ScopedTo(Scope::of<Purse>(), {.any_of = 1}));
                    net.world.add<OwnedBy>(e, OwnedBy{by_layers || had ? peer.id : other.id});
                    const auto set = [&](bool sees) {
                        if (by_layers)
                            net.server.view(peer.id).set_layers(sees ? 1 : 0);
                        else
                            net.world.mut<OwnedBy>(e)->client = sees ? peer.id : other.id;
                    };
                    set(had);
                    net.agree();
                    REQUIRE(net.gold(peer, e) == (had ? 5 : -1));
                    const NetId id = net.server.net_id(e);
                    net.world.remove<Replicated>(e);
                    net.world.mut<Purse>(e)->gold = 6;
                    bool sees = had;
                    for (int i = 0; i < changes; ++i) {
                        net.steps(2);
                        set(sees = !sees);
                    }
                    net.steps(4);
                    CHECK(net.gold(peer, e) == (had ? 5 : -1)); // a pause keeps what is there
                    CHECK(net.hp(peer, e) == 1);
                    CHECK(net.gold(other, e) == (by_layers || had ? -1 : 5));
                    if (then == Then::goes_on) {
                        net.world.add<Replicated>(e);
                        net.agree();
                        CHECK(net.gold(peer, e) == (sees ? 6 : -1));
                        CHECK(net.gold(other, e) == (by_layers || sees ? -1 : 6));
                        CHECK(peer.client->stats().spawns == 1);
                        continue;
                    }
                    if (then != Then::is_let_go)
                        net.world.destroy(e);
                    if (then != Then::is_destroyed)
                        CHECK(net.server.end_replication(e));
                    net.settle();
                    for (const StateNet::Peer* each : {&peer, &other}) {
                        const Entity there = each->client->entity(id);
                        CHECK(each->world->alive(there) == (then == Then::is_destroyed)); // else it stays as it was when it was paused
                        CHECK(each->world->entity_count() == (then == Then::is_destroyed));
                        if (each->world->alive(there))
                            CHECK(each->world->has<Purse>(there) == (each == &peer ? had : !had && !by_layers));
                    }
                    const Entity next = net.world.spawn(Health{2, false}, Purse{7, {}}, Replicated{}); // nobody's
                    net.settle();
                    CHECK(net.gold(peer, next) == -1);
                    CHECK(net.gold(other, next) == -1);
                    CHECK(net.hp(peer, next) == 2);
                }
}

TEST_CASE("scope/sixty_four_with_lifetimes") { // while_visible in turn with after_first: the shortest counts, wherever it stands
    SixtyFour net;
    auto& peer = net.join();
    net.server.view(peer.id).look_at(0, 0, {.radius = 60});
    net.world.add<ScopedTo>(net.e, SixtyFour::rules(SixtyFour::count, true));
    net.set_all(1);
    for (u32 k = 0; k < SixtyFour::count; k += 5) { // of Health alone
        CAPTURE(k);
        net.server.view(peer.id).set_layers(~u64(0));
        const int before = static_cast<int>(k) * 2 + 1;
        net.set_all(before);
        net.agree();
        CHECK(net.hp(peer, net.e) == before);
        net.server.view(peer.id).set_layers(~(u64(1) << k));
        net.set_all(before + 1);
        net.agree();
        const bool kept = k % 2 != 0;
        CHECK(net.hp(peer, net.e) == (kept ? before : -1));
        CHECK(peer.client->frozen<Health>(net.shown(peer, net.e)) == kept);
        REQUIRE(net.value<Name>(peer, net.e));
        CHECK(net.value<Name>(peer, net.e)->text == words(8, before + 1));
        net.server.view(peer.id).set_layers(~(u64(1) << k | u64(1) << (k + 5) % 65)); // one of the other lifetime, too
        net.agree();
        CHECK(net.hp(peer, net.e) == -1);
    }
}

TEST_CASE("scope/sixty_fifth_is_refused") { // asserts; what was there holds. Without asserts: tests/server/scopes_limit_test.cpp
    struct Refused {};
    SixtyFour net;
    auto& peer = net.join();
    net.server.view(peer.id).look_at(0, 0, {.radius = 60});
    net.world.add<ScopedTo>(net.e, SixtyFour::rules());
    net.server.view(peer.id).set_layers(~(u64(1) << 63));
    net.agree();
    const AssertHandler before = set_assert_handler([](const char*, const char*, int) { throw Refused(); });
    bool refused = false;
    try {
        net.world.mut<ScopedTo>(net.e)->also(Scope::of<Health>(), {.any_of = 1});
    } catch (const Refused&) {
        refused = true;
    }
    set_assert_handler(before);
    CHECK(refused);
    CHECK(net.world.get<ScopedTo>(net.e)->count() == ScopedTo::scopes_max);
    net.agree();
    CHECK(net.shown_to(peer) == SixtyFour::seen(u64(1) << 63));
}

TEST_CASE("scope/refused_registrations") {
    Protocol place;
    place.component<Place>("place")
        .field(&Place::x, Range{-10, 10, 1})
        .field(&Place::z, Range{-10, 10, 1})
        .spatial(&Place::x, &Place::z)
        .audience(Audience::owner);
    CHECK(place.finish() == Error::bad_value);
    CHECK(std::string(place.problem()).find("audience") != std::string::npos);
    Protocol lasting;
    lasting.component<Lasting>("lasting").audience(Audience::group);
    CHECK(lasting.finish() == Error::bad_value);
    // An audience is the server's: builds with and without speak at once.
    const auto hash = [](Audience audience) {
        Protocol protocol;
        protocol.component<Health>("health").field(&Health::hp).audience(audience);
        CHECK(protocol.finish() == Error::none);
        return protocol.hash();
    };
    CHECK(hash(Audience::owner) == hash(Audience::everyone));
}
