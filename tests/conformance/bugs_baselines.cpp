// Bugs that were reported against other systems, by number (docs/conformance.md): baselines and acks, quantisers, and sizes.
#include "tests/conformance/state_support.hpp"
#include <cmath>

using namespace throng;
using namespace conformance::state;

namespace {
bool exact() {
    return conformance::setting().loss_percent == 0;
}
std::string noise(std::size_t size) { // does not compress
    std::string text;
    for (u32 random = 1; text.size() < size;) {
        random = random * 1664525u + 1013904223u;
        text += static_cast<char>(random >> 24);
    }
    return text;
}
std::unique_ptr<Protocol> large_names() {
    auto protocol = std::make_unique<Protocol>();
    protocol->component<Health>("health").field(&Health::hp).field(&Health::angry);
    protocol->opaque<Name>("name", 65'536, throng_test::write_name, throng_test::read_name);
    REQUIRE(protocol->finish() == Error::none);
    return protocol;
}

struct Wide {
    i32 a = 0, b = 0, c = 0, d = 0, e = 0, f = 0, g = 0, h = 0, i = 0, j = 0, k = 0, l = 0, m = 0, n = 0, o = 0, p = 0, q = 0;
};
constexpr i32 Wide::*wide_fields[] = {&Wide::a, &Wide::b, &Wide::c, &Wide::d, &Wide::e, &Wide::f, &Wide::g, &Wide::h, &Wide::i,
                                      &Wide::j, &Wide::k, &Wide::l, &Wide::m, &Wide::n, &Wide::o, &Wide::p, &Wide::q};
std::unique_ptr<Protocol> wide(u32 fields, Error& error) {
    auto protocol = std::make_unique<Protocol>();
    auto builder = protocol->component<Wide>("wide");
    for (std::size_t i = 0; i < fields; ++i)
        builder.field(wide_fields[i]);
    error = protocol->finish();
    return protocol;
}
} // namespace

TEST_CASE("bug/66_the_ack_of_one_component_is_not_that_of_another") {
    StateNet net;
    auto& peer = net.join();
    const Entity e = net.world.spawn(Health{0, false}, Speed{0, 0}, Replicated{});
    net.agree();
    net.script_loss(peer, 0, 0);
    net.script_packets(peer, Direction::down, {{.packet = 0, .action = ScriptAction::drop}});
    net.world.mut<Health>(e)->hp = 1;
    net.world.mut<Speed>(e)->x = 1;
    net.step(); // lost
    net.world.mut<Health>(e)->hp = 2;
    net.steps(3);
    CHECK(net.hp(peer, e) == 2);
    CHECK(net.value<Speed>(peer, e)->x == doctest::Approx(1)); // went again with it
    net.world.mut<Speed>(e)->z = 3;
    net.agree();
    CHECK(net.value<Speed>(peer, e)->z == doctest::Approx(3));
}

TEST_CASE("bug/68_a_new_viewer_changes_nothing_for_the_others") {
    struct Digest {
        OutputHash sent;
        static void add(void* context, const TraceRecord& record) {
            if (record.client == 0 && record.direction == Direction::down && record.fate == Fate::sent)
                static_cast<Digest*>(context)->sent.add(record.time_us, 0, record.channel, record.message);
        }
    };
    const auto sent_to_first = [](bool with_second) {
        Digest digest;
        StateNet net({.heartbeat_ticks = 20}, {.trace = {Digest::add, &digest}});
        auto& first = net.join();
        const Entity e = net.world.spawn(Health{0, false}, Speed{0, 0}, Replicated{});
        for (int tick = 1; tick <= 100; ++tick) {
            net.world.mut<Health>(e)->hp = tick;
            if (tick == 46 && with_second)
                net.meet();
            net.step();
        }
        const OutputHash sent = digest.sent;
        net.agree();
        CHECK(net.hp(first, e) == 100);
        if (with_second)
            CHECK(net.hp(*net.peers[1], e) == 100);
        return sent;
    };
    CHECK(sent_to_first(false) == sent_to_first(true));
}

TEST_CASE("bug/69_acks_name_all_that_arrived") {
    StateNet net;
    auto& peer = net.join();
    const Entity e = net.world.spawn(Health{0, false}, Replicated{});
    net.agree();
    net.script_loss(peer, 0, 0);
    std::vector<ScriptStep> down, up;
    for (u64 i = 0; i < 99; ++i)
        if (i % 3 == 2)
            down.push_back({.packet = i, .action = ScriptAction::drop});
        else
            up.push_back({.packet = i, .action = ScriptAction::drop});
    net.script_packets(peer, Direction::down, down);
    net.script_packets(peer, Direction::up, up);
    const u64 applied_before = peer.client->stats().applied;
    u64 acked = 0;
    for (int tick = 1; tick <= 32; ++tick) {
        net.world.mut<Health>(e)->hp = tick;
        acked += net.step().acked_messages;
    }
    for (int tick = 0; tick < 4; ++tick)
        acked += net.step().acked_messages;
    CHECK(peer.client->stats().applied - applied_before >= 20);
    CHECK(acked >= 20);
    CHECK(peer.client->stats().unapplied_baseline == 0);
    net.restore_link(peer);
    net.agree();
}

TEST_CASE("bug/71_history_shorter_than_the_round_trip") {
    StateNet net({.history_ticks = 4, .heartbeat_ticks = 0});
    auto& peer = net.join();
    const Entity e = net.world.spawn(Health{0, false}, Speed{0, 0}, Replicated{});
    net.agree();
    for (const u32 delay_us : {200'000u, 25'000u}) { // 8 ticks in flight, then one
        for (const Direction direction : {Direction::down, Direction::up})
            net.network.set_link(peer.id, direction, {.loss_percent = conformance::setting().loss_percent, .delay_us = delay_us});
        net.steps(30);
        u64 full = 0, deltas = 0;
        for (int tick = 0; tick < 150; ++tick) {
            net.world.mut<Health>(e)->hp++;
            const TickReport& report = net.step();
            full += report.sent_full_lanes;
            deltas += report.delta_sections;
        }
        if (delay_us > 150'000)
            CHECK(full > 100); // no baseline is in the ring
        else if (exact())
            CHECK(deltas >= 149);
        net.agree();
        CHECK(peer.client->stats().unapplied_baseline == 0);
    }
}

TEST_CASE("bug/72_the_same_run_across_the_wrap") {
    const auto run = [](Tick first) {
        StateNet net({.heartbeat_ticks = 0, .first_tick = first});
        auto& peer = net.join();
        const Entity e = net.world.spawn(Health{0, false}, Replicated{});
        std::vector<i64> trace;
        for (int tick = 0; tick < 200; ++tick) {
            net.world.mut<Health>(e)->hp++;
            trace.push_back(static_cast<i64>(net.step().bytes));
            trace.push_back(net.hp(peer, e));
            trace.push_back(static_cast<i32>(peer.client->settled_tick() - first));
        }
        net.agree();
        return trace;
    };
    const auto plain = run(1000);
    for (const u32 wrap : {u32(0), u32(1) << 31, u32(1) << 16})
        CHECK(run(wrap - 50) == plain);
}

TEST_CASE("bug/73_long_at_rest") {
    StateNet net;
    auto& peer = net.join();
    const Entity e = net.world.spawn(Health{0, false}, Replicated{});
    net.agree();
    for (const int rest : {0x8000 + 100, 0x8000 - 101, 0xffff, 0x10000, 0x10001}) {
        net.world.mut<Health>(e)->hp = rest;
        net.agree();
        CHECK(net.hp(peer, e) == rest);
        CHECK(net.state_bytes(rest) == 0);
    }
    net.world.mut<Health>(e)->hp = 1;
    auto& late = net.join();
    net.agree();
    CHECK(net.hp(peer, e) == 1);
    CHECK(net.hp(late, e) == 1);
}

TEST_CASE("bug/75_values_that_are_all_zero") {
    StateNet net;
    auto& peer = net.join();
    net.server.view(peer.id).look_at(0, 0, {.radius = 60});
    const Entity e = net.world.spawn(Place{}, Health{}, Speed{}, Link{}, Name{}, Replicated{});
    net.agree();
    auto& late = net.join();
    net.server.view(late.id).look_at(0, 0, {.radius = 60});
    net.agree();
    for (const auto* one : {&peer, &late}) {
        CHECK(net.value<Place>(*one, e));
        CHECK(net.hp(*one, e) == 0);
        CHECK(net.value<Name>(*one, e));
    }
}

TEST_CASE("bug/76_a_component_registered_twice") {
    Protocol twice;
    twice.component<Health>("health").field(&Health::hp);
    twice.component<Health>("more health").field(&Health::hp);
    CHECK(twice.finish() == Error::bad_value);
    CHECK(std::string_view(twice.problem()).find("health") != std::string_view::npos);
}

TEST_CASE("bug/78_as_many_fields_as_there_may_be") {
    Error error = Error::none;
    for (const u32 fields : {1u, 8u, 15u, FieldList::fields_max + 0}) {
        auto protocol = wide(fields, error);
        REQUIRE(error == Error::none);
        StateNet net({.heartbeat_ticks = 0}, {}, std::move(protocol));
        auto& peer = net.join();
        const Entity e = net.world.spawn(Wide{}, Replicated{});
        net.agree();
        for (u32 round = 0; round < 40; ++round) {
            for (std::size_t i = 0; i < fields; ++i) // one field, then subsets
                if (round < fields ? i == round : (round * 2654435761u >> i & 1) != 0)
                    net.world.mut<Wide>(e)->*wide_fields[i] = round % 2 ? ~i32(round) : (round % 4 ? 0xff : 0);
            net.agree();
        }
        CHECK(peer.world->entity_count() == 1);
    }
    static_cast<void>(wide(FieldList::fields_max + 1, error));
    CHECK(error == Error::limit_reached);
}

TEST_CASE("bug/79_no_ack_for_longer_than_the_history") {
    StateNet net;
    auto& peer = net.join();
    const Entity e = net.world.spawn(Health{0, false}, Name{"base"}, Replicated{});
    net.agree();
    net.script_loss(peer, 0, 100);
    for (int tick = 1; tick <= 100; ++tick) {
        net.world.mut<Health>(e)->hp = tick;
        net.step();
        CHECK(net.hp(peer, e) == tick);
    }
    net.restore_link(peer);
    net.agree();
    peer.world->mut<Health>(net.shown(peer, e))->hp = -5; // it must not, but may do so by mistake
    net.world.mut<Health>(e)->hp = 102;
    net.agree(); // what counts is the network's value
    CHECK(net.hp(peer, e) == 102);
}

TEST_CASE("bug/81_small_steps_do_not_add_up") {
    StateNet net;
    auto& peer = net.join();
    net.server.view(peer.id).look_at(0, 0, {.radius = 500});
    std::vector<Entity> all;
    for (int i = 0; i < 8; ++i)
        all.push_back(net.world.spawn(Place{0, 0}, Replicated{}));
    net.agree();
    double bias = 0, worst = 0;
    for (int tick = 0; tick < 5000; ++tick) {
        for (int i = 0; i < 8; ++i) {
            Place* place = net.world.mut<Place>(all[u32(i)]);
            place->x += 0.003f * float(std::cos(i * 0.785398));
            place->z += 0.003f * float(std::sin(i * 0.785398));
        }
        net.step();
        if (exact())
            for (const Entity e : all) {
                const Place *there = net.value<Place>(peer, e), *here = net.world.get<Place>(e);
                REQUIRE(there);
                worst = std::max({worst, std::fabs(double(there->x) - here->x), std::fabs(double(there->z) - here->z)});
                bias += double(there->x) - here->x + there->z - here->z;
            }
    }
    CHECK(worst <= 0.00501);
    CHECK(std::fabs(bias) / (5000 * 16) < 0.0005);
    net.agree();
}

TEST_CASE("bug/83_zero_and_both_signs") {
    StateNet net;
    auto& peer = net.join();
    std::vector<Entity> all;
    for (int i = 0; i <= 2000; ++i)
        all.push_back(net.world.spawn(Speed{float(i - 1000) * 0.0007071f, -float(i - 1000) * 0.0007071f}, Replicated{}));
    net.agree();
    int wrong = 0, asymmetric = 0;
    for (std::size_t i = 0; i < all.size(); ++i) {
        const Speed *there = net.value<Speed>(peer, all[i]), *here = net.world.get<Speed>(all[i]);
        REQUIRE(there);
        wrong += std::fabs(double(there->x) - here->x) > 0.00501;
        asymmetric += std::fabs(double(there->x) + there->z) > 1e-6;
    }
    CHECK(wrong == 0);
    CHECK(asymmetric == 0);
    CHECK(net.value<Speed>(peer, all[1000])->x == 0);
}

TEST_CASE("bug/85_parents_that_come_with_their_children") {
    StateNet net;
    auto& peer = net.join();
    const Entity root = net.world.spawn(Replicated{});
    const Entity mid = net.world.spawn(ChildOf{root}, Replicated{});
    const Entity leaf = net.world.spawn(ChildOf{mid}, Health{1, false}, Replicated{});
    net.agree();
    net.server.view(peer.id).hide(leaf);
    const Entity second = net.world.spawn(ChildOf{root}, Replicated{});
    REQUIRE(net.world.relate<ChildOf>(leaf, second) == Error::none);
    net.server.view(peer.id).show(leaf);
    net.agree();
    CHECK(peer.world->target<ChildOf>(net.shown(peer, leaf)) == net.shown(peer, second));
    Entity children[5];
    for (Entity& child : children)
        child = net.world.spawn(ChildOf{mid}, Replicated{});
    net.server.view(peer.id).hide(children[3]);
    net.agree();
    net.world.remove<ChildOf>(children[0]);
    net.server.view(peer.id).show(children[3]);
    net.agree();
    CHECK(peer.world->source_count<ChildOf>(net.shown(peer, mid)) == 4);
}

namespace {
struct Largest {
    u64 bytes = 0;
    static void look(void* context, const TraceRecord& record) {
        auto& largest = *static_cast<Largest*>(context);
        if (record.direction == Direction::down && record.channel == Channel::unreliable && record.fate == Fate::sent)
            largest.bytes = std::max(largest.bytes, u64(record.message.size()));
    }
};
} // namespace

TEST_CASE("bug/86_packets_of_the_size_that_the_backend_carries") {
    for (const u32 size : {512u, 1162u, 1400u}) {
        Largest largest;
        StateNet net({.message_bytes_max = 1400, .heartbeat_ticks = 0}, {.unreliable_bytes_max = size, .trace = {Largest::look, &largest}});
        auto& peer = net.join();
        std::vector<Entity> all;
        for (u32 i = 0; i < 60; ++i) // around the limit, with what is around the text
            all.push_back(net.world.spawn(Health{int(i), false}, Name{noise(size - 50 + i)}, Replicated{}));
        net.agree();
        CHECK(largest.bytes <= size);
        CHECK(largest.bytes > size - 100);
        CHECK(peer.world->entity_count() == 60);
    }
}

TEST_CASE("bug/87_a_component_larger_than_a_packet") {
    StateNet net({.heartbeat_ticks = 0}, {.reliable_bytes_max = 200'000}, large_names());
    auto& peer = net.join();
    const Entity e = net.world.spawn(Name{"small"}, Replicated{});
    const Entity other = net.world.spawn(Health{0, false}, Replicated{});
    net.agree();
    for (const std::size_t size : {std::size_t(1000), std::size_t(8000), std::size_t(40'000), std::size_t(65'000)}) {
        net.world.mut<Name>(e)->text = noise(size);
        for (int tick = 0; tick < 20; ++tick) {
            net.world.mut<Health>(other)->hp++;
            if (tick % 5 == 1)
                net.world.mut<Name>(e)->text[0]++;
            net.step();
            if (exact())
                CHECK(net.hp(peer, other) == net.world.get<Health>(other)->hp); // not delayed
        }
        net.agree();
        CHECK(net.value<Name>(peer, e)->text.size() == size);
    }
}

TEST_CASE("bug/89_a_function_that_writes_too_much") {
    StateNet net;
    auto& peer = net.join();
    std::vector<Entity> all;
    for (int i = 0; i < 60; ++i)
        all.push_back(net.world.spawn(Health{i, false}, Name{i == 30 ? noise(2001) : "fits"}, Replicated{}));
    CHECK((net.step().limits & limit_opaque) != 0);
    net.settle();
    CHECK_FALSE(net.value<Name>(peer, all[30])); // absent, and the others are whole
    int right = 0;
    for (int i = 0; i < 60; ++i)
        right += net.hp(peer, all[u32(i)]) == i &&
                 (i == 30 || (net.value<Name>(peer, all[u32(i)]) && net.value<Name>(peer, all[u32(i)])->text == "fits"));
    CHECK(right == 60);
    net.world.mut<Name>(all[30])->text = noise(2000);
    net.agree();
    CHECK(net.value<Name>(peer, all[30])->text.size() == 2000);
}

TEST_CASE("bug/91_one_more_entity_that_changes_each_tick") {
    StateNet net;
    auto& peer = net.join();
    std::vector<Entity> all;
    for (int count = 1; count <= 200; ++count) {
        all.push_back(net.world.spawn(Health{0, false}, Speed{0, 0}, Replicated{}));
        for (int tick = 0; tick < 4; ++tick) {
            for (const Entity e : all)
                net.world.mut<Health>(e)->hp += 100'003;
            net.step();
        }
        if (exact() || count % 40 == 0)
            net.agree();
    }
    CHECK(peer.world->entity_count() == 200);
}

TEST_CASE("bug/93_any_number_of_entities") {
    StateNet net;
    auto& peer = net.join();
    u32 count = 0;
    for (const u32 wanted : {255u, 256u, 257u, 1023u, 1025u, 4097u}) {
        for (; count < wanted; ++count)
            net.world.spawn(Health{int(count), false}, Replicated{});
        net.agree();
        CHECK(peer.world->entity_count() == wanted);
    }
}

TEST_CASE("bug/93_more_entities_than_a_client_takes") {
    StateNet net;
    auto& peer = net.meet();
    peer.client = std::make_unique<Client>(*peer.world, *net.protocol, net.network.client(peer.id), ClientConfig{.entities_max = 100});
    std::vector<Entity> all;
    for (int i = 0; i < 300; ++i)
        all.push_back(net.world.spawn(Health{i, false}, Replicated{}));
    net.steps(60);
    CHECK(peer.world->entity_count() <= 100);
    CHECK(peer.client->stats().limit_drops > 0); // counted, and the server knows that it is not settled
    CHECK_FALSE(net.server.settled(peer.id));
    for (std::size_t i = 50; i < all.size(); ++i)
        net.world.destroy(all[i]);
    net.steps(60);
    net.client_errors = 0;
    net.agree(); // what is left fits
    CHECK(peer.world->entity_count() == 50);
}

TEST_CASE("bug/95_values_that_cannot_work_are_refused_by_name") {
    World world;
    auto protocol = make_state_protocol();
    LoopbackNetwork network({});
    const auto problem = [&](const ServerConfig& config) -> std::string {
        Server server(world, *protocol, network.server(), config);
        CHECK(server.valid() != Error::none);
        return server.problem();
    };
    for (const u32 bytes : {0u, 1u, 50u, 100u})
        CHECK(problem({.message_bytes_max = bytes}).find("message_bytes_max") == 0);
    for (const u32 ticks : {0u, 1u, 17u})
        CHECK(problem({.history_ticks = ticks}).find("history_ticks") == 0);
    for (const u32 records : {0u, 1u, 100u, 65'536u})
        CHECK(problem({.records_max = records}).find("records_max") == 0);
    CHECK(problem({.cell_size = 0}).find("cell_size") == 0);
    CHECK(problem({.radius_min = 0}).find("radius_min") == 0);
    CHECK(problem({.radius_min = -5}).find("radius_min") == 0);
}
