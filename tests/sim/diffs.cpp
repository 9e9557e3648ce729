#include "tests/sim/diffs.hpp"
#include <algorithm>

using namespace throng;

namespace throng_sim {

Stroke DiffActions::stroke() {
    Stroke stroke{++sequence_, random_.below(scroll_bytes_max), static_cast<u8>(random_.below(256))};
    if (random_.chance(0.3)) // mostly at the end
        stroke.at %= 40;
    return stroke;
}

/// Without a diff.
void DiffActions::change(Scroll& scroll) {
    if (random_.chance(0.2))
        scroll.text.clear();
    for (u32 left = random_.below(60); left > 0 && scroll.text.size() < scroll_bytes_max; --left)
        scroll.text.push_back(static_cast<char>(random_.below(256)));
    scroll.seq = ++sequence_;
}

void DiffActions::on_resource() {
    Resources& resources = world_.resources();
    if (random_.chance(0.1))
        resources.remove<Scroll>();
    else if (random_.chance(0.2))
        change(resources.has<Scroll>() ? *resources.mut<Scroll>() : resources.emplace<Scroll>());
    const Error wanted = build_.has(Piece::world_scroll) && resources.has<Scroll>() ? Error::none : Error::bad_value;
    for (u32 left = random_.below(4); left > 0; --left)
        mistakes_ += server_.apply_resource_diff<Scroll>(stroke()) != wanted;
}

void DiffActions::perform() {
    if (random_.chance(0.1))
        return on_resource();
    const u32 slot = random_.below(std::max(1u, world_.entity_slots()));
    const Entity entity = slot < world_.entity_slots() ? world_.entity_at(slot) : Entity{};
    if (!world_.alive(entity))
        return;
    for (u32 left = 1 + random_.below(4); left > 0; --left) { // in any order, within a tick
        const u32 kind = random_.below(12);
        if (kind == 0)
            world_.remove<Scroll>(entity);
        else if (kind <= 2 && !world_.has<Scroll>(entity))
            change(*world_.add<Scroll>(entity));
        else if (kind == 3 && world_.has<Scroll>(entity))
            change(*world_.mut<Scroll>(entity));
        else
            for (u32 strokes = 1 + random_.below(random_.chance(0.1) ? 20 : 3); strokes > 0; --strokes)
                mistakes_ += server_.apply_diff<Scroll>(entity, stroke()) !=
                             (build_.has(Piece::scroll) && world_.has<Scroll>(entity) ? Error::none : Error::bad_value);
    }
}

} // namespace throng_sim
