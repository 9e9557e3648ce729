// Prints a golden file (format: tools/wire_check.py) of a session in which texts get lines at the end, as diffs, and change otherwise. What
// was lost is left out. The client's state hashes show that the diffs, done in order, make what the server has.
#include "src/server/state.hpp"
#include "tests/golden/golden_print.hpp"
#include "tests/support/journal.hpp"
#include "throng/client.hpp"
#include "throng/loopback.hpp"
#include <vector>

using namespace throng;
using throng_test::Journal;
using throng_test::Line;

namespace {
void record(void*, const TraceRecord& record) {
    golden::print_delivered(record);
}
} // namespace

int main() {
    Protocol protocol;
    throng_test::journal(protocol, {.history = 12});
    if (protocol.finish() != Error::none)
        return 1;
    World world, client_world;
    LoopbackNetwork network({.seed = 22, .trace = {&record, nullptr}});
    Server server(world, protocol, network.server(), {.hash_ticks = 4, .first_tick = 0xffff'ffe8u, .compression = Compression::never});
    golden::print_protocol(protocol.layout(), 0, {}, ", \"hashes\": true");
    const ClientId id = network.connect({}, {});
    Client client(client_world, protocol, network.client(id));
    std::vector<Entity> all;
    for (u32 i = 0; i < 6; ++i)
        all.push_back(world.spawn(Journal{std::string(40 + 30 * i, static_cast<char>('a' + i))}, Replicated{}));
    TimeUs now = 0;
    u32 refused = 0;
    for (u32 tick = 0; tick < 70; ++tick) {
        now += 50'000;
        server.receive(now);
        if (tick == 2) // it has joined
            network.set_link(id, Direction::down, {.loss_percent = 20, .delay_us = 60'000, .jitter_us = 70'000, .duplicate_percent = 10});
        for (u32 lines = tick < 55 ? tick % 4 : 0; lines > 0; --lines)
            refused += server.apply_diff<Journal>(all[(tick * 5 + lines) % all.size()], Line{std::to_string(tick + lines)}) != Error::none;
        if (tick % 16 == 15 && tick < 55)
            world.mut<Journal>(all[tick % all.size()])->text[tick % 40] = '!';
        server.tick(now);
        refused += client.receive(now) != Error::none;
        refused += client.send(now) != Error::none;
    }
    const bool good = refused == 0 && server.settled(id) && client.stats().hash_reports > 0 && client.stats().unapplied_opaque == 0;
    if (!good)
        std::fprintf(stderr, "record_diffs: the session did not go well: %u refused\n", refused);
    return good ? 0 : 1;
}
