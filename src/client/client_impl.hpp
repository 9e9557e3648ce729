#pragma once
// The parts of Client. handshake.cpp begins the session. The way of a message: session.cpp reads it, stage.cpp decodes and judges all its
// sections without changing anything, apply.cpp puts the applicable ones into the world and the rings.
#include "src/client/ack_log.hpp"
#include "src/client/agreement.hpp"
#include "src/client/chunk_ring.hpp"
#include "src/client/net_index.hpp"
#include "src/client/receive_rules.hpp"
#include "src/client/waiting_messages.hpp"
#include "src/events/dispatcher.hpp"
#include "src/events/item_queue.hpp"
#include "src/memory/counted_allocator.hpp"
#include "src/registry/message.hpp"
#include "src/registry/wire_objects.hpp"
#include "throng/client.hpp"

namespace throng {

/// Bytes of an opaque component in a message. They lie in the message itself, or were copied, or are what ops in it make.
struct StagedOpaque {
    const std::byte* in_message = nullptr;
    u32 copied_at = 0; // offset into ClientScratch::Impl::bytes, or made, if not in the message
    u32 count = 0;
    u32 wire_bytes = 0;
    u64 hash = 0;
    u8 component = 0, lane = 0;
    bool made = false;
};

/// Lanes of a full section that lack a component, and whose entities keep what they have of it.
struct StagedKept {
    u64 lanes = 0;
    u32 component = 0;
};

inline u32 insert_counter(const std::byte* block, u32 lane) {
    const BlockHeader& h = header(block);
    return static_cast<u32>((h.counter[0] >> lane & 1) | (h.counter[1] >> lane & 1) << 1);
}

/// Lanes in which any column of the two blocks differs.
u64 differing_lanes(const Layout& layout, u32 component, const std::byte* a, const std::byte* b);

struct ClientScratch::Impl {
    Impl(const Protocol& protocol, Allocator allocator);
    ~Impl();
    Bytes bytes_of(const StagedOpaque& value) const {
        return {value.in_message ? value.in_message : (value.made ? made : bytes).data() + value.copied_at, value.count};
    }

    Allocator allocator;
    const Protocol& protocol;
    DecodeBuffers buffers;
    DecodedSection decoded; // large
    Array<StagedSection> sections;
    Array<StagedOpaque> opaque;
    Array<StagedKept> kept;
    Array<std::byte> bytes, made;
    Array<u32> spawned, vanished, carried; // records
    WireObjects wire_objects;
    void* object = nullptr;       // room for any opaque or converted component
    std::size_t object_bytes = 0;
    static constexpr std::size_t object_alignment = 64;
};

struct Client::Impl final : ClientBackendSink {
    Impl(World& world, const Protocol& protocol, ClientBackend& backend, const ClientConfig& config);
    ~Impl();

    // handshake.cpp
    void on_connect() override;
    void on_disconnect() override;
    Error read_table(Bytes table);
    Error read_welcome(Bytes message);
    Error read_reject(Bytes message);
    Error join(const Welcome& welcome);
    Error refuse(Error error, std::string_view text);
    void speak(const Protocol& with);
    void release(Agreement*& agreement);
    Error send_hello();

    // session.cpp
    void on_message(Channel channel, Bytes message) override;
    Error read_message(Channel channel, Bytes message);
    void count_error(Error error);
    Error read_state(Bytes message);
    void report_hash(Tick settled);
    Error send_acks();
    void clear();
    void retire_chunks();

    // report.cpp
    void begin_report();
    bool replicated(u32 entity_idx) const;
    u32 entities_with(u32 component) const;

    // typed.cpp
    Error read_bundle(Channel channel, Bytes bundle);
    bool ready(const Item& item) const;
    Entity shown(NetId id) const;
    void deliver(const Item& item);
    void wait(const Item& item);
    void release_waiting(bool expire);
    void drop_typed();
    Error flush_typed();

    // stage.cpp
    Error stage(Bytes sections, Tick tick);
    Error stage_section(Bytes message, Bytes payload, StagedSection& section, Tick tick);
    Error stage_opaque(Bytes message, const DecodedSection& decoded, StagedSection& section, Tick tick);
    Error stage_ops(Bytes ops, const DecodedSection& decoded, StagedSection& section, u32 component, u32 lane, Tick tick);
    bool apply_ops(Bytes ops, u32 baseline_age, Bytes from, u32 component, u32 age_max, StagedOpaque& value);
    bool opaque_reads(u32 component, Bytes bytes);
    void judge(StagedSection& section, Tick tick, bool& overtaken);
    void take_along(bool overtaken);
    bool within_limits(Tick tick);
    u32 count_new_records(Tick tick) const;
    void release_staged();

    // apply.cpp
    void commit(Tick tick);
    void apply_section(StagedSection& section, Tick tick);
    struct Shown {
        u64 same = 0;  // lanes whose entity was shown here before
        u64 fresh = 0; // lanes whose entity is new, or was shown in another lane
        u64 adopted = 0; // of these, the game's own until now
        const u64* was_kept =
            nullptr; // [component]: lanes of `same` whose entity may have it, although the live state says nothing. Or null
    };
    void note_kept(HeldChunk& chunk, const StagedSection& section, u64 lanes, Shown& shown, u64* was_kept);
    void clear_lane(HeldChunk& chunk, u32 lane, NetId occupant, Tick tick);
    Shown place_occupants(HeldChunk& chunk, const StagedSection& section, u64 lanes, Tick tick);
    void end_entity(Entity entity, NetId id, Tick tick);
    void drop_resources(Entity entity);
    void drop_resource(const ComponentInfo& info, u32 entity_idx);
    void spawn(u32 record, Tick tick, Entity entity);
    void finish_message(Tick tick);
    bool lasts(const NetRecord& record) const;
    Error check_ends(Bytes ids);
    void commit_ends(Bytes ids, Tick tick);

    // prespawned.cpp
    /// Whether the game has destroyed the entity while it was out of sight: then it is a new one when it is seen again.
    bool lost(const NetRecord& r) const { return r.entity && !r.chunk && !r.vanished && !world.alive(r.entity); }
    u64 find_prespawned(const HeldChunk& chunk, const StagedSection& section, u64 lanes);
    void adopt(u32 record, const StagedSection& section, u32 lane);

    // components.cpp
    struct ComponentChange { // lanes; no initialisers: there is an array a section
        u64 remove, insert;
        u64 write;    // insertions too
        u64 inserted; // insert, before rules took lanes out
    };
    struct ComponentRows { // rows of a pool, or objects
        const u8* lanes;
        std::byte* const* rows;
        u32 count;
    };
    ComponentChange find_change(const HeldChunk& chunk, const StagedSection& section, u32 component, const Shown& shown) const;
    void apply_components(HeldChunk& chunk, const StagedSection& section, u64 open, Shown& shown, Tick tick);
    void count_writes(u32 component, u32 values) {
        stats.component_writes += values;
        component_counts[component].writes += values;
    }
    void note_structure(HeldChunk& chunk, const StagedSection& section, const ComponentChange* changes);
    void join_types(ComponentChange* changes) const;
    u64 replace_immutable(const HeldChunk& chunk, const StagedSection& section, u64 open, ComponentChange* changes,
                          const Shown& shown) const;
    void take_resources(const HeldChunk& chunk, const ComponentChange* changes, const Shown& shown);
    void restructure(const HeldChunk& chunk, const ComponentChange* changes, u64 lanes, Shown& shown);
    Signature<World::max_components> signature_of(u32 components) const;
    void drop_dead(const HeldChunk& chunk, Shown& shown) const;
    template <bool Mark>
    u32 find_rows(HeldChunk& chunk, u32 component, u64 lanes, u8* lane_of, std::byte** rows);
    void write_rows(HeldChunk& chunk, const StagedSection& section, u32 component, u64 lanes);
    void read_objects(u32 component, const HeldChunk& chunk, const std::byte* block, const i64 (&origin)[2], const ComponentRows& out,
                      std::byte** objects, bool link);
    void write_converted_rows(HeldChunk& chunk, const StagedSection& section, u32 component, u64 lanes);
    u64 write_different_rows(HeldChunk& chunk, const StagedSection& section, u32 component, u64 lanes, u64 inserted);
    u64 write_different_converted(HeldChunk& chunk, const StagedSection& section, u32 component, u64 lanes, u64 inserted);
    void write_columns(const HeldChunk& chunk, const std::byte* block, const i64 (&origin)[2], u32 first, u32 count,
                       const ComponentRows& out, bool link);
    void copy_columns(const HeldChunk& chunk, const std::byte* block, const i64 (&origin)[2], u32 first, u32 count,
                      const ComponentRows& out, bool link);
    void write_references(const HeldChunk& chunk, const ComponentRows& out, u32 column, const i64* values, bool link);
    void patch_references(u32 target);
    void apply_opaque(HeldChunk& chunk, const StagedSection& section, u64 open, const ComponentChange* changes, const Shown& shown,
                      Tick tick);

    // receive.cpp
    using ReceiveRoute = ReceiveRules::Impl::Route;
    struct RoutedWrite {
        const ReceiveRoute* route;
        u32 component;
        u64 lanes;
    };
    struct Delivery {
        Tick tick;
        bool older;
        bool link; // the newest values of their lanes
    };
    void forget_components(u32 record);
    u64 marker_lanes(i32 marker, const u32* records, const StagedSection* coming, u64 lanes) const;
    const ReceiveRules::Impl::ComponentRules& rules_of(u32 component) const { return rules->components[ruled.own[component]]; }
    template <class F>
    void each_route(u32 component, const u32* records, const StagedSection* coming, u64 lanes, F&& f);
    void route_removals(const HeldChunk& chunk, ComponentChange* changes, Shown& shown, Tick tick);
    void route_values(const HeldChunk& chunk, const StagedSection& section, ComponentChange* changes, const Shown& shown);
    void write_routed(const HeldChunk& chunk, const StagedSection& section, Tick tick);
    void deliver(const ReceiveRoute& route, u32 component, const HeldChunk& chunk, const u32* records, const std::byte* block,
                 const i64 (&origin)[2], u64 lanes, const Delivery& delivery);
    void deliver_opaque(const ReceiveRoute& route, u32 record, const StagedOpaque& value, Tick tick, bool older);
    bool write_opaque_routed(const HeldChunk& chunk, const StagedSection& section, const StagedOpaque& value, Tick tick);
    bool opaque_equal(const StagedOpaque& value, const void* row);
    void deliver_older(const HeldChunk& chunk, const StagedSection& section, u64 lanes, Tick tick);
    bool wants_older(const ReceiveRoute* route) const;
    void deliver_references(u32 target);
    bool exchange_with_required(u32 record, u32 remove, u32 insert);

    // confirm.cpp
    void note_carried(const HeldChunk& chunk, const StagedSection& section, u64 open, Tick tick);
    void start_history(u32 record, Tick tick);
    void report_carried(Tick tick);

    u32 live_record(const HeldChunk& chunk, u32 lane, NetId occupant) const;
    u64 shown_lanes(const HeldChunk& chunk) const;
    u64 state_hash() const;

    World& world;
    const Protocol& protocol;
    const Protocol* spoken; // of the server: `protocol`, or that of a table
    const Layout* layout;   // of what is held
    DecodeBuffers* buffers = nullptr;
    Agreement *offered = nullptr, *agreed = nullptr; // read and not welcomed yet; of what is held. Null: `protocol`
    ClientBackend& backend;
    CountedAllocator memory;         // all that the client holds, but this itself
    ClientConfig config;             // its allocator is `memory`
    CountedAllocator scratch_memory; // of that, its own scratch
    ClientScratch* own_scratch = nullptr;
    ClientScratch::Impl* scratch;
    ChunkRings rings;
    NetIndex index;
    AckLog acks;
    Array<u32> record_of_slot; // by entity_idx
    const ReceiveRules::Impl* rules;    // or null
    ReceiveRules::Impl::Session ruled;  // of `layout`
    // Components that the server says the entity has, as applied. Only if the world need not have the same: with rules, or if a type is
    // registered several times.
    Array<u32> present_of_record;
    bool tracks_presence() const { return rules || layout->several; }
    Array<RoutedWrite> routed_writes;   // of the section at hand
    std::byte* received_objects = nullptr; // room for lane_count of any routed component with fields
    Array<ConfirmHistory> histories; // by record; empty without confirm_history
    ClientStats stats, stats_at_join; // the latter when the connection began, or ended
    ReceivedComponent component_counts[Protocol::component_count_max]; // of the connection; no name, no entities
    Dispatcher dispatcher; // of messages from the server
    WaitingMessages waiting;
    ItemQueue outgoing[channel_count];
    Array<std::byte> typed_buffer; // a body, or a bundle
    TimeUs now_us = 0, joined_us = 0; // of the last call of receive; when the session began
    u64 spawns_at_release = 0; // when the waiting ones were last looked at
    Tick tick_at_release = 0;

    bool connected = false, joined = false, refused = false, hello_due = false;
    bool any_settled = false, any_applied = false;
    bool welcome_held = false; // until the table comes
    Welcome held_welcome;
    Error refusal = Error::none, first_error = Error::none;
    char problem[reject_text_max + 1] = {}; // with refusal
    Array<std::byte> hello_data;
    Tick newest_tick = 0, settled_tick = 0, welcome_tick = 0;
    Tick newest_applied = 0; // newest tick of a section that was applied
    u32 cell_steps = 0;
    u32 retire_cursor = 0;
    u32 slot_of_lane[lane_count] = {}; // entity_idx of the lanes shown, of the section at hand
    Entity prespawned[lane_count];     // of the lanes that find_prespawned returned, of the section at hand
};

} // namespace throng
