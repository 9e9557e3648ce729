#include "src/registry/field_io.hpp"
#include "src/wire/kernels.hpp"
#include "src/wire/quantise.hpp"
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <type_traits>

namespace throng {
namespace {

template <class T>
T load(const std::byte* from) {
    T value;
    std::memcpy(&value, from, sizeof value);
    return value;
}

template <class T, class Out>
bool read_range(const FieldInfo& field, const Column& column, const std::byte* const* rows, u32 count, Out* out) {
    if constexpr (std::is_same_v<T, float>) {
        const auto read = [&](u32 first, u32 number, i32* to) {
            return kernels().quantise_f32(rows + first, field.offset_bytes, number, column.inverse_step,
                                          static_cast<i32>(column.quantum_min), static_cast<i32>(column.quantum_max), to);
        };
        if constexpr (std::is_same_v<Out, i32>)
            return read(0, count, out);
        bool outside = false;
        for (u32 first = 0; first < count; first += lane_count) {
            i32 narrow[lane_count];
            const u32 number = count - first < lane_count ? count - first : lane_count;
            outside |= read(first, number, narrow);
            for (u32 i = 0; i < number; ++i)
                out[first + i] = narrow[i];
        }
        return outside;
    }
    bool outside = false;
    for (u32 i = 0; i < count; ++i)
        out[i] = static_cast<Out>(quantise_range(static_cast<double>(load<T>(rows[i] + field.offset_bytes)), column.inverse_step,
                                                 column.quantum_min, column.quantum_max, outside));
    return outside;
}

template <class T, class Out>
void read_angle(const FieldInfo& field, const Column& column, const std::byte* const* rows, u32 count, Out* out) {
    for (u32 i = 0; i < count; ++i)
        out[i] = static_cast<Out>(quantise_angle(static_cast<double>(load<T>(rows[i] + field.offset_bytes)), column.angle_bits));
}

template <class T, class Out>
void read_integer(const FieldInfo& field, const std::byte* const* rows, u32 count, Out* out) {
    for (u32 i = 0; i < count; ++i)
        out[i] = static_cast<Out>(load<T>(rows[i] + field.offset_bytes));
}

template <class T>
void write_range(const FieldInfo& field, const Column& column, std::byte* const* rows, u32 count, const i64* values) {
    for (u32 i = 0; i < count; ++i) {
        const double units = dequantise_range(values[i], column.step);
        T value;
        if constexpr (std::is_floating_point_v<T>)
            value = static_cast<T>(units);
        else {
            const double low = static_cast<double>(std::numeric_limits<T>::min()),
                         high = static_cast<double>(std::numeric_limits<T>::max());
            value = units <= low    ? std::numeric_limits<T>::min()
                    : units >= high ? std::numeric_limits<T>::max()
                                    : static_cast<T>(std::nearbyint(units));
        }
        std::memcpy(rows[i] + field.offset_bytes, &value, sizeof value);
    }
}

template <class T>
void write_angle(const FieldInfo& field, const Column& column, std::byte* const* rows, u32 count, const i64* values) {
    for (u32 i = 0; i < count; ++i) {
        const T value = static_cast<T>(dequantise_angle(static_cast<u32>(values[i]), column.angle_bits));
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
    case FieldType::f32:
        return f(float{});
    case FieldType::f64:
        return f(double{});
    case FieldType::int8:
        return f(i8{});
    case FieldType::int16:
        return f(i16{});
    case FieldType::int32:
        return f(i32{});
    case FieldType::int64:
        return f(i64{});
    case FieldType::uint8:
    case FieldType::boolean:
        return f(u8{});
    case FieldType::uint16:
        return f(u16{});
    case FieldType::uint32:
        return f(u32{});
    default:
        return f(u64{});
    }
}

template <class Out>
bool read(const FieldInfo& field, const Column& column, const std::byte* const* rows, u32 count, Out* out) {
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

} // namespace

bool read_field(const FieldInfo& field, const Column& column, const std::byte* const* rows, u32 count, i64* out) {
    return read(field, column, rows, count, out);
}

bool read_field(const FieldInfo& field, const Column& column, const std::byte* const* rows, u32 count, i32* out) {
    return read(field, column, rows, count, out);
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

u64 load_exact(const FieldInfo& field, const std::byte* row) {
    return with_type(field.type, [&](auto zero) {
        using T = decltype(zero);
        const T value = load<T>(row + field.offset_bytes);
        if constexpr (std::is_same_v<T, float>)
            return u64{std::bit_cast<u32>(value)};
        else if constexpr (std::is_same_v<T, double>)
            return std::bit_cast<u64>(value);
        else
            return field.type == FieldType::boolean ? u64{value != 0} : static_cast<u64>(value);
    });
}

void store_exact(const FieldInfo& field, std::byte* row, u64 value) {
    with_type(field.type, [&](auto zero) {
        using T = decltype(zero);
        T exact;
        if constexpr (std::is_same_v<T, float>)
            exact = std::bit_cast<float>(static_cast<u32>(value));
        else if constexpr (std::is_same_v<T, double>)
            exact = std::bit_cast<double>(value);
        else
            exact = static_cast<T>(value);
        std::memcpy(row + field.offset_bytes, &exact, sizeof exact);
    });
}

} // namespace throng
