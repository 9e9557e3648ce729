#include "throng/loopback.hpp"
#include "src/transport/link.hpp"
#include "throng/assert.hpp"
#include <algorithm>
#include <cstring>
#include <new>

namespace throng {

using transport::Link;
using transport::LinkContext;
using transport::Message;
using transport::MessagePool;

namespace {

constexpr TimeUs never_us = ~TimeUs(0);
constexpr TimeUs time_limit_us = TimeUs(1) << 53; // nanoseconds of it fit 64 bits
constexpr u32 connections_per_page = 64;

enum class SlotState : u8 {
    free,
    joining, // the client connected, the server was not told
    open,
    left,   // the client left, the server was not told
    closed, // the server closed, the client was not told
};

} // namespace

struct LoopbackNetwork::Impl {
    // The client's half of one connection, and both links. Pages of these never move.
    struct Connection final : ClientBackend {
        Connection(Impl* network_, ClientId id_) : network(network_), id(id_) {}
        virtual ~Connection() = default;
        void poll(TimeUs now, ClientBackendSink& sink) override { network->poll_client(*this, now, sink); }
        SendResult send(Channel channel, Bytes message) override { return network->send_up(*this, channel, message); }
        void flush(TimeUs now) override { network->flush_client(*this, now); }
        u32 message_bytes_max(Channel channel) const override { return network->message_bytes_max(channel, up); }

        Impl* network;
        ClientId id;
        u32 serial = 0; // connections that the slot has had
        u64 network_id = 0;
        bool told = false; // on_connect was reported to the client
        bool busy = false; // inside poll
        Link down;
        Link up;
    };
    struct Server final : ServerBackend {
        explicit Server(Impl* network_) : network(network_) {}
        virtual ~Server() = default;
        void poll(TimeUs now, ServerBackendSink& sink) override { network->poll_server(now, sink); }
        SendResult send(ClientId client, Channel channel, Bytes message) override { return network->send_down(client, channel, message); }
        std::span<std::byte> room_in_place(ClientId client, u32 bytes) override { return network->room_down(client, bytes); }
        SendResult send_in_place(ClientId client, u32 bytes) override { return network->send_room_down(client, bytes); }
        void flush(TimeUs now) override { network->flush_server(now); }
        void disconnect(ClientId client) override { network->close(client); }
        u32 message_bytes_max(Channel channel) const override {
            return channel == Channel::unreliable ? network->config.unreliable_bytes_max : network->config.reliable_bytes_max;
        }
        u64 network_id(ClientId client) const override {
            THRONG_ASSERT(client < network->slot_count);
            return network->connection(client).network_id;
        }

        Impl* network;
        bool busy = false; // inside poll
    };

    explicit Impl(const LoopbackConfig& c) : config(c), server(this), pool(c.allocator) {
        limits[static_cast<u32>(Channel::unreliable)] = c.unreliable;
        limits[static_cast<u32>(Channel::unordered)] = c.unordered;
        limits[static_cast<u32>(Channel::ordered)] = c.ordered;
        page_count = (c.client_max + connections_per_page - 1) / connections_per_page;
        pages = make_array<Connection*>(page_count, nullptr);
        states = make_array<SlotState>(c.client_max, SlotState::free);
        staged_down = make_array<u8>(c.client_max, u8(0));
        up_due_us = make_array<TimeUs>(c.client_max, never_us);
        pool.reserve(c.reserve_messages);
    }
    ~Impl() {
        for (ClientId id = 0; id < slot_count; ++id) {
            connection(id).down.release_tables(config.allocator);
            connection(id).up.release_tables(config.allocator);
            connection(id).~Connection();
        }
        for (u32 p = 0; p < page_count; ++p)
            config.allocator.free(pages[p], connections_per_page * sizeof(Connection), alignof(Connection));
        free_array(pages, page_count);
        free_array(states, config.client_max);
        free_array(staged_down, config.client_max);
        free_array(up_due_us, config.client_max);
    }
    template <class T>
    T* make_array(u32 count, T value) {
        array_bytes += count * sizeof(T);
        T* array = static_cast<T*>(config.allocator.allocate(count * sizeof(T), alignof(T)));
        std::fill_n(array, count, value);
        return array;
    }
    template <class T>
    void free_array(T* array, u32 count) {
        config.allocator.free(array, count * sizeof(T), alignof(T));
    }

    Connection& connection(ClientId id) const { return pages[id / connections_per_page][id % connections_per_page]; }
    Link& link(ClientId id, Direction direction) const { return direction == Direction::down ? connection(id).down : connection(id).up; }
    bool client_alive(ClientId id) const { return states[id] == SlotState::joining || states[id] == SlotState::open; }
    LinkContext context(const Connection& c, Direction direction) {
        const u64 rtt_us = u64(c.down.delay_us()) + c.up.delay_us();
        const u32 retry_us = static_cast<u32>(std::clamp<u64>(rtt_us, loopback_retry_us_min, ~u32(0)));
        return {pool, config.trace, config.in_flight_messages_max, c.id, direction, config.raw, retry_us};
    }
    u32 message_bytes_max(Channel channel, const Link& link) const {
        if (channel != Channel::unreliable)
            return config.reliable_bytes_max;
        return link.mtu_bytes() ? std::min(link.mtu_bytes(), config.unreliable_bytes_max) : config.unreliable_bytes_max;
    }
    SendResult send(Connection& c, Link& link, Channel channel, Bytes message) {
        THRONG_ASSERT(static_cast<u32>(channel) < channel_count);
        if (message.size() > message_bytes_max(channel, link))
            return link.refuse();
        return link.send(pool, c.id, channel, message, limits[static_cast<u32>(channel)]);
    }

    ClientId connect(const LinkConfig& down, const LinkConfig& up);
    void leave(ClientId id);
    void close(ClientId id);
    void discard(Connection& c);
    void poll_server(TimeUs now, ServerBackendSink& sink);
    void visit(ClientId id, TimeUs now, ServerBackendSink& sink);
    SendResult send_down(ClientId id, Channel channel, Bytes message);
    std::span<std::byte> room_down(ClientId id, u32 bytes);
    SendResult send_room_down(ClientId id, u32 bytes);
    SendResult staged(ClientId id, SendResult result);
    void flush_server(TimeUs now);
    void poll_client(Connection& c, TimeUs now, ClientBackendSink& sink);
    SendResult send_up(Connection& c, Channel channel, Bytes message);
    void flush_client(Connection& c, TimeUs now);

    LoopbackConfig config;
    ChannelLimits limits[channel_count];
    Server server;
    MessagePool pool;
    u32 page_count = 0;
    ClientId slot_count = 0;
    std::size_t array_bytes = 0;
    Connection** pages = nullptr;
    // Dense, so that poll and flush pass over idle clients without touching them.
    SlotState* states = nullptr;
    u8* staged_down = nullptr;      // the down link has messages that wait for flush; each written by its client's sender
    TimeUs* up_due_us = nullptr;    // when the server's poll has to visit the client
    LinkCounters retired[2];        // of earlier connections of the slots
};

ClientId LoopbackNetwork::Impl::connect(const LinkConfig& down, const LinkConfig& up) {
    const void* found = std::memchr(states, static_cast<int>(SlotState::free), config.client_max);
    THRONG_ASSERT(found != nullptr); // client_max reached
    const ClientId id = static_cast<ClientId>(static_cast<const SlotState*>(found) - states);
    if (id == slot_count) { // slots are taken from the lowest, so a new one is the next
        Connection*& page = pages[id / connections_per_page];
        if (!page)
            page = static_cast<Connection*>(config.allocator.allocate(connections_per_page * sizeof(Connection), alignof(Connection)));
        new (&connection(id)) Connection(this, id);
        ++slot_count;
    }
    Connection& c = connection(id);
    for (Direction direction : {Direction::down, Direction::up}) {
        const u32 d = static_cast<u32>(direction);
        Link& l = link(id, direction);
        retired[d] += l.counters();
        l.open(transport::mix64(transport::mix64(config.seed + 0x9e3779b97f4a7c15u) + (u64(c.serial) << 32 | id) * 2 + d));
        l.configure(direction == Direction::down ? down : up, config.allocator);
    }
    ++c.serial;
    c.network_id = id;
    c.told = false;
    states[id] = SlotState::joining;
    staged_down[id] = 0;
    up_due_us[id] = 0;
    return id;
}

void LoopbackNetwork::Impl::discard(Connection& c) {
    c.down.discard(context(c, Direction::down));
    c.up.discard(context(c, Direction::up));
    staged_down[c.id] = 0;
    up_due_us[c.id] = never_us;
}

void LoopbackNetwork::Impl::leave(ClientId id) {
    switch (states[id]) {
    case SlotState::joining:
        discard(connection(id));
        states[id] = SlotState::free;
        break;
    case SlotState::open:
        discard(connection(id));
        states[id] = SlotState::left;
        up_due_us[id] = 0;
        break;
    case SlotState::closed: states[id] = SlotState::free; break;
    case SlotState::free:
    case SlotState::left: break;
    }
}

void LoopbackNetwork::Impl::close(ClientId id) {
    THRONG_ASSERT(id < slot_count);
    if (states[id] == SlotState::left) {
        states[id] = SlotState::free;
        up_due_us[id] = never_us;
    } else if (states[id] == SlotState::open) {
        discard(connection(id));
        states[id] = SlotState::closed;
    }
}

void LoopbackNetwork::Impl::poll_server(TimeUs now, ServerBackendSink& sink) {
    THRONG_ASSERT(now < time_limit_us);
    THRONG_ASSERT(!server.busy);
    server.busy = true;
    for (ClientId id = 0; id < slot_count; ++id)
        if (up_due_us[id] <= now)
            visit(id, now, sink);
    server.busy = false;
}

void LoopbackNetwork::Impl::visit(ClientId id, TimeUs now, ServerBackendSink& sink) {
    if (states[id] == SlotState::left) {
        up_due_us[id] = never_us;
        sink.on_disconnect(id);
        if (states[id] == SlotState::left) // the sink may have closed it, and more
            states[id] = SlotState::free;
        return;
    }
    Connection& c = connection(id);
    const u32 serial = c.serial;
    // The sink may end the connection, whose messages are then gone.
    const auto live = [&] { return c.serial == serial && states[id] == SlotState::open; };
    if (states[id] == SlotState::joining) {
        states[id] = SlotState::open;
        sink.on_connect(id);
    }
    const LinkContext up = context(c, Direction::up);
    while (live()) {
        Message* message = c.up.next_arrival(up, now);
        if (!message) {
            up_due_us[id] = c.up.due_us();
            break;
        }
        sink.on_message(id, message->channel, message->bytes());
        pool.release(id, message);
    }
}

SendResult LoopbackNetwork::Impl::send_down(ClientId id, Channel channel, Bytes message) {
    THRONG_ASSERT(id < slot_count);
    if (states[id] != SlotState::open)
        return SendResult::refused;
    Connection& c = connection(id);
    return staged(id, send(c, c.down, channel, message));
}

std::span<std::byte> LoopbackNetwork::Impl::room_down(ClientId id, u32 bytes) {
    THRONG_ASSERT(id < slot_count);
    if (states[id] != SlotState::open)
        return {};
    Connection& c = connection(id);
    return bytes > message_bytes_max(Channel::unreliable, c.down) ? std::span<std::byte>() : c.down.room_in_place(pool, id, bytes);
}

SendResult LoopbackNetwork::Impl::send_room_down(ClientId id, u32 bytes) {
    return staged(id, connection(id).down.send_in_place(bytes, limits[static_cast<u32>(Channel::unreliable)]));
}

SendResult LoopbackNetwork::Impl::staged(ClientId id, SendResult result) {
    if (result == SendResult::accepted && !staged_down[id])
        staged_down[id] = 1; // written once per flush: neighbours share the cache line
    return result;
}

void LoopbackNetwork::Impl::flush_server(TimeUs now) {
    THRONG_ASSERT(now < time_limit_us);
    THRONG_ASSERT(!server.busy);
    const u8* end = staged_down + slot_count;
    for (u8* staged = staged_down; staged != end; ++staged) {
        staged = static_cast<u8*>(std::memchr(staged, 1, static_cast<std::size_t>(end - staged)));
        if (!staged)
            break;
        *staged = 0;
        const ClientId id = static_cast<ClientId>(staged - staged_down);
        if (id + 2 < slot_count)
            connection(id + 2).down.prefetch();
        if (id + 1 < slot_count)
            connection(id + 1).down.prefetch_staged();
        Connection& c = connection(id);
        c.down.depart(context(c, Direction::down), now);
    }
}

void LoopbackNetwork::Impl::poll_client(Connection& c, TimeUs now, ClientBackendSink& sink) {
    THRONG_ASSERT(now < time_limit_us);
    THRONG_ASSERT(!c.busy);
    if (states[c.id] == SlotState::free || states[c.id] == SlotState::left)
        return;
    c.busy = true;
    const u32 serial = c.serial;
    if (!c.told) {
        c.told = true;
        sink.on_connect();
    }
    const LinkContext down = context(c, Direction::down);
    while (c.serial == serial && client_alive(c.id)) {
        Message* message = c.down.next_arrival(down, now);
        if (!message)
            break;
        sink.on_message(message->channel, message->bytes());
        pool.release(c.id, message);
    }
    if (c.serial == serial && states[c.id] == SlotState::closed) {
        states[c.id] = SlotState::free;
        sink.on_disconnect();
    }
    c.busy = false;
}

SendResult LoopbackNetwork::Impl::send_up(Connection& c, Channel channel, Bytes message) {
    if (!client_alive(c.id))
        return SendResult::refused;
    return send(c, c.up, channel, message);
}

void LoopbackNetwork::Impl::flush_client(Connection& c, TimeUs now) {
    THRONG_ASSERT(now < time_limit_us);
    THRONG_ASSERT(!c.busy);
    if (!client_alive(c.id))
        return;
    c.up.depart(context(c, Direction::up), now);
    if (up_due_us[c.id] != 0) // 0: the server has to be told of the connection
        up_due_us[c.id] = c.up.due_us();
}

LoopbackNetwork::LoopbackNetwork(const LoopbackConfig& config) {
    THRONG_ASSERT(config.client_max > 0);
    THRONG_ASSERT(config.in_flight_messages_max > 0);
    THRONG_ASSERT(config.unreliable_bytes_max > 0 && config.unreliable_bytes_max <= loopback_message_bytes_limit);
    THRONG_ASSERT(config.reliable_bytes_max > 0 && config.reliable_bytes_max <= loopback_message_bytes_limit);
    THRONG_ASSERT(config.unreliable.queue_messages_max > 0 && config.unreliable.queue_bytes_max >= config.unreliable_bytes_max);
    THRONG_ASSERT(config.unordered.queue_messages_max > 0 && config.unordered.queue_bytes_max >= config.reliable_bytes_max);
    THRONG_ASSERT(config.ordered.queue_messages_max > 0 && config.ordered.queue_bytes_max >= config.reliable_bytes_max);
    impl_ = new (config.allocator.allocate(sizeof(Impl), alignof(Impl))) Impl(config);
}

LoopbackNetwork::~LoopbackNetwork() {
    const Allocator allocator = impl_->config.allocator;
    impl_->~Impl();
    allocator.free(impl_, sizeof(Impl), alignof(Impl));
}

ServerBackend& LoopbackNetwork::server() { return impl_->server; }

ClientId LoopbackNetwork::connect(const LinkConfig& down, const LinkConfig& up) { return impl_->connect(down, up); }

ClientBackend& LoopbackNetwork::client(ClientId client) {
    THRONG_ASSERT(client < impl_->slot_count);
    return impl_->connection(client);
}

void LoopbackNetwork::disconnect(ClientId client) {
    THRONG_ASSERT(client < impl_->slot_count);
    impl_->leave(client);
}

void LoopbackNetwork::set_link(ClientId client, Direction direction, const LinkConfig& config) {
    THRONG_ASSERT(client < impl_->slot_count);
    impl_->link(client, direction).configure(config, impl_->config.allocator);
}

void LoopbackNetwork::set_network_id(ClientId client, u64 network_id) {
    THRONG_ASSERT(client < impl_->slot_count && impl_->states[client] == SlotState::joining);
    impl_->connection(client).network_id = network_id;
}

bool LoopbackNetwork::connected(ClientId client) const {
    THRONG_ASSERT(client < impl_->slot_count);
    return impl_->client_alive(client);
}

u32 LoopbackNetwork::slot_count() const { return impl_->slot_count; }

LinkCounters LoopbackNetwork::counters(ClientId client, Direction direction) const {
    THRONG_ASSERT(client < impl_->slot_count);
    return impl_->link(client, direction).counters();
}

LinkCounters LoopbackNetwork::totals(Direction direction) const {
    LinkCounters sum = impl_->retired[static_cast<u32>(direction)];
    for (ClientId id = 0; id < impl_->slot_count; ++id)
        sum += impl_->link(id, direction).counters();
    return sum;
}

std::size_t LoopbackNetwork::message_memory_bytes() const { return impl_->pool.memory_bytes(); }

std::size_t LoopbackNetwork::memory_bytes() const {
    std::size_t bytes = sizeof(Impl) + impl_->array_bytes + impl_->pool.memory_bytes();
    for (u32 p = 0; p < impl_->page_count; ++p)
        if (impl_->pages[p])
            bytes += connections_per_page * sizeof(Impl::Connection);
    for (ClientId id = 0; id < impl_->slot_count; ++id)
        bytes += impl_->connection(id).down.table_bytes() + impl_->connection(id).up.table_bytes();
    return bytes;
}

} // namespace throng
