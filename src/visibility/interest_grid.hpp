#pragma once
// Spatial interest: which chunks lie in which cell, and which lanes of a chunk a view sees.
//
// Hysteresis is on the inputs, so that the result is a pure function of (held view position, held lane places) and equal for
// all views at one place: a view's position is held until it has moved hold_steps from it, and a lane's place inside its cell
// is held until the entity has left that sub-cell by a margin. A lane is visible when the centre of its sub-cell is within
// visible_ratio * radius of the held position. The errors are bounded at configuration: everything within 0.85 radius is
// visible and nothing beyond 1.2 radius.
#include "throng/array.hpp"
#include "throng/base.hpp"

namespace throng {

/// Places inside a cell are whole numbers of cell / place_units.
inline constexpr i32 place_units = 128;
inline constexpr double visible_ratio = 1.02;
inline constexpr double promise_near = 0.85, promise_far = 1.2;

struct CellPosition {
    i32 a = 0, b = 0;
};

class InterestGrid {
public:
    explicit InterestGrid(Allocator allocator);

    /// bounds and cell_steps in spatial steps. radius_min decides the number of sub-cells. Returns false if there would be more
    /// than cells_max cells or the promise cannot be kept for radius_min.
    bool configure(i32 min_steps, i32 max_steps, i32 cell_steps, i32 radius_min_steps, u32 cells_max);

    i32 cell_steps() const { return cell_steps_; }
    i32 hold_steps() const { return hold_steps_; }
    /// Cells an entity may leave by this much before it changes cell.
    i32 cell_margin_steps() const { return cell_margin_steps_; }
    u32 sub_cells() const { return sub_cells_; }
    bool promise_holds(i32 radius_steps) const;

    u32 cell_count() const { return static_cast<u32>(side_ * side_); }
    /// Cell of a clamped position.
    u32 cell_of(i32 a, i32 b) const { return index(coordinate(a), coordinate(b)); }
    /// Cell coordinates, which times cell_steps are the origin in steps.
    CellPosition cell_coordinates(u32 cell) const {
        return {static_cast<i32>(cell) % side_ + first_, static_cast<i32>(cell) / side_ + first_};
    }

    /// Chunks of a cell, ascending. A chunk never leaves its cell.
    struct ChunkList {
        u32 first = 0xffffffffu; // first chunk, or none; more through next_in_cell
        u32 last = 0xffffffffu;
        u32 open = 0xffffffffu; // no chunk before this one has a free lane
    };
    ChunkList& chunks(u32 cell) { return lists_[cell]; }

    /// Place of a relative position (steps inside the cell; may lie outside by the margin), with the lane's earlier place kept
    /// while the position is near it. `held` = 0xff: none.
    u8 place(i32 relative_steps, u8 held) const {
        if (held != 0xff) {
            const i32 low = (held >> sub_units_log2_) * sub_steps_;
            if (relative_steps >= low - sub_margin_steps_ && relative_steps < low + sub_steps_ + sub_margin_steps_)
                return held;
        }
        return new_place(relative_steps);
    }

    /// Appends every cell that a circle of `radius_steps` around (a, b) touches to `out`, in ascending order.
    void cells_in_circle(i32 a, i32 b, i32 radius_steps, Array<u32>& out) const;

private:
    i32 coordinate(i32 steps) const;
    u8 new_place(i32 relative_steps) const;
    u32 index(i32 a, i32 b) const { return static_cast<u32>(b * side_ + a); }

    Array<ChunkList> lists_;
    i32 first_ = 0; // lowest cell coordinate
    i32 side_ = 0;
    i32 cell_steps_ = 1;
    i32 hold_steps_ = 0;
    i32 cell_margin_steps_ = 0;
    i32 min_steps_ = 0, max_steps_ = 0;
    u32 sub_cells_ = 1;
    i32 sub_units_ = place_units; // a power of two
    u32 sub_units_log2_ = 0;
    i32 sub_steps_ = 1;
    i32 sub_margin_steps_ = 0;
};

/// Places of the 64 lanes of a chunk, in place_units.
struct LanePlaces {
    alignas(64) u8 a[64];
    u8 b[64];
};

/// Lanes of `alive` whose place is within `radius_units` of (a, b), all in place_units relative to the chunk's cell. Exact
/// integer arithmetic; |a|, |b|, radius < 2^15.
u64 lanes_in_circle(const LanePlaces& places, u64 alive, i32 a, i32 b, i32 radius_units);

} // namespace throng
