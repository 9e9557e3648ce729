#pragma once
// What is replicated and how it looks on the wire. Built once by both sides, in the same order, before a Server or a
// Client is made from it; read-only afterwards (then any thread may read it).
//
//     throng::Protocol protocol{{.tick_hz = 20}};
//     protocol.component<Position>("position")
//         .field(&Position::x, throng::Range{-8192, 8192, 0.01})
//         .field(&Position::z, throng::Range{-8192, 8192, 0.01})
//         .spatial(&Position::x, &Position::z)
//         .extrapolated_by(&Velocity::x, &Velocity::z);
//     protocol.component<Velocity>("velocity").field(&Velocity::x, throng::Range{-20, 20, 0.01})...;
//     protocol.opaque<Name>("name", 64, write_name, read_name);
//     throng::Error error = protocol.finish();
#include "throng/protocol_message.hpp"
#include "throng/protocol_rule.hpp"
#include <string_view>

namespace throng {

/// Part of the protocol hash; rises when docs/wire.md changes in an incompatible way.
inline constexpr u32 wire_format_version = 1;
/// Largest opaque component on the wire.
inline constexpr u32 opaque_bytes_max = 65536;

/// Largest table of a protocol that a client reads.
inline constexpr u32 protocol_table_bytes_max = 65536;

/// When zstd is used for section payloads.
enum class Compression : u8 {
    automatic, // full sections and those with opaque bytes, and only where smaller
    never,
    always,    // everything; for tests and measurements
};

struct ProtocolConfig {
    u32 tick_hz = 20;                            // server replication steps a second; the same on both sides
    std::span<const std::byte> dictionary = {};  // zstd dictionary for opaque components and full states; kept by reference
    bool wide_cells = false;                     // 32-bit cell-relative positions: for interest cells beyond 32,000 steps
};

/// XXH3-128 over all that one side needs to read what the other wrote (docs/wire.md 6): equal hashes, equal bytes.
struct ProtocolHash {
    u64 low = 0, high = 0;
    friend constexpr bool operator==(const ProtocolHash&, const ProtocolHash&) = default;
};

class Protocol;

/// Returned by Protocol::component; describes the fields of T in wire order.
template <class T>
class ComponentBuilder : public FieldBuilder<T, ComponentBuilder<T>>, public RuleBuilder<ComponentBuilder<T>> {
public:
    explicit ComponentBuilder(ComponentInfo* info) : FieldBuilder<T, ComponentBuilder<T>>(info), RuleBuilder<ComponentBuilder<T>>(info) {}

    /// The two ground-plane axes that place the entity in an interest cell. Both must be Range fields of this component,
    /// registered before, with the same step; one component of a protocol at most, which has no rules.
    template <class M>
    ComponentBuilder& spatial(M T::*axis_a, M T::*axis_b) {
        set_spatial(detail::member_offset(axis_a), detail::member_offset(axis_b));
        return *this;
    }
    /// Predicts the two spatial axes from a velocity in units a second: baseline + velocity * age.
    template <class V, class M>
    ComponentBuilder& extrapolated_by(M V::*velocity_a, M V::*velocity_b) {
        info_->extrapolated_by = component_id<V>();
        info_->extrapolated_offsets[0] = detail::member_offset(velocity_a);
        info_->extrapolated_offsets[1] = detail::member_offset(velocity_b);
        return *this;
    }

    /// The reference binds: an entity and the one that this field names are related, and all that are related, directly or by others,
    /// whatever the relation, are a cluster. What changes of a cluster in one tick reaches a client together, or not at all, so that a
    /// client never shows a state of it that the server did not have (docs/guide.md, "Related entities"). A reference field of this
    /// component, registered before; related_max of them a protocol. ECS relations do it in the same way: `.field(&ChildOf::target)
    /// .related(&ChildOf::target)`. Read on the server only: no part of the hash.
    ComponentBuilder& related(Entity T::*reference) {
        const u32 offset = detail::member_offset(reference);
        u32 field = 31; // refused by finish()
        for (u32 i = 0; i < info_->field_count && i < ComponentInfo::fields_max; ++i)
            if (info_->fields[i].offset_bytes == offset && info_->fields[i].kind == FieldKind::reference)
                field = i;
        info_->related_fields |= 1u << field;
        return *this;
    }

private:
    void set_spatial(u32 offset_a, u32 offset_b) {
        info_->spatial_fields[0] = info_->spatial_fields[1] = -2; // refused by finish() unless found
        for (u32 i = 0; i < info_->field_count && i < ComponentInfo::fields_max; ++i) {
            if (info_->fields[i].offset_bytes == offset_a)
                info_->spatial_fields[0] = static_cast<i32>(i);
            if (info_->fields[i].offset_bytes == offset_b)
                info_->spatial_fields[1] = static_cast<i32>(i);
        }
    }
    using RuleBuilder<ComponentBuilder<T>>::info_;
};

struct Layout;       // src/registry/layout.hpp: the columns, derived by finish()
struct MessageTable; // src/registry/message_table.hpp: the typed messages

/// The set of replicated components, at most component_count_max of them, and of typed messages, at most message_count_max.
class Protocol {
public:
    static constexpr u32 component_count_max = 32;
    static constexpr u32 message_count_max = 256;
    static constexpr u32 related_max = 8; // fields that bind entities to clusters
    struct Impl; // src/registry/protocol_impl.hpp

    explicit Protocol(ProtocolConfig config = {});
    ~Protocol();
    Protocol(const Protocol&) = delete;
    Protocol& operator=(const Protocol&) = delete;

    /// Registers T under a name that is unique in the protocol. The reference lives as long as the protocol. A type may be registered
    /// several times, with rules that tell the registrations apart.
    template <class T>
    ComponentBuilder<T> component(const char* name) {
        static_assert(std::is_default_constructible_v<T>, "clients make replicated components from nothing");
        ComponentInfo* info = add_component(name, component_id<T>(), sizeof(T));
        info->ensure_pool = [](World& world) { world.template pool<T>(); };
        info->immutable = is_immutable<T>;
        return ComponentBuilder<T>(info);
    }
    /// Registers T, which travels as U: the server converts a component when it has changed, a client when a new value comes. Fields are
    /// those of U. The functions are called from any worker, and see the value alone; T and U follow from them. Conversions need not
    /// be exact: what is sent is what differs in U's fields.
    ///
    ///     protocol.component_as("pose", pack, unpack).field(&Packed::x, range)...; // Packed pack(const Pose&), Pose unpack(const Packed&)
    template <class T, class U>
    ConvertedBuilder<U> component_as(const char* name, U (*to_wire)(const T&), T (*from_wire)(const U&)) {
        ComponentInfo* info = add_component(name, component_id<T>(), sizeof(T));
        info->ensure_pool = [](World& world) { world.template pool<T>(); };
        info->immutable = is_immutable<T>;
        info->form = wire_form(to_wire, from_wire);
        return ConvertedBuilder<U>(info);
    }
    /// Registers T with user functions instead of fields: at most bytes_max (1..65536) bytes on the wire. OpaqueBuilder::diffs: changes
    /// can be sent instead of the whole.
    template <class T>
    OpaqueBuilder opaque(const char* name, u32 bytes_max, SerializeFn serialize, DeserializeFn deserialize) {
        return opaque<T>(name, bytes_max, OpaqueFunctions{serialize, deserialize});
    }
    template <class T>
    OpaqueBuilder opaque(const char* name, u32 bytes_max, const OpaqueFunctions& functions) {
        static_assert(std::is_default_constructible_v<T>, "clients make replicated components from nothing");
        ComponentInfo* info = add_component(name, component_id<T>(), sizeof(T));
        info->ensure_pool = [](World& world) { world.template pool<T>(); };
        info->immutable = is_immutable<T>;
        info->opaque_bytes_max = bytes_max;
        info->serialize = functions.serialize;
        info->deserialize = functions.deserialize;
        info->deserialize_in_place = functions.deserialize_in_place;
        info->consume = functions.consume;
        return OpaqueBuilder(info);
    }
    /// A rule for the first registrations of all of Ts: entities that have them all, and that the filter lets through, have them on the
    /// wire. Without other rules each of them travels with the others only. Without a priority it is the number of types in all.
    template <class... Ts>
    void bundle(const EntityFilter& filter = {}) {
        bundle<Ts...>(filter, static_cast<i32>(sizeof...(Ts) + filter.type_count));
    }
    template <class... Ts>
    void bundle(const EntityFilter& filter, i32 priority) {
        static_assert(sizeof...(Ts) > 1, "a bundle is of several types");
        const ComponentId ids[] = {component_id<Ts>()...};
        add_bundle(ids, {EntityFilter(with<Ts...>) && filter, priority});
    }

    /// Registers a resource: while World::resources() of the server's world has a T, those of the clients' worlds have one. Components and
    /// resources are of one list: 32 in all. They travel as components (ResourceValue) of one entity that the server makes
    /// (Server::resource_entity), and clients show that entity, too.
    template <class T>
    ResourceBuilder<T> resource(const char* name) {
        return ResourceBuilder<T>(add_resource<T>(name));
    }
    /// The same of a T that travels as U, as in component_as: fields are those of U.
    template <class T, class U>
    ResourceBuilder<U> resource_as(const char* name, U (*to_wire)(const T&), T (*from_wire)(const U&)) {
        ComponentInfo* info = add_resource<T>(name);
        info->form = wire_form(to_wire, from_wire); // the value comes first in a ResourceValue
        return ResourceBuilder<U>(info);
    }
    /// The same with functions instead of fields, which see a T: at most bytes_max (1..65536) bytes on the wire.
    template <class T>
    OpaqueBuilder resource(const char* name, u32 bytes_max, const OpaqueFunctions& functions) {
        ComponentInfo* info = add_resource<T>(name);
        info->opaque_bytes_max = bytes_max;
        info->serialize = functions.serialize;
        info->deserialize = functions.deserialize;
        info->deserialize_in_place = functions.deserialize_in_place;
        info->consume = functions.consume;
        return OpaqueBuilder(info);
    }

    /// Registers T as a typed message under a name that is unique among messages. A message may have no fields.
    ///
    ///     protocol.message<Hit>("hit", {.route = throng::Route::to_client}).field(&Hit::target).field(&Hit::damage);
    template <class T>
    MessageBuilder<T> message(const char* name, MessageOptions options = {}) {
        static_assert(std::is_class_v<T>, "a message is a struct");
        static_assert(std::is_default_constructible_v<T>, "a receiver makes messages from nothing");
        static_assert(std::is_copy_constructible_v<T>, "a message for the local player is a copy");
        MessageInfo* info = add_message(name, message_type_id<T>());
        info->size_bytes = sizeof(T);
        info->alignment = alignof(T);
        info->options = options;
        info->construct = [](void* object) { ::new (object) T(); };
        info->copy = [](void* object, const void* from) { ::new (object) T(*static_cast<const T*>(from)); };
        info->destroy = [](void* object) { static_cast<T*>(object)->~T(); };
        return MessageBuilder<T>(info);
    }

    /// Says that these are the messages of each way: finish() refuses one that its list lacks, and one that is listed and not registered
    /// for that way (Route::both: in both lists). Handlers of a list (handlers in throng/typed.hpp) do not compile while one is missing, so
    /// that no registered message is without a handler. No part of the hash.
    template <class... Ups, class... Downs>
    void message_lists(MessageList<Ups...> to_server, MessageList<Downs...> to_client) {
        list_messages(Route::to_server, to_server.types());
        list_messages(Route::to_client, to_client.types());
    }

    /// Adds data of the game that must be equal on both sides, such as a version of its rules or maps: a client with other data is
    /// refused, however alike the registrations are. May be called several times; the order counts.
    void custom(std::string_view data);

    /// Checks the registrations and derives the wire layout. Call once, before use. Returns bad_value or limit_reached; then
    /// problem() says which registration is wrong.
    Error finish();
    const char* problem() const;

    /// Covers names, order, quantisers, options, tick rate, dictionary and custom data. Builds of one hash speak at once; for others the
    /// server tells its table first (docs/guide.md, "Versions of a protocol").
    ProtocolHash hash() const;
    u32 tick_hz() const;
    std::span<const ComponentInfo> components() const;
    std::span<const std::byte> dictionary() const;
    /// For the library's own modules.
    const Layout& layout() const;
    const MessageTable& messages() const;
    /// What the hash covers, as bytes (docs/wire.md 6).
    std::span<const std::byte> table() const;
    /// In place of registrations and finish(): the protocol of a server, as `own` can read it. What `own` has under the same names keeps
    /// its types and places; the rest is read over. wrong_protocol: they are not compatible, and problem() names what differs. Other
    /// errors: no table. Total, whatever the bytes. `own` must outlive it.
    Error read_table(std::span<const std::byte> table, const Protocol& own);

private:
    ComponentInfo* add_component(const char* name, ComponentId id, std::size_t size_bytes);
    template <class T>
    ComponentInfo* add_resource(const char* name) {
        static_assert(std::is_default_constructible_v<T> && std::is_copy_constructible_v<T> && std::is_copy_assignable_v<T>,
                      "a resource is copied between the world and what is sent");
        ComponentInfo* info = add_component(name, component_id<ResourceValue<T>>(), sizeof(ResourceValue<T>));
        info->ensure_pool = [](World& world) { world.template pool<ResourceValue<T>>(); };
        info->immutable = is_immutable<T>;
        info->resource = resource_access<T>();
        return info;
    }
    void add_bundle(std::span<const ComponentId> ids, const ComponentRule& rule);
    MessageInfo* add_message(const char* name, u16 type);
    void list_messages(Route way, std::span<const u16> types);
    Impl* impl_;
};

/// Tag component: an entity that has it is replicated. Taking it away pauses the entity: clients keep it as it was at the tick before, and
/// that arrives in any case, again if it was lost. Neither changes nor moves are told, nor that it went out of sight, was hidden or shown;
/// clients that did not see it do not get it. Given again, it goes on as the same entity: clients get what is different then, removals
/// included. What the entity has at the end of a tick counts: taken away and given again in one tick, nothing has happened.
///
///     world.remove<Replicated>(crate); // paused
///     world.add<Replicated>(crate);    // goes on
///
/// An entity that is destroyed while it is paused, or in the tick in which it is paused, stays on the clients that have it, until they
/// destroy it, their connection ends, or Server::end_replication names it; its lane is kept for so long. The tag itself is not sent.
struct Replicated {};

/// Component of a replicated entity that clients keep when they lose sight of it, for whatever reason: hidden, not allowed, too far. It
/// stays as it was, and nothing more is sent of it; Client::frozen says so. When it is seen again it goes on, as the same entity; when it
/// ends (Server::end_replication too), clients that have it are told. Entities without it are on a client only while it sees them.
///
/// Works in protocols that register it, as a component without fields: protocol.component<Lasting>("lasting"). Clients see it as a
/// component of the entity. Giving it to a replicated entity, or taking it away, makes it another entity for clients: it gets
/// a new net id, as if its replication had been ended and begun again.
struct Lasting {
    /// Clients get it once, in full, even if it is hidden from them or VisibleTo does not allow it: interest alone counts, so one without
    /// a place is on all clients. Read on the server, when it gets its net id.
    bool from_start = false;
};

} // namespace throng
