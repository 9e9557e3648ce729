#pragma once
// Relations of BasicWorld: links kept in step with the components, walks, trees. Part of throng/world.hpp; do not include alone.
#include "throng/world_batch.hpp"
#include "throng/world_hooks.hpp"
#include <algorithm>

namespace throng {

// --- keeping links in step with the components ------------------------------------------------------------------------------------
/// The component has come or may have another target. `whole`: the state of the world is being replaced, so nothing else happens.
template <u32 MaxC>
void BasicWorld<MaxC>::relink(u32 id, Entity source, bool whole) {
    Meta* const m = find(source);
    if (!m || !m->signature.test(id))
        return;
    detail::RelationTable& table = *relation_table(id);
    const detail::RelationOps& ops = table.ops();
    const Entity target = ops.target(pools_[id]->row(m->list()[m->signature.rank(id)]));
    const Meta* const t = find(target);
    const u32 wanted = t && !t->dying ? target.entity_idx : no_row;
    const detail::RelationLinks links = table.links(source.entity_idx);
    if (wanted != no_row && links.target == wanted)
        return;
    if (wanted != no_row) {
        table.reserve(source.entity_idx);
        table.reserve(wanted);
    }
    table.unlink(source.entity_idx);
    if (wanted == no_row) {
        if (!target || whole)
            return;
        switch (ops.on_target_destroy) { // a target that has ended already
        case OnTargetDestroy::remove:
            remove_row(*m, source, id);
            break;
        case OnTargetDestroy::destroy:
            destroy(source);
            break;
        case OnTargetDestroy::keep:
            break;
        }
        return;
    }
    // Applied state may pass through cycles, and whatever a peer sends must do no harm; a caller's cycle is a bug.
    const bool cyclic = ops.acyclic && !whole && !announcing_ && (source.entity_idx == wanted || links.count != 0) &&
                        table.leads_to(wanted, source.entity_idx, entity_count_);
    THRONG_ASSERT(!cyclic && "a target that leads back to the source");
    static_cast<void>(cyclic);
    table.link(source.entity_idx, wanted);
}

/// All links of a type anew, after its pool was replaced. Sources that keep their target keep their place.
template <u32 MaxC>
void BasicWorld<MaxC>::relink_all(u32 id) {
    detail::RelationTable& table = *relation_table(id);
    for (u32 slot = 0; slot < arena_.slots(); ++slot)
        if (table.links(slot).target != no_row && dense_index(slot, static_cast<ComponentId>(id)) == no_row)
            table.unlink(slot);
    for (u32 row = 0; row < pools_[id]->size(); ++row)
        relink(id, entity_at(pools_[id]->owner(row)), true);
}

/// A target is about to end. What it takes along joins the running destruction.
template <u32 MaxC>
void BasicWorld<MaxC>::end_targets(Entity entity) {
    for (u32 i = 0; i < relations_.size(); ++i) {
        const u32 id = relations_[i].component();
        const OnTargetDestroy policy = relations_[i].ops().on_target_destroy;
        if (policy == OnTargetDestroy::keep)
            continue;
        for (u32 source = relations_[i].links(entity.entity_idx).first; source != no_row;) {
            Meta& m = meta(source);
            if (policy == OnTargetDestroy::destroy) {
                destroy(entity_at(source)); // only puts it on the list
                source = relations_[i].links(source).next;
                continue;
            }
            if (!m.dying && m.signature.test(id))
                remove_row(m, entity_at(source), id);
            const u32 first = relations_[i].links(entity.entity_idx).first;
            if (first == source) // refused inside a loop, or about to end as well
                relations_[i].unlink(source);
            source = relations_[i].links(entity.entity_idx).first;
        }
    }
}

template <u32 MaxC>
void BasicWorld<MaxC>::drop_links(Entity entity) {
    for (detail::RelationTable& table : relations_)
        table.drop(entity.entity_idx);
}

// --- reading ----------------------------------------------------------------------------------------------------------------------
template <u32 MaxC>
template <class R>
const detail::RelationTable* BasicWorld<MaxC>::find_relation() const {
    static_assert(Relation<R>, "a relation has a member `Entity target` and says on_target_destroy");
    return const_cast<BasicWorld*>(this)->relation_table(detail::known_component_id<R, MaxC>());
}

template <u32 MaxC>
template <class R>
Entity BasicWorld<MaxC>::target(Entity source) const {
    const detail::RelationTable* const table = find_relation<R>();
    if (!table || !find(source))
        return {};
    const u32 slot = table->links(source.entity_idx).target;
    return slot != no_row ? entity_at(slot) : Entity{};
}

template <u32 MaxC>
template <class R>
u32 BasicWorld<MaxC>::source_count(Entity target) const {
    const detail::RelationTable* const table = find_relation<R>();
    return table && find(target) ? table->links(target.entity_idx).count : 0;
}

template <u32 MaxC>
template <class R, class F>
void BasicWorld<MaxC>::each_source(Entity target, F&& f) const {
    if (source_count<R>(target) == 0)
        return;
    for (u32 slot = find_relation<R>()->links(target.entity_idx).first; slot != no_row;) {
        const u32 next = find_relation<R>()->links(slot).next; // f may make relations, and so move the table
        f(entity_at(slot));
        slot = next;
    }
}

template <u32 MaxC>
template <class R, class F>
void BasicWorld<MaxC>::each_ancestor(Entity source, F&& f) const {
    u32 left = entity_count_; // a cycle ends, too
    for (Entity at = target<R>(source); at && left > 0; --left) {
        const Entity next = target<R>(at);
        f(at);
        at = next;
    }
}

template <u32 MaxC>
template <class R>
Entity BasicWorld<MaxC>::root(Entity source) const {
    Entity last = find(source) ? source : Entity{};
    each_ancestor<R>(source, [&](Entity ancestor) { last = ancestor; });
    return last;
}

template <u32 MaxC>
template <class R, class F>
void BasicWorld<MaxC>::each_descendant(Entity root, F&& f) const {
    const detail::RelationTable* const table = find_relation<R>();
    if (!table || !find(root))
        return;
    u32 at = table->links(root.entity_idx).first;
    u32 depth = 1;
    while (at != no_row) {
        // Whoever reaches the root from above stands in a cycle through it: only there can a walk come round.
        if (at != root.entity_idx) {
            if constexpr (std::is_invocable_v<F&, Entity, u32>)
                f(entity_at(at), depth);
            else
                f(entity_at(at));
            if (const u32 first = table->links(at).first; first != no_row) {
                at = first;
                ++depth;
                continue;
            }
        }
        for (;;) {
            const detail::RelationLinks links = table->links(at);
            if (links.next != no_row) {
                at = links.next;
                break;
            }
            at = links.target;
            --depth;
            if (at == root.entity_idx || at == no_row)
                return;
        }
    }
}

// --- changing ---------------------------------------------------------------------------------------------------------------------
template <u32 MaxC>
template <class R>
Error BasicWorld<MaxC>::relate(Entity source, Entity to) {
    Pool<R>* const pool = try_pool<R>();
    if (!pool || !find(source) || !find(to))
        return Error::bad_value;
    if (is_acyclic<R> && find_relation<R>()->leads_to(to.entity_idx, source.entity_idx, entity_count_))
        return Error::bad_value;
    if (has<R>(source)) {
        patch<R>(source, [&](R& relation) { relation.target = to; });
    } else {
        R relation{};
        relation.target = to;
        add<R>(source, std::move(relation));
    }
    return target<R>(source) == to ? Error::none : Error::unsupported;
}

template <u32 MaxC>
template <class R>
Entity BasicWorld<MaxC>::clone_tree(Entity root) {
    if (!find(root) || refuse_entity_change())
        return {};
    // Old slots and their copies, in depth-first order; then sorted, as the map from old to new.
    struct Pair {
        u32 old_slot;
        Entity copy;
    };
    Array<Entity> olds(options_.allocator), copies(options_.allocator);
    olds.push_back(root);
    each_descendant<R>(root, [&](Entity entity) { olds.push_back(entity); });
    if (!has_room(olds.size()))
        return {};
    copies.resize(olds.size());
    struct Undo { // quiet: nobody has heard of them
        BasicWorld& world;
        Array<Entity>& copies;
        u32 made = 0;
        ~Undo() {
            if (made != copies.size())
                world.destroy_batch_now({copies.data(), made});
        }
    } undo{*this, copies};
    for (; undo.made < olds.size(); ++undo.made)
        if (!clone_quietly(olds[undo.made], {&copies[undo.made], 1}))
            return {};
    struct Map {
        Array<Pair> pairs;
        const BasicWorld* world;
    } map{Array<Pair>(options_.allocator), this};
    map.pairs.reserve(olds.size());
    for (u32 i = 0; i < olds.size(); ++i)
        map.pairs.push_back({olds[i].entity_idx, copies[i]});
    std::sort(map.pairs.begin(), map.pairs.end(), [](const Pair& a, const Pair& b) { return a.old_slot < b.old_slot; });
    const EntityMap entity_map{[](const void* context, Entity entity) {
                                   const Map& m = *static_cast<const Map*>(context);
                                   const Pair* const found =
                                       std::lower_bound(m.pairs.begin(), m.pairs.end(), entity.entity_idx,
                                                        [](const Pair& pair, u32 slot) { return pair.old_slot < slot; });
                                   const bool inside = found != m.pairs.end() && found->old_slot == entity.entity_idx;
                                   return inside && m.world->alive(entity) ? found->copy : entity;
                               },
                               &map};
    for (u32 i = 0; i < copies.size(); ++i) {
        Meta& m = meta(copies[i].entity_idx);
        u32 position = 0;
        m.signature.for_each([&](u32 id) {
            const u32 dense = m.list()[position++];
            const ComponentOps& ops = pools_[id]->ops();
            if (ops.map_entities)
                ops.map_entities(pools_[id]->row(dense), entity_map);
            if (ops.relation && !(i == 0 && id == component_id<R, MaxC>())) // the copy of the root stays beside it
                ops.relation->retarget(pools_[id]->row(dense), entity_map.fn(&map, ops.relation->target(pools_[id]->row(dense))));
        });
    }
    for (const Entity copy : copies) // a hook may end some of them
        if (const Meta* const m = find(copy))
            if (const Signature<MaxC> types = m->signature; types.intersects(hooked_))
                notify_added(types, {&copy, 1});
    return copies[0];
}

} // namespace throng
