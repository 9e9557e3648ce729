#include "tests/model/server.hpp"

#include <algorithm>

namespace model {

constexpr Tick held_back_ticks_max = 8; // small, so that short runs reach it

Server::Server(Context context, const World& world) : context_(context), world_(world) {
    for (int chunk = 0; chunk < context.setting.chunks(); ++chunk)
        mirrors_.emplace_back(context, context.setting.mirror_depth);
    clients_.resize(context.setting.clients);
}

Mask Server::unacked(int client, int chunk) const {
    const ChunkView& view = clients_[client].chunks[chunk];
    return (view.limbo | changed(view, mirrors_[chunk], view.baseline, tick_)) & view.known;
}

/// As far as the client sees it. A lane of which it saw something else at `after` is in limbo.
Mask Server::changed(const ChunkView& view, const Mirror& mirror, Tick after, Tick until) const {
    std::array<Mask, 2> unseen{};
    for (int lane = 0; lane < lane_count && context_.rules(Rule::mask_quiet); ++lane)
        for (int i = 0; i < 2; ++i)
            if (has(view.unseen[lane], i))
                unseen[i] |= bit(lane);
    return mirror.changed(after, until, unseen);
}

void Server::run_tick(Tick tick, std::vector<Outgoing>& out) {
    tick_ = tick;
    infer_timeouts();
    std::array<Mirror::Captured, max_chunks> captured{};
    for (int chunk = 0; chunk < context_.setting.chunks(); ++chunk) {
        Lanes lanes;
        for (int lane = 0; lane < lane_count; ++lane)
            lanes[lane] = world_.lane_value(chunk, lane, !context_.rules(Rule::pause_value));
        captured[chunk] = mirrors_[chunk].capture(tick, lanes);
    }
    for (int client = 0; client < context_.setting.clients; ++client) {
        for (int chunk = 0; chunk < context_.setting.chunks(); ++chunk)
            update_interest(client, chunk, captured[chunk]);
        std::vector<Draft> drafts;
        for (const Group& group : plan(client)) {
            const auto fits = [&](Draft& draft) { return add_to(draft, client, group); };
            if (std::any_of(drafts.begin(), drafts.end(), fits))
                continue;
            Draft fresh;
            if (int(drafts.size()) < context_.setting.messages_per_tick && fits(fresh)) // else over budget: stays pending
                drafts.push_back(std::move(fresh));
        }
        update_settled(client);
        if (drafts.empty() && tick - clients_[client].last_sent_tick >= context_.setting.heartbeat_ticks)
            drafts.emplace_back(); // R18
        for (const Draft& draft : drafts)
            flush(client, draft, out);
    }
}

// ------------------------------------------------------------------------------------------------------- interest

void Server::update_interest(int client, int chunk, Mirror::Captured captured) {
    ChunkView& view = clients_[client].chunks[chunk];
    const Mirror& mirror = mirrors_[chunk];
    const Mask paused = world_.paused(chunk);
    Mask visible = world_.visible(client, chunk);
    if (context_.rules(Rule::pause_sight))
        visible |= view.visible & paused;
    if (context_.rules(Rule::pause_nobody_else))
        visible &= view.visible | ~paused;
    Mask remasked = 0;
    for (int lane = 0; lane < lane_count; ++lane) {
        const Mask unseen = world_.unseen(client, chunk, lane), kept = world_.kept(client, chunk, lane);
        if (has(visible & view.visible, lane) && (view.unseen[lane] != unseen || view.kept[lane] != kept))
            remasked |= bit(lane);
        view.unseen[lane] = unseen;
        view.kept[lane] = kept;
    }
    const Mask moved = view.visible ^ visible;
    const Mask difference = moved | (context_.rules(Rule::mask_private) ? remasked : 0);
    const bool split = context_.variants(Variant::struct_split);

    // What a server that skips idle chunks would look at in this tick.
    const bool visited = captured.dirty || difference || remasked || (view.pending & view.known) || (visible & ~view.known);
    if (visited && context_.variants(Variant::lazy_promote))
        promote(view, mirror);

    // A lane whose occupant was exchanged within the tick shows no difference in visibility: the mirror tells (R4).
    const Mask rebound = context_.rules(Rule::r4_rebind) ? captured.rebound & (view.known | visible) : 0;
    const Mask structural = difference | rebound;
    Mask stamped = structural;
    if (!context_.rules(Rule::r4_struct_gain))
        stamped &= ~(visible & ~view.visible);
    if (!context_.rules(Rule::mask_struct))
        stamped &= ~(remasked & ~(moved | rebound));
    if (split) // changes of occupants are in the mirror's ring; only what no other client shares is kept here
        stamped &= context_.rules(Rule::split_private) ? ~captured.rebound : 0;
    if (context_.variants(Variant::withdraw)) {
        if (context_.rules(Rule::r4_struct))
            withdraw(client, chunk, stamped);
    } else if (stamped) {
        view.struct_tick = tick_;
        view.struct_lanes |= stamped;
    }
    view.visible = visible;
    view.limbo |= structural & view.known;
    view.pending |= (structural | captured.dirty | remasked) & view.known;

    if (!context_.variants(Variant::lazy_promote) && context_.rules(Rule::r4_promote) && !unacked(client, chunk))
        view.baseline = tick_;
    if (visited || !context_.variants(Variant::stall_events))
        revive(client, chunk);
}

/// R4: messages sent before say nothing about these lanes any more.
void Server::withdraw(int client, int chunk, Mask lanes) {
    for (Record& record : clients_[client].records)
        for (Record::Part& part : record.parts)
            if (part.chunk == chunk)
                part.mask &= ~lanes;
}

/// R4, done lazily: until this tick's changes, nothing that the client knows had changed since its baseline.
void Server::promote(ChunkView& view, const Mirror& mirror) const {
    if (context_.rules(Rule::r4_promote) && !((view.limbo | changed(view, mirror, view.baseline, tick_ - 1)) & view.known))
        view.baseline = std::max(view.baseline, tick_ - 1);
}

/// R6: what is unacked and has no record left that could change that is sent again.
void Server::revive(int client, int chunk) {
    if (context_.rules(Rule::r6_stall) && !in_flight(clients_[client], chunk))
        clients_[client].chunks[chunk].pending |= unacked(client, chunk);
}

bool Server::in_flight(const ClientView& client, int chunk) const {
    for (const Record& record : client.records)
        if (!record.lost)
            for (const Record::Part& part : record.parts)
                if (part.chunk == chunk)
                    return true;
    return false;
}

// ----------------------------------------------------------------------------------------------- plan and assemble

/// Visible to the client, and without acked state there.
bool Server::unconfirmed(int client, Slot slot) const {
    const ChunkView& view = clients_[client].chunks[slot.chunk];
    return has(view.visible & (~view.known | view.limbo), slot.lane);
}

/// R1: the slots of an entity that have no acked state travel in one message, the ones that are not pending too.
Server::Group Server::travelling_with(int client, Slot slot) const {
    Group group{slot};
    const auto join = [&](NetId id) {
        const Entity* entity = id ? world_.find_told(id) : nullptr;
        if (!entity)
            return;
        for (const Slot other : {entity->home, entity->side})
            if (other && !(other == slot) && unconfirmed(client, other))
                group.push_back(other);
    };
    if (context_.rules(Rule::r1_together) && unconfirmed(client, slot))
        join(world_.occupant(slot.chunk, slot.lane));
    if (context_.variants(Variant::move_together))
        join(world_.departed(slot.chunk, slot.lane));
    return group;
}

/// What to send in this tick, in any order. A slot is in one group only: the last one that claims it.
std::vector<Server::Group> Server::plan(int client) {
    std::vector<Group> groups;
    std::array<Mask, max_chunks> grouped{};
    for (int chunk = 0; chunk < context_.setting.chunks(); ++chunk) {
        ChunkView& view = clients_[client].chunks[chunk];
        if (context_.variants(Variant::prune_pending)) {
            const Mask needless = view.pending & view.known & ~unacked(client, chunk);
            context_.counters.pruned_pending += count(needless);
            view.pending &= ~needless;
        }
        const Mask wanted = (view.pending & view.known) | (view.visible & ~view.known);
        for (int lane = 0; lane < lane_count; ++lane) {
            if (!has(wanted, lane) || has(grouped[chunk], lane) || context_.environment.budget_skips())
                continue;
            Group group = travelling_with(client, {chunk, lane});
            for (const Slot slot : group) {
                if (has(grouped[slot.chunk], slot.lane))
                    for (Group& earlier : groups)
                        std::erase(earlier, slot);
                grouped[slot.chunk] |= bit(slot.lane);
            }
            groups.push_back(std::move(group));
        }
    }
    std::erase_if(groups, [](const Group& group) { return group.empty(); });
    context_.environment.shuffle(groups);
    return groups;
}

/// R2: without a usable baseline a lane goes out in full, in a limbo section.
bool Server::needs_full(const ChunkView& view, const Mirror& mirror, int lane) {
    if (!has(view.known & ~view.limbo, lane))
        return true;
    const Version* base = mirror.serving(view.baseline);
    if (!base)
        return true;
    if (!context_.rules(Rule::r2_absolute) || base->lanes[lane].occupant == mirror.newest().lanes[lane].occupant)
        return false;
    ++context_.counters.absolute_needed;
    return true;
}

/// Adds the group if the message then still fits a packet.
bool Server::add_to(Draft& draft, int client, const Group& group) {
    Draft larger = draft;
    for (const Slot slot : group) {
        const ChunkView& view = clients_[client].chunks[slot.chunk];
        const bool gone = !has(view.visible, slot.lane);
        const Tick baseline = gone || needs_full(view, mirrors_[slot.chunk], slot.lane) ? no_baseline : view.baseline;
        auto entry = std::find_if(larger.entries.begin(), larger.entries.end(),
                                  [&](const Draft::Entry& e) { return e.chunk == slot.chunk && e.baseline == baseline; });
        if (entry == larger.entries.end())
            entry = larger.entries.insert(entry, Draft::Entry{slot.chunk, baseline});
        (gone ? entry->gone : entry->mask) |= bit(slot.lane);
    }
    if (int(larger.entries.size()) > context_.setting.sections_per_message)
        return false;
    draft = std::move(larger);
    return true;
}

/// R9: the settled tick is the newest one with nothing unsent or unacked.
void Server::update_settled(int client) {
    for (int chunk = 0; chunk < context_.setting.chunks(); ++chunk) {
        const ChunkView& view = clients_[client].chunks[chunk];
        if ((view.pending & view.known) || (view.visible & ~view.known))
            return;
        if (context_.rules(Rule::r9_settled) && (view.known != view.visible || unacked(client, chunk)))
            return;
    }
    clients_[client].settled = tick_;
}

/// R13: only what the backend accepted changes what the server believes.
void Server::flush(int client, const Draft& draft, std::vector<Outgoing>& out) {
    ClientView& state = clients_[client];
    const bool accepted = !context_.environment.backend_refuses();
    if (accepted) {
        Outgoing sent{client, {state.next_message_id++, tick_, state.settled, {}}};
        Record record{sent.message.id, tick_, {}};
        for (const Draft::Entry& entry : draft.entries) {
            const Mirror& mirror = mirrors_[entry.chunk];
            Section section = mirror.encode(entry.chunk, entry.baseline, entry.mask, [&](int lane, const LaneValue& value) {
                return world_.seen_of(client, entry.chunk, lane, value);
            });
            section.gone = entry.gone;
            for (int lane = 0; lane < lane_count; ++lane)
                if (section.limbo() && has(section.mask, lane)) {
                    section.kept[lane] = state.chunks[entry.chunk].kept[lane];
                    for (int i = 0; i < 2 && !context_.rules(Rule::kept_blind); ++i)
                        if (!mirror.newest().lanes[lane].cells[i].present)
                            section.kept[lane] &= ~bit(i);
                }
            record.parts.push_back({entry.chunk, entry.mask | entry.gone});
            context_.trace.line("send    c%d m%d chunk %d base %d lanes %s gone %s", client, sent.message.id, entry.chunk, entry.baseline,
                                lanes_text(section.mask).c_str(), lanes_text(entry.gone).c_str());
            (section.limbo() ? context_.counters.lanes_full : context_.counters.lanes_delta) += count(entry.mask);
            context_.counters.lanes_gone += count(entry.gone);
            ++context_.counters.sections;
            sent.message.sections.push_back(section);
        }
        ++context_.counters.messages;
        state.last_sent_tick = tick_;
        state.records.push_back(std::move(record));
        out.push_back(std::move(sent));
    } else {
        context_.trace.line("refuse  c%d a message of %d sections", client, int(draft.entries.size()));
    }
    if (accepted || !context_.rules(Rule::r13_accepted)) {
        for (const Draft::Entry& entry : draft.entries) {
            ChunkView& view = state.chunks[entry.chunk];
            view.limbo |= entry.mask & ~view.known;
            view.known |= entry.mask;
            view.pending &= ~(entry.mask | entry.gone);
            if (!context_.rules(Rule::r2_gone_until_acked)) {
                view.known &= ~entry.gone;
                view.limbo &= ~entry.gone;
            }
        }
    }
    while (int(state.records.size()) > context_.setting.record_ring) { // R6: the record ring wraps
        if (!state.records.front().lost && context_.rules(Rule::r6_wrap))
            lose(client, state.records.front());
        state.records.pop_front();
    }
}

// --------------------------------------------------------------------------------------------------- acks and loss

/// R6: which lanes the message carried does not matter; what is still unacked in its chunks goes out again.
void Server::lose(int client, Record& record) {
    record.lost = true;
    for (const Record::Part& part : record.parts)
        clients_[client].chunks[part.chunk].pending |= unacked(client, part.chunk);
    context_.trace.line("lost    c%d m%d", client, record.message_id);
}

void Server::infer_timeouts() {
    if (!context_.rules(Rule::r6_loss))
        return;
    for (int client = 0; client < int(clients_.size()); ++client)
        for (Record& record : clients_[client].records)
            if (!record.lost && tick_ - record.tick > context_.setting.loss_timeout_ticks)
                lose(client, record);
}

void Server::receive(int client, const Acks& acks) {
    ClientView& state = clients_[client];
    for (const Ack& ack : acks) {
        const auto found = std::find_if(state.records.begin(), state.records.end(),
                                        [&](const Record& record) { return record.message_id == ack.message_id; });
        if (found == state.records.end())
            continue; // acked before, or its record was overwritten
        const Record record = *found;
        state.records.erase(found);
        for (int i = 0; i < int(record.parts.size()); ++i) {
            const auto [chunk, mask] = record.parts[i];
            ChunkView& view = state.chunks[chunk];
            if (has(ack.unapplied, i)) { // R5
                ++context_.counters.unapplied;
                view.limbo |= mask & view.known;
                view.pending |= mask & view.known;
            } else {
                ack_part(view, mirrors_[chunk], record.tick, mask);
            }
            context_.trace.line("acked   c%d m%d tick %d chunk %d lanes %s%s -> B %d known %s limbo %s pending %s struct %d:%s", client,
                                record.message_id, record.tick, chunk, lanes_text(mask).c_str(), has(ack.unapplied, i) ? " UNAPPLIED" : "",
                                view.baseline, lanes_text(view.known).c_str(), lanes_text(view.limbo).c_str(),
                                lanes_text(view.pending).c_str(), view.struct_tick, lanes_text(view.struct_lanes).c_str());
        }
        if (context_.variants(Variant::stall_events))
            for (const Record::Part& part : record.parts)
                revive(client, part.chunk);
        if (context_.rules(Rule::r6_loss)) {
            for (Record& other : state.records) {
                const bool overtaken = context_.variants(Variant::tick_loss)
                                           ? other.tick + 2 <= record.tick
                                           : other.message_id + context_.setting.loss_later_messages <= record.message_id;
                if (overtaken && !other.lost)
                    lose(client, other);
            }
        }
        // struct-split: no ack can come any more that predates the last private change.
        const Tick oldest = state.records.empty() ? tick_ : state.records.front().tick;
        for (ChunkView& view : state.chunks)
            if (oldest >= view.struct_tick)
                view.struct_lanes = 0;
    }
}

/// R4: lanes that a message of that tick says nothing about any more, because they changed hands or visibility since.
Mask Server::refused_lanes(const ChunkView& view, const Mirror& mirror, Tick sent) const {
    if (!context_.rules(Rule::r4_struct))
        return 0;
    const bool withdrawn = context_.variants(Variant::withdraw); // then the records name such lanes no more
    if (!context_.variants(Variant::struct_split))
        return !withdrawn && sent < view.struct_tick ? all_lanes : 0;
    const Mask rebound = context_.rules(Rule::split_rebound) ? mirror.rebound(sent, tick_) : 0;
    return rebound | (!withdrawn && sent < view.struct_tick ? view.struct_lanes : 0);
}

/// R4, when the client has applied a section of tick `sent` that carried the lanes of `mask`.
void Server::ack_part(ChunkView& view, const Mirror& mirror, Tick sent, Mask mask) {
    mask &= view.known;
    const Mask refused = mask & view.limbo & refused_lanes(view, mirror, sent);
    Mask usable = mask & ~refused;
    context_.counters.ack_refused += count(refused);

    // R2: a lane that is not visible now and was not refused was carried as gone.
    const Mask gone = usable & ~view.visible;
    view.known &= ~gone;
    view.limbo &= ~gone;
    view.pending &= ~gone;
    mask &= ~gone;
    usable &= ~gone;

    if (sent <= view.baseline) {
        view.limbo &= ~(usable & ~changed(view, mirror, sent, view.baseline));
        return;
    }
    const Mask since = changed(view, mirror, view.baseline, sent);
    const Mask stranded = view.known & ~view.limbo & ~mask & since;
    const Mask gained = usable & (view.limbo | since);
    const bool ends = context_.variants(Variant::held_back_end);
    if (context_.rules(Rule::r4_strand) && count(gained) < count(stranded) && !(ends && sent - view.baseline > held_back_ticks_max)) {
        ++context_.counters.held_back;
        if (ends)
            view.pending |= gained; // this ack will not be heard again
        return;
    }
    view.limbo = view.known & ~((view.known & ~view.limbo & ~mask & ~since) | usable);
    view.baseline = sent;
}

} // namespace model
