#include "tests/model/client.hpp"

#include <algorithm>

namespace model {

namespace {
constexpr int results_kept = 40; // messages whose result the client remembers, so that a double is acked the same way
constexpr int results_sent = 6;  // acks in a packet
constexpr int ack_silence_ticks = 3;
} // namespace

// ------------------------------------------------------------------------------------------------------------ ring

const LaneValue* ClientRing::lookup(int lane, Tick baseline) const {
    const ClientVersion* found = nullptr;
    for (const ClientVersion& version : versions_)
        if (version.tick <= baseline)
            found = &version;
    if (found)
        return context_.rules(Rule::r7_copy) || found->carried[lane] == found->tick ? &found->lanes[lane] : nullptr;
    // Below the oldest version its value still holds if it was there by the baseline's tick.
    const ClientVersion& oldest = versions_.front();
    return oldest.carried[lane] <= baseline || !context_.rules(Rule::r7_floor) ? &oldest.lanes[lane] : nullptr;
}

void ClientRing::write(Tick tick, Mask mask, const Lanes& values) {
    auto start = versions_.begin();
    if (start->tick <= tick) { // else the versions of its time are gone, and the oldest kept is the first to patch
        while (start + 1 != versions_.end() && (start + 1)->tick <= tick)
            ++start;
        if (start->tick < tick) {
            ClientVersion fresh = *start;
            fresh.tick = tick;
            start = versions_.insert(start + 1, fresh);
        }
    }
    for (int lane = 0; lane < lane_count; ++lane) {
        if (!has(mask, lane))
            continue;
        for (auto version = start; version != versions_.end(); ++version) {
            if (version->carried[lane] > tick && context_.rules(Rule::r8_old))
                break;
            version->lanes[lane] = values[lane];
            version->carried[lane] = tick;
            if (!context_.rules(Rule::r7_patch))
                break;
        }
    }
}

void ClientRing::prune() {
    while (versions_.size() > 1 && (versions_[1].tick <= newest_named_ || int(versions_.size()) > cap_))
        versions_.erase(versions_.begin());
}

// ---------------------------------------------------------------------------------------------------------- client

Client::Client(Context context, int index) : context_(context), index_(index) {
    for (int chunk = 0; chunk < context.setting.chunks(); ++chunk)
        rings_.emplace_back(context, context.setting.client_ring);
}

SeenWorld Client::shown() const {
    SeenWorld seen;
    for (const auto& [key, place] : places_) {
        Seen& entry = find_or_add(seen, key.id);
        entry.has[int(key.scope)] = true;
        entry.slots[int(key.scope)] = rings_[place.slot.chunk].live().lanes[place.slot.lane];
        if (key.scope != Scope::home)
            continue;
        entry.home = place.slot;
        if (const auto game = game_.find(key.id); game != game_.end())
            entry.slots[0].cells = game->second;
    }
    return seen;
}

Tick Client::newest_state_tick() const {
    Tick newest = 0;
    for (const ClientRing& ring : rings_)
        newest = std::max(newest, ring.live().tick);
    return newest;
}

bool Client::receive(const Message& message, Tick now) {
    last_received_ = now;
    const auto known = std::find_if(results_.begin(), results_.end(), [&](const Ack& ack) { return ack.message_id == message.id; });
    if (known != results_.end()) { // R5: a double is acked again, in the same way
        std::rotate(known, known + 1, results_.end());
        return false;
    }
    if (message.tick < newest_tick_ - context_.setting.max_late_ticks && context_.rules(Rule::r3_late_drop)) {
        context_.trace.line("late    c%d m%d of tick %d dropped", index_, message.id, message.tick);
        return false; // R3: the tombstones of its time are gone, so it is neither applied nor acked
    }
    newest_tick_ = std::max(newest_tick_, message.tick);
    std::erase_if(tombstones_, [&](const auto& stone) { return stone.second < newest_tick_ - context_.setting.max_late_ticks; });
    const Mask unapplied = apply(message);
    results_.push_back({message.id, context_.rules(Rule::r5_unapplied_limbo) ? unapplied : 0});
    if (int(results_.size()) > results_kept)
        results_.erase(results_.begin());
    context_.trace.line("apply   c%d m%d tick %d unapplied sections %s -> %s", index_, message.id, message.tick,
                        lanes_text(unapplied).c_str(), context_.trace.on ? text(shown()).c_str() : "");
    return true;
}

Acks Client::acks(Tick now) const {
    if (now - last_received_ > ack_silence_ticks)
        return {};
    return Acks(results_.end() - std::min<std::ptrdiff_t>(results_sent, std::ssize(results_)), results_.end());
}

/// Decodes every section, then decides which are applicable, then applies those. Returns the ones that are not.
Mask Client::apply(const Message& message) {
    std::vector<Decoded> decoded;
    Mask unapplied = 0, limbo = 0, limbo_with_payload = 0;
    for (int i = 0; i < int(message.sections.size()); ++i) {
        const Section& section = message.sections[i];
        decoded.push_back(decode(section, message.tick));
        if (!decoded.back().applicable)
            unapplied |= bit(i);
        if (section.limbo())
            limbo |= bit(i);
        if (section.limbo() && section.mask)
            limbo_with_payload |= bit(i);
    }
    // R1: the slots of an entity came together, so they are applied together. A section of nothing but "gone" stands alone.
    bool together = (unapplied & limbo) != 0;
    if (!together && context_.rules(Rule::r1_appear_whole) && shows_in_part(message)) {
        ++context_.counters.overtaken;
        together = true;
    }
    if (together)
        unapplied |= limbo_with_payload;
    for (int i = 0; i < int(message.sections.size()); ++i) {
        const Section& section = message.sections[i];
        if (!has(unapplied, i))
            commit(section.chunk, message.tick, decoded[i]);
        ClientRing& ring = rings_[section.chunk];
        if (!section.limbo())
            ring.name(section.baseline);
        ring.prune();
    }
    if (!context_.rules(Rule::r3_shadow_unapplied))
        unapplied &= ~limbo;
    return unapplied;
}

/// R1: the message names an entity that is new, or shown where it was before, in a lane that newer state without it already holds.
bool Client::shows_in_part(const Message& message) const {
    const auto is_shown = [&](NetId id, Scope scope) {
        const auto place = places_.find({id, scope});
        return place != places_.end() ? place->second.tick >= message.tick
                                      : places_.count({id, Scope::home}) || places_.count({id, Scope::side});
    };
    for (const Section& section : message.sections) {
        const ClientVersion& live = rings_[section.chunk].live();
        for (int lane = 0; lane < lane_count; ++lane) {
            if (!section.limbo() || !has(section.mask, lane))
                continue;
            const NetId id = section.lanes[lane].full.occupant;
            if (id != live.lanes[lane].occupant && live.carried[lane] > message.tick && !is_shown(id, scope_of(section.chunk)))
                return true;
        }
    }
    return false;
}

/// R3: a newer tombstone of the slot, or, while nothing is left of the entity here, of any of its slots.
bool Client::shadowed(NetId id, Scope scope, Tick tick) const {
    const bool alive = places_.count({id, Scope::home}) || places_.count({id, Scope::side});
    for (const Scope candidate : {Scope::home, Scope::side}) {
        if (alive && candidate != scope)
            continue;
        const auto stone = tombstones_.find({id, candidate});
        if (stone != tombstones_.end() && stone->second > tick)
            return true;
    }
    return false;
}

Client::Decoded Client::decode(const Section& section, Tick tick) {
    Decoded out;
    if (!context_.rules(Rule::r8_per_lane) && tick < rings_[section.chunk].live().tick)
        return out; // wrongly taken for superseded
    out.mask = section.gone;
    out.full = section.limbo();
    out.kept = section.kept;
    for (int lane = 0; lane < lane_count; ++lane) {
        if (has(section.mask, lane) && !decode_lane(section, lane, tick, out)) {
            out.applicable = false;
            return out;
        }
    }
    return out;
}

/// False: the section cannot be applied. A lane that is superseded is left out of the result.
bool Client::decode_lane(const Section& section, int lane, Tick tick, Decoded& out) {
    const ClientRing& ring = rings_[section.chunk];
    const LanePayload& payload = section.lanes[lane];
    LaneValue value = payload.full;
    if (!section.limbo()) {
        const LaneValue* base = ring.lookup(lane, section.baseline);
        if (!base) {
            if (ring.oldest().tick <= section.baseline)
                throw Violation("ring covers but does not hold: client " + std::to_string(index_) + " chunk " +
                                std::to_string(section.chunk) + " lane " + std::to_string(lane) + " at baseline " +
                                std::to_string(section.baseline));
            // R5: superseded only if all that is kept is newer; a newer live value may hide a version that is needed yet.
            const ClientVersion& kept = context_.rules(Rule::r5_superseded) ? ring.oldest() : ring.live();
            if (tick < kept.carried[lane]) {
                ++context_.counters.superseded;
                return true;
            }
            ++context_.counters.baseline_not_held;
            context_.counters.named_pruned += section.baseline < ring.newest_named();
            return false;
        }
        if (!same_on_wire(*base, payload.base_used))
            throw Violation("wrong baseline: client " + std::to_string(index_) + " decodes chunk " + std::to_string(section.chunk) +
                            " lane " + std::to_string(lane) + " of tick " + std::to_string(tick) + " against baseline " +
                            std::to_string(section.baseline) + " where it holds " + text(base->occupant) + " and the server meant " +
                            text(payload.base_used.occupant));
        value = *base;
        const LaneValue& live = ring.live().lanes[lane];
        if (!context_.rules(Rule::r7_unlisted) && live.occupant == value.occupant)
            value = live;
        for (int i = 0; i < component_count(scope_of(section.chunk)); ++i) {
            const CellChange& change = payload.changes[i];
            Cell& cell = value.cells[i];
            if (change.changed)
                cell = {change.present, cell.value + change.difference, change.counter, change.sequence};
            cell.sequence = change.sequence;
        }
    }
    if (tick >= ring.live().carried[lane] && shadowed(value.occupant, scope_of(section.chunk), tick)) {
        ++context_.counters.shadowed; // R3: if it is still true, it comes again
        return false;
    }
    out.mask |= bit(lane);
    out.values[lane] = value;
    return true;
}

/// Writes the lanes; a lane whose live value this is may move its occupant, or end the one before.
void Client::commit(int chunk, Tick tick, const Decoded& decoded) {
    ClientRing& ring = rings_[chunk];
    const Lanes before = ring.live().lanes;
    ring.write(tick, decoded.mask, decoded.values);
    for (int lane = 0; lane < lane_count; ++lane) {
        if (!has(decoded.mask, lane) || ring.live().carried[lane] != tick)
            continue;
        const Slot here{chunk, lane};
        const NetId was = before[lane].occupant;
        const NetId is = ring.live().lanes[lane].occupant;
        if (was && was != is) {
            const auto place = places_.find({was, scope_of(chunk)});
            if (place != places_.end() && place->second.slot == here) {
                places_.erase(place);
                if (is_home(chunk))
                    game_.erase(was);
                if (context_.rules(Rule::r3_tombstone))
                    tombstones_[{was, scope_of(chunk)}] = tick;
            }
        }
        if (is) {
            const auto [place, added] = places_.try_emplace({is, scope_of(chunk)}, Place{here, tick});
            const bool same = !added && place->second.slot == here && was == is;
            if (!added && (tick >= place->second.tick || !context_.rules(Rule::r3_newest)))
                place->second = {here, tick};
            if (is_home(chunk) && place->second.slot == here)
                write_game(is, here, same ? &before[lane] : nullptr, decoded);
        }
    }
}

/// The game's components follow what has changed between the state before and the present one. Null `before`: the entity is new, or comes
/// from another lane.
void Client::write_game(NetId id, Slot slot, const LaneValue* before, const Decoded& decoded) {
    const LaneValue& now = rings_[slot.chunk].live().lanes[slot.lane];
    Mask& kept = kept_[slot.chunk][slot.lane];
    const Mask had = kept;
    if (decoded.full)
        kept = decoded.kept[slot.lane];
    auto& game = game_[id];
    for (int i = 0; i < component_count(Scope::home); ++i) {
        const bool compare = !before || (has(had, i) && decoded.full && context_.rules(Rule::kept_compare));
        if (game[i].present && !now.cells[i].present && has(kept, i) && context_.rules(Rule::kept_hold))
            continue;
        if (now.cells[i].present || compare || before->cells[i].present || !game[i].present)
            game[i] = now.cells[i];
    }
}

} // namespace model
