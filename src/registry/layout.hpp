#pragma once
// The columns that a protocol's components become in a chunk, on both sides. Derived once by Protocol::finish.
//
// A chunk version holds one ComponentBlock per columnar component that any lane has (null otherwise) and one
// OccupantBlock. A block is: u64 present, u64 counter[2] (bit planes of the 2-bit insert counters), u64 unused, then the
// columns in field order, 64 elements each, 64-byte aligned. Elements of lanes that lack the component are 0: both sides
// rely on it, since a delta is taken against them.
//
// The server keeps its chunks by lane instead: a row holds the elements of all columns of one lane, largest elements first.
// It looks at a few lanes of a chunk at a time and at all columns of each; the client decodes and applies column by column.
#include "src/wire/kernels.hpp"
#include "throng/protocol.hpp"
#include <cstring>

namespace throng {

inline constexpr u32 lane_count = 64;
/// FieldInfo::offset_bytes of a field of a server's protocol that this build lacks: it is read over.
inline constexpr u32 no_offset = 0xffffffff;

struct Column {
    u32 offset_bytes = 0;     // inside the block
    u32 row_offset_bytes = 0; // inside a row
    u8 element_bytes = 2;     // 2, 4 or 8: i16, i32, i64
    u8 component = 0;         // index in Layout::components
    u8 field = 0;             // index in ComponentInfo::fields
    u8 width_bits = 5;        // bits that a width takes on the wire: 5, 6 or 7
    u8 angle_bits = 0;        // > 0: differences wrap modulo 2^angle_bits
    i8 spatial_axis = -1;     // 0 or 1: relative to the chunk's origin
    i16 velocity_column = -1; // >= 0: extrapolated by that column ...
    bool unknown = false;     // of a server's protocol: this build lacks the field
    i64 velocity_factor = 0;  // ... base + ((velocity * age * velocity_factor) >> 16)
    i64 quantum_min = 0;      // range: clamp bounds in steps
    i64 quantum_max = 0;
    double step = 1;             // range: units a step
    double inverse_step = 1;
};

struct LayoutComponent {
    const ComponentInfo* info = nullptr;
    u32 first_column = 0;
    u32 column_count = 0;
    u32 block_bytes = 0;         // multiple of 64
    bool opaque = false;         // no columns: the block is just the header
    bool spatial = false;
    bool references = false;     // has reference fields
    bool converted = false;      // travels as another type, of which the fields are
};

struct BlockHeader {
    u64 present = 0;
    u64 counter[2] = {0, 0};
    u64 unused = 0;
};
static_assert(sizeof(BlockHeader) == 32);
inline constexpr u32 block_header_bytes = 64;    // columns start here

struct OccupantBlock {
    u64 alive = 0;               // lanes that hold an entity
    u64 unused[7] = {};
    NetId net_id[lane_count] = {}; // 0 where not alive
};

struct Layout {
    static constexpr u32 column_count_max = 256;
    LayoutComponent components[Protocol::component_count_max];
    u32 component_count = 0;
    Column columns[column_count_max];
    u32 column_count = 0;
    u32 row_bytes = 0; // multiple of 8, at least 16
    static constexpr u32 group_count_max = column_count_max / 4 + 1;
    ColumnGroup groups[group_count_max]; // of columns of 32, then of 16 bits, in the order of rows
    u32 group_count = 0;
    GroupColumn grouped[column_count_max];          // by column; those in no group are coded by themselves
    u16 column_ends[Protocol::component_count_max]; // by component
    u32 in_groups = 0;                              // bit i: all columns of component i are
    i32 spatial_component = -1;                   // index, or -1
    i32 lasting_component = -1;                   // of Lasting, or -1
    i32 signature_column = -1;                    // of the hash of SpawnSignature, or -1
    struct Related {
        u32 component = 0;    // index
        u32 offset_bytes = 0; // of the reference, inside the component
    };
    Related related[Protocol::related_max];       // fields that bind entities to clusters
    u32 related_count = 0;
    u32 related_components = 0;                   // bit i: component i has one
    u32 unknown = 0;                              // bit i: component i of a server's protocol, which this build lacks
    u32 several = 0;                              // bit i: component i is one of several of its type
    u32 ruled = 0;                                // bit i: rules decide which entities have component i, or it is sent once
    u32 once = 0;                                 // bit i: component i is sent once: later changes are not sent
    u32 resources = 0;                    // bit i: component i is a resource's value
    u32 immutable = 0;                    // bit i: component i is replaced, never written
    u32 diffs = 0;                        // bit i: component i is opaque, and in a delta ops may stand for the bytes
    u32 all = 0;                                  // bit i: component i. Of these ...
    u32 of_owner = 0, of_others = 0, of_group = 0; // ... those of an Audience; of a server's own protocol only
    /// What a client sees of an entity that is neither its own nor shared with it.
    u32 plain() const { return all & ~(of_owner | of_group); }
    Signature<default_max_components> rule_types; // that filters name
    double spatial_step = 0;                      // units
    i32 spatial_min = 0, spatial_max = 0;         // bounds of the spatial axes, in steps
    u32 tick_hz = 20;
    /// Protocol index of an ECS component, the first one of its type, or -1.
    i16 index_of[256];
    /// The next component of the same type, or -1.
    i16 next_of_type[Protocol::component_count_max];

    bool is_first_of_type(u32 component) const { return index_of[components[component].info->id] == static_cast<i16>(component); }
};

/// Of the ruled components, those that the rules keep from an entity with components of these types (bits).
u32 denied_components(const Layout& layout, const Signature<default_max_components>& types);

inline constexpr u32 row_bytes_max = Layout::column_count_max * 8;
/// Sets the row offsets of all columns, row_bytes and the groups. Columns have their velocity columns.
void place_row_columns(Layout& layout);

/// Ticks of age that extrapolation uses at most; older baselines extrapolate as if this old.
inline constexpr u32 extrapolation_age_max = 31;

inline BlockHeader& header(std::byte* block) { return *reinterpret_cast<BlockHeader*>(block); }
inline const BlockHeader& header(const std::byte* block) { return *reinterpret_cast<const BlockHeader*>(block); }
template <class T>
inline T* column_data(std::byte* block, const Column& column) {
    return reinterpret_cast<T*>(block + column.offset_bytes);
}
template <class T>
inline const T* column_data(const std::byte* block, const Column& column) {
    return reinterpret_cast<const T*>(block + column.offset_bytes);
}

/// An element of a row, widened.
inline i64 row_element(const std::byte* row, const Column& column) {
    const std::byte* at = row + column.row_offset_bytes;
    i16 narrow;
    i32 normal;
    i64 wide;
    switch (column.element_bytes) {
    case 2: std::memcpy(&narrow, at, 2); return narrow;
    case 4: std::memcpy(&normal, at, 4); return normal;
    default: std::memcpy(&wide, at, 8); return wide;
    }
}
inline void set_row_element(std::byte* row, const Column& column, i64 value) {
    std::byte* at = row + column.row_offset_bytes;
    const i16 narrow = static_cast<i16>(value);
    const i32 normal = static_cast<i32>(value);
    switch (column.element_bytes) {
    case 2: std::memcpy(at, &narrow, 2); break;
    case 4: std::memcpy(at, &normal, 4); break;
    default: std::memcpy(at, &value, 8);
    }
}

} // namespace throng
