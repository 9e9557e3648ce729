// The session: reading of messages, acks; and the public face of Client. handshake.cpp says how a session begins.
#include "src/base/seeded_bug.hpp"
#include "src/client/client_impl.hpp"
#include "src/registry/state_hash.hpp"
#include "throng/wire.hpp"
#include <bit>

namespace throng {
namespace {
constexpr u8 never_settled = 255;
/// Chunks looked at per receive() for being empty and forgotten.
constexpr u32 retire_chunks_per_receive = 8;
/// Size of an ack message at most, and messages a send.
constexpr u32 ack_bytes_max = 1200;
constexpr u32 ack_messages_max = 8;
} // namespace

// ---------------------------------------------------------------------------------------------------- ClientScratch
ClientScratch::Impl::Impl(const Protocol& used_protocol, Allocator used_allocator)
    : allocator(used_allocator), protocol(used_protocol), buffers(used_protocol.layout(), used_protocol.dictionary(), used_allocator),
      sections(used_allocator), opaque(used_allocator), kept(used_allocator), bytes(used_allocator), made(used_allocator),
      spawned(used_allocator),
      vanished(used_allocator), carried(used_allocator), wire_objects(used_allocator) {
    for (const ComponentInfo& info : protocol.components())
        if ((info.opaque_bytes_max > 0 || info.form.size_bytes > 0) && info.size_bytes > object_bytes)
            object_bytes = info.size_bytes;
    wire_objects.reserve(protocol);
    if (object_bytes > 0)
        object = allocator.allocate(object_bytes, object_alignment);
}

ClientScratch::Impl::~Impl() { allocator.free(object, object_bytes, object_alignment); }

ClientScratch::ClientScratch(const Protocol& protocol, Allocator allocator)
    : impl_(new (allocator.allocate(sizeof(Impl), alignof(Impl))) Impl(protocol, allocator)) {}

ClientScratch::~ClientScratch() {
    const Allocator allocator = impl_->allocator;
    impl_->~Impl();
    allocator.free(impl_, sizeof(Impl), alignof(Impl));
}

// ---------------------------------------------------------------------------------------------------- Client::Impl
namespace {
ClientConfig with_allocator(ClientConfig config, const Allocator& allocator) {
    config.allocator = allocator;
    return config;
}
} // namespace

Client::Impl::Impl(World& client_world, const Protocol& client_protocol, ClientBackend& client_backend, const ClientConfig& client_config)
    : world(client_world), protocol(client_protocol), spoken(&client_protocol), layout(&client_protocol.layout()), backend(client_backend),
      memory(client_config.allocator), config(with_allocator(client_config, memory.allocator())), scratch_memory(config.allocator),
      rings(*layout, config.allocator, config.ring_versions_max),
      index(config.allocator, config.entities_max, config.references_max), acks(config.allocator), record_of_slot(config.allocator),
      rules(config.rules ? config.rules->impl_ : nullptr), present_of_record(config.allocator), routed_writes(config.allocator),
      histories(config.allocator),
      dispatcher(protocol.messages(), Route::to_client, config.allocator),
      waiting(protocol.messages(), config.allocator),
      outgoing{ItemQueue(config.allocator), ItemQueue(config.allocator), ItemQueue(config.allocator)}, typed_buffer(config.allocator),
      hello_data(config.allocator) {
    THRONG_ASSERT(config.max_late_ticks < 1u << 30);
    THRONG_ASSERT(backend.message_bytes_max(Channel::unreliable) >= AckLog::ack_bytes_min);
    if (!config.scratch) {
        const Allocator a = scratch_memory.allocator();
        own_scratch = new (a.allocate(sizeof(ClientScratch), alignof(ClientScratch))) ClientScratch(protocol, a);
    }
    scratch = (config.scratch ? config.scratch : own_scratch)->impl_;
    THRONG_ASSERT(&scratch->protocol == &protocol);
    buffers = &scratch->buffers;
    for (const ComponentInfo& info : protocol.components()) {
        info.ensure_pool(world);
        THRONG_ASSERT((info.opaque_bytes_max == 0 && info.form.size_bytes == 0 && !rules) ||
                      world.pool_of(info.id)->ops().alignment <= ClientScratch::Impl::object_alignment);
    }
    if (!rules)
        return;
    THRONG_ASSERT(&rules->protocol == &protocol);
    ruled = rules->session(*layout);
    for (u32 i = 0; i < rules->pools.size(); ++i)
        rules->pools[i](world);
    if (rules->object_bytes_max > 0)
        received_objects = static_cast<std::byte*>(
            config.allocator.allocate(rules->object_bytes_max * lane_count, ClientScratch::Impl::object_alignment));
}

Client::Impl::~Impl() {
    release(offered);
    release(agreed);
    if (received_objects)
        config.allocator.free(received_objects, rules->object_bytes_max * lane_count, ClientScratch::Impl::object_alignment);
    if (!own_scratch)
        return;
    own_scratch->~ClientScratch();
    scratch_memory.allocator().free(own_scratch, sizeof(ClientScratch), alignof(ClientScratch));
}

void Client::Impl::on_message(Channel channel, Bytes message) {
    ++stats.messages;
    stats.bytes += message.size();
    if (refused)
        return;
    const Error error = read_message(channel, message);
    if (!waiting.empty())
        release_waiting(false);
    if (error != Error::none)
        count_error(error);
}

void Client::Impl::count_error(Error error) {
    if (error == Error::limit_reached)
        ++stats.limit_drops;
    else
        ++stats.malformed[static_cast<u32>(error) < ClientStats::error_count ? static_cast<u32>(error) : 0];
    if (first_error == Error::none)
        first_error = error;
}

Error Client::Impl::read_message(Channel channel, Bytes message) {
    if (message.empty())
        return Error::truncated;
    const u8 kind = static_cast<u8>(message[0]);
    switch (static_cast<MessageKind>(kind & ~(hash_wanted_bit | userdata_bit))) {
    case MessageKind::state:
    case MessageKind::ends: return read_state(message);
    default:
        if ((message[0] & ~bundle_hash_bit) == bundle_kind)
            return read_bundle(channel, message);
    }
    switch (static_cast<MessageKind>(kind)) {
    case MessageKind::welcome: return read_welcome(message);
    case MessageKind::reject: return read_reject(message);
    case MessageKind::table: return read_table(message.subspan(1));
    default: return Error::bad_value;
    }
}

Error Client::Impl::read_state(Bytes message) {
    if (!joined) {
        ++stats.early_drops;
        return Error::none;
    }
    StateHeader head;
    if (const Error error = read_state_header(message, head); error != Error::none)
        return error;
    const u16 id = head.id;
    const Tick tick = head.tick;
    switch (acks.look_up(id)) {
    case AckLog::Seen::duplicate:
        ++stats.duplicates;
        acks.repeat(id);
        return Error::none;
    case AckLog::Seen::late: ++stats.late_drops; return Error::none;
    case AckLog::Seen::fresh: break;
    }
    // R3: beyond this age, tombstones are forgotten, so nothing may be applied.
    if (tick_newer(newest_tick - config.max_late_ticks, tick)) {
        ++stats.late_drops;
        return Error::none;
    }
    const Bytes content = message.subspan(header_bytes(static_cast<u32>(head.userdata.size())));
    const bool ends = head.ends;
    Error error = ends ? check_ends(content) : stage(content, tick);
    if (error == Error::none && !ends && !within_limits(tick))
        error = Error::limit_reached;
    if (error != Error::none) {
        release_staged();
        return error;
    }
    if (tick_newer(tick, newest_tick))
        newest_tick = tick;
    index.expire_tombstones(newest_tick - config.max_late_ticks);
    acks.judged(id);
    for (std::size_t i = 0; i < scratch->sections.size(); ++i)
        if (scratch->sections[i].unapplied && !seeded_bug(SeededBug::ack_before_apply))
            acks.unapplied(id, static_cast<u16>(i));
    stats.heartbeats += content.empty();
    ++stats.applied;
    stats.applied_bytes += content.empty() ? 0 : message.size();
    if (!head.userdata.empty() && config.on_userdata)
        config.on_userdata(config.context, tick, head.userdata);
    if (ends)
        commit_ends(content, tick);
    else
        commit(tick);
    release_staged();
    if (head.settled_age != never_settled) {
        const Tick settled = tick - head.settled_age;
        const bool risen = !any_settled || tick_newer(settled, settled_tick);
        if (risen)
            settled_tick = settled;
        any_settled = true;
        if (risen && config.on_settled)
            config.on_settled(config.context, settled);
        if (head.hash_wanted)
            report_hash(settled);
    }
    return Error::none;
}

/// R9: hashes are compared at settled ticks only, and only while nothing newer is applied.
void Client::Impl::report_hash(Tick settled) {
    if (any_applied && tick_newer(newest_applied, settled))
        return;
    if (layout->diffs & layout->unknown) // what ops make of an unknown component is not known
        return;
    acks.hash(settled, state_hash());
    ++stats.hash_reports;
}

Error Client::Impl::send_acks() {
    std::byte buffer[ack_bytes_max];
    const u32 limit = backend.message_bytes_max(Channel::unreliable);
    AckLog::Batch batch;
    for (u32 i = 0; i < ack_messages_max; ++i) {
        AckLog::Batch next = batch;
        const u32 bytes = acks.write({buffer, limit < ack_bytes_max ? limit : ack_bytes_max}, next);
        if (bytes == 0)
            break;
        if (backend.send(Channel::unreliable, {buffer, bytes}) != SendResult::accepted) {
            ++stats.ack_refusals;
            acks.sent(batch);
            return Error::limit_reached;
        }
        ++stats.ack_messages;
        batch = next;
    }
    acks.sent(batch);
    return Error::none;
}

void Client::Impl::clear() {
    for (u32 r = 0; r < index.capacity(); ++r) {
        const NetRecord& record = index[r];
        if (!record.id || !record.entity)
            continue;
        ++stats.despawns;
        if (config.on_despawn)
            config.on_despawn(config.context, record.entity, record.id);
        end_entity(record.entity, record.id, newest_tick);
    }
    index.clear();
    rings.clear();
    acks.clear();
    record_of_slot.clear();
    histories.clear();
    any_settled = any_applied = false;
    retire_cursor = 0;
}

/// Forgets chunks in which nothing is left, once no message that is still accepted can speak of them.
void Client::Impl::retire_chunks() {
    for (u32 i = 0; i < retire_chunks_per_receive && rings.count() > 0; ++i) {
        if (retire_cursor >= rings.count())
            retire_cursor = 0;
        HeldChunk& chunk = rings.at(retire_cursor);
        if (ChunkRings::occupants(chunk.live()).alive == 0 && tick_newer(newest_tick - config.max_late_ticks, chunk.live().tick))
            rings.destroy(chunk);
        else
            ++retire_cursor;
    }
}

u64 Client::Impl::shown_lanes(const HeldChunk& chunk) const {
    const OccupantBlock& occupants = ChunkRings::occupants(chunk.live());
    u64 shown = 0;
    for (u64 m = occupants.alive; m; m &= m - 1) {
        const u32 lane = static_cast<u32>(std::countr_zero(m));
        const u32 record = live_record(chunk, lane, occupants.net_id[lane]);
        shown |= u64(record != no_record && index[record].chunk == &chunk && index[record].lane == lane) << lane;
    }
    return shown;
}

u64 Client::Impl::state_hash() const {
    u64 sum = 0;
    const u64* hashes[Protocol::component_count_max] = {};
    for (u32 i = 0; i < rings.count(); ++i) {
        const HeldChunk& chunk = rings.at(i);
        const RingVersion& live = chunk.live();
        for (u32 c = 0; c < layout->component_count; ++c)
            if (layout->components[c].opaque)
                hashes[c] = chunk.opaque_hash + rings.opaque_index(c) * lane_count;
        if (const u64 lanes = shown_lanes(chunk))
            sum += state_hash_lanes(*layout, chunk.number, {&ChunkRings::occupants(live), live.blocks}, lanes, hashes);
    }
    return sum;
}

// ---------------------------------------------------------------------------------------------------- Client
Client::Client(World& world, const Protocol& protocol, ClientBackend& backend, const ClientConfig& config)
    : impl_(new (config.allocator.allocate(sizeof(Impl), alignof(Impl))) Impl(world, protocol, backend, config)) {}

Client::~Client() {
    const Allocator allocator = impl_->memory.upstream();
    impl_->~Impl();
    allocator.free(impl_, sizeof(Impl), alignof(Impl));
}

Error Client::receive(TimeUs now) {
    impl_->first_error = Error::none;
    impl_->now_us = now;
    impl_->backend.poll(now, *impl_);
    if (impl_->refused)
        return impl_->refusal;
    if (!impl_->waiting.empty())
        impl_->release_waiting(true);
    impl_->retire_chunks();
    return impl_->first_error;
}

Error Client::send(TimeUs now) {
    Impl& impl = *impl_;
    Error error = Error::none;
    if (impl.hello_due)
        error = impl.send_hello();
    if (impl.joined && impl.acks.pending())
        if (const Error acks = impl.send_acks(); acks != Error::none)
            error = acks;
    if (impl.joined)
        if (const Error typed = impl.flush_typed(); typed != Error::none)
            error = typed;
    impl.backend.flush(now);
    return error;
}

Entity Client::entity(NetId id) const {
    const Entity shown = impl_->shown(id);
    return impl_->world.alive(shown) ? shown : Entity{};
}

NetId Client::net_id(Entity entity) const {
    const Impl& impl = *impl_;
    if (!entity || entity.entity_idx >= impl.record_of_slot.size())
        return {};
    const u32 record = impl.record_of_slot[entity.entity_idx];
    return record != no_record && impl.index[record].entity == entity && impl.world.alive(entity) ? impl.index[record].id : NetId{};
}

Tick Client::confirmed_tick(Entity entity) const {
    const Impl& impl = *impl_;
    const NetId id = net_id(entity);
    if (!id)
        return 0;
    const NetRecord& record = impl.index[impl.index.find(id)];
    if (!record.chunk)
        return record.tick;
    const Tick carried = record.chunk->live().carried[record.lane];
    return impl.any_settled && tick_newer(impl.settled_tick, carried) ? impl.settled_tick : carried;
}

bool Client::frozen(Entity entity) const {
    const NetId id = net_id(entity);
    return id && !impl_->index[impl_->index.find(id)].chunk;
}

bool Client::frozen(Entity entity, ComponentId component) const {
    const Impl& impl = *impl_;
    const NetId id = net_id(entity);
    const i32 c = component < std::size(impl.layout->index_of) ? impl.layout->index_of[component] : -1;
    if (!id || c < 0 || impl.world.dense_index(entity.entity_idx, component) == no_row)
        return false;
    const NetRecord& r = impl.index[impl.index.find(id)];
    return !r.chunk || (r.chunk->kept && (r.chunk->kept[c] >> r.lane & 1));
}

const char* Client::problem() const { return impl_->problem; }
bool Client::connected() const { return impl_->connected; }
bool Client::joined() const { return impl_->joined; }
Tick Client::newest_tick() const { return impl_->newest_tick; }
Tick Client::settled_tick() const { return impl_->settled_tick; }
bool Client::any_settled() const { return impl_->any_settled; }
u64 Client::state_hash() const { return impl_->state_hash(); }
const ClientStats& Client::stats() const { return impl_->stats; }
std::size_t Client::ring_bytes() const { return impl_->rings.used_bytes(); }
ClientMemory Client::memory() const {
    ClientMemory memory{ring_bytes(), impl_->scratch_memory.bytes(), 0};
    memory.other_bytes = sizeof(Impl) + impl_->memory.bytes() - memory.total_bytes();
    return memory;
}
void Client::clear() {
    THRONG_ASSERT(!impl_->joined);
    impl_->clear();
}

} // namespace throng
