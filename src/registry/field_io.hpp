#pragma once
// Fields of component rows to column values and back, many rows at a time. Out of line on purpose: a host's compiler flags
// never change what goes on the wire.
#include "src/registry/layout.hpp"

namespace throng {

/// out[i] = quantised value of one field of rows[i], absolute (no cell origin taken off). Ranges clamp and round half to even;
/// NaN becomes the value nearest to 0; angles wrap into [0, 2^bits). Not for references.
/// Returns true if any value was outside its Range.
bool read_field(const FieldInfo& field, const Column& column, const std::byte* const* rows, u32 count, i64* out);
/// The same for a column of at most 32 bits.
bool read_field(const FieldInfo& field, const Column& column, const std::byte* const* rows, u32 count, i32* out);

/// The inverse: writes values (absolute) into the field of each row. Values outside a Range or an integer type are the caller's to
/// refuse before.
void write_field(const FieldInfo& field, const Column& column, std::byte* const* rows, u32 count, const i64* values);

/// The field of a row as it is, without a quantiser: the bits of a float, an integer widened with its sign, a bool as 0 or 1. Not for
/// references.
u64 load_exact(const FieldInfo& field, const std::byte* row);
/// The inverse. What the member cannot hold is the caller's to refuse before.
void store_exact(const FieldInfo& field, std::byte* row, u64 value);

} // namespace throng
