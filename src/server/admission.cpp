#include "src/server/admission.hpp"
#include "src/server/state.hpp"

namespace throng {

void reject(ServerState& state, ClientId id, const Reject& reason) {
    std::byte message[2 + reject_text_max];
    const u32 bytes = write_reject(message, reason);
    (void)state.backend.send(id, Channel::ordered, {message, bytes});
    forget_closing(state, id); // it was to be closed later
    state.closing.push_back({id, state.tick + Server::closing_ticks});
}

void forget_admission(ServerState& state, ClientId id) {
    if (!std::exchange(state.clients[id].in_review, false))
        return;
    for (u32 i = 0; i < state.in_review.size(); ++i)
        if (state.in_review[i] == id)
            state.in_review.erase_unordered(i--);
}

namespace {

void review_later(ServerState& state, ClientId id) {
    if (!std::exchange(state.clients[id].in_review, true))
        state.in_review.push_back(id);
}

void turn_away(ServerState& state, ClientId id, const Reject& reason) {
    reject(state, id, reason);
    reset_client(state, id);
}

Error other_protocol(ServerState& state, ClientId id, std::string_view text) {
    turn_away(state, id, {RejectReason::protocol, text});
    return Error::wrong_protocol;
}

/// It is the client that adapts: it learns what there is, and says hello again with our hash, or with its own once more.
Error tell_table(ServerState& state, ClientId id) {
    const Array<std::byte>& table = state.table_message;
    if (table.size() > 1 + protocol_table_bytes_max || table.size() > state.backend.message_bytes_max(Channel::ordered))
        return other_protocol(state, id, "another protocol, and the table is too large to tell");
    if (state.backend.send(id, Channel::ordered, {table.data(), table.size()}) == SendResult::accepted) {
        state.clients[id].table_told = true;
        forget_admission(state, id);
    } else {
        review_later(state, id);
    }
    return Error::none;
}

void welcome(ServerState& state, ClientId id) {
    ClientState& client = state.clients[id];
    Welcome message{client.hello_hash, state.tick, static_cast<u16>(state.layout.tick_hz), 0};
    if (state.layout.spatial_component >= 0)
        message.cell_steps = static_cast<u32>(state.grid.cell_steps());
    std::byte out[welcome_bytes];
    write_welcome(out, message);
    if (state.backend.send(id, Channel::ordered, out) != SendResult::accepted)
        return review_later(state, id);
    forget_admission(state, id);
    client.joined = true;
    client.joined_sequence = state.outbox.sequence;
    client.chunks.reserve(24); // usual sizes, so that few clients grow them while they play
    client.sends.reserve(48);
    client.acks.reserve(16);
    client.unapplied.reserve(16);
    client.records.resize(std::min(64u, state.config.records_max));
    client.sections.resize(512);
    client.view_changed = state.views_changed = true;
    client.last_sent_tick = state.tick;
    ++state.joined_count;
    if (state.events.on_join)
        state.events.on_join(state.events.context, id);
}

/// Of a client that has been accepted. What the backend refuses to carry is tried again in the next receive().
Error answer(ServerState& state, ClientId id) {
    ClientState& client = state.clients[id];
    if (state.config.authorization != Authorization::none && client.hello_hash != state.protocol.hash())
        return client.table_told ? other_protocol(state, id, "another protocol") : tell_table(state, id);
    welcome(state, id);
    return Error::none;
}

/// A client that waits is let in.
Error let_in(ServerState& state, ClientId id) {
    state.clients[id].admission = Admission::accepted;
    forget_admission(state, id);
    return answer(state, id);
}

/// Whether the host has not decided about it, in a call of accept, refuse or disconnect.
bool undecided(const ServerState& state, ClientId id) {
    return id < state.clients.size() && state.clients[id].admission == Admission::waiting;
}

Error ask_host(ServerState& state, ClientId id, const ClientHello& hello) {
    state.clients[id].admission = Admission::waiting;
    state.clients[id].hello_us = state.now;
    review_later(state, id);
    const Verdict verdict = state.events.on_hello(state.events.context, id, hello);
    if (!undecided(state, id) || verdict == Verdict::later)
        return Error::none;
    if (verdict == Verdict::yes)
        return let_in(state, id);
    turn_away(state, id, {RejectReason::unauthorized, "not authorized"});
    return Error::none;
}

} // namespace

Error take_hello(ServerState& state, ClientId id, Bytes message) {
    Hello hello;
    if (const Error error = read_hello(message, hello); error != Error::none)
        return error;
    ClientState& client = state.clients[id];
    if (client.joined || client.admission == Admission::waiting)
        return Error::bad_value;
    if (hello.format_version != wire_format_version)
        return other_protocol(state, id, "another wire format version");
    client.hello_hash = hello.hash;
    if (client.admission == Admission::none && state.config.authorization == Authorization::custom)
        return ask_host(state, id, {hello.data, hello.hash == state.protocol.hash()});
    client.admission = Admission::accepted;
    return answer(state, id);
}

void review_admissions(ServerState& state) {
    const TimeUs patience = TimeUs(state.config.verdict_wait_ms) * 1000;
    for (u32 i = 0; i < state.in_review.size();) {
        const ClientId id = state.in_review[i];
        const ClientState& client = state.clients[id];
        if (client.admission == Admission::accepted) {
            (void)answer(state, id); // the hello has been counted
        } else if (patience > 0 && state.now - client.hello_us > patience) {
            turn_away(state, id, {RejectReason::unauthorized, "no verdict in time"});
            if (state.events.on_withdraw)
                state.events.on_withdraw(state.events.context, id);
        }
        i += i < state.in_review.size() && state.in_review[i] == id;
    }
}

bool Server::waiting(ClientId client) const {
    return undecided(*state_, client);
}

Error Server::accept(ClientId client) {
    if (!undecided(*state_, client))
        return Error::no_connection;
    (void)let_in(*state_, client); // what may come of it is told to the client
    return Error::none;
}

Error Server::refuse(ClientId client, std::string_view text) {
    if (!undecided(*state_, client))
        return Error::no_connection;
    turn_away(*state_, client, {RejectReason::unauthorized, text});
    return Error::none;
}

} // namespace throng
