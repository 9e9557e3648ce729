// The server's half of the multiplexer.
#include "src/sync/multiplexer_parts.hpp"
#include "throng/assert.hpp"
#include <algorithm>
#include <new>

namespace throng {

using namespace multiplexer;

struct ServerMultiplexer::Impl final : ServerBackendSink {
    /// One client's stay in a world. Written by the multiplexer's calls, and by those of the world.
    struct Seat {
        Seat(const Allocator& allocator) : staged(allocator) {}
        enum class State : u8 {
            free,
            taken,
            left, // the client has; the world hears of it in its next poll
        };
        State state = State::free;
        bool told = false; // the world has been told of the connection, and not of its end
        u8 stream = 0;
        u32 connection = 0;
        u64 network_id = 0; // of the connection: that of the next one in its slot may be another by the time the world asks
        u32 inbox_bytes = 0;
        Staged staged;
    };
    struct Stream {
        u32 connection;
        u8 stream;
    };

    struct WorldBackend final : ServerBackend {
        WorldBackend(Impl& m) : mux(m), seats(m.config.allocator), ended(m.config.allocator), inbox(m.config.allocator) {}
        virtual ~WorldBackend() = default;
        void poll(TimeUs, ServerBackendSink& sink) override;
        SendResult send(ClientId client, Channel channel, Bytes message) override {
            Seat* const seat = sender(client);
            return seat && message.size() <= mux.bytes_max[static_cast<u32>(channel)]
                       ? seat->staged.send(mux.config, seat->stream, channel, message)
                       : SendResult::refused;
        }
        std::span<std::byte> room_in_place(ClientId client, u32 bytes) override {
            Seat* const seat = sender(client);
            if (!seat || bytes > mux.bytes_max[static_cast<u32>(Channel::unreliable)])
                return {};
            return seat->staged.room_for(mux.config, seat->stream, Channel::unreliable, bytes);
        }
        SendResult send_in_place(ClientId client, u32 bytes) override {
            Seat* const seat = sender(client);
            if (!seat)
                return SendResult::refused;
            seat->staged.put_unreliable(bytes);
            return SendResult::accepted;
        }
        void flush(TimeUs) override {} // the multiplexer's
        void disconnect(ClientId client) override;
        u32 message_bytes_max(Channel channel) const override { return mux.bytes_max[static_cast<u32>(channel)]; }
        u64 network_id(ClientId client) const override {
            THRONG_ASSERT(client < seats.size());
            return seats[client].network_id;
        }

        Seat* sender(ClientId client) {
            THRONG_ASSERT(client < seats.size());
            Seat& seat = seats[client];
            return seat.told && seat.state == Seat::State::taken ? &seat : nullptr;
        }
        void free(ClientId client) {
            seats[client].state = Seat::State::free;
            seats[client].staged.release();
            lowest_free = std::min(lowest_free, client);
        }
        ClientId take_seat();

        Impl& mux;
        bool open = false;
        Array<Seat> seats;
        ClientId lowest_free = 0; // none below is
        Array<Stream> ended;      // by the world, since the multiplexer looked last
        Inbox inbox;
    };

    struct OpenStream {
        u8 stream;
        u32 world;
        ClientId client;
    };
    struct Connection {
        explicit Connection(const Allocator& allocator) : streams(allocator), closing(allocator) {}
        bool open = false;
        Array<OpenStream> streams; // ascending by world
        Array<u8> closing;         // streams that the client is still to be told are closed
    };

    Impl(ServerBackend& b, const MultiplexerConfig& c) : backend(b), config(c), worlds(c.allocator), connections(c.allocator) {
        check_config(c);
        for (u32 channel = 0; channel < channel_count; ++channel)
            bytes_max[channel] = beside_stream(b.message_bytes_max(static_cast<Channel>(channel)));
        worlds.resize(c.worlds_max);
    }
    ~Impl() {
        for (WorldBackend* const world : worlds)
            if (world) {
                world->~WorldBackend();
                config.allocator.free(world, sizeof(WorldBackend), alignof(WorldBackend));
            }
    }

    // Of the backend, in poll.
    void on_connect(ClientId id) override {
        while (connections.size() <= id)
            connections.emplace_back(config.allocator);
        connections[id].open = true;
    }
    void on_disconnect(ClientId id) override { end_connection(id); }
    void on_message(ClientId id, Channel channel, Bytes message) override;

    void read_control(ClientId id, Channel channel, Bytes message);
    void open_stream(ClientId id, const Control& control);
    void end_connection(ClientId id);
    void end_stream(ClientId id, std::size_t index);
    void take_ended();
    void forward(ClientId id, u64& refused);

    ServerBackend& backend;
    MultiplexerConfig config;
    u32 bytes_max[channel_count] = {};
    Array<WorldBackend*> worlds;
    Array<Connection> connections; // by the backend's ClientId
    u32 flushes = 0;
    MultiplexerStats stats;
};

ClientId ServerMultiplexer::Impl::WorldBackend::take_seat() {
    while (lowest_free < seats.size() && seats[lowest_free].state != Seat::State::free)
        ++lowest_free;
    if (lowest_free == seats.size())
        seats.emplace_back(mux.config.allocator);
    return lowest_free++;
}

void ServerMultiplexer::Impl::WorldBackend::poll(TimeUs, ServerBackendSink& sink) {
    inbox.take([&](const Inbox::Event& event, Bytes message) {
        const ClientId client = event.who;
        switch (event.kind) {
        case Inbox::Kind::connect:
            seats[client].told = true;
            sink.on_connect(client);
            break;
        case Inbox::Kind::message:
            seats[client].inbox_bytes = 0;
            if (seats[client].told)
                sink.on_message(client, event.channel, message);
            break;
        case Inbox::Kind::disconnect:
            if (std::exchange(seats[client].told, false))
                sink.on_disconnect(client);
            free(client);
        }
    });
}

void ServerMultiplexer::Impl::WorldBackend::disconnect(ClientId client) {
    THRONG_ASSERT(client < seats.size());
    Seat& seat = seats[client];
    if (!std::exchange(seat.told, false) || seat.state != Seat::State::taken)
        return; // what says that the client has left is in the inbox
    ended.push_back({seat.connection, seat.stream});
    free(client);
}

void ServerMultiplexer::Impl::on_message(ClientId id, Channel channel, Bytes message) {
    if (id >= connections.size() || !connections[id].open)
        return;
    if (message.empty()) {
        ++stats.malformed;
        return;
    }
    const u8 stream = std::to_integer<u8>(message[0]);
    if (stream == control_stream)
        return read_control(id, channel, message);
    const Array<OpenStream>& streams = connections[id].streams;
    for (std::size_t i = 0; i < streams.size(); ++i) {
        if (streams[i].stream != stream)
            continue;
        WorldBackend& world = *worlds[streams[i].world];
        if (world.inbox.add_message(world.seats[streams[i].client].inbox_bytes, config.inbox_bytes_max, streams[i].client, channel,
                                    message.subspan(1)))
            return;
        ++stats.overflowed;
        if (channel != Channel::unreliable) {
            connections[id].closing.push_back(stream);
            end_stream(id, i);
        }
        return;
    }
    ++stats.stale;
}

void ServerMultiplexer::Impl::read_control(ClientId id, Channel channel, Bytes message) {
    Control control;
    if (channel != Channel::ordered || multiplexer::read_control(message, control) != Error::none) {
        ++stats.malformed;
        return;
    }
    if (control.what == Control::What::open)
        return open_stream(id, control);
    const Array<OpenStream>& streams = connections[id].streams;
    for (std::size_t i = 0; i < streams.size(); ++i)
        if (streams[i].stream == control.stream)
            return end_stream(id, i);
    ++stats.stale; // the world was faster
}

void ServerMultiplexer::Impl::open_stream(ClientId id, const Control& control) {
    Connection& connection = connections[id];
    Array<OpenStream>& streams = connection.streams;
    const bool used = std::any_of(streams.begin(), streams.end(),
                                  [&](const OpenStream& open) { return open.stream == control.stream || open.world == control.world; });
    if (used || std::find(connection.closing.begin(), connection.closing.end(), control.stream) != connection.closing.end()) {
        ++stats.malformed;
        return;
    }
    if (control.world >= config.worlds_max || !worlds[control.world] || !worlds[control.world]->open) {
        connection.closing.push_back(control.stream);
        return;
    }
    WorldBackend& world = *worlds[control.world];
    const ClientId client = world.take_seat();
    Seat& seat = world.seats[client];
    seat.state = Seat::State::taken;
    seat.stream = control.stream;
    seat.connection = id;
    seat.network_id = backend.network_id(id);
    seat.inbox_bytes = 0;
    seat.staged.reserve();
    world.inbox.add(Inbox::Kind::connect, client);
    streams.push_back({control.stream, control.world, client});
    for (std::size_t i = streams.size() - 1; i > 0 && streams[i - 1].world > streams[i].world; --i)
        std::swap(streams[i - 1], streams[i]);
}

/// The client has left the world.
void ServerMultiplexer::Impl::end_stream(ClientId id, std::size_t index) {
    Array<OpenStream>& streams = connections[id].streams;
    const OpenStream stream = streams[index];
    for (; index + 1 < streams.size(); ++index)
        streams[index] = streams[index + 1];
    streams.pop_back();
    WorldBackend& world = *worlds[stream.world];
    world.seats[stream.client].state = Seat::State::left;
    world.seats[stream.client].staged.release();
    world.inbox.add(Inbox::Kind::disconnect, stream.client);
}

void ServerMultiplexer::Impl::end_connection(ClientId id) {
    Connection& connection = connections[id];
    while (!connection.streams.empty())
        end_stream(id, connection.streams.size() - 1);
    connection.closing.clear();
    connection.open = false;
}

/// Streams that worlds have ended: their clients are told.
void ServerMultiplexer::Impl::take_ended() {
    for (WorldBackend* const world : worlds) {
        if (!world)
            continue;
        for (const Stream& ended : world->ended) {
            Connection& connection = connections[ended.connection];
            for (std::size_t i = 0; i < connection.streams.size(); ++i)
                if (connection.streams[i].stream == ended.stream) {
                    for (; i + 1 < connection.streams.size(); ++i)
                        connection.streams[i] = connection.streams[i + 1];
                    connection.streams.pop_back();
                    connection.closing.push_back(ended.stream);
                }
        }
        world->ended.clear();
    }
}

void ServerMultiplexer::Impl::forward(ClientId id, u64& refused) {
    Connection& connection = connections[id];
    std::size_t told = 0;
    for (; told < connection.closing.size(); ++told) {
        std::byte message[control_bytes_max];
        const u32 bytes = write_control(message, {Control::What::close, connection.closing[told], 0});
        if (backend.send(id, Channel::ordered, {message, bytes}) != SendResult::accepted)
            break;
    }
    if (told > 0) {
        std::copy(connection.closing.begin() + told, connection.closing.end(), connection.closing.begin());
        connection.closing.resize(connection.closing.size() - told);
    }
    const std::size_t count = connection.streams.size();
    for (std::size_t i = 0; i < count; ++i) {
        const OpenStream& stream = connection.streams[(i + flushes) % count];
        Staged& staged = worlds[stream.world]->seats[stream.client].staged;
        if (!staged.empty())
            refused += staged.forward([&](Channel channel, Bytes message) { return backend.send(id, channel, message); });
    }
}

ServerMultiplexer::ServerMultiplexer(ServerBackend& backend, const MultiplexerConfig& config)
    : impl_(new (config.allocator.allocate(sizeof(Impl), alignof(Impl))) Impl(backend, config)) {}

ServerMultiplexer::~ServerMultiplexer() {
    const Allocator allocator = impl_->config.allocator;
    impl_->~Impl();
    allocator.free(impl_, sizeof(Impl), alignof(Impl));
}

ServerBackend& ServerMultiplexer::open(u32 world) {
    THRONG_ASSERT(world < impl_->config.worlds_max);
    Impl::WorldBackend*& backend = impl_->worlds[world];
    if (!backend) {
        const Allocator& allocator = impl_->config.allocator;
        backend = new (allocator.allocate(sizeof(Impl::WorldBackend), alignof(Impl::WorldBackend))) Impl::WorldBackend(*impl_);
    }
    backend->open = true;
    return *backend;
}

void ServerMultiplexer::close(u32 world) {
    if (!is_open(world))
        return;
    Impl::WorldBackend& backend = *impl_->worlds[world];
    impl_->take_ended();
    backend.open = false;
    for (Impl::Connection& connection : impl_->connections)
        for (std::size_t i = 0; i < connection.streams.size(); ++i)
            if (connection.streams[i].world == world)
                backend.ended.push_back({static_cast<u32>(&connection - impl_->connections.begin()), connection.streams[i].stream});
    impl_->take_ended();
    backend.inbox.clear();
    backend.seats.clear();
    backend.lowest_free = 0;
}

bool ServerMultiplexer::is_open(u32 world) const {
    return world < impl_->config.worlds_max && impl_->worlds[world] && impl_->worlds[world]->open;
}

void ServerMultiplexer::poll(TimeUs now) {
    impl_->take_ended();
    impl_->backend.poll(now, *impl_);
}

void ServerMultiplexer::flush(TimeUs now) {
    Impl& impl = *impl_;
    impl.take_ended();
    const auto range = [&](u32 begin, u32 end, u32) {
        u64 refused = 0;
        for (u32 id = begin; id < end; ++id)
            if (impl.connections[id].open)
                impl.forward(id, refused);
        if (refused > 0)
            __atomic_fetch_add(&impl.stats.refused, refused, __ATOMIC_RELAXED);
    };
    constexpr u32 grain = 64;
    const u32 count = static_cast<u32>(impl.connections.size());
    if (impl.config.executor)
        for_ranges(*impl.config.executor, count, grain, range);
    else
        range(0, count, 0);
    ++impl.flushes;
    impl.backend.flush(now);
}

void ServerMultiplexer::disconnect(ClientId connection) {
    Impl& impl = *impl_;
    if (connection >= impl.connections.size() || !impl.connections[connection].open)
        return;
    impl.take_ended();
    impl.end_connection(connection);
    impl.backend.disconnect(connection);
}

ClientId ServerMultiplexer::connection(u32 world, ClientId client) const {
    if (!is_open(world) || client >= impl_->worlds[world]->seats.size())
        return nobody;
    const Impl::Seat& seat = impl_->worlds[world]->seats[client];
    return seat.state == Impl::Seat::State::taken ? seat.connection : nobody;
}

ClientId ServerMultiplexer::client(u32 world, ClientId connection) const {
    if (connection < impl_->connections.size())
        for (const Impl::OpenStream& stream : impl_->connections[connection].streams)
            if (stream.world == world)
                return stream.client;
    return nobody;
}

const MultiplexerStats& ServerMultiplexer::stats() const {
    return impl_->stats;
}

} // namespace throng
