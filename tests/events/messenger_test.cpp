// The same game code in four set-ups.
#include "tests/support/message_world.hpp"
#include <doctest/doctest.h>

using namespace throng;
using namespace message_test;

namespace {
using Values = std::vector<i64>;

std::string long_text(u32 number) {
    return std::string("a text that is too long for a small string ").append(std::to_string(number));
}

/// What a game does in each set-up, through its Messenger alone.
struct Game {
    Messenger& messages;
    Ear as_server, as_client;
    explicit Game(Messenger& m) : messages(m) {
        REQUIRE(messages.set_server_handlers(server_handlers(as_server)) == Error::none);
        REQUIRE(messages.set_client_handlers(client_handlers(as_client)) == Error::none);
    }
};
} // namespace

TEST_SUITE("events") {
    TEST_CASE("single player: everything stays in the process, and comes with dispatch") {
        const auto protocol = make_protocol();
        Messenger messages(*protocol, {.local_player = true});
        Game game(messages);
        World world;
        const Entity e = world.spawn();
        CHECK(messages.to_server(Attack{e, 1}) == Error::none);
        CHECK(messages.to_clients(To::all(), Hit{e, 2}) == Error::none);
        CHECK(messages.to_clients(To::client(local_player), Hit{e, 3}) == Error::none);
        CHECK(messages.to_clients(To::client(5), Hit{e, 4}) == Error::no_connection);
        CHECK(messages.to_clients(To::all_except(local_player), Hit{e, 5}) == Error::none);
        CHECK(messages.to_clients(To::all_except(7), Hit{e, 6}) == Error::none);
        CHECK(messages.to_clients(To::group(3), Hit{e, 7}) == Error::none);
        CHECK(messages.to_clients(To::observers(e), Hit{e, 8}) == Error::none);
        CHECK(messages.to_server(Hit{e, 9}) == Error::bad_value); // the wrong way
        CHECK(messages.to_clients(To::all(), Attack{e, 9}) == Error::bad_value);
        CHECK(messages.to_clients(To::all(), Chat{e, std::string(3000, 'x')}) == Error::too_large); // as it would be with a connection
        CHECK(game.as_client.heard.empty());
        CHECK(messages.dispatch() == 6);
        CHECK(game.as_server.values("attack") == Values{1});
        CHECK(game.as_client.values("hit") == Values{2, 3, 6, 7, 8});
        for (const Heard& h : game.as_client.heard) {
            CHECK(h.sender.is_local());
            CHECK(h.entity == e); // as it is: nothing is mapped
        }
        CHECK(messages.dispatch() == 0);
        CHECK(messages.shared(Attack{e, 10}) == Error::none); // one copy: sender and server are the same
        CHECK(messages.dispatch() == 1);
        CHECK(game.as_server.values("attack") == Values{1, 10});
    }

    TEST_CASE("local messages: what a handler sends comes next time; a named limit; large objects; what was never taken") {
        const auto protocol = make_protocol();
        Messenger messages(*protocol, {.local_player = true, .local_bytes_max = 64 * 1024});
        Game game(messages);
        struct Echo {
            Messenger& messages;
            int heard = 0;
            void handle(const Attack& attack, const Sender&) {
                ++heard;
                CHECK(messages.to_server(attack) == Error::none);
            }
        } echo{messages};
        REQUIRE(messages.set_server_handlers(handlers<Attack>(echo)) == Error::none);
        CHECK(messages.to_server(Attack{{}, 1}) == Error::none);
        CHECK(messages.dispatch() == 1);
        CHECK(echo.heard == 1);
        CHECK(messages.dispatch() == 1);
        CHECK(echo.heard == 2);
        u32 sent = 0;
        while (messages.to_clients(To::all(), Chat{{}, long_text(sent)}) == Error::none)
            ++sent;
        CHECK(sent > 1000); // several blocks
        CHECK(messages.to_clients(To::all(), Chat{}) == Error::limit_reached);
        CHECK(messages.dispatch() == sent + 1);
        CHECK(game.as_client.heard.size() == sent);
        CHECK(game.as_client.heard.back().what == "chat " + long_text(sent - 1));
        CHECK(messages.to_clients(To::all(), Chat{{}, std::string(300, 'x')}) == Error::none); // freed with the messenger
    }

    TEST_CASE("listen server: the local player is one of the players") {
        MessageWorld net;
        Messenger messages(*net.protocol, {.server = &net.server, .local_player = true});
        Game game(messages);
        auto& peer = net.join();
        const Entity e = net.spawn();
        net.steps(3);
        const GroupId both = net.server.make_group(), remote = net.server.make_group();
        net.server.add_to_group(both, local_player);
        net.server.add_to_group(both, peer.id);
        net.server.add_to_group(remote, peer.id);
        CHECK(messages.to_clients(To::all(), Hit{e, 1}) == Error::none);
        CHECK(messages.to_clients(To::client(local_player), Hit{e, 2}) == Error::none);
        CHECK(messages.to_clients(To::client(peer.id), Hit{e, 3}) == Error::none);
        CHECK(messages.to_clients(To::all_except(local_player), Hit{e, 4}) == Error::none);
        CHECK(messages.to_clients(To::all_except(peer.id), Hit{e, 5}) == Error::none);
        CHECK(messages.to_clients(To::group(both), Hit{e, 6}) == Error::none);
        CHECK(messages.to_clients(To::group(remote), Hit{e, 7}) == Error::none);
        CHECK(messages.to_clients(To::observers(e), Hit{e, 8}) == Error::none);
        CHECK(messages.to_server(Attack{e, 9}) == Error::none);
        CHECK(peer.client->send_message(Attack{net.shown(peer, e), 10}) == Error::none);
        messages.dispatch();
        net.steps(2);
        CHECK(game.as_client.values("hit") == Values{1, 2, 5, 6, 8});
        CHECK(peer.ear.values("hit") == Values{1, 3, 4, 6, 7, 8});
        CHECK(game.as_server.values("attack") == Values{9, 10}); // the same handlers
        CHECK(game.as_server.heard[0].sender.is_local());
        CHECK(game.as_server.heard[1].sender.client == peer.id);
        CHECK(game.as_server.heard[1].entity == e);
    }

    TEST_CASE("dedicated server and client") {
        MessageWorld net;
        auto& peer = net.join();
        Messenger server(*net.protocol, {.server = &net.server}), client(*net.protocol, {.client = peer.client.get()});
        Game server_game(server), client_game(client);
        const Entity e = net.spawn();
        net.steps(3);
        const Entity shown = net.shown(peer, e);
        CHECK(server.to_clients(To::all(), Hit{e, 1}) == Error::none);
        CHECK(server.to_clients(To::client(local_player), Hit{e, 2}) == Error::no_connection); // nobody plays here
        CHECK(server.to_server(Attack{}) == Error::no_connection);
        CHECK(client.to_clients(To::all(), Hit{}) == Error::no_connection);
        CHECK(client.to_server(Attack{shown, 3}) == Error::none);
        CHECK(client.shared(Attack{shown, 4}) == Error::none);
        CHECK(client.dispatch() == 1);
        CHECK(server.dispatch() == 0);
        net.steps(2);
        CHECK(client_game.as_client.values("hit") == Values{1});
        CHECK(server_game.as_server.values("attack") == Values{3, 4});
        REQUIRE(client_game.as_server.values("attack") == Values{4}); // the local copy
        CHECK(client_game.as_server.heard[0].sender.is_local());
        CHECK(client_game.as_server.heard[0].entity == shown);
        CHECK(server_game.as_server.heard[1].entity == e);
        net.server.disconnect(peer.id);
        net.step();
        CHECK(client.to_server(Attack{{}, 5}) == Error::no_connection);
        CHECK(client.shared(Attack{{}, 6}) == Error::no_connection);
        CHECK(client.dispatch() == 0);
    }
}
