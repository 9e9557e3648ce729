#include "tests/model/checks.hpp"

namespace model {

void Checks::after_message(const Client& client, const Message& message, const SeenWorld& before) {
    const SeenWorld shown = client.shown();
    nothing_hidden_was_sent(client, message);
    no_older_value(client, shown);
    what_is_kept_rests(client, before, shown);
    entities_appear_whole(client, message, before, shown);
    nobody_is_resurrected(client, message, before, shown);
    settled_tick_is_true(client, message, shown);
}

void Checks::nothing_hidden_was_sent(const Client& client, const Message& message) const {
    const SeenWorld& truth = truth_.at(client.index(), message.tick);
    for (const Section& section : message.sections) {
        for (int lane = 0; lane < lane_count; ++lane) {
            if (!has(section.mask, lane))
                continue;
            const NetId id = section.limbo() ? section.lanes[lane].full.occupant : section.lanes[lane].base_used.occupant;
            const Seen* seen = id ? find(truth, id) : nullptr;
            if (id && !(seen && seen->has[int(scope_of(section.chunk))]))
                throw Violation("must not be seen: client " + std::to_string(client.index()) + " is sent " + text(id));
            if (!id || !is_home(section.chunk))
                continue;
            for (int i = 0; i < component_count(Scope::home); ++i) {
                const CellChange& change = section.lanes[lane].changes[i];
                const bool sent = section.limbo() ? section.lanes[lane].full.cells[i].present : change.changed && change.present;
                if (sent && !seen->slots[0].cells[i].present)
                    throw Violation("must not be seen: client " + std::to_string(client.index()) + " is sent a component of " + text(id));
            }
            if (section.limbo() && section.kept[lane] != seen->kept)
                throw Violation("must not be known: client " + std::to_string(client.index()) + " can tell what " + text(id) + " has");
        }
    }
}

void Checks::what_is_kept_rests(const Client& client, const SeenWorld& before, const SeenWorld& shown) const {
    for (const Seen& seen : shown) {
        const Seen* was = find(before, seen.id);
        if (!seen.has[0] || !was || !was->has[0] || was->home != seen.home)
            continue;
        const Seen* truth = find(truth_.at(client.index(), client.carried_tick(seen.home)), seen.id);
        for (int i = 0; truth && i < component_count(Scope::home); ++i)
            if (const Cell& a = was->slots[0].cells[i], &b = seen.slots[0].cells[i];
                has(truth->kept, i) && (a.present != b.present || (a.present && !same_on_wire(a, b))))
                throw Violation("does not keep: client " + std::to_string(client.index()) + " component " + std::to_string(i) + " of " +
                                text(seen.id));
    }
}

void Checks::no_older_value(const Client& client, const SeenWorld& shown) {
    for (const Seen& seen : shown) {
        for (int scope = 0; scope < scope_count; ++scope) {
            if (!seen.has[scope])
                continue;
            if (seen.slots[scope].occupant != seen.id)
                throw Violation("wrong occupant: client " + std::to_string(client.index()) + " shows " +
                                text(seen.slots[scope].occupant) + " in the place of " + text(seen.id));
            for (int i = 0; i < component_count(Scope(scope)); ++i) {
                int& newest = newest_sequence_[{seen.id, scope, i}];
                if (seen.slots[scope].cells[i].sequence < newest)
                    throw Violation("older value again: client " + std::to_string(client.index()) + " turns component " +
                                    std::to_string(i) + " of " + text(seen.id) + " back");
                newest = seen.slots[scope].cells[i].sequence;
            }
        }
    }
}

void Checks::entities_appear_whole(const Client& client, const Message& message, const SeenWorld& before, const SeenWorld& shown) const {
    for (const Seen& seen : shown) {
        if (find(before, seen.id))
            continue;
        const Seen* owed = find(truth_.at(client.index(), message.tick), seen.id);
        for (int scope = 0; owed && scope < scope_count; ++scope)
            if (owed->has[scope] && !seen.has[scope])
                throw Violation("appears without a slot: client " + std::to_string(client.index()) + " shows " + text(seen.id) +
                                " without its " + (scope == 0 ? "home" : "side"));
    }
}

void Checks::nobody_is_resurrected(const Client& client, const Message& message, const SeenWorld& before, const SeenWorld& shown) {
    for (const Seen& seen : shown) {
        const auto removed = removed_at_.find(seen.id);
        if (!find(before, seen.id) && removed != removed_at_.end() && message.tick < removed->second)
            throw Violation("resurrected: client " + std::to_string(client.index()) + " tick " + std::to_string(message.tick) +
                            " brings back " + text(seen.id) + ", removed at " + std::to_string(removed->second));
    }
    for (const Seen& seen : before) {
        if (find(shown, seen.id))
            continue;
        removed_at_[seen.id] = message.tick;
        context_.counters.flickers += find(truth_.at(client.index(), message.tick), seen.id) != nullptr; // it only moved
    }
}

void Checks::settled_tick_is_true(const Client& client, const Message& message, const SeenWorld& shown) const {
    if (message.settled < client.newest_state_tick())
        return; // R9: it shows newer state already
    ++context_.counters.settled_checks;
    const SeenWorld& truth = truth_.at(client.index(), message.settled);
    if (!same_on_wire(shown, truth))
        throw Violation("settled tick differs: client " + std::to_string(client.index()) + " at " + std::to_string(message.settled) +
                        " shows " + text(shown) + ", should show " + text(truth));
}

std::string kind_of(const std::string& why) { return why.substr(0, why.find(':')); }

} // namespace model
