// Confirm histories, by themselves and as a client keeps them.
#include "tests/allocation_count.hpp"
#include "tests/client/fake_server.hpp"
#include <doctest/doctest.h>
#include <random>
#include <set>

using namespace client_test;

namespace {
const NetId X = NetId::make(1, 1), Y = NetId::make(2, 1);

struct Told {
    std::vector<std::pair<NetId, Tick>> carried;
    std::vector<Tick> settled;
    ClientConfig config() {
        ClientConfig out;
        out.context = this;
        out.confirm_history = true;
        out.on_carried = [](void* context, Entity, NetId id, Tick tick) { static_cast<Told*>(context)->carried.emplace_back(id, tick); };
        out.on_settled = [](void* context, Tick tick) { static_cast<Told*>(context)->settled.push_back(tick); };
        return out;
    }
    using Carried = std::vector<std::pair<NetId, Tick>>;
    Carried take() { return std::exchange(carried, {}); }
};
} // namespace

TEST_SUITE("client") {
    TEST_CASE("confirm history: ticks in any order, over gaps and the wrap, against a set") {
        std::mt19937 random(7);
        for (const Tick start : {Tick(0), Tick(1000), Tick(0xffffffe0), Tick(0x7fffffe0)}) {
            ConfirmHistory history(start);
            std::set<i64> came{0}; // ticks after start
            i64 newest = 0;
            const auto has = [&](i64 t) { return newest - t < 64 && came.count(t) != 0; };
            for (int step = 0; step < 2000; ++step) {
                static constexpr i64 ahead[] = {1, 1, 2, 3, 30, 63, 64, 65, 127, 128, 200};
                const bool late = random() % 3 == 0;
                const i64 t = late ? newest - i64(random() % 70) : newest + ahead[random() % 11];
                history.confirm(start + static_cast<Tick>(t));
                came.insert(t);
                newest = std::max(newest, t);
                CHECK(history.newest() == start + static_cast<Tick>(newest));
                for (i64 at = newest - 80; at <= newest + 3; ++at)
                    if (history.carried(start + static_cast<Tick>(at)) != has(at))
                        FAIL("at tick " << at << ", newest " << newest);
                const i64 first = newest - i64(random() % 80) + 3, last = first + i64(random() % 20) - 2;
                bool any = false;
                for (i64 at = first; at <= last; ++at)
                    any |= has(at);
                if (history.carried_any(start + static_cast<Tick>(first), start + static_cast<Tick>(last)) != any)
                    FAIL("from " << first << " to " << last << ", newest " << newest);
            }
        }
    }
    TEST_CASE("confirm history: what was carried, late ones too, and what is settled") {
        Told told;
        Setup s(told.config());
        s.server.world[0][0] = unit(X, 1);
        s.server.world[0][1] = unit(Y, 2);
        (void)s.tick(101, {{0, bit(0) | bit(1)}});
        CHECK(told.take() == Told::Carried{{X, 101}, {Y, 101}});
        s.server.world[0][0].hp = 2;
        s.server.snapshot(102);
        const auto late = s.server.message(102, {{0, bit(0), 101}});
        s.server.world[0][0].hp = 3;
        (void)s.tick(104, {{0, bit(0), 101}});
        CHECK(told.take() == Told::Carried{{X, 104}});
        const Entity x = s.entity(X), y = s.entity(Y);
        CHECK_FALSE(s.client->confirmed(x, 102));
        (void)s.receive(late);
        CHECK(told.take().empty()); // not the newest state of anything
        CHECK(s.hp(X) == 3);
        CHECK(s.client->confirmed(x, 101));
        CHECK(s.client->confirmed(x, 102));
        CHECK_FALSE(s.client->confirmed(x, 103));
        CHECK(s.client->confirmed(x, 104));
        CHECK_FALSE(s.client->confirmed(x, 105));
        CHECK(s.client->confirmed_any(x, 103, 105));
        CHECK_FALSE(s.client->confirmed_any(x, 105, 103));
        CHECK_FALSE(s.client->confirmed(y, 104));
        CHECK_FALSE(s.client->confirmed(Entity{}, 104));
        CHECK(s.client->confirm_history(x)->mask() == 0b1101);
        CHECK_FALSE(s.client->confirmed(Tick(104)));
        (void)s.receive(s.server.message(106, {}, 1)); // 105 is settled
        CHECK(told.settled == std::vector<Tick>{105});
        for (const Tick tick : {101u, 102u, 103u, 104u, 105u}) {
            CHECK(s.client->confirmed(x, tick));
            CHECK(s.client->confirmed(y, tick));
            CHECK(s.client->confirmed(tick));
        }
        CHECK(s.client->confirmed(Tick(100))); // the welcome's
        CHECK_FALSE(s.client->confirmed(Tick(99)));
        CHECK_FALSE(s.client->confirmed(Tick(106)));
        CHECK_FALSE(s.client->confirmed(x, 100)); // not there yet
        CHECK_FALSE(s.client->confirmed(x, 106));
        (void)s.receive(s.server.message(107, {}, 3)); // an older one: nothing new
        CHECK(told.settled == std::vector<Tick>{105});
    }
    TEST_CASE("confirm history: a gap of 64 ticks and more forgets what was before") {
        for (const Tick gap : {63u, 64u, 65u, 127u, 128u, 1000u}) {
            Told told;
            Setup s(told.config());
            s.server.world[0][0] = unit(X, 1);
            (void)s.tick(101, {{0, bit(0)}});
            s.server.world[0][0].hp = 2;
            (void)s.tick(101 + gap, {{0, bit(0)}});
            const Entity x = s.entity(X);
            CHECK(s.client->confirmed(x, 101 + gap));
            CHECK(s.client->confirmed(x, 101) == (gap < 64));
            CHECK(s.client->confirm_history(x)->mask() == (gap < 64 ? (u64(1) << gap | 1) : 1));
            CHECK_FALSE(s.client->confirmed_any(x, 102, 100 + gap));
            (void)s.receive(s.server.message(102 + gap, {}, 0));
            CHECK(s.client->confirmed(x, 101)); // settled ticks have no window
            CHECK(s.client->confirmed(x, 101 + gap / 2));
        }
    }
    TEST_CASE("confirm history: another entity in the record of one that is gone starts anew") {
        Told told;
        Setup s(told.config());
        for (u32 i = 0; i < 100; ++i) {
            s.server.world[0].clear();
            const NetId id = NetId::make(10 + i, 1);
            s.server.world[0][i % 64] = unit(id, 1);
            (void)s.tick(101 + 40 * i, {{0, bit(i % 64), {}, i > 0 ? bit((i - 1) % 64) : 0}});
            REQUIRE(s.client->confirm_history(s.entity(id)));
            CHECK(s.client->confirm_history(s.entity(id))->mask() == 1);
            CHECK(s.client->confirm_history(s.entity(id))->since() == 101 + 40 * i);
            CHECK(told.take() == Told::Carried{{id, 101 + 40 * i}});
        }
    }
    TEST_CASE("confirm history: a late state that would be newer than what is shown has not come") {
        ClientConfig config;
        config.confirm_history = true;
        Setup s(config, true, 100, make_protocol(true));
        s.server.world[0][0] = unit(X, 1);
        s.server.world[0][0].lasting = true;
        (void)s.tick(101, {{0, bit(0)}});
        s.server.world[0][0].hp = 2;
        s.server.snapshot(180);
        const auto late = s.server.message(180, {{0, bit(0), 101}});
        (void)s.tick(181, {{0, 0, {}, bit(0)}}); // out of sight, as it was at 101
        const Entity x = s.entity(X);
        REQUIRE(s.client->frozen(x));
        CHECK(s.receive(late) == Error::none);
        CHECK(s.acked(static_cast<u16>(s.server.next_id - 2)));
        CHECK(s.hp(X) == 1);
        CHECK(s.client->confirmed_tick(x) == 101);
        CHECK(s.client->confirmed(x, 101));
        CHECK_FALSE(s.client->confirmed(x, 180));
        CHECK(s.client->confirm_history(x)->newest() == 101);
    }
    TEST_CASE("confirm history: none unless asked for; notifications do not need one") {
        Setup plain;
        Told told;
        ClientConfig config = told.config();
        config.confirm_history = false;
        Setup notified(config);
        for (Setup* s : {&plain, &notified}) {
            s->server.world[0][0] = unit(X, 1);
            (void)s->tick(101, {{0, bit(0)}});
            CHECK_FALSE(s->client->confirm_history(s->entity(X)));
            CHECK_FALSE(s->client->confirmed(s->entity(X), 101));
            CHECK(s->client->confirmed_tick(s->entity(X)) == 101);
        }
        CHECK(told.carried.size() == 1);
    }
    TEST_CASE("confirm history: no allocation in steady state" * doctest::skip(!throng::tests::counts_allocations)) {
        struct Count {
            u64 carried = 0, settled = 0;
        } count;
        ClientConfig config;
        config.context = &count;
        config.confirm_history = true;
        config.on_carried = [](void* context, Entity, NetId, Tick) { ++static_cast<Count*>(context)->carried; };
        config.on_settled = [](void* context, Tick) { ++static_cast<Count*>(context)->settled; };
        Setup s(config);
        for (u32 lane = 0; lane < 64; ++lane)
            s.server.world[0][lane] = unit(NetId::make(lane + 1, 1), 0);
        u64 allocated = 0;
        for (Tick tick = 101; tick < 161; ++tick) {
            for (auto& [lane, value] : s.server.world[0])
                value.hp = static_cast<i32>(tick);
            s.server.snapshot(tick);
            const auto message =
                s.server.message(tick, {tick == 101 ? Part{0, ~u64(0)} : Part{0, ~u64(0), tick - 1}}, tick > 101 ? 1 : 255);
            s.backend.deliver(message);
            const u64 before = tests::allocation_count();
            (void)s.client->receive(++s.now);
            if (tick > 120)
                allocated += tests::allocation_count() - before;
            (void)s.acks();
        }
        CHECK(allocated == 0);
        CHECK(count.carried == 60 * 64);
        CHECK(count.settled == 59);
    }
}
