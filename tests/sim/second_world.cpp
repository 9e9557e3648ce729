#include "tests/sim/second_world.hpp"
#include "src/server/state.hpp"
#include <algorithm>

using namespace throng;
using throng_verify::Difference;
using throng_verify::Kind;

namespace throng_sim {
namespace {

/// Limits and rates of another seed, few entities, and none of what the first world has beside them.
Plan small(u64 seed, Executor* executor) {
    Plan plan(seed ^ 0x2d0);
    plan.server.executor = executor;
    plan.server.clients_max = ServerConfig{}.clients_max;
    plan.server.chunks_max = ServerConfig{}.chunks_max;
    plan.server.lasting_max = ServerConfig{}.lasting_max;
    plan.entities_first = 12;
    plan.entities_max = 25;
    plan.actions_a_tick = std::min(plan.actions_a_tick, 4u);
    plan.pause_chance = 0;
    plan.server_build = {};
    for (u32 p = static_cast<u32>(Piece::lasting); p <= static_cast<u32>(Piece::exact_mood); ++p)
        plan.server_build.lacks |= bit(static_cast<Piece>(p));
    return plan;
}

} // namespace

SecondWorld::SecondWorld(u64 seed, Executor* executor, ServerMultiplexer& worlds, Failure& failure)
    : random_(seed ^ 0x5ec02d), plan_(small(seed, executor)), failure_(failure), worlds_(worlds),
      protocol_(make_protocol(plan_.server_build)), world_({.block_rows = 64}),
      server_(world_, *protocol_, worlds.open(number), plan_.server), truth_(plan_.server_build),
      actions_(plan_, random_, world_, server_, truth_), verifier_(*protocol_, world_, server_) {
    if (server_.valid() != Error::none)
        failure_.report("second world: %s", server_.problem());
    actions_.populate();
}

void SecondWorld::connect(ClientMultiplexer& rooms, ClientId connection, bool dirty) {
    seats_.push_back({&rooms, connection, dirty, nullptr});
    if (healing_ || random_.chance(0.7))
        enter(seats_.back());
}

void SecondWorld::disconnect(ClientId connection) {
    const auto seat = std::ranges::find_if(seats_, [&](const Seat& each) { return each.connection == connection; });
    if (seat == seats_.end())
        return;
    drop(*seat);
    seats_.erase(seat);
}

void SecondWorld::enter(Seat& seat) {
    if (worlds_.client(number, seat.connection) != ServerMultiplexer::nobody)
        return; // the server has yet to hear that it left
    ClientConfig config = plan_.client;
    config.confirm_history = names_ % 2 != 0;
    seat.peer = std::make_unique<Peer>(*protocol_, nullptr, plan_.server_build, *seat.rooms->join(number), seat.connection, names_++,
                                       config, truth_, failure_, seat.dirty, false);
    seat.peer->id = ServerMultiplexer::nobody;
}

void SecondWorld::drop(Seat& seat) {
    if (seat.peer)
        checks_ += seat.peer->checks();
    seat.peer.reset();
}

/// Changes of the world, and of who is in it and sees what.
void SecondWorld::act() {
    for (u32 left = random_.below(plan_.actions_a_tick + 1); left > 0; --left)
        actions_.perform(static_cast<Action>(random_.below(static_cast<u32>(Action::hide))));
    actions_.motion(server_.current_tick());
    for (Seat& seat : seats_) {
        if (!seat.peer && random_.chance(0.05))
            enter(seat);
        else if (!seat.peer || !seat.peer->joined || !server_.joined(seat.peer->id))
            continue;
        else if (random_.chance(0.01))
            seat.rooms->leave(number); // its client hears of it when it receives
        else if (random_.chance(0.005))
            server_.disconnect(seat.peer->id); // from this world only
        else if (const Entity entity = actions_.any_entity(); entity && random_.chance(0.05))
            random_.chance(0.5) ? server_.view(seat.peer->id).hide(entity) : server_.view(seat.peer->id).show(entity);
        else if (random_.chance(0.02))
            server_.view(seat.peer->id).look_at(random_.between(-40, 40), random_.between(-40, 40), {.radius = seat.peer->radius});
    }
}

void SecondWorld::find_seats() {
    for (Seat& seat : seats_)
        if (Peer* const peer = seat.peer.get()) {
            peer->id = worlds_.client(number, seat.connection);
            if (seat.dirty && peer->joined && peer->id == ServerMultiplexer::nobody)
                seat.rooms->leave(number); // damage can say that it leaves
            if (peer->joined || peer->id == ServerMultiplexer::nobody || !server_.joined(peer->id))
                continue;
            peer->joined = true;
            server_.view(peer->id).look_at(random_.between(-20, 20), random_.between(-20, 20), {.radius = peer->radius});
        }
}

const TickReport& SecondWorld::tick(TimeUs now) {
    if (!healing_)
        act();
    server_.receive(now);
    find_seats();
    const TickReport& report = server_.tick(now);
    truth_.record(world_, server_);
    const bool dirty = std::ranges::any_of(seats_, [](const Seat& seat) { return seat.dirty; });
    if (report.hashes_different && !dirty)
        failure_.report("second world: a client's state hash differs at a settled tick");
    if (report.malformed_messages && !dirty)
        failure_.report("second world: the server received a malformed message");
    for (const Seat& seat : seats_)
        if (seat.peer && seat.peer->joined && seat.peer->id != ServerMultiplexer::nobody)
            seat.peer->record_visible(server_.current_tick(), server_);
    return report;
}

void SecondWorld::receive(ClientId connection, TimeUs now) {
    const auto seat = std::ranges::find_if(seats_, [&](const Seat& each) { return each.connection == connection; });
    if (seat == seats_.end() || !seat->peer)
        return;
    Peer& peer = *seat->peer;
    peer.news_heard = false;
    if (const Error error = peer.client.receive(now); error != Error::none && !seat->dirty)
        failure_.report("second world, client %u: receive returned %s", peer.name, throng::to_string(error));
    if (const Error error = peer.client.send(now); error != Error::none && error != Error::limit_reached)
        failure_.report("second world, client %u: send returned %s", peer.name, throng::to_string(error));
    if (!seat->rooms->is_in(number)) // it left, or was let out
        drop(*seat);
}

void SecondWorld::heal() {
    healing_ = true;
    still_since_ = server_.current_tick() + 1;
    for (Seat& seat : seats_)
        if (!seat.peer)
            enter(seat);
}

Difference SecondWorld::difference() {
    for (Seat& seat : seats_) {
        if (!seat.peer)
            enter(seat); // it was on its way out
        if (!seat.peer)
            return {Kind::stale, "second world: a client has not gone yet"};
        Peer& peer = *seat.peer;
        const std::string who = "second world, client " + std::to_string(peer.name);
        if (!peer.joined || peer.id == ServerMultiplexer::nobody || !server_.settled(peer.id))
            return {Kind::stale, who + " does not settle"};
        if (Difference found = verifier_.check(peer.id, peer.world, peer.client, still_since_)) {
            found.text = "second world: " + found.text;
            return found;
        }
    }
    return {};
}

bool SecondWorld::heard() {
    return std::ranges::any_of(seats_, [&](const Seat& seat) {
        if (!seat.peer || seat.peer->id == ServerMultiplexer::nobody)
            return true;
        const ClientState& client = server_.state().clients[seat.peer->id];
        return seat.peer->news_heard || client.next_message - client.oldest_message > 8;
    });
}

u64 SecondWorld::checks() const {
    u64 sum = checks_;
    for (const Seat& seat : seats_)
        sum += seat.peer ? seat.peer->checks() : 0;
    return sum;
}

} // namespace throng_sim
