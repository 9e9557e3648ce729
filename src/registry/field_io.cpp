#include "src/registry/field_io.hpp"
#include <cmath>
#include <cstring>
#include <limits>
#include <type_traits>

namespace throng {
namespace {

constexpr double two_pi = 6.283185307179586476925;

template <class T>
T load(const std::byte* from) {
    T value;
    std::memcpy(&value, from, sizeof value);
    return value;
}

template <class T>
bool read_range(const FieldInfo& field, const Column& column, const std::byte* const* rows, u32 count, i64* out) {
    const double low = static_cast<double>(column.quantum_min), high = static_cast<double>(column.quantum_max);
    const double at_zero = low > 0 ? low : high < 0 ? high : 0;
    bool outside = false;
    for (u32 i = 0; i < count; ++i) {
        double steps = static_cast<double>(load<T>(rows[i] + field.offset_bytes)) * column.inverse_step;
        if (!(steps >= low && steps <= high)) { // also NaN
            outside |= !(steps >= low - 0.5 && steps <= high + 0.5);
            steps = steps > high ? high : steps < low ? low : at_zero;
        }
        out[i] = std::llrint(steps);
    }
    return outside;
}

template <class T>
void read_angle(const FieldInfo& field, const Column& column, const std::byte* const* rows, u32 count, i64* out) {
    const double scale = static_cast<double>(1u << column.angle_bits) / two_pi;
    const i64 mask = (i64(1) << column.angle_bits) - 1;
    for (u32 i = 0; i < count; ++i) {
        const double steps = static_cast<double>(load<T>(rows[i] + field.offset_bytes)) * scale;
        out[i] = steps > -9e15 && steps < 9e15 ? std::llrint(steps) & mask : 0;
    }
}

template <class T>
void read_integer(const FieldInfo& field, const std::byte* const* rows, u32 count, i64* out) {
    for (u32 i = 0; i < count; ++i)
        out[i] = static_cast<i64>(load<T>(rows[i] + field.offset_bytes));
}

template <class T>
void write_range(const FieldInfo& field, const Column& column, std::byte* const* rows, u32 count, const i64* values) {
    for (u32 i = 0; i < count; ++i) {
        const double units = static_cast<double>(values[i]) * column.step;
        T value;
        if constexpr (std::is_floating_point_v<T>)
            value = static_cast<T>(units);
        else {
            const double low = static_cast<double>(std::numeric_limits<T>::min()), high = static_cast<double>(std::numeric_limits<T>::max());
            value = units <= low ? std::numeric_limits<T>::min() : units >= high ? std::numeric_limits<T>::max() : static_cast<T>(std::nearbyint(units));
        }
        std::memcpy(rows[i] + field.offset_bytes, &value, sizeof value);
    }
}

template <class T>
void write_angle(const FieldInfo& field, const Column& column, std::byte* const* rows, u32 count, const i64* values) {
    const double scale = two_pi / static_cast<double>(1u << column.angle_bits);
    const i64 mask = (i64(1) << column.angle_bits) - 1;
    for (u32 i = 0; i < count; ++i) {
        const T value = static_cast<T>(static_cast<double>(values[i] & mask) * scale);
        std::memcpy(rows[i] + field.offset_bytes, &value, sizeof value);
    }
}

template <class T>
void write_integer(const FieldInfo& field, std::byte* const* rows, u32 count, const i64* values) {
    for (u32 i = 0; i < count; ++i) {
        const T value = static_cast<T>(values[i]);
        std::memcpy(rows[i] + field.offset_bytes, &value, sizeof value);
    }
}

/// Calls f with a value of the C++ type that `type` names (not for entity).
template <class F>
auto with_type(FieldType type, F&& f) {
    switch (type) {
    case FieldType::f32: return f(float{});
    case FieldType::f64: return f(double{});
    case FieldType::int8: return f(i8{});
    case FieldType::int16: return f(i16{});
    case FieldType::int32: return f(i32{});
    case FieldType::int64: return f(i64{});
    case FieldType::uint8:
    case FieldType::boolean: return f(u8{});
    case FieldType::uint16: return f(u16{});
    case FieldType::uint32: return f(u32{});
    default: return f(u64{});
    }
}

} // namespace

bool read_field(const FieldInfo& field, const Column& column, const std::byte* const* rows, u32 count, i64* out) {
    return with_type(field.type, [&](auto zero) {
        using T = decltype(zero);
        if (field.kind == FieldKind::range)
            return read_range<T>(field, column, rows, count, out);
        if (field.kind == FieldKind::angle)
            read_angle<T>(field, column, rows, count, out);
        else if constexpr (std::is_integral_v<T>)
            read_integer<T>(field, rows, count, out);
        return false;
    });
}

void write_field(const FieldInfo& field, const Column& column, std::byte* const* rows, u32 count, const i64* values) {
    with_type(field.type, [&](auto zero) {
        using T = decltype(zero);
        if (field.kind == FieldKind::range)
            write_range<T>(field, column, rows, count, values);
        else if (field.kind == FieldKind::angle)
            write_angle<T>(field, column, rows, count, values);
        else if constexpr (std::is_integral_v<T>) {
            if (field.type == FieldType::boolean) { // any other byte in a bool is undefined behaviour
                for (u32 i = 0; i < count; ++i)
                    rows[i][field.offset_bytes] = std::byte(values[i] != 0);
                return;
            }
            write_integer<T>(field, rows, count, values);
        }
    });
}

} // namespace throng
