// Bugs that were reported against other systems, by number (docs/conformance.md): life cycle of components, and what counts as a change.
#include "tests/conformance/state_support.hpp"
#include <cstring>
#include <limits>

using namespace throng;
using namespace conformance::state;

namespace {
/// Owns memory; counts who lives.
struct Owning {
    Owning() { ++alive; }
    Owning(Owning&& other) noexcept : text(std::move(other.text)), number(std::move(other.number)) { ++alive; }
    Owning& operator=(Owning&&) = default;
    ~Owning() { --alive; }
    std::string text;
    std::unique_ptr<int> number;
    static inline int alive = 0;
};
u32 write_owning(const void* component, std::span<std::byte> out) {
    const std::string& text = static_cast<const Owning*>(component)->text;
    if (text.size() <= out.size())
        std::memcpy(out.data(), text.data(), text.size());
    return static_cast<u32>(text.size());
}
Error read_owning(void* component, std::span<const std::byte> in) {
    auto& owning = *static_cast<Owning*>(component);
    owning.text.assign(reinterpret_cast<const char*>(in.data()), in.size());
    owning.number = std::make_unique<int>(static_cast<int>(in.size()));
    return Error::none;
}
Owning owning(std::size_t size) {
    Owning made;
    made.text.assign(size, 'x');
    return made;
}

struct Facing {
    float yaw = 0;
};
} // namespace

TEST_CASE("bug/12_component_that_owns_memory") {
    {
        auto protocol = std::make_unique<Protocol>();
        protocol->opaque<Owning>("owning", 400, write_owning, read_owning);
        REQUIRE(protocol->finish() == Error::none);
        StateNet net({.heartbeat_ticks = 0}, {}, std::move(protocol));
        HeldBack held(net, Reason::holds_back);
        for (const bool ends : {false, true}) {
            held.gate.closed = true;
            const Entity e = net.world.spawn(owning(200), Replicated{});
            net.step();
            net.world.mut<Owning>(e)->text.assign(300, 'y');
            net.step();
            if (ends)
                net.world.destroy(e);
            else
                net.world.remove<Owning>(e);
            net.step();
            held.gate.closed = false; // all three in one receive
            net.settle();
            CHECK_FALSE(net.value<Owning>(held.peer, e));
        }
        const Entity e = net.world.spawn(owning(200), Replicated{});
        net.settle();
        REQUIRE(net.value<Owning>(held.peer, e));
        CHECK(*net.value<Owning>(held.peer, e)->number == 200);
        held.gate.closed = true;
        net.world.mut<Owning>(e)->text.assign(250, 'z');
        net.step();
        held.peer.world->destroy(net.shown(held.peer, e)); // it must not, but may do so by mistake
        held.gate.closed = false;
        net.settle();
    }
    CHECK(Owning::alive == 0);
}

TEST_CASE("bug/16_ticks_wrap") {
    StateNet net({.heartbeat_ticks = 0, .first_tick = Tick(0) - 100});
    auto& peer = net.join();
    const Entity still = net.world.spawn(Health{1, false}, Replicated{});
    const Entity busy = net.world.spawn(Health{0, false}, Replicated{});
    net.agree();
    for (int i = 1; i <= 150; ++i) {
        net.world.mut<Health>(busy)->hp = i;
        CHECK(net.step().lanes_dirty == 1);
    }
    REQUIRE(net.server.current_tick() < 1000);
    net.agree();
    CHECK(net.hp(peer, busy) == 150);
    CHECK(net.state_bytes(30) == 0);
    net.world.mut<Health>(still)->hp = 2; // what it was before the wrap is old
    net.agree();
    CHECK(net.hp(peer, still) == 2);
}

TEST_CASE("bug/17_leaving_a_loop_that_writes") {
    StateNet net;
    auto& peer = net.join();
    std::vector<Entity> all;
    for (int i = 0; i < 200; ++i)
        all.push_back(net.world.spawn(Health{i, false}, Replicated{}));
    net.agree();
    try {
        net.world.each_mut<Health>([](Health& health) {
            health.hp = 1000;
            throw 1;
        });
    } catch (int) {
    }
    net.world.each_row<Health>([left = false](Row<Health> row) mutable {
        if (!left && row->hp == 150)
            row.mut().hp = 2000;
        left |= row->hp == 2000;
    });
    net.agree();
    CHECK(std::count_if(all.begin(), all.end(), [&](Entity e) { return net.hp(peer, e) == 1000; }) == 1);
    CHECK(net.hp(peer, all[150]) == 2000);
}

TEST_CASE("bug/19_spawned_before_the_first_tick") {
    for (const Tick first : {Tick(0), Tick(1), ~Tick(0)}) {
        StateNet net({.heartbeat_ticks = 0, .first_tick = first});
        const Entity e = net.world.spawn(Health{7, false}, Replicated{});
        auto& peer = net.join();
        net.agree();
        CHECK(net.hp(peer, e) == 7);
    }
}

TEST_CASE("bug/20_the_world_is_faster_than_the_ticks") {
    StateNet net;
    auto& peer = net.join();
    std::vector<Entity> all;
    for (int turn = 1; turn <= 9; ++turn) {
        all.push_back(net.world.spawn(Health{turn, false}, Speed{1, 0}, Replicated{}));
        if (turn == 2 || turn == 4 || turn == 5)
            net.world.mut<Health>(all[0])->hp = 10 * turn;
        if (turn == 5)
            net.world.remove<Speed>(all[1]);
        if (turn == 7)
            net.world.destroy(all[2]);
        if (turn % 3 == 0)
            net.step();
    }
    net.agree();
    CHECK(net.hp(peer, all[0]) == 50);
    CHECK(net.hp(peer, all[8]) == 9);
    CHECK_FALSE(net.value<Speed>(peer, all[1]));
    CHECK(peer.world->entity_count() == 8);
}

TEST_CASE("bug/22_equal_values_in_other_bytes") {
    auto with_angle = std::make_unique<Protocol>();
    with_angle->component<Facing>("facing").field(&Facing::yaw, Angle{16});
    with_angle->component<Health>("health").field(&Health::hp).field(&Health::angry);
    with_angle->component<Speed>("speed").field(&Speed::x, Range{-20, 20, 0.01}).field(&Speed::z, Range{-20, 20, 0.01});
    with_angle->opaque<Name>("name", 2000, throng_test::write_name, throng_test::read_name);
    REQUIRE(with_angle->finish() == Error::none);
    StateNet net({.heartbeat_ticks = 0}, {}, std::move(with_angle));
    auto& peer = net.join();
    const Entity e = net.world.spawn(Facing{0}, Health{5, true}, Speed{0, 0}, Name{"inside"}, Replicated{});
    net.agree();
    constexpr float turn = 6.2831853f;
    const float zeros[] = {0.f, -0.f, std::numeric_limits<float>::quiet_NaN(), -std::numeric_limits<float>::quiet_NaN()};
    u64 bytes = 0;
    for (int i = 0; i < 20; ++i) {
        Health* health = net.world.mut<Health>(e);
        REQUIRE(health);
        std::memset(static_cast<void*>(health), i, sizeof(Health)); // padding
        *health = {5, true};
        net.world.mut<Facing>(e)->yaw = i % 2 ? turn - 1e-5f : -1e-5f;
        net.world.mut<Speed>(e)->x = zeros[i % 4];
        static_cast<void>(net.world.mut<Name>(e));
        bytes += net.state_bytes(1);
    }
    CHECK(bytes == 0);
    net.world.mut<Name>(e)->text[3] = 'I'; // inside a value that owns memory
    CHECK(net.state_bytes(1) > 0);
    net.agree();
    CHECK(net.value<Name>(peer, e)->text == "insIde");
    CHECK(net.state_bytes(20) == 0);
}

TEST_CASE("bug/23_a_change_that_not_everybody_has_seen") {
    StateNet net;
    auto& a = net.join();
    auto& b = net.join();
    auto& c = net.join();
    const Entity e = net.world.spawn(Health{5, false}, Replicated{});
    const Entity secret = net.world.spawn(Health{0, false}, VisibleTo{.any_of = 1}, Replicated{});
    net.server.view(c.id).hide(e);
    net.agree();
    net.world.mut<Health>(e)->hp = 6;
    net.server.view(c.id).show(e);
    net.agree();
    for (const auto* peer : {&a, &b, &c})
        CHECK(net.hp(*peer, e) == 6);
    u64 bytes = 0;
    for (int i = 1; i <= 100; ++i) {
        net.world.mut<Health>(secret)->hp = i;
        bytes += net.state_bytes(1);
    }
    CHECK(bytes == 0); // nobody sees it
    net.server.view(a.id).set_layers(1);
    net.agree();
    CHECK(net.hp(a, secret) == 100);
    CHECK_FALSE(net.shown(b, secret));
}

TEST_CASE("bug/23_nobody_to_send_to") {
    StateNet net;
    const Entity e = net.world.spawn(Health{0, false}, Replicated{});
    const auto bytes_after = [&](int ticks) {
        for (int i = 0; i < ticks; ++i) {
            net.world.mut<Health>(e)->hp++;
            net.step();
        }
        const ServerMemory memory = net.server.memory();
        return memory.client_chunk_bytes * memory.client_chunks + memory.side_table_bytes + memory.mirror_bytes + memory.other_bytes;
    };
    const u64 bytes = bytes_after(100);
    CHECK(bytes_after(1000) == bytes);
    auto& late = net.join();
    net.agree();
    CHECK(net.hp(late, e) == 1100);
}
