#include "tests/model/values.hpp"

#include <algorithm>

namespace model {

std::string lanes_text(Mask mask) {
    std::string out;
    for (int lane = 0; mask >> lane; ++lane) {
        if (!has(mask, lane))
            continue;
        if (!out.empty())
            out += ',';
        out += std::to_string(lane);
    }
    return out.empty() ? "-" : out;
}

std::string text(NetId id) {
    if (!id)
        return "nobody";
    std::string out = "e";
    out += std::to_string(id.index);
    out += '.';
    out += std::to_string(id.generation);
    return out;
}

bool same_on_wire(const Cell& a, const Cell& b) {
    return a.present == b.present && a.value == b.value && a.counter == b.counter;
}

bool same_on_wire(const LaneValue& a, const LaneValue& b) {
    return a.occupant == b.occupant && same_on_wire(a.cells[0], b.cells[0]) && same_on_wire(a.cells[1], b.cells[1]);
}

const Seen* find(const SeenWorld& world, NetId id) {
    const auto at = std::lower_bound(world.begin(), world.end(), id, [](const Seen& seen, NetId key) { return seen.id < key; });
    return at != world.end() && at->id == id ? &*at : nullptr;
}

Seen& find_or_add(SeenWorld& world, NetId id) {
    auto at = std::lower_bound(world.begin(), world.end(), id, [](const Seen& seen, NetId key) { return seen.id < key; });
    if (at == world.end() || at->id != id) {
        at = world.insert(at, Seen{});
        at->id = id;
    }
    return *at;
}

bool same_on_wire(const SeenWorld& shown, const SeenWorld& truth) {
    return std::equal(shown.begin(), shown.end(), truth.begin(), truth.end(), [](Seen x, Seen y) {
        if (x.id != y.id || x.has != y.has)
            return false;
        for (int i = 0; i < component_count(Scope::home); ++i)
            if (has(y.kept, i))
                x.slots[0].cells[i] = y.slots[0].cells[i] = {};
        for (int scope = 0; scope < scope_count; ++scope)
            if (x.has[scope] && !same_on_wire(x.slots[scope], y.slots[scope]))
                return false;
        return true;
    });
}

std::string text(const SeenWorld& world) {
    std::string out = "{";
    for (const Seen& seen : world) {
        out += ' ';
        out += text(seen.id);
        for (int scope = 0; scope < scope_count; ++scope) {
            if (!seen.has[scope])
                continue;
            out += scope == 0 ? "(" : " side(";
            for (int i = 0; i < component_count(Scope(scope)); ++i) {
                const Cell& cell = seen.slots[scope].cells[i];
                if (i > 0)
                    out += ' ';
                out += cell.present ? std::to_string(cell.value) : "no";
                out += '#';
                out += std::to_string(cell.counter);
            }
            out += ')';
        }
    }
    out += " }";
    return out;
}

} // namespace model
