#pragma once
// The chunk that the section target decodes against, and its recorder encodes against.
#include "tests/registry/section_fixture.hpp"

namespace section_test {

inline constexpr u32 section_cell_steps = 6000;

inline State section_baseline(const Layout& layout) {
    State baseline(layout);
    Random random{7};
    fill_random(random, baseline, 0xfff0'ffff'ffff'fff7u, 50);
    return baseline;
}

} // namespace section_test
