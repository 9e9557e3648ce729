#include "src/registry/layout.hpp"
#include "src/registry/message_table.hpp"
#include "tests/versions/builds.hpp"
#include <doctest/doctest.h>
#include <cstddef>
#include <memory>
#include <vector>

using namespace throng;
using namespace versions_test;

namespace {
struct A {
    i32 value = 0;
    i16 small = 0;
    float real = 0;
    Entity target;
};
struct B {
    i32 value = 0;
};
using Add = void (*)(Protocol&);

std::unique_ptr<Protocol> made(Add add, const ProtocolConfig& config = {}) {
    auto protocol = std::make_unique<Protocol>(config);
    add(*protocol);
    REQUIRE(protocol->finish() == Error::none);
    return protocol;
}
/// What a client with `own` says of a server with `theirs`, or "" if it can read it.
std::string difference(Add own, Add theirs, const ProtocolConfig& own_config = {}, const ProtocolConfig& their_config = {}) {
    const auto client = made(own, own_config), server = made(theirs, their_config);
    CHECK(client->hash() != server->hash());
    Protocol read;
    const Error error = read.read_table(server->table(), *client);
    if (error == Error::none) {
        CHECK(read.hash() == server->hash());
        return {};
    }
    CHECK(error == Error::wrong_protocol);
    return read.problem();
}
} // namespace

TEST_SUITE("versions") {
    TEST_CASE("what differs is said by name") {
        const Add nothing = [](Protocol&) {};
        const Add integer = [](Protocol& p) { p.component<A>("thing").field(&A::value, "value"); };
        CHECK(difference(nothing, nothing, {.tick_hz = 20}, {.tick_hz = 30}) == "tick_hz: 30 there, 20 here");
        static constexpr std::byte words[] = {std::byte{1}, std::byte{2}};
        CHECK(difference(nothing, nothing, {}, {.dictionary = words}) == "dictionary: another one");
        CHECK(difference(nothing, [](Protocol& p) { p.custom("1.1"); }) == "custom data: other");
        CHECK(difference([](Protocol& p) { p.custom("a"), p.custom("b"); }, [](Protocol& p) { p.custom("b"), p.custom("a"); }) ==
              "custom data: other");
        CHECK(difference(integer, [](Protocol& p) {
                  p.opaque<Older::Title>("thing", 9, write_text<Older::Title>, read_text<Older::Title>);
              }) == "component \"thing\": opaque on one side only");
        CHECK(difference(integer, [](Protocol& p) { p.component<A>("thing").field(&A::value, Range{0, 9, 1}, "value"); }) ==
              "component \"thing\", field \"value\": another kind or type");
        CHECK(difference(integer, [](Protocol& p) { p.component<A>("thing").field(&A::small, "value"); }) ==
              "component \"thing\", field \"value\": another kind or type");
        CHECK(difference([](Protocol& p) { p.component<A>("thing").field(&A::value).field(&A::target); },
                         [](Protocol& p) { p.component<A>("thing").field(&A::value).field(&A::small); }) ==
              "component \"thing\", field \"1\": another kind or type");
        const Add message = [](Protocol& p) { p.message<A>("m").field(&A::value); };
        for (const MessageOptions options : {MessageOptions{.channel = Channel::unordered}, MessageOptions{.route = Route::both},
                                             MessageOptions{.independent = true}, MessageOptions{.waits_for_tick = true}}) {
            static MessageOptions chosen;
            chosen = options;
            CHECK(difference(message, [](Protocol& p) { p.message<A>("m", chosen).field(&A::value); }) ==
                  "message \"m\": another channel, route, option or rest");
        }
        CHECK(difference(message, [](Protocol& p) {
                  p.message<A>("m").field(&A::value).rest(write_text<Older::Title>, read_text<Older::Title>);
              }) == "message \"m\": another channel, route, option or rest");
        CHECK(difference(message, [](Protocol& p) { p.message<A>("m").field(&A::target); }) ==
              "message \"m\", field \"0\": another kind or type");
    }

    TEST_CASE("another format is said before anything else is read") {
        const auto own = made([](Protocol&) {});
        std::vector<std::byte> table(own->table().begin(), own->table().end());
        table[0] = std::byte{9};
        table.resize(4); // and then what only that format knows
        Protocol read;
        CHECK(read.read_table(table, *own) == Error::wrong_protocol);
        CHECK(std::string(read.problem()) == "wire format version: 9 there, 1 here");
    }

    TEST_CASE("what may differ: quantisers, sizes, order, and what one side lacks") {
        const Add one = [](Protocol& p) {
            p.component<A>("thing").field(&A::real, Range{0, 10, 0.1}, "real").field(&A::value, "value");
            p.component<B>("other").field(&B::value);
            p.message<A>("m", {.bytes_max = 20}).field(&A::real, Angle{10});
            p.message<B>("n");
        };
        CHECK(difference(one, [](Protocol& p) {
                  p.component<B>("other").field(&B::value);
                  p.component<A>("thing").field(&A::small, "small").field(&A::value, "value").field(&A::real, Range{-5, 99, 0.5}, "real");
                  p.message<B>("fresh").field(&B::value);
                  p.message<A>("m", {.bytes_max = 30}).field(&A::real, Angle{12}).field(&A::target);
              }) == "");
        CHECK(difference(one, [](Protocol&) {}) == "");
        CHECK(difference([](Protocol&) {}, one) == "");
    }

    TEST_CASE("fields are found by name, and by place where one side has no name") {
        const auto place_of = [](Add own, Add theirs, u32 field) {
            const auto client = made(own), server = made(theirs);
            Protocol read;
            REQUIRE(read.read_table(server->table(), *client) == Error::none);
            const FieldInfo& found = read.components()[0].fields[field];
            return found.offset_bytes == no_offset ? -1 : static_cast<int>(found.offset_bytes);
        };
        struct Two {
            i32 first = 0, second = 0;
        };
        static_assert(offsetof(Two, second) == 4);
        const Add named = [](Protocol& p) { p.component<Two>("two").field(&Two::first, "first").field(&Two::second, "second"); };
        const Add plain = [](Protocol& p) { p.component<Two>("two").field(&Two::first).field(&Two::second); };
        const Add swapped = [](Protocol& p) { p.component<Two>("two").field(&Two::second, "second").field(&Two::first, "first"); };
        const Add renamed = [](Protocol& p) { p.component<Two>("two").field(&Two::first, "eerst").field(&Two::second, "second"); };
        const Add half = [](Protocol& p) { p.component<Two>("two").field(&Two::first).field(&Two::second, "first"); };
        CHECK(place_of(named, swapped, 0) == 4);
        CHECK(place_of(named, swapped, 1) == 0);
        CHECK(place_of(plain, named, 0) == 0);
        CHECK(place_of(plain, named, 1) == 4);
        CHECK(place_of(named, plain, 1) == 4);
        CHECK(place_of(named, renamed, 0) == -1);
        CHECK(place_of(named, renamed, 1) == 4);
        CHECK(place_of(named, half, 0) == -1); // "first" is taken by its name
        CHECK(place_of(named, half, 1) == 0);
    }

    TEST_CASE("a table of any bytes is refused or read whole") {
        const BuildProtocol<Older> older;
        const BuildProtocol<Newer> newer;
        const auto bytes = newer.protocol.table();
        const std::vector<std::byte> good(bytes.begin(), bytes.end());
        for (std::size_t size = 0; size < good.size(); ++size) {
            Protocol read;
            CHECK(read.read_table({good.data(), size}, older.protocol) != Error::none);
        }
        u32 accepted = 0;
        for (std::size_t bit = 0; bit < good.size() * 8; ++bit) {
            std::vector<std::byte> bad = good;
            bad[bit / 8] ^= std::byte{1} << bit % 8;
            Protocol read;
            const Error error = read.read_table(bad, older.protocol);
            if (error == Error::none) {
                ++accepted;
                CHECK(read.hash() != newer.protocol.hash());
            } else if (error != Error::wrong_protocol) {
                CHECK((error == Error::bad_value || error == Error::truncated));
            }
        }
        CHECK(accepted > 50); // letters of names that only the newer build has, bounds
        std::vector<std::byte> longer = good;
        longer.push_back(std::byte{0});
        Protocol read;
        CHECK(read.read_table(longer, older.protocol) == Error::bad_value);
        longer.resize(protocol_table_bytes_max + 1);
        Protocol again;
        CHECK(again.read_table(longer, older.protocol) == Error::too_large);
    }

    TEST_CASE("a protocol read from a table has the server's layout and this build's types") {
        const BuildProtocol<Older> older;
        const BuildProtocol<Newer> newer;
        Protocol read;
        REQUIRE(read.read_table(newer.protocol.table(), older.protocol) == Error::none);
        CHECK(read.hash() == newer.protocol.hash());
        const Layout &a = read.layout(), &b = newer.protocol.layout();
        REQUIRE(a.component_count == b.component_count);
        REQUIRE(a.column_count == b.column_count);
        CHECK(a.unknown == 0b111);
        CHECK(a.spatial_component == b.spatial_component);
        CHECK(a.spatial_min == b.spatial_min);
        for (u32 c = 0; c < a.column_count; ++c) {
            CHECK(a.columns[c].offset_bytes == b.columns[c].offset_bytes);
            CHECK(a.columns[c].element_bytes == b.columns[c].element_bytes);
            CHECK(a.columns[c].quantum_max == b.columns[c].quantum_max);
            CHECK(a.columns[c].velocity_column == b.columns[c].velocity_column);
            CHECK(a.columns[c].velocity_factor == b.columns[c].velocity_factor);
        }
        CHECK(read.components()[4].id == component_id<Older::Health>());
        CHECK(read.messages().find(message_type_id<Older::Order>()) != nullptr);
        CHECK(read.messages().find(message_type_id<Older::Taunt>()) == nullptr);
        CHECK(read.messages().layouts[0].handler == -1); // whisper
        CHECK(read.messages().layouts[3].handler == 0);  // hit, the first of the older build
    }
}
