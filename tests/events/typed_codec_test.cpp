#include "src/events/dispatcher.hpp"
#include "tests/events/messages.hpp"
#include <cmath>
#include <doctest/doctest.h>
#include <limits>
#include <vector>

using namespace throng;
using namespace events_test;

namespace {
struct Setup {
    Protocol protocol;
    Array<std::byte> bytes;
    Setup() {
        add_hit(protocol, {.waits_for_tick = true});
        add_chat(protocol);
        protocol.message<Ping>("ping");
        if (protocol.finish() != Error::none)
            throw std::runtime_error(protocol.problem());
    }
    template <class T>
    const MessageLayout& layout() const {
        return *protocol.messages().find(message_type_id<T>());
    }
    template <class T>
    Error append(const T& message, std::initializer_list<NetId> references = {}, Tick tick = 7) {
        const MessageLayout& l = layout<T>();
        Array<std::byte> body;
        if (const Error error = append_body(l, &message, body); error != Error::none)
            return error;
        append_item(l, protocol.messages().number(l), tick, references.begin(), {body.data(), body.size()}, bytes);
        return Error::none;
    }
    Bytes all() const { return {bytes.data(), bytes.size()}; }
};
Error read_one(const MessageTable& table, Bytes in, Item& item, void* message) {
    if (const Error error = read_item(table, in, item); error != Error::none)
        return error;
    if (const Error error = read_body(*item.layout, item.body, message); error != Error::none)
        return error;
    return in.empty() ? Error::none : Error::bad_value;
}
} // namespace

TEST_SUITE("events") {
    TEST_CASE("messages come back as they were, to wire precision") {
        Setup s;
        Hit hit;
        hit.damage = -37.6f;
        hit.angle = 3.0f;
        hit.delta = -12345;
        hit.part = Part::leg;
        hit.critical = true;
        hit.serial = 0xfedcba9876543210;
        const NetId target = NetId::make(70000, 3, 9), none{};
        REQUIRE(s.append(hit, {target, none}, 0xfffffffe) == Error::none);
        REQUIRE(s.append(Chat{{}, 200, "hello"}, {NetId::make(0, 1)}) == Error::none);
        REQUIRE(s.append(Ping{}) == Error::none);
        Bytes in = s.all();
        Item item;
        REQUIRE(read_item(s.protocol.messages(), in, item) == Error::none);
        CHECK(item.layout == &s.layout<Hit>());
        CHECK(item.tick == 0xfffffffe);
        CHECK(item.references[0] == target);
        CHECK(item.references[1] == none);
        Hit heard;
        REQUIRE(read_body(*item.layout, item.body, &heard) == Error::none);
        CHECK(heard.damage == -37.5f);
        CHECK(heard.angle == doctest::Approx(3.0).epsilon(0.002));
        CHECK(heard.delta == hit.delta);
        CHECK(heard.part == Part::leg);
        CHECK(heard.critical);
        CHECK(heard.serial == hit.serial);
        REQUIRE(read_item(s.protocol.messages(), in, item) == Error::none);
        Chat chat;
        REQUIRE(read_body(*item.layout, item.body, &chat) == Error::none);
        CHECK(item.references[0] == NetId::make(0, 1));
        CHECK(chat.tone == 200);
        CHECK(chat.text == "hello");
        const u32 left = static_cast<u32>(in.size());
        CHECK(left == 2); // number and size: an empty message costs two bytes
        REQUIRE(read_item(s.protocol.messages(), in, item) == Error::none);
        CHECK(item.body.empty());
        CHECK(in.empty());
    }

    TEST_CASE("extremes, NaN and infinity travel as something that the field holds") {
        Setup s;
        for (const float damage : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity(),
                                   -std::numeric_limits<float>::infinity(), 1e38f, std::numeric_limits<float>::denorm_min()}) {
            s.bytes.clear();
            Hit hit;
            hit.damage = damage;
            hit.angle = damage;
            hit.delta = std::numeric_limits<i16>::min();
            hit.serial = std::numeric_limits<u64>::max();
            REQUIRE(s.append(hit, {NetId{}, NetId{}}) == Error::none);
            Item item;
            Hit heard;
            REQUIRE(read_one(s.protocol.messages(), s.all(), item, &heard) == Error::none);
            CHECK(heard.damage >= -100);
            CHECK(heard.damage <= 500);
            CHECK(heard.angle >= 0);
            CHECK(heard.angle < 6.2832f);
            CHECK(heard.delta == hit.delta);
            CHECK(heard.serial == hit.serial);
        }
    }

    TEST_CASE("texts of all sizes up to the limit, and an error beyond it") {
        Setup s;
        const u32 room = 200 - payload_bytes_max(s.layout<Chat>());
        for (const u32 size : {0u, 1u, 127u, room}) {
            s.bytes.clear();
            const Chat chat{{}, 1, std::string(size, 'x')};
            REQUIRE(s.append(chat, {NetId::make(1u << 31, 0xffffff, 255)}) == Error::none);
            Item item;
            Chat heard;
            REQUIRE(read_one(s.protocol.messages(), s.all(), item, &heard) == Error::none);
            CHECK(heard.text == chat.text);
            CHECK(item.references[0] == NetId::make(1u << 31, 0xffffff, 255));
        }
        s.bytes.clear();
        CHECK(s.append(Chat{{}, 1, std::string(room + 1, 'x')}, {NetId{}}) == Error::too_large);
        CHECK(s.bytes.empty());
    }

    TEST_CASE("no bytes are read that no encoder writes") {
        Setup s;
        Hit hit;
        hit.damage = 500;
        REQUIRE(s.append(hit, {NetId{}, NetId::make(5, 1)}) == Error::none);
        const std::vector<std::byte> good(s.bytes.begin(), s.bytes.end());
        Item item;
        Hit heard;
        REQUIRE(read_one(s.protocol.messages(), good, item, &heard) == Error::none);
        for (std::size_t size = 0; size < good.size(); ++size)
            CHECK(read_one(s.protocol.messages(), Bytes(good).first(size), item, &heard) != Error::none);
        auto bad = good;
        bad[0] = std::byte{3}; // a number that is not registered
        CHECK(read_one(s.protocol.messages(), bad, item, &heard) == Error::bad_value);
        bad = good;
        bad[9] = std::byte{0xff}; // damage: 12 bits, of which 2401 values exist
        bad[10] |= std::byte{0x0f};
        CHECK(read_one(s.protocol.messages(), bad, item, &heard) == Error::bad_value);
        bad = good;
        bad.back() |= std::byte{0x80}; // padding
        CHECK(read_one(s.protocol.messages(), bad, item, &heard) == Error::bad_value);
        bad = good;
        bad[1] = static_cast<std::byte>(std::to_integer<u32>(bad[1]) + 1); // a byte too many
        bad.push_back(std::byte{0});
        CHECK(read_one(s.protocol.messages(), bad, item, &heard) == Error::bad_value);
        s.bytes.clear();
        REQUIRE(s.append(Chat{{}, 0, "!"}, {NetId{}}) == Error::none);
        Chat chat;
        CHECK(read_one(s.protocol.messages(), s.all(), item, &chat) == Error::bad_value); // its function refuses
        std::vector<std::byte> large(300);
        large[0] = std::byte{1};
        large[1] = std::byte{0xc9}, large[2] = std::byte{1}; // 201 bytes
        CHECK(read_one(s.protocol.messages(), large, item, &chat) == Error::too_large);
    }
}
