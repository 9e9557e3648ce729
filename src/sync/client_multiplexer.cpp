// The client's half of the multiplexer.
#include "src/sync/multiplexer_parts.hpp"
#include "throng/assert.hpp"
#include <algorithm>
#include <new>

namespace throng {

using namespace multiplexer;

struct ClientMultiplexer::Impl final : ClientBackendSink {
    struct WorldBackend final : ClientBackend {
        WorldBackend(Impl& m, u32 number) : mux(m), world(number), inbox(m.config.allocator), staged(m.config.allocator) {}
        virtual ~WorldBackend() = default;
        void poll(TimeUs, ClientBackendSink& sink) override;
        SendResult send(Channel channel, Bytes message) override {
            if (!open || told != session || message.size() > mux.bytes_max[static_cast<u32>(channel)])
                return SendResult::refused;
            if (channel == Channel::unordered && !heard)
                return SendResult::refused; // it could overtake what opens the stream
            return staged.send(mux.config, stream, channel, message);
        }
        void flush(TimeUs) override {} // the multiplexer's
        u32 message_bytes_max(Channel channel) const override { return mux.bytes_max[static_cast<u32>(channel)]; }

        Impl& mux;
        const u32 world;
        bool wanted = false;
        bool open = false;  // has a stream
        bool heard = false; // the world has said something on it
        u8 stream = 0;
        u32 session = 0; // of its streams so far
        u32 told = 0;    // the session of which the Client has been told, and not of its end; 0: none
        u32 inbox_bytes = 0;
        Inbox inbox;
        Staged staged;
    };

    Impl(ClientBackend& b, const MultiplexerConfig& c) : backend(b), config(c), worlds(c.allocator), controls(c.allocator) {
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
    void on_connect() override {
        connected = true;
        for (WorldBackend* const world : worlds)
            if (world && world->wanted)
                open_stream(*world);
    }
    void on_disconnect() override {
        connected = false;
        controls.clear();
        for (WorldBackend* const world : worlds)
            if (world && world->open)
                end_stream(*world);
    }
    void on_message(Channel channel, Bytes message) override;
    void read_control(Channel channel, Bytes message);
    void open_stream(WorldBackend& world);
    void end_stream(WorldBackend& world);

    ClientBackend& backend;
    MultiplexerConfig config;
    u32 bytes_max[channel_count] = {};
    Array<WorldBackend*> worlds;
    WorldBackend* stream_of[multiplexer_streams_max] = {};
    u32 open_count = 0;
    u32 next_stream = 0;
    bool connected = false;
    Array<Control> controls; // to be sent, before anything else
    MultiplexerStats stats;
};

void ClientMultiplexer::Impl::WorldBackend::poll(TimeUs, ClientBackendSink& sink) {
    inbox_bytes = 0;
    inbox.take([&](const Inbox::Event& event, Bytes message) {
        switch (event.kind) {
        case Inbox::Kind::connect:
            told = event.who;
            sink.on_connect();
            break;
        case Inbox::Kind::message:
            sink.on_message(event.channel, message);
            break;
        case Inbox::Kind::disconnect:
            told = 0;
            sink.on_disconnect();
        }
    });
}

void ClientMultiplexer::Impl::open_stream(WorldBackend& world) {
    while (stream_of[next_stream])
        next_stream = (next_stream + 1) % multiplexer_streams_max;
    world.stream = static_cast<u8>(next_stream);
    world.open = true;
    world.heard = false;
    world.staged.reserve();
    ++world.session;
    world.session += world.session == 0; // 0 is none
    ++open_count;
    stream_of[next_stream] = &world;
    next_stream = (next_stream + 1) % multiplexer_streams_max;
    controls.push_back({Control::What::open, world.stream, world.world});
    world.inbox.add(Inbox::Kind::connect, world.session);
}

void ClientMultiplexer::Impl::end_stream(WorldBackend& world) {
    stream_of[world.stream] = nullptr;
    world.open = false;
    --open_count;
    world.staged.release();
    world.inbox.add(Inbox::Kind::disconnect, world.session);
}

void ClientMultiplexer::Impl::on_message(Channel channel, Bytes message) {
    if (message.empty()) {
        ++stats.malformed;
        return;
    }
    const u8 stream = std::to_integer<u8>(message[0]);
    if (stream == control_stream)
        return read_control(channel, message);
    WorldBackend* const world = stream_of[stream];
    if (!world) {
        ++stats.stale;
        return;
    }
    world->heard = true;
    if (world->inbox.add_message(world->inbox_bytes, config.inbox_bytes_max, world->session, channel, message.subspan(1)))
        return;
    ++stats.overflowed;
    if (channel == Channel::unreliable)
        return;
    world->wanted = false;
    controls.push_back({Control::What::close, world->stream, 0});
    end_stream(*world);
}

void ClientMultiplexer::Impl::read_control(Channel channel, Bytes message) {
    Control control;
    if (channel != Channel::ordered || multiplexer::read_control(message, control) != Error::none || control.what != Control::What::close) {
        ++stats.malformed;
        return;
    }
    WorldBackend* const world = stream_of[control.stream];
    if (!world) {
        ++stats.stale; // the client was faster
        return;
    }
    world->wanted = false;
    end_stream(*world);
}

ClientMultiplexer::ClientMultiplexer(ClientBackend& backend, const MultiplexerConfig& config)
    : impl_(new (config.allocator.allocate(sizeof(Impl), alignof(Impl))) Impl(backend, config)) {}

ClientMultiplexer::~ClientMultiplexer() {
    const Allocator allocator = impl_->config.allocator;
    impl_->~Impl();
    allocator.free(impl_, sizeof(Impl), alignof(Impl));
}

ClientBackend* ClientMultiplexer::join(u32 world) {
    Impl& impl = *impl_;
    THRONG_ASSERT(world < impl.config.worlds_max);
    Impl::WorldBackend*& backend = impl.worlds[world];
    if (!backend) {
        const Allocator& allocator = impl.config.allocator;
        backend = new (allocator.allocate(sizeof(Impl::WorldBackend), alignof(Impl::WorldBackend))) Impl::WorldBackend(impl, world);
    }
    if (backend->wanted)
        return backend;
    const auto wanted = [](const Impl::WorldBackend* each) { return each && each->wanted; };
    if (std::count_if(impl.worlds.begin(), impl.worlds.end(), wanted) >= static_cast<std::ptrdiff_t>(multiplexer_streams_max))
        return nullptr;
    backend->wanted = true;
    if (impl.connected)
        impl.open_stream(*backend);
    return backend;
}

void ClientMultiplexer::leave(u32 world) {
    if (!is_in(world))
        return;
    Impl::WorldBackend& backend = *impl_->worlds[world];
    backend.wanted = false;
    if (!backend.open)
        return;
    impl_->controls.push_back({Control::What::close, backend.stream, 0});
    impl_->end_stream(backend);
}

bool ClientMultiplexer::is_in(u32 world) const {
    return world < impl_->config.worlds_max && impl_->worlds[world] && impl_->worlds[world]->wanted;
}

void ClientMultiplexer::poll(TimeUs now) {
    impl_->backend.poll(now, *impl_);
}

void ClientMultiplexer::flush(TimeUs now) {
    Impl& impl = *impl_;
    std::size_t told = 0;
    for (; told < impl.controls.size(); ++told) {
        std::byte message[control_bytes_max];
        const u32 bytes = write_control(message, impl.controls[told]);
        if (impl.backend.send(Channel::ordered, {message, bytes}) != SendResult::accepted)
            break;
    }
    const bool all = told == impl.controls.size();
    std::copy(impl.controls.begin() + told, impl.controls.end(), impl.controls.begin());
    impl.controls.resize(impl.controls.size() - told);
    for (Impl::WorldBackend* const world : impl.worlds)
        if (all && world && !world->staged.empty())
            impl.stats.refused +=
                world->staged.forward([&](Channel channel, Bytes message) { return impl.backend.send(channel, message); });
    impl.backend.flush(now);
}

const MultiplexerStats& ClientMultiplexer::stats() const {
    return impl_->stats;
}

} // namespace throng
