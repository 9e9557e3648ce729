#pragma once
// Fields of what travels: of components and of typed messages. A field is a member of a plain struct with a quantiser.
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
    reference, // an Entity: travels as a NetId, reads as null until the target exists on the receiver
};

struct FieldInfo {
    u32 offset_bytes = 0; // inside the struct
    FieldType type = FieldType::f32;
    FieldKind kind = FieldKind::range;
    Range range{};
    u32 angle_bits = 0;
    const char* name = nullptr; // for scene files and other builds; null: known by its place
};

/// The fields of a struct, in wire order.
struct FieldList {
    static constexpr u32 fields_max = 16;
    FieldInfo fields[fields_max] = {};
    u32 field_count = 0; // registered; finish() refuses more than fields_max
};

/// Writes the object into `out`; returns the byte count, or more than out.size() when it does not fit. Sees neither client nor world: for
/// references the object holds NetIds (docs/guide.md, 3), since an Entity says nothing on another side. Called from any worker.
using SerializeFn = u32 (*)(const void* object, std::span<std::byte> out);
/// Reads what SerializeFn wrote. The bytes come from the network: must be total. An Error leaves a section unapplied, a typed message
/// undelivered.
using DeserializeFn = Error (*)(void* object, std::span<const std::byte> in);

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
        static_assert(std::is_integral_v<M> && sizeof(M) <= 8, "a field is a number, bool, enum or Entity; else use functions");
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

/// Describes the fields of T; Builder is the class that inherits it.
template <class T, class Builder>
class FieldBuilder {
public:
    explicit FieldBuilder(FieldList* list) : list_(list) {}

    // name: what the field is called in scene files (throng/scene.hpp) and by other builds (docs/guide.md, "Versions of a protocol"),
    // unique in its struct, 1 to 47 bytes, no digit first; kept by reference. Without one it is known by its place.

    /// A floating-point or integer member with a Range.
    template <class M>
    Builder& field(M T::*member, Range range, const char* name = nullptr) {
        static_assert(std::is_arithmetic_v<M>);
        return add({detail::member_offset(member), detail::field_type<M>(), FieldKind::range, range, 0, name});
    }
    /// A floating-point angle in radians.
    template <class M>
    Builder& field(M T::*member, Angle angle, const char* name = nullptr) {
        static_assert(std::is_floating_point_v<M>);
        return add({detail::member_offset(member), detail::field_type<M>(), FieldKind::angle, {}, angle.bits, name});
    }
    /// An integer, enum or bool with its whole value, or an Entity (a reference).
    template <class M>
    Builder& field(M T::*member, const char* name = nullptr) {
        static_assert(!std::is_floating_point_v<M>, "a floating-point field needs a Range or an Angle");
        constexpr FieldType type = detail::field_type<M>();
        return add(
            {detail::member_offset(member), type, type == FieldType::entity ? FieldKind::reference : FieldKind::integer, {}, 0, name});
    }

private:
    Builder& add(const FieldInfo& field) {
        if (list_->field_count < FieldList::fields_max)
            list_->fields[list_->field_count] = field;
        ++list_->field_count;
        return static_cast<Builder&>(*this);
    }
    FieldList* list_;
};

} // namespace throng
