#include "throng/assert.hpp"
#include "throng/base.hpp"
#include <doctest/doctest.h>
#include <stdexcept>
#include <string>

TEST_SUITE("base") {
    TEST_CASE("ticks compare across the wrap") {
        CHECK(throng::tick_newer(1, 0));
        CHECK_FALSE(throng::tick_newer(7, 7));
        CHECK(throng::tick_newer(3, 0xfffffff0u));
        CHECK_FALSE(throng::tick_newer(0xfffffff0u, 3));
    }
    TEST_CASE("a net id keeps index, generation and shard apart") {
        const throng::NetId id = throng::NetId::make(0xdeadbeefu, 0x123456u, 0x7f);
        CHECK(id.index() == 0xdeadbeefu);
        CHECK(id.generation() == 0x123456u);
        CHECK(id.shard() == 0x7fu);
        CHECK(throng::NetId::make(1, 0x1000001u).generation() == 1); // 24 bits
        CHECK_FALSE(throng::NetId{});
    }
    TEST_CASE("a result holds a value or an error") {
        throng::Result<std::string> good(std::string("x"));
        CHECK(good);
        CHECK(*good == "x");
        throng::Result<std::string> bad(throng::Error::truncated);
        CHECK_FALSE(bad);
        CHECK(bad.error() == throng::Error::truncated);
        CHECK(std::string(throng::to_string(bad.error())) == "truncated");
    }
    TEST_CASE("the assert handler is replaceable") {
        auto previous = throng::set_assert_handler([](const char* expression, const char*, int) { throw std::runtime_error(expression); });
        CHECK_THROWS_WITH(THRONG_ASSERT(1 == 2), "1 == 2");
        throng::set_assert_handler(previous);
    }
}
