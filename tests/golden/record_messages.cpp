// Prints a golden file (format: tools/wire_check.py) of a session with typed messages both ways: every kind of field, references,
// functions, messages that wait for their tick, and such as come before the join. What was lost is left out. With "versions" the client
// is of an older build, which reads the server by its table.
#include "src/server/state.hpp"
#include "tests/events/messages.hpp"
#include "tests/golden/golden_print.hpp"
#include "throng/client.hpp"
#include "throng/loopback.hpp"
#include <vector>

using namespace throng;
using events_test::Chat;
using events_test::Hit;
using events_test::Ping;

namespace {
struct Place {
    float x = 0, z = 0;
};
struct Speed {
    float x = 0, z = 0;
};
struct Mood {
    float yaw = 0;
    u16 anger = 0;
    Entity cause;
};
struct Growth {
    i32 size = 0;
    u64 age = 0;
    i8 level = 0;
    bool grown = false;
};
struct Words {
    std::string text;
};
u32 write_words(const void* component, std::span<std::byte> out) {
    const std::string& text = static_cast<const Words*>(component)->text;
    if (text.size() <= out.size())
        std::memcpy(out.data(), text.data(), text.size());
    return static_cast<u32>(text.size());
}
Error read_words(void* component, Bytes in) {
    static_cast<Words*>(component)->text.assign(reinterpret_cast<const char*>(in.data()), in.size());
    return Error::none;
}

void record(void*, const TraceRecord& record) {
    golden::print_delivered(record);
}

Hit hit(u32 number, Entity target, Entity source) {
    Hit out;
    out.target = target;
    out.source = number % 3 ? source : Entity{};
    out.damage = static_cast<float>(number) * 13.7f - 120; // beyond the range at both ends
    out.angle = static_cast<float>(number) * 0.7f - 4;
    out.delta = static_cast<i16>(number * 2500);
    out.part = static_cast<events_test::Part>(number % 3);
    out.critical = number % 2 != 0;
    out.serial = u64(number) << 58 | number;
    return out;
}

struct Count {
    u32 hits = 0, chats = 0, pings = 0;
    void handle(const Hit&, const Sender&) { ++hits; }
    void handle(const Chat&, const Sender&) { ++chats; }
    void handle(const Ping&, const Sender&) { ++pings; }
};

void add_components(Protocol& protocol, bool all) {
    const Range map{-1000, 1000, 0.01}, speeds{-20, 20, 0.05};
    auto place = protocol.component<Place>("place");
    place.field(&Place::x, map).field(&Place::z, map).spatial(&Place::x, &Place::z);
    if (!all)
        return;
    place.extrapolated_by(&Speed::x, &Speed::z);
    protocol.component<Mood>("mood").field(&Mood::yaw, Angle{9}, "yaw").field(&Mood::anger, "anger").field(&Mood::cause);
    protocol.opaque<Words>("words", 30, write_words, read_words);
    protocol.component<Speed>("speed").field(&Speed::x, speeds, "metres a second to the east").field(&Speed::z, speeds, "to the north");
    protocol.component<Growth>("growth").field(&Growth::size).field(&Growth::age).field(&Growth::level).field(&Growth::grown);
}
/// As it was before messages were told apart by style, and hits had a part and a serial number.
void add_older(Protocol& protocol) {
    add_components(protocol, false);
    events_test::add_chat(protocol, {.channel = Channel::unordered, .route = Route::both, .bytes_max = 150});
    protocol.message<Hit>("hit", {.route = Route::both, .waits_for_tick = true})
        .field(&Hit::target)
        .field(&Hit::damage, Range{-100, 500, 0.5})
        .field(&Hit::angle, Angle{10})
        .field(&Hit::delta)
        .field(&Hit::source);
}
} // namespace

int main(int count, char** values) {
    const bool versions = count == 2 && std::strcmp(values[1], "versions") == 0;
    Protocol protocol, older;
    add_components(protocol, versions);
    add_older(older);
    events_test::add_hit(protocol, {.route = Route::both, .waits_for_tick = true});
    events_test::add_chat(protocol, {.channel = Channel::unordered, .route = Route::both, .bytes_max = 200});
    protocol.message<Ping>("ping", {.channel = Channel::unreliable, .independent = true});
    if (protocol.finish() != Error::none || older.finish() != Error::none)
        return 1;
    World world, client_world;
    LoopbackNetwork network({.seed = 21, .trace = {&record, nullptr}});
    Server server(world, protocol, network.server(), {.cell_size = 60, .hash_ticks = 8, .first_tick = 0xffff'fff0u});
    golden::print_protocol(protocol.layout(), static_cast<u32>(server.state().grid.cell_steps()), {}, ", \"hashes\": true",
                           &protocol.messages());
    const ClientId id = network.connect({.loss_percent = 10, .delay_us = 60'000, .jitter_us = 70'000}, {.delay_us = 40'000});
    Client client(client_world, versions ? older : protocol, network.client(id));
    Count at_server, at_client;
    if (server.set_handlers(handlers<Hit, Chat>(at_server)) != Error::none ||
        client.set_handlers(handlers<Hit, Chat>(at_client)) != Error::none ||
        (!versions && client.set_handlers(handlers<Ping>(at_client)) != Error::none))
        return 1;
    std::vector<Entity> all;
    for (u32 i = 0; i < 300; ++i) // net ids of two bytes
        all.push_back(world.spawn(Place{static_cast<float>(i % 20), static_cast<float>(i / 20)}, Replicated{}));
    for (u32 i = 0; versions && i < 300; i += 3) {
        world.add<Speed>(all[i], Speed{1, -2});
        world.add<Mood>(all[i], Mood{static_cast<float>(i), static_cast<u16>(i), all[i / 2]});
        world.add<Growth>(all[i], Growth{static_cast<i32>(i) - 150, u64(i) << 40, static_cast<i8>(i % 7), i % 2 == 0});
        world.add<Words>(all[i], Words{std::string(i % 20, 'w')});
    }
    TimeUs now = 0;
    u32 refused = 0;
    const auto check = [&](Error error) { refused += error != Error::none; };
    for (u32 tick = 0; tick < 60; ++tick) {
        now += 50'000;
        server.receive(now);
        if (tick < 3 || tick % 10 == 0)
            check(server.send_message(To::all(), Ping{}));
        if (server.joined(id) && tick < 40) {
            server.view(id).look_at(10, 8, {.radius = 60});
            const Entity target = all[tick * 7], source = all[299 - tick];
            check(server.send_message(To::observers(target), hit(tick, target, source)));
            check(server.send_message(To::client(id), Chat{source, static_cast<u8>(tick), std::string(tick * 4, 'a')}));
            check(server.send_message(To::all(), Chat{{}, 255, "said to all"})); // a second item in its bundle
            world.mut<Place>(target)->x += 0.5f;
        }
        server.tick(now);
        refused += client.receive(now) != Error::none;
        if (const Entity shown = client.entity(server.net_id(all[tick])); shown && tick < 40) {
            check(client.send_message(hit(tick, shown, {})));
            check(client.send_message(Chat{shown, 1, "said by a client"}));
        }
        refused += client.send(now) != Error::none;
    }
    const u64 pings = versions ? client.stats().typed.unknown : at_client.pings;
    const bool good = refused == 0 && at_server.hits > 20 && at_server.chats == at_server.hits && at_client.hits > 30 &&
                      at_client.chats == 2 * at_client.hits && pings > 3 && server.settled(id);
    if (!good)
        std::fprintf(stderr, "record_messages: the session did not go well: %u refused, %u %u %u %u %u\n", refused, at_server.hits,
                     at_server.chats, at_client.hits, at_client.chats, at_client.pings);
    return good ? 0 : 1;
}
