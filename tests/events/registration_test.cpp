#include "src/events/dispatcher.hpp"
#include "tests/events/messages.hpp"
#include <doctest/doctest.h>

using namespace throng;
using namespace events_test;

namespace {
struct A {
    i32 value = 0;
};
struct B {
    i32 value = 0;
};
template <class F>
ProtocolHash hash_of(F&& add) {
    Protocol protocol;
    add(protocol);
    REQUIRE(protocol.finish() == Error::none);
    return protocol.hash();
}
template <class F>
std::string problem_of(Error expected, F&& add) {
    Protocol protocol;
    add(protocol);
    CHECK(protocol.finish() == expected);
    return protocol.problem();
}
struct Both {
    int hits = 0, chats = 0;
    void handle(const Hit&, const Sender&) { ++hits; }
    void handle(const Chat&, const Sender&) { ++chats; }
};
struct OnlyHit {
    void handle(const Hit&, const Sender&) {}
};
static_assert(Handles<Both, Hit> && Handles<Both, Chat> && Handles<OnlyHit, Hit> && !Handles<OnlyHit, Chat>);
template <u32 N>
struct Number {};
template <u32 First, u32... N>
void add_more(Protocol& protocol, std::integer_sequence<u32, N...>) {
    (protocol.message<Number<First + N>>(std::string("m").append(std::to_string(First + N)).c_str()), ...);
}
void add_256(Protocol& protocol) {
    add_more<0>(protocol, std::make_integer_sequence<u32, 128>());
    add_more<128>(protocol, std::make_integer_sequence<u32, 128>());
}
} // namespace

TEST_SUITE("events") {
    TEST_CASE("lists of messages are all there is, or refused by name") {
        const auto a_and_b = [](Protocol& p) {
            p.message<A>("a", {.route = Route::both});
            p.message<B>("b");
        };
        using Up = MessageList<A>;
        using Down = MessageList<A, B>;
        const auto listed = [&](auto up, auto down) {
            return [=](Protocol& p) {
                a_and_b(p);
                p.message_lists(up, down);
            };
        };
        CHECK(hash_of(a_and_b) == hash_of(listed(Up{}, Down{})));
        CHECK(problem_of(Error::bad_value, listed(MessageList<>{}, Down{})) ==
              "message \"a\": the list of messages to the server lacks it");
        CHECK(problem_of(Error::bad_value, listed(Up{}, MessageList<A>{})) == "message \"b\": the list of messages to clients lacks it");
        CHECK(problem_of(Error::bad_value, listed(Down{}, Down{})) ==
              "message \"b\": the list of messages to the server has it, and it does not go there");
        CHECK(problem_of(Error::bad_value, listed(Up{}, MessageList<A, B, Number<0>>{})) ==
              "message \"\": message_lists names a type that is not registered");
        CHECK(problem_of(Error::bad_value, [](Protocol& p) {
                  p.message<A>("a", {.route = Route::to_server});
                  p.message_lists(Up{}, Up{});
              }) == "message \"a\": the list of messages to clients has it, and it does not go there");
    }

    TEST_CASE("handlers of a list that has a name") {
        Protocol protocol;
        add_hit(protocol);
        add_chat(protocol, {.route = Route::both, .bytes_max = 200});
        using Down = MessageList<Chat, Hit>;
        protocol.message_lists(MessageList<Chat>{}, Down{});
        REQUIRE_MESSAGE(protocol.finish() == Error::none, protocol.problem());
        Both both;
        const auto list = handlers(both, Down{});
        const std::span<const MessageHandler> span = list;
        REQUIRE(span.size() == 2);
        CHECK(span[0].type == message_type_id<Chat>());
        span[0].call(span[0], std::make_unique<Chat>().get(), {});
        span[1].call(span[1], std::make_unique<Hit>().get(), {});
        CHECK(both.chats == 1);
        CHECK(both.hits == 1);
        Dispatcher dispatcher(protocol.messages(), Route::to_client, default_allocator());
        REQUIRE(dispatcher.set(handlers(both, Down{})) == Error::none);
        CHECK(dispatcher.missing() == nullptr);
    }

    TEST_CASE("a wrong registration is refused by name") {
        CHECK(problem_of(Error::bad_value, [](Protocol& p) { add_hit(p), add_hit(p); }) == "message \"hit\": registered twice");
        CHECK(problem_of(Error::bad_value, [](Protocol& p) { p.message<A>("x"), p.message<B>("x"); }) ==
              "message \"x\": the name is taken");
        CHECK(problem_of(Error::bad_value, [](Protocol& p) { p.message<A>("a", {.independent = true, .waits_for_tick = true}); }) ==
              "message \"a\": an independent message waits for nothing");
        CHECK(problem_of(Error::bad_value, [](Protocol& p) { p.message<A>("a", {.route = Route::to_server, .waits_for_tick = true}); }) ==
              "message \"a\": a message to the server has no tick to wait for");
        CHECK(problem_of(Error::bad_value, [](Protocol& p) { p.message<A>("a", {.bytes_max = 0}); }) ==
              "message \"a\": bytes_max is 1 to 65536");
        CHECK(problem_of(Error::bad_value, [](Protocol& p) { p.message<A>("a", {.bytes_max = 65537}); }) ==
              "message \"a\": bytes_max is 1 to 65536");
        CHECK(problem_of(Error::bad_value, [](Protocol& p) { p.message<A>("a", {.bytes_max = 3}).field(&A::value); }) ==
              "message \"a\": its fields may need more than bytes_max");
        CHECK(problem_of(Error::bad_value, [](Protocol& p) { p.message<A>("a", {.route = static_cast<Route>(4)}); }) ==
              "message \"a\": no such channel or route");
        CHECK(problem_of(Error::bad_value, [](Protocol& p) { p.message<A>("a").rest(write_text, nullptr); }) ==
              "message \"a\": the rest needs two functions");
        CHECK(problem_of(Error::bad_value, [](Protocol& p) {
                  p.message<A>("a").field(&A::value, Range{1, 0, 1});
              }) == "message \"a\": a Range needs min < max and step > 0");
        CHECK(problem_of(Error::limit_reached, [](Protocol& p) {
                  auto builder = p.message<A>("a");
                  for (int i = 0; i < 17; ++i)
                      builder.field(&A::value);
              }) == "message \"a\": more than 16 fields");
        CHECK(problem_of(Error::limit_reached, [](Protocol& p) { add_256(p), p.message<Number<256>>("m256"); }) ==
              "message \"m256\": more than 256 messages");
        Protocol full;
        add_256(full);
        CHECK(full.finish() == Error::none);
    }

    TEST_CASE("the protocol hash covers each property of a message, and their order") {
        const auto base = [](Protocol& p) { p.message<A>("a").field(&A::value); };
        const ProtocolHash hash = hash_of(base);
        CHECK(hash == hash_of(base));
        CHECK(hash != hash_of([](Protocol&) {}));
        CHECK(hash != hash_of([](Protocol& p) { p.message<A>("b").field(&A::value); }));
        CHECK(hash != hash_of([](Protocol& p) { p.message<A>("a"); }));
        CHECK(hash != hash_of([](Protocol& p) { p.message<A>("a").field(&A::value, Range{0, 9, 1}); }));
        CHECK(hash != hash_of([](Protocol& p) { p.message<A>("a").field(&A::value).rest(write_text, read_text); }));
        for (const MessageOptions options : {MessageOptions{.channel = Channel::unordered}, MessageOptions{.channel = Channel::unreliable},
                                             MessageOptions{.route = Route::both}, MessageOptions{.independent = true},
                                             MessageOptions{.waits_for_tick = true}, MessageOptions{.bytes_max = 1000}})
            CHECK(hash != hash_of([&](Protocol& p) { p.message<A>("a", options).field(&A::value); }));
        CHECK(hash_of([](Protocol& p) { p.message<A>("a"), p.message<B>("b"); }) !=
              hash_of([](Protocol& p) { p.message<B>("b"), p.message<A>("a"); }));
        // The C++ type is not part of it.
        CHECK(hash == hash_of([](Protocol& p) { p.message<B>("a").field(&B::value); }));
    }

    TEST_CASE("handlers are set by type, for messages that arrive on this side only") {
        Protocol protocol;
        add_hit(protocol, {.route = Route::to_client});
        add_chat(protocol, {.route = Route::both, .bytes_max = 200});
        protocol.message<Ping>("ping", {.route = Route::to_server});
        REQUIRE(protocol.finish() == Error::none);
        const MessageTable& table = protocol.messages();
        Dispatcher client(table, Route::to_client, default_allocator()), server(table, Route::to_server, default_allocator());
        Both both;
        CHECK(std::string(client.missing()) == "hit");
        CHECK(client.set(handlers<Hit>(both)) == Error::none);
        CHECK(std::string(client.missing()) == "chat");
        CHECK(client.set(handlers<Hit, Chat>(both)) == Error::none);
        CHECK(client.missing() == nullptr);
        CHECK(server.set(handlers<Chat, Hit>(both)) == Error::bad_value); // hits go to clients
        CHECK(std::string(server.missing()) == "chat");                   // so none was set
        const MessageHandler unknown = handler<A>([](void*, const A&, const Sender&) {});
        CHECK(server.set({&unknown, 1}) == Error::bad_value);
        Chat chat;
        CHECK(client.call(*table.find(message_type_id<Chat>()), &chat, {}));
        CHECK(both.chats == 1);
        CHECK_FALSE(server.call(*table.find(message_type_id<Chat>()), &chat, {}));
        // A plain function replaces it.
        int called = 0;
        const MessageHandler plain = handler<Chat>(
            [](void* context, const Chat&, const Sender& s) { *static_cast<int*>(context) += s.is_local() ? 1 : 100; }, &called);
        CHECK(client.set({&plain, 1}) == Error::none);
        CHECK(client.call(*table.find(message_type_id<Chat>()), &chat, {.origin = Sender::Origin::local}));
        CHECK(called == 1);
        CHECK(both.chats == 1);
    }
}
