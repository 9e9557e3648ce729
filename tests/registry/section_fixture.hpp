#pragma once
// Random layouts and chunk states for the section tests, made by hand: the codec needs a Layout only.
#include "src/registry/section.hpp"
#include "src/wire/quantise.hpp"
#include <array>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

namespace section_test {
using namespace throng;

/// splitmix64: the same sequence everywhere.
struct Random {
    u64 state = 1;
    u64 next() {
        u64 z = (state += 0x9e3779b97f4a7c15u);
        z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
        z = (z ^ z >> 27) * 0x94d049bb133111ebu;
        return z ^ z >> 31;
    }
    u32 below(u32 count) { return static_cast<u32>(next() % count); }
    bool chance(u32 percent) { return below(100) < percent; }
};

struct TestLayout {
    Layout layout{};
    std::unique_ptr<ComponentInfo[]> infos = std::make_unique<ComponentInfo[]>(Protocol::component_count_max);

    LayoutComponent& component() {
        const u32 index = layout.component_count++;
        LayoutComponent& added = layout.components[index];
        added.info = &infos[index];
        added.first_column = layout.column_count;
        added.block_bytes = block_header_bytes;
        return added;
    }
    Column& column(u32 element_bytes, FieldKind kind, FieldType type) {
        LayoutComponent& owner = layout.components[layout.component_count - 1];
        ComponentInfo& info = infos[layout.component_count - 1];
        Column& added = layout.columns[layout.column_count++];
        added.offset_bytes = owner.block_bytes;
        added.element_bytes = static_cast<u8>(element_bytes);
        added.component = static_cast<u8>(layout.component_count - 1);
        added.field = static_cast<u8>(info.field_count);
        added.width_bits = element_bytes == 2 ? 5 : element_bytes == 4 ? 6 : 7;
        info.fields[info.field_count].kind = kind;
        info.fields[info.field_count].type = type;
        ++info.field_count;
        owner.column_count++;
        owner.block_bytes += element_bytes * lane_count;
        place_row_columns(layout);
        return added;
    }
    void opaque(u32 bytes_max) {
        LayoutComponent& added = component();
        added.opaque = true;
        infos[layout.component_count - 1].opaque_bytes_max = bytes_max;
    }
    Column& range(u32 element_bytes, i64 minimum, i64 maximum) {
        Column& added = column(element_bytes, FieldKind::range, FieldType::f32);
        added.quantum_min = minimum;
        added.quantum_max = maximum;
        return added;
    }
    Column& angle(u32 bits) {
        Column& added = column(2, FieldKind::angle, FieldType::f32);
        added.angle_bits = static_cast<u8>(bits);
        place_row_columns(layout);
        return added;
    }
};

/// Position (two extrapolated axes and a height), velocity, heading, health: eight 16-bit columns.
inline TestLayout mover_layout() {
    TestLayout test;
    test.component().spatial = true;
    for (i8 axis = 0; axis < 2; ++axis) {
        Column& column = test.range(2, -20000, 20000);
        column.spatial_axis = axis;
        column.velocity_column = static_cast<i16>(4 + axis);
        column.velocity_factor = 3277; // 1/20 s
    }
    test.range(2, -20000, 20000);
    test.angle(16);
    test.component();
    for (u32 i = 0; i < 3; ++i)
        test.range(2, -2000, 2000);
    test.component();
    test.column(2, FieldKind::integer, FieldType::uint8);
    place_row_columns(test.layout); // now that the velocity columns are there
    return test;
}

/// One of everything: the mover, a reference, 32-bit and 64-bit values, small angles, a text.
inline TestLayout rich_layout() {
    TestLayout test = mover_layout();
    test.component();
    test.column(8, FieldKind::reference, FieldType::entity);
    test.column(4, FieldKind::integer, FieldType::uint32);
    test.component();
    test.range(4, -3000000, 3000000);
    test.angle(7);
    test.column(8, FieldKind::integer, FieldType::int64);
    test.opaque(40);
    return test;
}
inline constexpr char rich_dictionary[] = "the quick brown fox jumps over the lazy dog";

inline TestLayout random_layout(Random& random) {
    TestLayout test;
    const u32 components = 1 + random.below(6);
    for (u32 c = 0; c < components; ++c) {
        if (random.chance(20)) {
            test.opaque(1 + random.below(40));
            continue;
        }
        test.component();
        const u32 columns = 1 + random.below(5);
        for (u32 i = 0; i < columns; ++i) {
            switch (random.below(7)) {
            case 0: test.range(2, -3000, 3000); break;
            case 1: test.range(4, -3000000, 3000000); break;
            case 2: test.angle(1 + random.below(16)); break;
            case 3: test.column(2, FieldKind::integer, FieldType::uint8); break;
            case 4: test.column(8, FieldKind::reference, FieldType::entity); break;
            case 5: test.column(4, FieldKind::integer, FieldType::uint32); break;
            default: {
                const u32 bytes = random.chance(70) ? 2 : 4;
                Column& moved = test.range(bytes, -2000, 2000);
                moved.spatial_axis = 0; // relative: any value
                moved.velocity_factor = static_cast<i64>(random.below(200000)) - 100000;
                moved.velocity_column = static_cast<i16>(random.below(test.layout.column_count));
                break;
            }
            }
        }
    }
    place_row_columns(test.layout);
    return test;
}

/// The state of a chunk with all blocks allocated; blocks that no lane has are offered as null.
struct State {
    const Layout* layout = nullptr;
    OccupantBlock occupants{};
    struct alignas(64) Line {
        std::byte bytes[64];
    };
    std::vector<std::vector<Line>> memory;
    std::array<const std::byte*, Protocol::component_count_max> pointers{};
    // Opaque components: bytes by [component][lane] and the tick of the last change.
    std::vector<std::vector<std::string>> text;
    std::vector<OpaqueLanes> opaque;
    std::array<const OpaqueLanes*, Protocol::component_count_max> opaque_pointers{};

    explicit State(const Layout& of) : layout(&of), memory(of.component_count), text(of.component_count), opaque(of.component_count) {
        for (u32 c = 0; c < of.component_count; ++c) {
            memory[c].resize(of.components[c].block_bytes / 64, Line{});
            text[c].resize(lane_count);
        }
    }
    State(const State& other) : State(*other.layout) { *this = other; }
    State& operator=(const State& other) {
        occupants = other.occupants;
        memory = other.memory;
        text = other.text;
        opaque = other.opaque;
        return *this;
    }
    std::byte* block(u32 component) { return memory[component][0].bytes; }
    const std::byte* block(u32 component) const { return memory[component][0].bytes; }
    ChunkState view() {
        for (u32 c = 0; c < layout->component_count; ++c) {
            pointers[c] = header(block(c)).present != 0 ? block(c) : nullptr;
            for (u32 lane = 0; lane < lane_count; ++lane) {
                opaque[c].data[lane] = reinterpret_cast<const std::byte*>(text[c][lane].data());
                opaque[c].bytes[lane] = static_cast<u32>(text[c][lane].size());
            }
            opaque_pointers[c] = layout->components[c].opaque ? &opaque[c] : nullptr;
        }
        return {&occupants, pointers.data()};
    }
};

inline void set_element(State& state, const Column& column, u32 lane, i64 value) {
    std::byte* block = state.block(column.component);
    switch (column.element_bytes) {
    case 2: column_data<i16>(block, column)[lane] = static_cast<i16>(value); break;
    case 4: column_data<i32>(block, column)[lane] = static_cast<i32>(value); break;
    default: column_data<i64>(block, column)[lane] = value; break;
    }
}
inline i64 get_element(const std::byte* block, const Column& column, u32 lane) {
    switch (column.element_bytes) {
    case 2: return column_data<i16>(block, column)[lane];
    case 4: return column_data<i32>(block, column)[lane];
    default: return column_data<i64>(block, column)[lane];
    }
}

/// A value that the column may hold, near `near` if `small`.
inline i64 random_value(Random& random, const Layout& layout, const Column& column, i64 near, bool small) {
    const FieldInfo& field = layout.components[column.component].info->fields[column.field];
    const i64 value = small ? near + static_cast<i64>(random.below(9)) - 4 : static_cast<i64>(random.next());
    if (column.angle_bits != 0)
        return static_cast<i64>(static_cast<u64>(value) & ((1u << column.angle_bits) - 1));
    if (field.kind == FieldKind::range && column.spatial_axis < 0) {
        const i64 span = column.quantum_max - column.quantum_min + 1;
        if (value >= column.quantum_min && value <= column.quantum_max)
            return value;
        return column.quantum_min + static_cast<i64>(static_cast<u64>(value) % static_cast<u64>(span));
    }
    if (field.kind == FieldKind::integer && field.type == FieldType::uint8)
        return value & 0xff;
    return value;
}

inline std::string random_text(Random& random, u32 bytes_max) {
    static constexpr char words[] = "the quick brown fox jumps over the lazy dog";
    std::string text;
    const u32 bytes = random.below(bytes_max + 1);
    for (u32 i = 0; i < bytes; ++i)
        text += words[(i + random.below(2)) % (sizeof(words) - 1)];
    return text;
}

inline Bytes text_bytes(const char* text) { return {reinterpret_cast<const std::byte*>(text), std::strlen(text)}; }

inline void insert(Random& random, State& state, u32 component, u32 lane, Tick tick) {
    const LayoutComponent& info = state.layout->components[component];
    header(state.block(component)).present |= u64{1} << lane;
    for (u32 i = info.first_column; i < info.first_column + info.column_count; ++i) {
        const bool small = random.chance(50);
        set_element(state, state.layout->columns[i], lane, random_value(random, *state.layout, state.layout->columns[i], 0, small));
    }
    if (info.opaque) {
        state.text[component][lane] = random_text(random, info.info->opaque_bytes_max);
        state.opaque[component].changed[lane] = tick;
    }
}
inline void remove(State& state, u32 component, u32 lane) {
    const LayoutComponent& info = state.layout->components[component];
    header(state.block(component)).present &= ~(u64{1} << lane);
    for (u32 i = info.first_column; i < info.first_column + info.column_count; ++i)
        set_element(state, state.layout->columns[i], lane, 0);
    state.text[component][lane].clear();
}

inline void fill_random(Random& random, State& state, u64 alive, Tick tick) {
    state.occupants.alive = alive;
    const bool generations = random.chance(50), shards = random.chance(20);
    const u32 first = random.chance(50) ? 1 : static_cast<u32>(random.next()) & 0x7fffffff;
    for (u32 lane = 0; lane < lane_count; ++lane) {
        if ((alive >> lane & 1) == 0)
            continue;
        // One by one: the order of evaluation of arguments differs between compilers.
        const u32 index = first + random.below(1000);
        const u32 generation = generations ? static_cast<u32>(random.next()) : 7;
        state.occupants.net_id[lane] = NetId::make(index, generation, shards ? random.below(256) : 0);
    }
    for (u32 c = 0; c < state.layout->component_count; ++c) {
        const u32 percent = random.below(3) * 50; // nobody, half, all
        for (u32 lane = 0; lane < lane_count; ++lane)
            if ((alive >> lane & 1) && random.chance(percent))
                insert(random, state, c, lane, tick);
        if (random.chance(30))
            for (u64& plane : header(state.block(c)).counter)
                plane = random.next();
    }
}

/// Changes some values, and sometimes presence and counters.
inline void mutate(Random& random, State& state, Tick tick) {
    const Layout& layout = *state.layout;
    for (u32 c = 0; c < layout.component_count; ++c) {
        if (random.chance(30))
            continue;
        const LayoutComponent& info = layout.components[c];
        const u32 percent = random.chance(50) ? 100 : 20;
        const bool small = random.chance(70), structure = random.chance(30);
        for (u32 lane = 0; lane < lane_count; ++lane) {
            if ((state.occupants.alive >> lane & 1) == 0)
                continue;
            const bool present = header(state.block(c)).present >> lane & 1;
            if (structure && random.chance(20)) {
                if (present)
                    remove(state, c, lane);
                else
                    insert(random, state, c, lane, tick);
                if (random.chance(50))
                    header(state.block(c)).counter[0] ^= u64{1} << lane;
                continue;
            }
            if (!present || !random.chance(percent))
                continue;
            for (u32 i = info.first_column; i < info.first_column + info.column_count; ++i) {
                const i64 old = get_element(state.block(c), layout.columns[i], lane);
                set_element(state, layout.columns[i], lane, random_value(random, layout, layout.columns[i], old, small));
            }
            if (info.opaque) {
                state.text[c][lane] = random_text(random, info.info->opaque_bytes_max);
                state.opaque[c].changed[lane] = tick;
            }
        }
    }
}

} // namespace section_test
