#include "tests/model/simulation.hpp"

namespace model {

void Counters::add(const Counters& other) {
    messages += other.messages;
    sections += other.sections;
    lanes_full += other.lanes_full;
    lanes_delta += other.lanes_delta;
    lanes_gone += other.lanes_gone;
    flickers += other.flickers;
    ack_refused += other.ack_refused;
    held_back += other.held_back;
    unapplied += other.unapplied;
    baseline_not_held += other.baseline_not_held;
    named_pruned += other.named_pruned;
    shadowed += other.shadowed;
    overtaken += other.overtaken;
    superseded += other.superseded;
    pruned_pending += other.pruned_pending;
    absolute_needed += other.absolute_needed;
    settled_checks += other.settled_checks;
    heal_ticks += other.heal_ticks;
    worst_heal_ticks = std::max(worst_heal_ticks, other.worst_heal_ticks);
}

Simulation::Simulation(const Setting& setting, Environment& environment, bool tracing)
    : setting_(setting), trace_{tracing}, context_{setting_, environment, counters_, trace_},
      world_(setting.clients, !setting.variants(Variant::no_sidecars)), network_(environment), server_(context_, world_),
      truth_(setting.clients) {
    for (int client = 0; client < setting.clients; ++client) {
        clients_.emplace_back(context_, client);
        checks_.emplace_back(context_, truth_);
    }
}

void Simulation::begin_tick() {
    trace_.tick = ++tick_;
    for (const Packet& packet : network_.arrivals(tick_)) {
        if (packet.direction == Direction::to_server) {
            server_.receive(packet.client, packet.acks);
            continue;
        }
        Client& client = clients_[packet.client];
        const SeenWorld before = client.shown();
        if (client.receive(packet.message, tick_))
            checks_[packet.client].after_message(client, packet.message, before);
    }
}

void Simulation::end_tick() {
    for (int client = 0; client < setting_.clients; ++client)
        truth_.record(client, tick_, world_.seen_by(client));
    std::vector<Outgoing> sent;
    server_.run_tick(tick_, sent);
    world_.end_tick();
    release_left_behind();
    for (Outgoing& out : sent)
        network_.send(tick_, {0, out.client, Direction::to_client, std::move(out.message), {}});
    for (const Client& client : clients_)
        if (Acks acks = client.acks(tick_); !acks.empty())
            network_.send(tick_, {0, client.index(), Direction::to_server, {}, std::move(acks)});
}

/// Lanes of what ended while it was paused are free once no client knows them.
void Simulation::release_left_behind() {
    std::vector<NetId> free;
    for (const Entity& entity : world_.left_behind()) {
        bool known = !context_.rules(Rule::pause_lane);
        for (int client = 0; client < setting_.clients; ++client)
            for (const Slot slot : {entity.home, entity.side})
                known |= slot && has(server_.view(client).chunks[slot.chunk].known, slot.lane);
        if (!known)
            free.push_back(entity.id);
    }
    for (const NetId id : free)
        world_.release_left_behind(id);
}

std::string Simulation::difference() const {
    for (const Client& client : clients_) {
        const std::string name = "client " + std::to_string(client.index());
        const SeenWorld shown = client.shown(), truth = world_.seen_by(client.index());
        if (!same_on_wire(shown, truth))
            return "has not converged: " + name + " shows " + text(shown) + ", should show " + text(truth);
        for (int chunk = 0; chunk < setting_.chunks(); ++chunk) {
            const ChunkView& view = server_.view(client.index()).chunks[chunk];
            if (view.known != view.visible || view.limbo || view.pending || server_.unacked(client.index(), chunk))
                return "never settles: " + name + " chunk " + std::to_string(chunk) + " visible " + lanes_text(view.visible) + " known " +
                       lanes_text(view.known) + " limbo " + lanes_text(view.limbo) + " pending " + lanes_text(view.pending) + " B " +
                       std::to_string(view.baseline);
        }
    }
    return {};
}

} // namespace model
