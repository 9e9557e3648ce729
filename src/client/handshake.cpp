// How a session begins: hello, the server's table where its protocol is another one, welcome. And how it is refused.
#include "src/client/client_impl.hpp"
#include <cstdio>

namespace throng {

void Client::Impl::on_connect() {
    connected = true;
    joined = refused = welcome_held = false;
    refusal = Error::none;
    problem[0] = 0;
    release(offered);
    speak(protocol);
    hello_due = true;
}

void Client::Impl::on_disconnect() {
    connected = joined = hello_due = false;
    drop_typed();
    begin_report();
}

/// From here on the server's messages are those of `with`.
void Client::Impl::speak(const Protocol& with) {
    if (spoken == &with)
        return;
    spoken = &with;
    waiting.set_table(with.messages());
}

void Client::Impl::release(Agreement*& agreement) {
    if (!agreement)
        return;
    agreement->~Agreement();
    config.allocator.free(agreement, sizeof(Agreement), alignof(Agreement));
    agreement = nullptr;
}

Error Client::Impl::refuse(Error error, std::string_view text) {
    refused = true;
    joined = false;
    refusal = error;
    std::snprintf(problem, sizeof problem, "%.*s", static_cast<int>(text.size()), text.data());
    return Error::none;
}

Error Client::Impl::read_reject(Bytes message) {
    Reject reject;
    if (const Error error = throng::read_reject(message, reject); error != Error::none)
        return error;
    constexpr Error errors[reject_reason_max] = {Error::wrong_protocol, Error::limit_reached, Error::unauthorized};
    return refuse(errors[static_cast<u32>(reject.reason) - 1], reject.text);
}

/// The server has another protocol. If it can be read, hello is said anew, with its hash; else with ours, so that the server knows.
Error Client::Impl::read_table(Bytes table) {
    if (joined || offered)
        return Error::bad_value;
    auto* const read = ::new (config.allocator.allocate(sizeof(Agreement), alignof(Agreement))) Agreement;
    offered = read;
    const Error error = read->protocol.read_table(table, protocol);
    if (error == Error::none) {
        read->buffers.emplace(read->protocol.layout(), protocol.dictionary(), config.allocator);
        speak(read->protocol);
        hello_due = true;
        return welcome_held ? join(held_welcome) : Error::none;
    }
    if (error == Error::wrong_protocol) {
        (void)refuse(error, read->protocol.problem());
        hello_due = true;
    }
    release(offered);
    return error == Error::wrong_protocol ? Error::none : error;
}

Error Client::Impl::read_welcome(Bytes message) {
    Welcome welcome;
    if (const Error error = throng::read_welcome(message, welcome); error != Error::none)
        return error;
    if (joined)
        return Error::bad_value;
    if (welcome.hash == spoken->hash() || offered)
        return join(welcome);
    held_welcome = welcome; // the table is on its way
    welcome_held = true;
    return Error::none;
}

Error Client::Impl::join(const Welcome& welcome) {
    if (welcome.hash != spoken->hash() || welcome.tick_hz != spoken->tick_hz())
        return refuse(Error::wrong_protocol, "the welcome is of another protocol");
    clear();
    begin_report();
    if (agreed != offered) {
        // What is held is of the protocol that was spoken before.
        release(agreed);
        agreed = offered;
        layout = &spoken->layout();
        if (rules)
            ruled = rules->session(*layout);
        buffers = agreed ? &*agreed->buffers : &scratch->buffers;
        rings.~ChunkRings();
        ::new (&rings) ChunkRings(*layout, config.allocator, config.ring_versions_max);
    }
    offered = nullptr;
    newest_tick = settled_tick = welcome_tick = welcome.tick;
    cell_steps = welcome.cell_steps;
    connected = joined = true;
    joined_us = now_us;
    return Error::none;
}

Error Client::Impl::send_hello() {
    std::byte message[hello_bytes + hello_data_bytes_max];
    const bool first = !offered && !refused; // not one after the table
    const Bytes data = first ? Bytes{hello_data.data(), hello_data.size()} : Bytes{};
    const u32 bytes = write_hello(message, {wire_format_version, spoken->hash(), data});
    if (backend.send(Channel::ordered, {message, bytes}) != SendResult::accepted)
        return Error::limit_reached;
    hello_due = false;
    return Error::none;
}

Error Client::set_hello_data(Bytes data) {
    if (data.size() > hello_data_bytes_max)
        return Error::too_large;
    impl_->hello_data.clear();
    impl_->hello_data.append(data.data(), static_cast<u32>(data.size()));
    return Error::none;
}

} // namespace throng
