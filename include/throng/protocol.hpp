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
#include "throng/base.hpp"
#include "throng/ecs.hpp"
#include <span>
#include <type_traits>

namespace throng {

/// A number in [min, max], rounded to the nearest multiple of `step` counted from 0 (halves to even), clamped outside.
/// NaN is sent as the value nearest to 0. min / step and max / step must fit 32 bits signed.
struct Range {
    double min = 0, max = 0, step = 1;
};
/// An angle in radians; any value is wrapped into one turn of 2^bits steps. bits: 1..16. Read back in [0, 2 pi).
struct Angle {
    u32 bits = 16;
};

enum class FieldType : u8 { f32, f64, int8, int16, int32, int64, uint8, uint16, uint32, uint64, boolean, entity };
enum class FieldKind : u8 {
    range,     // Range
    angle,     // Angle
    integer,   // whole value of an integer, enum or bool
    reference, // an Entity: travels as a NetId, reads as null until the target exists on the client
};

struct FieldInfo {
    u32 offset_bytes = 0; // inside the component
    FieldType type = FieldType::f32;
    FieldKind kind = FieldKind::range;
    Range range{};
    u32 angle_bits = 0;
};

/// Writes the component into `out` and returns the byte count, or more than out.size() when it does not fit. Const: it sees
/// neither the client nor the world. Called from any worker.
using SerializeFn = u32 (*)(const void* component, std::span<std::byte> out);
/// Reads what SerializeFn wrote. The bytes come from the network: must be total. An Error leaves the section unapplied.
using DeserializeFn = Error (*)(void* component, std::span<const std::byte> in);

/// One replicated component type, as registered.
struct ComponentInfo {
    static constexpr u32 name_bytes_max = 48;
    static constexpr u32 fields_max = 16;
    char name[name_bytes_max] = {};
    ComponentId id = 0;
    u32 size_bytes = 0;
    FieldInfo fields[fields_max] = {};
    u32 field_count = 0;
    i32 spatial_fields[2] = {-1, -1};           // index into fields, or -1
    ComponentId extrapolated_by = 0xffff;       // component that holds the velocity, 0xffff: none
    u32 extrapolated_offsets[2] = {0, 0};       // of the velocity fields inside that component, bytes
    u32 opaque_bytes_max = 0;                   // 0: columns; else opaque
    SerializeFn serialize = nullptr;
    DeserializeFn deserialize = nullptr;
    void (*ensure_pool)(World&) = nullptr;      // creates the pool, so that type-erased access works
};

/// Part of the protocol hash; rises when docs/wire.md changes in an incompatible way.
inline constexpr u32 wire_format_version = 1;
/// Largest opaque component on the wire.
inline constexpr u32 opaque_bytes_max = 65536;

/// When zstd is used for section payloads.
enum class Compression : u8 {
    automatic, // full sections and those with opaque bytes, and only where smaller
    never,
    always,    // everything; for tests and measurements
};

struct ProtocolConfig {
    u32 tick_hz = 20;                            // server replication steps a second; part of the protocol hash
    std::span<const std::byte> dictionary = {};  // zstd dictionary for opaque components and full states; kept by reference
    bool wide_cells = false;                     // 32-bit cell-relative positions: for interest cells beyond 32,000 steps
};

namespace detail {
template <class M>
constexpr FieldType field_type() {
    if constexpr (std::is_same_v<M, Entity>)
        return FieldType::entity;
    else if constexpr (std::is_enum_v<M>)
        return field_type<std::underlying_type_t<M>>();
    else if constexpr (std::is_same_v<M, bool>)
        return FieldType::boolean;
    else if constexpr (std::is_same_v<M, float>)
        return FieldType::f32;
    else if constexpr (std::is_same_v<M, double>)
        return FieldType::f64;
    else {
        static_assert(std::is_integral_v<M> && sizeof(M) <= 8, "a field is a number, bool, enum or Entity; else use opaque()");
        constexpr bool is_signed = std::is_signed_v<M>;
        if constexpr (sizeof(M) == 1)
            return is_signed ? FieldType::int8 : FieldType::uint8;
        else if constexpr (sizeof(M) == 2)
            return is_signed ? FieldType::int16 : FieldType::uint16;
        else if constexpr (sizeof(M) == 4)
            return is_signed ? FieldType::int32 : FieldType::uint32;
        else
            return is_signed ? FieldType::int64 : FieldType::uint64;
    }
}
template <class T, class M>
u32 member_offset(M T::*member) {
    alignas(T) static std::byte storage[sizeof(T)];
    const T* object = reinterpret_cast<const T*>(storage);
    return static_cast<u32>(reinterpret_cast<const std::byte*>(&(object->*member)) - storage);
}
} // namespace detail

class Protocol;

/// Returned by Protocol::component; describes the fields of T in wire order.
template <class T>
class ComponentBuilder {
public:
    explicit ComponentBuilder(ComponentInfo* info) : info_(info) {}

    /// A floating-point or integer member with a Range.
    template <class M>
    ComponentBuilder& field(M T::*member, Range range) {
        static_assert(std::is_arithmetic_v<M>);
        return add({detail::member_offset(member), detail::field_type<M>(), FieldKind::range, range, 0});
    }
    /// A floating-point angle in radians.
    template <class M>
    ComponentBuilder& field(M T::*member, Angle angle) {
        static_assert(std::is_floating_point_v<M>);
        return add({detail::member_offset(member), detail::field_type<M>(), FieldKind::angle, {}, angle.bits});
    }
    /// An integer, enum or bool with its whole value, or an Entity (a reference).
    template <class M>
    ComponentBuilder& field(M T::*member) {
        static_assert(!std::is_floating_point_v<M>, "a floating-point field needs a Range or an Angle");
        constexpr FieldType type = detail::field_type<M>();
        return add({detail::member_offset(member), type, type == FieldType::entity ? FieldKind::reference : FieldKind::integer, {}, 0});
    }
    /// The two ground-plane axes that place the entity in an interest cell. Both must be Range fields of this component,
    /// registered before, with the same step; one component of a protocol at most.
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

private:
    ComponentBuilder& add(const FieldInfo& field) {
        if (info_->field_count < ComponentInfo::fields_max)
            info_->fields[info_->field_count] = field;
        ++info_->field_count; // finish() refuses more than fields_max
        return *this;
    }
    void set_spatial(u32 offset_a, u32 offset_b) {
        info_->spatial_fields[0] = info_->spatial_fields[1] = -2; // refused by finish() unless found
        for (u32 i = 0; i < info_->field_count && i < ComponentInfo::fields_max; ++i) {
            if (info_->fields[i].offset_bytes == offset_a)
                info_->spatial_fields[0] = static_cast<i32>(i);
            if (info_->fields[i].offset_bytes == offset_b)
                info_->spatial_fields[1] = static_cast<i32>(i);
        }
    }
    ComponentInfo* info_;
};

struct Layout; // src/registry/layout.hpp: the columns, derived by finish()

/// The set of replicated components. At most component_count_max of them.
class Protocol {
public:
    static constexpr u32 component_count_max = 32;

    explicit Protocol(ProtocolConfig config = {});
    ~Protocol();
    Protocol(const Protocol&) = delete;
    Protocol& operator=(const Protocol&) = delete;

    /// Registers T under a name that is unique in the protocol. The reference lives as long as the protocol.
    template <class T>
    ComponentBuilder<T> component(const char* name) {
        static_assert(std::is_default_constructible_v<T>, "clients make replicated components from nothing");
        ComponentInfo* info = add_component(name, component_id<T>(), sizeof(T));
        info->ensure_pool = [](World& world) { world.template pool<T>(); };
        return ComponentBuilder<T>(info);
    }
    /// Registers T with user functions instead of fields: at most bytes_max (1..65536) bytes on the wire.
    template <class T>
    void opaque(const char* name, u32 bytes_max, SerializeFn serialize, DeserializeFn deserialize) {
        static_assert(std::is_default_constructible_v<T>, "clients make replicated components from nothing");
        ComponentInfo* info = add_component(name, component_id<T>(), sizeof(T));
        info->ensure_pool = [](World& world) { world.template pool<T>(); };
        info->opaque_bytes_max = bytes_max;
        info->serialize = serialize;
        info->deserialize = deserialize;
    }

    /// Checks the registrations and derives the wire layout. Call once, before use. Returns bad_value or limit_reached; then
    /// problem() says which registration is wrong.
    Error finish();
    const char* problem() const;

    /// Covers everything that must be equal on both sides (names, order, quantisers, tick rate, dictionary).
    u64 hash() const;
    u32 tick_hz() const;
    std::span<const ComponentInfo> components() const;
    std::span<const std::byte> dictionary() const;
    /// For the library's own modules.
    const Layout& layout() const;

private:
    ComponentInfo* add_component(const char* name, ComponentId id, std::size_t size_bytes);
    struct Impl;
    Impl* impl_;
};

/// Tag component: an entity that has it is replicated.
struct Replicated {};

} // namespace throng
