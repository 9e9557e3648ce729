#include "bench/verify.hpp"
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <limits>

using namespace throng;

namespace throng_verify {
namespace {

constexpr double turn_radians = 6.283185307179586476925286766559;

std::string format(const char* pattern, auto... values) {
    char line[256];
    std::snprintf(line, sizeof line, pattern, values...);
    return line;
}

std::string name_of(NetId id) {
    return id ? format("%u.%u", id.index(), id.generation()) : std::string("none");
}

/// Calls f with a value of the arithmetic type that a field has.
template <class F>
auto with_field_type(FieldType type, F&& f) {
    switch (type) {
    case FieldType::f32:
        return f(float());
    case FieldType::f64:
        return f(double());
    case FieldType::int8:
        return f(i8());
    case FieldType::int16:
        return f(i16());
    case FieldType::int32:
        return f(i32());
    case FieldType::int64:
        return f(i64());
    case FieldType::boolean:
    case FieldType::uint8:
        return f(u8());
    case FieldType::uint16:
        return f(u16());
    case FieldType::uint32:
        return f(u32());
    default:
        return f(u64());
    }
}

template <class T>
T load(const std::byte* at) {
    T value;
    std::memcpy(&value, at, sizeof value);
    return value;
}

/// The nearest whole number, halves to even.
double nearest(double steps) {
    const double below = std::floor(steps), fraction = steps - below;
    const bool odd = std::fmod(below, 2.0) != 0.0;
    return fraction > 0.5 || (fraction == 0.5 && odd) ? below + 1 : below;
}

template <class T>
bool same_range(double shown, double steps, double step) {
    const double units = steps * step;
    if constexpr (std::is_floating_point_v<T>)
        return static_cast<T>(shown) == static_cast<T>(units);
    const double low = static_cast<double>(std::numeric_limits<T>::min()), high = static_cast<double>(std::numeric_limits<T>::max());
    return shown == std::clamp(nearest(units), low, high);
}

/// Whether `shown` is what a client must read where the server has `value`. Dividing by the step and multiplying with its inverse
/// may fall on two sides of a half: both are right.
template <class T>
bool range_agrees(const Range& range, T value, T shown) {
    const double low = nearest(range.min / range.step), high = nearest(range.max / range.step);
    const double units = static_cast<double>(value);
    for (double steps : {units / range.step, units * (1 / range.step)}) {
        steps = steps != steps ? 0 : std::clamp(steps, low - 1, high + 1); // NaN counts as 0
        if (same_range<T>(static_cast<double>(shown), std::clamp(nearest(steps), low, high), range.step))
            return true;
    }
    return false;
}

bool angle_agrees(u32 bits, double value, double shown) {
    const double turn = std::ldexp(1.0, static_cast<int>(bits)), step = turn_radians / turn;
    for (const double steps : {value / turn_radians * turn, value * (turn / turn_radians)}) {
        const double whole = std::fabs(steps) < 9e15 ? nearest(steps) : 0; // beyond, and for NaN, the wire has 0
        const double wrapped = whole - std::floor(whole / turn) * turn;
        if (std::fabs(shown - wrapped * step) <= step / 100)
            return true;
    }
    return false;
}

std::string value_text(const FieldInfo& field, const std::byte* at) {
    return with_field_type(field.type, [&](auto zero) {
        using T = decltype(zero);
        if constexpr (std::is_floating_point_v<T>)
            return format("%.9g", static_cast<double>(load<T>(at)));
        else if constexpr (std::is_signed_v<T>)
            return format("%lld", static_cast<long long>(load<T>(at)));
        else
            return format("%llu", static_cast<unsigned long long>(load<T>(at)));
    });
}

const std::byte* row_of(const World& world, u32 entity_idx, ComponentId id) {
    const PoolBase* pool = world.pool_of(id);
    const u32 dense = pool ? world.dense_index(entity_idx, id) : no_row;
    return dense == no_row ? nullptr : static_cast<const std::byte*>(pool->row(dense));
}

std::byte* row_of(World& world, u32 entity_idx, ComponentId id) {
    return const_cast<std::byte*>(row_of(static_cast<const World&>(world), entity_idx, id));
}

} // namespace

const char* to_string(Kind kind) {
    constexpr const char* names[] = {"none", "value", "ghost", "missing", "reference", "component", "stale", "promise"};
    return names[static_cast<u32>(kind)];
}

Kind sabotage_kind(const char* name) {
    for (const Kind kind : {Kind::value, Kind::ghost, Kind::missing, Kind::reference, Kind::stale})
        if (std::strcmp(name, to_string(kind)) == 0)
            return kind;
    return Kind::none;
}

struct Verifier::Pair {
    ClientId viewer;
    Entity server, client;
    NetId id;
    const World* client_world;
    const Client* client_half;
};

Verifier::Verifier(const Protocol& protocol, const World& server_world, Server& server)
    : protocol_(protocol), world_(server_world), server_(server) {
    for (const ComponentInfo& info : protocol.components())
        audiences_ |= info.audience != Audience::everyone;
}

void Verifier::collect_visible(ClientId client) {
    ++serial_;
    visible_.clear();
    visible_ids_.clear();
    visible_mark_.resize(std::max<std::size_t>(visible_mark_.size(), world_.entity_slots()), 0);
    server_.each_visible(
        client, [](void* list, Entity entity) { static_cast<std::vector<Entity>*>(list)->push_back(entity); }, &visible_);
    std::sort(visible_.begin(), visible_.end(), [](const Entity& x, const Entity& y) { return x.entity_idx < y.entity_idx; });
    for (const Entity entity : visible_) {
        if (entity.entity_idx < visible_mark_.size())
            visible_mark_[entity.entity_idx] = serial_;
        visible_ids_.push_back(server_.net_id(entity));
    }
    std::sort(visible_ids_.begin(), visible_ids_.end());
}

bool Verifier::is_visible(Entity entity) const {
    return world_.alive(entity) && entity.entity_idx < visible_mark_.size() && visible_mark_[entity.entity_idx] == serial_;
}

Difference Verifier::check(ClientId client, const World& client_world, const Client& client_half, Tick still_since) {
    Difference found = first_difference(client, client_world, client_half);
    if (found && (!client_half.any_settled() || tick_newer(still_since, client_half.settled_tick()))) {
        found.text = format("client %u knows all up to tick %u only, not %u: %s: ", client, client_half.settled_tick(), still_since,
                            to_string(found.kind)) +
                     found.text;
        found.kind = Kind::stale;
    }
    return found;
}

Difference Verifier::first_difference(ClientId client, const World& client_world, const Client& client_half) {
    collect_visible(client);
    // First what is there, then what it holds: an entity that is missing would also show as a wrong reference to it.
    for (const Entity entity : visible_) {
        const NetId id = server_.net_id(entity);
        if (!id)
            return {Kind::ghost, format("client %u is meant to see slot %u, which is not replicated", client, entity.entity_idx)};
        const Entity shown = client_half.entity(id);
        if (!client_world.alive(shown))
            return {Kind::missing, format("client %u: entity %s is visible and not there", client, name_of(id).c_str())};
        if (client_half.net_id(shown) != id)
            return {Kind::missing, format("client %u: entity %s is shown as %s", client, name_of(id).c_str(),
                                          name_of(client_half.net_id(shown)).c_str())};
    }
    for (const Entity entity : visible_) {
        const NetId id = server_.net_id(entity);
        if (!world_.has<Replicated>(entity))
            continue; // paused: as it was
        ++entities_compared_;
        if (Difference found = compare_entity({client, entity, client_half.entity(id), id, &client_world, &client_half})) {
            found.text = format("client %u: ", client) + found.text;
            return found;
        }
    }
    Difference ghost = find_ghost(client_world, client_half);
    if (ghost)
        ghost.text = format("client %u: ", client) + ghost.text;
    return ghost;
}

/// Of the registrations of the component's type, the one that the rules choose for the entity; null: none, or `component` is not the
/// first of them.
const ComponentInfo* Verifier::on_wire(u32 component, Entity entity) const {
    const std::span<const ComponentInfo> all = protocol_.components();
    const ComponentInfo* chosen = nullptr;
    i32 highest = 0;
    for (u32 c = 0; c < all.size(); ++c) {
        if (all[c].id != all[component].id)
            continue;
        if (c < component)
            return nullptr;
        const ComponentRule everyone{};
        const ComponentRule* const rules = all[c].rule_count > 0 ? all[c].rules : &everyone;
        for (u32 r = 0; r < std::max(1u, all[c].rule_count); ++r)
            if (rules[r].filter.matches(world_.signature(entity)) && (!chosen || rules[r].priority > highest)) {
                chosen = &all[c];
                highest = rules[r].priority;
            }
    }
    return chosen;
}

bool Verifier::any_scopes() const {
    const PoolBase* scoped = world_.pool_of(component_id<ScopedTo>());
    return audiences_ || (scoped && scoped->size() > 0);
}

/// By what the world says now. An id that OwnedBy names is taken for the client that has it now.
Verifier::Sight Verifier::sight(ClientId client, Entity entity, const ComponentInfo& info) const {
    if (!any_scopes())
        return Sight::seen;
    const OwnedBy* owner = world_.get<OwnedBy>(entity);
    const SharedWith* shared = world_.get<SharedWith>(entity);
    const bool owns = owner && owner->client == client;
    if (info.audience == Audience::owner ? !owns : info.audience == Audience::others && owns)
        return Sight::hidden;
    if (info.audience == Audience::group && !(shared && server_.in_group(shared->group, client)))
        return Sight::hidden;
    const ScopedTo* scoped = world_.get<ScopedTo>(entity);
    const u64 layers = server_.view(client).layers();
    Sight shortest = Sight::seen;
    for (u32 i = 0; scoped && i < scoped->count() && info.id != component_id<Lasting>(); ++i)
        if (scoped->rule(i).scope.has(info.id) && !scoped->rule(i).to.allows(layers)) {
            constexpr Sight of[] = {Sight::hidden, Sight::kept, Sight::brought}; // by Lifetime
            shortest = std::min(shortest, of[static_cast<u32>(scoped->rule(i).lifetime)]);
        }
    return shortest;
}

Difference Verifier::compare_entity(const Pair& pair) {
    const std::span<const ComponentInfo> all = protocol_.components();
    for (u32 c = 0; c < all.size(); ++c) {
        const ComponentInfo* const chosen = on_wire(c, pair.server);
        bool first = true;
        for (u32 other = 0; other < c; ++other)
            first &= all[other].id != all[c].id;
        if (!first)
            continue;
        const ComponentInfo& info = chosen ? *chosen : all[c];
        const std::byte* const server_row = row_of(world_, pair.server.entity_idx, info.id);
        const std::byte* const client_row = row_of(*pair.client_world, pair.client.entity_idx, info.id);
        const Sight seen = sight(pair.viewer, pair.server, info);
        const bool frozen = pair.client_half->frozen(pair.client, info.id);
        if (frozen && (seen == Sight::kept || seen == Sight::brought))
            continue; // of some earlier time
        if (frozen)
            return {Kind::component, format("entity %s, component %s is kept by the client", name_of(pair.id).c_str(), info.name)};
        bool wanted = server_row != nullptr && chosen && seen == Sight::seen;
        if (wanted && info.opaque_bytes_max > 0) {
            server_bytes_.resize(info.opaque_bytes_max);
            wanted = info.serialize(server_row, server_bytes_) <= info.opaque_bytes_max; // too large: replicated as absent
        }
        if (wanted != (client_row != nullptr))
            return {Kind::component, format("entity %s, component %s: %s on the client, %s on the server", name_of(pair.id).c_str(),
                                            info.name, client_row ? "present" : "absent", wanted ? "present" : "absent")};
        if (!wanted)
            continue;
        Difference found;
        if (info.once)
            continue; // of some earlier time
        if (info.opaque_bytes_max > 0)
            found = compare_opaque(pair, info, server_row, client_row);
        alignas(wire_form_alignment_max) std::byte server_object[wire_form_bytes_max], client_object[wire_form_bytes_max];
        const std::byte *here = server_row, *there = client_row;
        if (info.form.size_bytes > 0) { // it travels as another type, which both sides can make of it
            info.form.write(info.form.to_wire, server_row, server_object);
            info.form.write(info.form.to_wire, client_row, client_object);
            here = server_object;
            there = client_object;
        }
        for (u32 f = 0; f < info.field_count && !found; ++f)
            found = compare_field(pair, info, f, here, there);
        if (found)
            return found;
    }
    return {};
}

Difference Verifier::compare_field(const Pair& pair, const ComponentInfo& info, u32 index, const std::byte* server_row,
                                   const std::byte* client_row) {
    const FieldInfo& field = info.fields[index];
    const std::byte* const here = server_row + field.offset_bytes;
    const std::byte* const there = client_row + field.offset_bytes;
    ++fields_compared_;
    if (field.kind == FieldKind::reference)
        return compare_reference(pair, info, index, load<Entity>(here), load<Entity>(there));
    const bool same = with_field_type(field.type, [&](auto zero) {
        using T = decltype(zero);
        const T value = load<T>(here), shown = load<T>(there);
        if (field.kind == FieldKind::range)
            return range_agrees<T>(field.range, value, shown);
        if (field.kind == FieldKind::angle)
            return angle_agrees(field.angle_bits, static_cast<double>(value), static_cast<double>(shown));
        return value == shown;
    });
    if (same)
        return {};
    return {Kind::value, format("entity %s, component %s, field %u: %s on the client, %s on the server", name_of(pair.id).c_str(),
                                info.name, index, value_text(field, there).c_str(), value_text(field, here).c_str())};
}

Difference Verifier::compare_reference(const Pair& pair, const ComponentInfo& info, u32 index, Entity server_target,
                                       Entity client_target) {
    const NetId target = server_.net_id(server_target);
    const bool kept = target && pair.client_half->frozen(pair.client_half->entity(target)); // find_ghost says whether it may be
    const NetId expected = is_visible(server_target) || kept ? target : NetId{};
    const bool null = client_target == Entity{};
    const NetId shown = null || !pair.client_world->alive(client_target) ? NetId{} : pair.client_half->net_id(client_target);
    if (shown == expected && (null || shown))
        return {};
    if (dead_references_allowed && !null && !shown && !expected)
        return {};
    if (!world_.alive(server_target) && is_left_behind(shown))
        return {};
    if (unhoused_allowed && !target && world_.has<Lasting>(server_target) && pair.client_half->frozen(client_target))
        return {}; // the target has no lane, and the client keeps it
    return {Kind::reference,
            format("entity %s, component %s, field %u: %s on the client, %s on the server", name_of(pair.id).c_str(), info.name, index,
                   !null && !shown ? "a dead entity" : name_of(shown).c_str(), name_of(expected).c_str())};
}

Difference Verifier::compare_opaque(const Pair& pair, const ComponentInfo& info, const void* server_row, const void* client_row) {
    ++fields_compared_;
    client_bytes_.resize(info.opaque_bytes_max);
    const u32 here = info.serialize(server_row, server_bytes_), there = info.serialize(client_row, client_bytes_);
    if (here == there && std::memcmp(server_bytes_.data(), client_bytes_.data(), here) == 0)
        return {};
    u32 at = 0;
    while (at < std::min(here, there) && server_bytes_[at] == client_bytes_[at])
        ++at;
    return {Kind::value, format("entity %s, component %s: %u bytes on the client, %u on the server, the first difference at byte %u",
                                name_of(pair.id).c_str(), info.name, there, here, at)};
}

/// Whether a client may still have the entity, though it does not see it: it is Lasting on both sides, and not at its end.
bool Verifier::is_remembered(NetId id, const World& client_world, Entity shown) const {
    for (u32 slot = 0; slot < world_.entity_slots(); ++slot)
        if (const Entity entity = world_.entity_at(slot); entity && server_.net_id(entity) == id)
            return !is_visible(entity) && (world_.has<Lasting>(entity) || !world_.has<Replicated>(entity)) && // or paused: as it was
                   client_world.has<Lasting>(shown);
    return unhoused_allowed && client_world.has<Lasting>(shown); // of one without a lane the server tells no net id
}

bool Verifier::is_left_behind(NetId id) const {
    return id && std::find(left_behind.begin(), left_behind.end(), id) != left_behind.end();
}

/// Whatever the client's world holds must have come from a visible entity, or be one that it keeps: one with a net id that is neither is a
/// ghost, and so is one with replicated components and no net id.
Difference Verifier::find_ghost(const World& client_world, const Client& client_half) {
    for (u32 slot = 0; slot < client_world.entity_slots(); ++slot) {
        const Entity entity = client_world.entity_at(slot);
        if (!entity)
            continue;
        const NetId id = client_half.net_id(entity);
        if (id) {
            if (!is_left_behind(id) && (client_half.frozen(entity) ? !is_remembered(id, client_world, entity)
                                                                   : !std::binary_search(visible_ids_.begin(), visible_ids_.end(), id)))
                return {Kind::ghost, format("entity %s is shown and not visible", name_of(id).c_str())};
            if (client_half.entity(id) != entity)
                return {Kind::ghost, format("entity %s is shown twice", name_of(id).c_str())};
            continue;
        }
        for (const ComponentInfo& info : protocol_.components())
            if (row_of(client_world, slot, info.id))
                return {Kind::ghost, format("slot %u has component %s and came from no server", slot, info.name)};
    }
    return {};
}

Difference Verifier::check_promise(ClientId client, double a, double b, double radius) {
    collect_visible(client);
    const ComponentInfo* spatial = nullptr;
    for (const ComponentInfo& info : protocol_.components())
        if (info.spatial_fields[0] >= 0)
            spatial = &info;
    const View view = server_.view(client);
    Difference found;
    const bool scopes = any_scopes();
    const auto look = [&](Entity entity) {
        if (found || (unhoused_allowed && !server_.net_id(entity)))
            return;
        const bool visible = is_visible(entity);
        // Of related entities the place of the root counts.
        const std::byte* const row = spatial ? row_of(world_, server_.cluster_root(entity).entity_idx, spatial->id) : nullptr;
        double distance = 0;
        if (row) {
            double at[2];
            for (u32 axis = 0; axis < 2; ++axis) {
                const FieldInfo& field = spatial->fields[spatial->spatial_fields[axis]];
                at[axis] = with_field_type(
                    field.type, [&](auto zero) { return static_cast<double>(load<decltype(zero)>(row + field.offset_bytes)); });
                at[axis] = at[axis] != at[axis] ? 0.0 : std::clamp(at[axis], field.range.min, field.range.max);
            }
            distance = std::hypot(at[0] - a, at[1] - b);
        }
        if (scopes && visible)
            for (u32 c = 0; c < protocol_.components().size(); ++c)
                if (const ComponentInfo* info = on_wire(c, entity)) {
                    const bool shown = server_.visible(client, entity, info->id);
                    const Sight may = sight(client, entity, *info);
                    if (shown == (may == Sight::seen) || may == Sight::brought)
                        continue;
                    found = {Kind::promise, format("client %u: component %s of entity %s is %svisible", client, info->name,
                                                   name_of(server_.net_id(entity)).c_str(), shown ? "" : "not ")};
                    return;
                }
        const bool near = distance <= 0.85 * radius, far = row && distance > 1.2 * radius;
        const VisibleTo* rule = world_.get<VisibleTo>(entity);
        const bool forbidden = view.hidden(entity) || (rule && !rule->allows(view.layers())) ||
                               (filtered && filtered(filter_context, client, entity));
        const Lasting* lasting = world_.get<Lasting>(entity);
        if (visible ? !far && (!forbidden || (lasting && lasting->from_start)) : !near || forbidden || (lasting && lasting_refused_allowed))
            return;
        found = {Kind::promise, format("client %u: entity %s at distance %.2f of a view with radius %.2f is %svisible", client,
                                       name_of(server_.net_id(entity)).c_str(), distance, radius, visible ? "" : "not ")};
    };
    world_.each<Replicated>([&](Entity entity, const Replicated&) { look(entity); });
    return found;
}

// ---------------------------------------------------------------------------------------------------- sabotage
namespace {

/// A shown entity of which all is known: not one that the client keeps out of sight.
bool seen(const Client& client, Entity entity) {
    return entity && client.net_id(entity) && !client.frozen(entity);
}

/// Calls f(entity, info, field, address) for the fields of all seen entities until it returns true.
template <class F>
bool any_field(const Protocol& protocol, World& world, const Client& client, F&& f) {
    for (u32 slot = 0; slot < world.entity_slots(); ++slot) {
        const Entity entity = world.entity_at(slot);
        if (!seen(client, entity))
            continue;
        for (const ComponentInfo& info : protocol.components()) {
            std::byte* const row = client.frozen(entity, info.id) ? nullptr : row_of(world, slot, info.id);
            for (u32 i = 0; row && info.form.size_bytes == 0 && i < info.field_count; ++i)
                if (f(entity, info.fields[i], row + info.fields[i].offset_bytes))
                    return true;
        }
    }
    return false;
}

Entity first_seen(const World& world, const Client& client) {
    for (u32 slot = 0; slot < world.entity_slots(); ++slot)
        if (const Entity entity = world.entity_at(slot); seen(client, entity))
            return entity;
    return {};
}

bool spoil_value(const Protocol& protocol, World& world, const Client& client) {
    return any_field(protocol, world, client, [](Entity, const FieldInfo& field, std::byte* at) {
        if (field.kind == FieldKind::reference)
            return false;
        with_field_type(field.type, [&](auto zero) {
            using T = decltype(zero);
            T value = load<T>(at);
            if (field.type == FieldType::boolean)
                value = static_cast<T>(value == 0);
            else if (field.kind == FieldKind::range)
                value = static_cast<T>(static_cast<double>(value) +
                                       (static_cast<double>(value) > (field.range.min + field.range.max) / 2 ? -1 : 1) *
                                           std::max(field.range.step, 1.0));
            else
                value = static_cast<T>(value + T(1));
            std::memcpy(at, &value, sizeof value);
        });
        return true;
    });
}

bool spoil_reference(const Protocol& protocol, World& world, const Client& client) {
    const auto spoil = [&](bool null_ones) {
        return any_field(protocol, world, client, [&](Entity holder, const FieldInfo& field, std::byte* at) {
            if (field.kind != FieldKind::reference || (load<Entity>(at) == Entity{}) != null_ones)
                return false;
            const Entity wrong = null_ones ? holder : Entity{};
            std::memcpy(at, &wrong, sizeof wrong);
            return true;
        });
    };
    return spoil(false) || spoil(true);
}

} // namespace

bool sabotage(Kind kind, const Protocol& protocol, World& world, const Client& client) {
    if (kind == Kind::value)
        return spoil_value(protocol, world, client);
    if (kind == Kind::reference)
        return spoil_reference(protocol, world, client);
    if (kind == Kind::missing)
        return world.destroy(first_seen(world, client));
    if (kind != Kind::ghost || protocol.components().empty())
        return false;
    return world.add_erased(world.create(), protocol.components()[0].id) != nullptr;
}

} // namespace throng_verify
