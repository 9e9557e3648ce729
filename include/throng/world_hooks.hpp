#pragma once
// Hooks of BasicWorld, and destruction where there are any. Part of throng/world.hpp; do not include alone.
#include "throng/world_inline.hpp"

namespace throng {

template <u32 MaxC>
template <class T, class F>
HookId BasicWorld<MaxC>::hook(detail::HookKind kind, u32 component, F&& f) {
    using Closure = std::decay_t<F>;
    hooks_.reserve();
    struct Fresh {
        const Allocator& allocator;
        void* memory;
        ~Fresh() { allocator.free(memory, sizeof(Closure), alignof(Closure)); }
    } fresh{hooks_.allocator(), hooks_.allocator().allocate(sizeof(Closure), alignof(Closure))};
    ::new (fresh.memory) Closure(std::forward<F>(f));
    const detail::Hook made{[](void* closure, void* world, Entity entity, void* row) {
                                Closure& call = *static_cast<Closure*>(closure);
                                BasicWorld& w = *static_cast<BasicWorld*>(world);
                                if constexpr (std::is_invocable_v<Closure&, BasicWorld&, Entity>)
                                    call(w, entity);
                                else
                                    call(w, entity, *static_cast<T*>(row));
                                static_cast<void>(row);
                            },
                            [](void* closure, const Allocator& allocator) {
                                static_cast<Closure*>(closure)->~Closure();
                                allocator.free(closure, sizeof(Closure), alignof(Closure));
                            },
                            std::exchange(fresh.memory, nullptr), 0, detail::HookTable::key_of(kind, component), u32(sizeof(Closure))};
    if (kind == detail::HookKind::destroy)
        ++destroy_hooks_;
    else
        hooked_.set(component);
    if (component < MaxC)
        update_watch(component);
    any_hooks_ = true;
    return hooks_.add(made);
}

template <u32 MaxC>
template <class T, class F>
HookId BasicWorld<MaxC>::hook_component(detail::HookKind kind, F&& f) {
    const bool fits = try_pool<T>() != nullptr;
    THRONG_ASSERT(fits && "more component types than the world's MaxC");
    return fits ? hook<T>(kind, component_id<T, MaxC>(), std::forward<F>(f)) : 0;
}

template <u32 MaxC>
bool BasicWorld<MaxC>::unhook(HookId id) {
    const u32 key = hooks_.remove(id);
    if (key == no_row)
        return false;
    const u32 component = key >> 2;
    if (component == MaxC) {
        --destroy_hooks_;
    } else if (bool any = false; true) {
        for (const detail::HookKind kind : {detail::HookKind::add, detail::HookKind::change, detail::HookKind::remove})
            any = any || hooks_.any(detail::HookTable::key_of(kind, component));
        if (!any && !related_.test(component))
            hooked_.reset(component);
        update_watch(component);
    }
    any_hooks_ = destroy_hooks_ != 0 || hooked_.any();
    return true;
}

template <u32 MaxC>
void BasicWorld<MaxC>::notify(detail::HookKind kind, u32 id, Entity entity) {
    if (id < MaxC && related_.test(id) && kind != detail::HookKind::remove)
        relink(id, entity, false); // before the hooks of others
    THRONG_ASSERT(hooks_.depth() < hook_depth_max && "hooks call each other without an end");
    if (hooks_.depth() >= hook_depth_max)
        return;
    struct Depth {
        detail::HookTable& table;
        ~Depth() { table.leave(); }
    } depth{hooks_};
    hooks_.enter();
    const u32 key = detail::HookTable::key_of(kind, id);
    const u32 end = hooks_.end_of(key);
    for (u32 i = hooks_.first(key); i < end; ++i) {
        const Meta* const m = find(entity); // an earlier hook may have ended it, or taken the component off
        if (!m || (id < MaxC && !m->signature.test(id)))
            return;
        if (hooks_[i].call)
            hooks_[i].call(hooks_[i].closure, this, entity, id < MaxC ? pools_[id]->row(m->list()[m->signature.rank(id)]) : nullptr);
    }
}

template <u32 MaxC>
void BasicWorld<MaxC>::notify_added(const Signature<MaxC>& signature, std::span<const Entity> entities) {
    for (const Entity entity : entities)
        signature.for_each([&](u32 id) {
            if (hooked_.test(id))
                notify(detail::HookKind::add, id, entity);
        });
}

template <u32 MaxC>
void BasicWorld<MaxC>::changed_unannounced(Entity entity, ComponentId id) {
    if (!hooked(id) || unannounced_.find(entity, id) != no_row)
        return;
    unannounced_.reserve_extra(1);
    unannounced_.push(entity, id, detail::HookKind::change);
}

template <u32 MaxC>
void BasicWorld<MaxC>::announce_all() {
    struct Announcing {
        bool& flag;
        const bool before = flag;
        ~Announcing() { flag = before; }
    } announcing{announcing_};
    announcing_ = true;
    for (u32 i = 0; i < unannounced_.size(); ++i) { // more may come meanwhile
        const detail::Unannounced next = unannounced_[i];
        unannounced_.spend(i);
        if (next.kind != detail::HookKind::remove)
            notify(next.kind, next.component, next.entity);
    }
    unannounced_.clear();
}

/// False: the component is being removed already, by a call further out.
template <u32 MaxC>
bool BasicWorld<MaxC>::notify_removing(Entity entity, u32 id) {
    for (const detail::Removal& running : removing_)
        if (running.entity_id == entity.entity_id && running.component == id)
            return false;
    for (u32 i = unannounced_.find(entity, id); i != no_row; i = unannounced_.find(entity, id)) {
        const bool unknown = unannounced_[i].kind == detail::HookKind::add; // nobody has heard of it
        unannounced_.spend(i);
        if (unknown)
            return true;
    }
    removing_.push_back({entity.entity_id, id});
    struct Pop {
        Array<detail::Removal>& stack;
        ~Pop() { stack.pop_back(); }
    } pop{removing_};
    notify(detail::HookKind::remove, id, entity);
    return true;
}

template <u32 MaxC>
bool BasicWorld<MaxC>::exchange_unannounced(Entity entity, const Signature<MaxC>& removed, const Signature<MaxC>& added) {
    Meta* m = find(entity);
    if (!m || refuse_change(removed) || refuse_change(added))
        return false;
    Signature<MaxC> leaving, coming;
    removed.for_each([&](u32 id) {
        const Meta* const now = find(entity);
        if (!now || !now->signature.test(id))
            return;
        if (!any_hooks_ || !hooked_.test(id) || notify_removing(entity, id)) // else a call further out is removing it
            leaving.set(id);
    });
    m = find(entity);
    if (!m || m->dying)
        return false;
    Signature<MaxC> now = m->signature;
    u32 list_size = m->count();
    leaving.for_each([&](u32 id) { // hooks may have taken off more
        if (now.test(id))
            --list_size;
        else
            leaving.reset(id);
    });
    // Everything that can fail comes first, but for what constructors do.
    added.for_each([&](u32 id) {
        if (now.test(id) && !leaving.test(id))
            return;
        PoolBase* const pool = pool_of(ComponentId(id));
        THRONG_ASSERT(pool && pool->ops().construct && "exchange_unannounced needs the pool, and a default constructor");
        if (!pool || !pool->ops().construct)
            return;
        coming.set(id);
        ++list_size;
        pool->reserve_rows(1);
        pool->reserve_direct(arena_.slots());
    });
    if (leaving.intersects(logged_) || coming.intersects(logged_))
        log_.reserve_extra(leaving.count() + coming.count());
    if (coming.intersects(hooked_))
        unannounced_.reserve_extra(coming.count());
    ensure_list(*m, list_size);
    arena_.touch(entity.entity_idx);
    u32 rows[MaxC]; // by id
    const u32* row = m->list();
    now.for_each([&](u32 id) { rows[id] = *row++; });
    leaving.for_each([&](u32 id) {
        PoolBase& pool = *pools_[id];
        now.reset(id);
        if (related_.test(id))
            relation_table(id)->unlink(entity.entity_idx);
        row_moved(pool.ops().erase(pool, rows[id]), id, rows[id]);
        if (logged_.test(id))
            log_entry(entity, id, StructureEvent::Kind::removed);
        if (streamed_.test(id))
            pool.change_stream()->push_removal({entity, false});
    });
    struct Settle { // also when a constructor throws
        Meta& m;
        const Signature<MaxC>& now;
        const u32* rows;
        ~Settle() {
            u32* out = m.list();
            now.for_each([&](u32 id) { *out++ = rows[id]; });
            m.signature = now;
        }
    } settle{*m, now, rows};
    coming.for_each([&](u32 id) {
        PoolBase& pool = *pools_[id];
        pool.ops().construct(pool.next_row());
        rows[id] = pool.commit_row(entity.entity_idx, entity.entity_id);
        now.set(id);
        if (logged_.test(id))
            log_entry(entity, id, StructureEvent::Kind::added);
        if (hooked_.test(id))
            unannounced_.push(entity, id, detail::HookKind::add);
    });
    return true;
}

// Entities that hooks destroy meanwhile join the list of the running destruction: nothing nests, however long a chain is.
template <u32 MaxC>
u32 BasicWorld<MaxC>::destroy_hooked(std::span<const Entity> entities) {
    if (refuse_end(entities))
        return 0;
    doomed_.reserve_extra(entities.size()); // no entity is marked until nothing can fail any more
    u32 taken = 0;
    for (const Entity entity : entities) {
        Meta* const m = find(entity);
        if (!m || m->dying)
            continue;
        doomed_.push_back(entity);
        m->dying = 1;
        ++taken;
    }
    if (destroying_)
        return taken;
    destroying_ = true;
    struct End { // also when a hook or the allocator throws: then the entities live on
        BasicWorld& world;
        ~End() {
            for (const Entity entity : world.doomed_)
                if (Meta* const m = world.find(entity))
                    m->dying = 0;
            world.doomed_.clear();
            world.destroying_ = false;
        }
    } end{*this};
    for (u32 i = 0; i < doomed_.size(); ++i) {
        const Entity entity = doomed_[i];
        if (destroy_hooks_ != 0)
            notify(detail::HookKind::destroy, MaxC, entity);
        const Signature<MaxC> signature = find(entity)->signature;
        signature.for_each([&](u32 id) {
            if (hooked_.test(id) && find(entity)->signature.test(id))
                notify_removing(entity, id);
        });
        end_targets(entity);
    }
    const u32 count = doomed_.size();
    if (count == 1)
        reserve_end_log(1);
    else
        reserve_batch_end(types_with_rows(), count);
    // From here on nothing throws.
    for (const Entity entity : doomed_) {
        drop_links(entity);
        find(entity)->dying = 0;
    }
    const u32 destroyed = count == 1 ? u32(destroy_now(doomed_[0])) : destroy_batch_now({doomed_.data(), count});
    THRONG_ASSERT(destroyed == count);
    static_cast<void>(destroyed);
    return taken;
}

} // namespace throng
