// Listings of docs/guide.md: typed messages.
#include "tests/guide/ticks.hpp"
#include "throng/loopback.hpp"
#include "throng/messenger.hpp"
#include <algorithm>
#include <doctest/doctest.h>
#include <string>

using namespace throng;

namespace {
struct Position { float x = 0, z = 0; };
u32 write_text(const void* message, std::span<std::byte> out);
Error read_text(void* message, std::span<const std::byte> in);

// [messages]
struct Hit { Entity target; float damage = 0; bool critical = false; };
struct Chat { Entity speaker; std::string text; };
struct Attack { Entity target; };
using ToServer = MessageList<Attack, Chat>;
using ToClients = MessageList<Hit, Chat>;

void register_messages(Protocol& protocol) {
    protocol.message<Hit>("hit").field(&Hit::target).field(&Hit::damage, Range{0, 1000, 0.5}).field(&Hit::critical);
    protocol.message<Chat>("chat", {.route = Route::both, .bytes_max = 500}).field(&Chat::speaker).rest(write_text, read_text);
    protocol.message<Attack>("attack", {.channel = Channel::unreliable, .route = Route::to_server}).field(&Attack::target);
    protocol.message_lists(ToServer{}, ToClients{}); // finish() refuses a message that its list lacks
}
// [/messages]

u32 write_text(const void* message, std::span<std::byte> out) {
    const std::string& text = static_cast<const Chat*>(message)->text;
    if (text.size() <= out.size())
        std::copy_n(reinterpret_cast<const std::byte*>(text.data()), text.size(), out.data());
    return static_cast<u32>(text.size());
}
Error read_text(void* message, std::span<const std::byte> in) {
    static_cast<Chat*>(message)->text.assign(reinterpret_cast<const char*>(in.data()), in.size());
    return Error::none;
}

// [handlers]
struct Screen {
    int hits = 0;
    std::string last_line;
    void handle(const Hit& hit, const Sender&) { hits += hit.target ? 1 : 0; }
    void handle(const Chat& chat, const Sender&) { last_line = chat.text; }
};

Error listen(Client& client, Screen& screen) {
    return client.set_handlers(handlers(screen, ToClients{})); // without an overload for one of them: a compile-time error
}
// [/handlers]

struct Game {
    Game() : network({.seed = 3}) {
        const Range map{-8192, 8192, 0.01};
        protocol.component<Position>("position").field(&Position::x, map).field(&Position::z, map).spatial(&Position::x, &Position::z);
        register_messages(protocol);
        REQUIRE(protocol.finish() == Error::none);
        server = new Server(world, protocol, network.server(), {.cell_size = 64});
        id = network.connect();
        client = new Client(client_world, protocol, network.client(id));
        steps(4);
        REQUIRE(server->joined(id));
    }
    ~Game() {
        delete client;
        delete server;
    }
    void steps(int count) { play(*server, *client, now, count); }
    Protocol protocol;
    World world, client_world;
    LoopbackNetwork network;
    Server* server = nullptr;
    Client* client = nullptr;
    ClientId id = 0;
    TimeUs now = 0;
};
} // namespace

TEST_SUITE("guide") {
    TEST_CASE("sending") {
        Game game;
        Server& server = *game.server;
        Client& client = *game.client;
        Screen screen;
        REQUIRE(listen(client, screen) == Error::none);
        CHECK(client.missing_handler() == nullptr);
        const ClientId id = game.id;
        const Entity orc = game.world.spawn(Position{}, Replicated{});
        server.view(id).follow(orc, {.radius = 60});
        // [send]
        const GroupId party = server.make_group();
        server.add_to_group(party, id);
        Error error = server.send_message(To::observers(orc), Hit{orc, 12.5f, true}); // whoever sees the orc
        if (error == Error::none)
            error = server.send_message(To::group(party), Chat{orc, "for the horde"});
        if (error == Error::none)
            error = server.send_message(To::all_except(id), Chat{{}, "to the others"});
        // [/send]
        CHECK(error == Error::none);
        game.steps(3);
        CHECK(screen.hits == 1);
        CHECK(screen.last_line == "for the horde");
        CHECK(client.send_message(Attack{client.entity(server.net_id(orc))}) == Error::none);
        CHECK(client.send_message(Attack{game.client_world.spawn()}) == Error::bad_value);
        server.disconnect_after_flush(id);
    }

    TEST_CASE("four set-ups") {
        Protocol protocol;
        register_messages(protocol);
        REQUIRE(protocol.finish() == Error::none);
        Screen screen;
        World world;
        const Entity orc = world.spawn();
        // [messenger]
        struct Rules {
            Messenger& messages;
            void handle(const Attack& attack, const Sender&) { // sender.client, or sender.is_local()
                (void)messages.to_clients(To::all(), Hit{attack.target, 5, false}); // an Error: too many at once
            }
            void handle(const Chat& chat, const Sender& sender) {
                (void)messages.to_clients(To::all_except(sender.client), chat);
            }
        };
        Messenger messages(protocol, {.local_player = true}); // or a server, a server and a local player, a client
        Rules rules{messages};
        Error error = messages.set_server_handlers(handlers(rules, ToServer{}));
        if (error == Error::none)
            error = messages.set_client_handlers(handlers(screen, ToClients{}));
        if (error == Error::none)
            error = messages.to_server(Attack{orc});
        messages.dispatch(); // once a loop: the rules hear of the attack
        messages.dispatch(); // and the screen of the hit
        // [/messenger]
        CHECK(error == Error::none);
        CHECK(screen.hits == 1);
    }
}
