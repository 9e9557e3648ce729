// What the hash of a protocol covers.
#include "tests/conformance/state_support.hpp"

using namespace throng;
using namespace conformance::state;

namespace {
struct Utterance {
    i32 value = 0;
};
ProtocolHash hash_of(void (*add)(Protocol&)) {
    Protocol protocol;
    add(protocol);
    REQUIRE(protocol.finish() == Error::none);
    return protocol.hash();
}
void add_all(Protocol& protocol) {
    protocol.component<Health>("health").field(&Health::hp, "hp").field(&Health::angry, "angry");
    protocol.component<Speed>("speed").field(&Speed::x, Range{-20, 20, 0.01}).field(&Speed::z, Angle{10});
    protocol.component<Link>("link").field(&Link::target);
    protocol.opaque<Name>("name", 2000, throng_test::write_name, throng_test::read_name);
    protocol.message<Utterance>("told", {.route = Route::both}).field(&Utterance::value);
}
} // namespace

TEST_CASE("protocol/empty") {
    CHECK(hash_of([](Protocol&) {}) == hash_of([](Protocol&) {}));
}

TEST_CASE("protocol/wrong_order") {
    const auto one = [](Protocol& p) { p.component<Health>("a").field(&Health::hp), p.component<Link>("b").field(&Link::target); };
    const auto other = [](Protocol& p) { p.component<Link>("b").field(&Link::target), p.component<Health>("a").field(&Health::hp); };
    CHECK(hash_of(one) != hash_of(other));
}

TEST_CASE("protocol/different_parts") {
    const auto to_client = [](Protocol& p) { p.message<Utterance>("told", {.route = Route::to_client}); };
    const auto to_server = [](Protocol& p) { p.message<Utterance>("told", {.route = Route::to_server}); };
    const auto component = [](Protocol& p) { p.component<Utterance>("told"); };
    CHECK(hash_of(to_client) != hash_of(to_server));
    CHECK(hash_of(to_client) != hash_of(component));
}

TEST_CASE("protocol/mismatch") {
    const auto one = [](Protocol& p) { add_all(p), p.custom("0"); };
    const auto other = [](Protocol& p) { add_all(p), p.custom("1"); };
    CHECK(hash_of(one) != hash_of(other));
}

TEST_CASE("protocol/full_match") {
    const auto all = [](Protocol& p) { add_all(p), p.custom("0"); };
    // On every machine and compiler.
    constexpr ProtocolHash expected{0x93cda1330a2684c5, 0x87ad77cc01e30140};
    CHECK(hash_of(all).low == expected.low);
    CHECK(hash_of(all).high == expected.high);
    CHECK(hash_of(all) == hash_of(all));
}
