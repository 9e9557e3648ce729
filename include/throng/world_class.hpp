#pragma once
// The world: entities, one pool per component type, and the way from one to the other. An entity is a slot with a signature
// (which types it has) and a list of row numbers in id order; the row of a type is list[rank of the type]. Adding or removing
// a component touches that list and one pool, never the entity's other components.
//
// Here is what a world can do; what it holds, and how that is looked up, is in world_state.hpp. Definitions by subject:
// world_inline.hpp one entity, one component; world_batch.hpp prefabs, clones, many at once; world_each.hpp and world_block.hpp
// loops, world_query.hpp what they list; world_sort.hpp row order; world_hooks.hpp; world_relations.hpp; world_changes.hpp readers;
// world_snapshot.hpp, world_partial.hpp, world_rollback.hpp: the state of all, of some types, of each tick.
#include "throng/executor.hpp"
#include "throng/prefab.hpp"
#include "throng/world_query.hpp"
#include "throng/world_state.hpp"
#include <span>

namespace throng {

template <u32 MaxC>
class BasicWorldSnapshot;
template <u32 MaxC>
class BasicPartialSnapshot;
template <class T, u32 MaxC>
class Row;
template <class T, u32 MaxC>
class BasicChangeReader;
template <u32 MaxC>
class BasicDestroyReader;
template <u32 MaxC>
class BasicRollbackRing;
namespace detail {
template <u32 MaxC, u32 Count>
struct Selection;
/// For tests that must reach states that take 2^32 operations.
struct WorldTestAccess;
struct CommandAccess;
} // namespace detail

/// Thread rule: calls of const functions may run at the same time; everything else runs alone, with the exception of the
/// loops that take an Executor, inside which no structural change is allowed at all.
///
/// Structural change (create, spawn, destroy, add, remove, restore) while a loop runs: what touches a pool that is being
/// looped over is misuse: it asserts, and where assertions are off (or the handler throws) it is refused and nothing changes.
/// Other pools may change.
///
/// Misuse that is not a programming error of the moment (a dead or forged handle, an absent component) gives null or false.
template <u32 MaxC>
class BasicWorld : public detail::WorldState<MaxC> {
    using State = detail::WorldState<MaxC>;

public:
    using Meta = EntityMeta<MaxC>;
    using State::entity_at, State::dense_index, State::pool_of, State::hooked;
    using Snapshot = BasicWorldSnapshot<MaxC>;
    using PartialSnapshot = BasicPartialSnapshot<MaxC>;
    using Prefab = BasicPrefab<MaxC>;
    static constexpr u32 max_components = MaxC;

    /// Allocates nothing; pools and slots appear when first used.
    explicit BasicWorld(WorldOptions options = {});
    BasicWorld(const BasicWorld&) = delete;
    BasicWorld& operator=(const BasicWorld&) = delete;
    /// Destroys all components, without structure events.
    ~BasicWorld();

    // --- entities ------------------------------------------------------------------------------------------------------
    /// An entity without components.
    Entity create();
    /// An entity with these components, of different types. Sets signature and row numbers once. If a constructor throws,
    /// nothing has changed. A null Entity when a type is beyond MaxC.
    template <class... Ts>
    Entity spawn(Ts&&... values);
    /// False for a dead handle. A destructor of a component must not touch the world.
    bool destroy(Entity entity);
    /// destroy for many, faster: pool by pool, rows at the ends of pools are dropped without a move. Dead handles
    /// and repeats are skipped. Returns the number of entities destroyed. Rows may end up in another order than one by one.
    /// All or none: where one of them may not be destroyed, because a loop runs over one of its types, none is.
    u32 destroy_batch(std::span<const Entity> entities);

    /// A copy of the entity: all its components, in one go. A null Entity, and nothing changed, for a dead handle and where a
    /// component cannot be copied. If a copy throws, nothing has changed. O(components).
    Entity clone(Entity entity) {
        Entity copy;
        return clone_n(entity, {&copy, 1}) ? copy : Entity{};
    }
    /// Fills `copies` with as many of them.
    bool clone_n(Entity entity, std::span<Entity> copies);
    /// Fills `entities` with new ones that have Ts, value-initialised, then calls f(u32 i, Ts&...) for each, in order. Signature
    /// and row numbers are set once. False, and nothing changed, when a type is beyond MaxC. If a constructor throws, nothing has
    /// changed; if f throws, the entities stay. f must not change structure of these types (asserts).
    template <class... Ts, class F>
    bool spawn_n(std::span<Entity> entities, F&& f);
    /// The same with the values of columns, each as long as `entities` (asserts, and is refused otherwise).
    template <class... Ts>
        requires(sizeof...(Ts) > 0)
    bool spawn_columns(std::span<Entity> entities, std::span<const Ts>... columns);

    // --- prefabs -------------------------------------------------------------------------------------------------------
    /// One entity of the prefab; null Entity when a type is beyond MaxC. If a copy throws, nothing has changed.
    Entity instantiate(const Prefab& prefab) {
        Entity entity;
        instantiate_n(prefab, {&entity, 1});
        return entity;
    }
    /// Fills `entities` with as many instances; false, and nothing changed, when a type is beyond MaxC.
    /// Children of the prefab are instantiated along, linked by ChildOf in their order; on_add runs for the roots, then child by child.
    bool instantiate_n(const Prefab& prefab, std::span<Entity> entities);
    /// The same, with overrides an instance: f(u32 i, Ts&...) writes into the root of each before on_add runs. The prefab must have Ts
    /// (asserts, and is refused otherwise). If f throws, the instances end again. f must not change structure.
    template <class... Ts, class F>
        requires(sizeof...(Ts) > 0)
    bool instantiate_n(const Prefab& prefab, std::span<Entity> entities, F&& f);
    /// One instance with these values in place of the prefab's; types that it lacks are added afterwards.
    template <class... Ts>
        requires(sizeof...(Ts) > 0)
    Entity instantiate(const Prefab& prefab, Ts&&... values);

    // --- components ----------------------------------------------------------------------------------------------------
    template <class T>
    bool has(Entity entity) const {
        const u32 id = detail::known_component_id<T, MaxC>();
        if constexpr (direct_index<T>)
            if (indexed(entity)) [[likely]]
                return id < MaxC && pools_[id] && pools_[id]->direct_has(entity);
        const Meta* m = find(entity);
        return m && id < MaxC && m->signature.test(id);
    }
    /// Null if the handle is dead or the component absent. Never marks. Good until a component of type T is removed anywhere.
    template <class T>
    const T* get(Entity entity) const {
        return with_row<T>(entity, [](const Pool<T>& pool, u32 dense) { return &pool[dense]; });
    }
    /// The same, writable; marks the row changed. Not inside a parallel loop, nor are set and patch (asserts; where assertions are off they
    /// write nevertheless, and marks of rows near that other workers make at the same time may get lost): mut_shared is for that.
    template <class T>
        requires(!is_immutable<T>)
    T* mut(Entity entity) {
        THRONG_ASSERT(!frozen() && "no mut, set or patch inside a parallel loop: mut_shared");
        return with_row<T>(entity, [](Pool<T>& pool, u32 dense) {
            pool.mark_changed(dense);
            return &pool[dense];
        });
    }
    /// mut for the inside of a parallel loop: rows may be marked from several threads at once (each row written by one).
    /// Costs an atomic operation where the mark is new.
    template <class T>
        requires(!is_immutable<T>)
    T* mut_shared(Entity entity) {
        return with_row<T>(entity, [](Pool<T>& pool, u32 dense) {
            pool.mark_changed_shared(dense);
            return &pool[dense];
        });
    }
    /// Builds a T from the arguments. An existing one is returned unchanged and unmarked. Null for a dead handle and for a type
    /// beyond MaxC. If the constructor or the allocator throws, nothing has changed.
    template <class T, class... A>
    detail::Made<T>* add(Entity entity, A&&... args);
    /// Adds the value, or assigns it to the one that is there and marks that row changed; an immutable one is removed first. Null and
    /// failures as for add.
    template <class T>
    detail::Made<std::remove_cvref_t<T>>* set(Entity entity, T&& value) {
        using Component = std::remove_cvref_t<T>;
        if constexpr (is_immutable<Component>) {
            remove<Component>(entity);
        } else if (Component* const found = mut<Component>(entity)) {
            *found = std::forward<T>(value);
            return hooked_.test(component_id<Component, MaxC>()) ? notify_change<Component>(entity) : found;
        }
        return add<std::remove_cvref_t<T>>(entity, std::forward<T>(value));
    }
    /// Calls f(T&), marks the row changed and runs on_change hooks. Null if the handle is dead or the component absent (by then).
    template <class T, class F>
        requires(!is_immutable<T>)
    T* patch(Entity entity, F&& f) {
        T* const found = mut<T>(entity);
        if (!found)
            return nullptr;
        f(*found);
        return hooked_.test(component_id<T, MaxC>()) ? notify_change<T>(entity) : found;
    }
    /// False if the handle is dead or the component absent.
    template <class T>
    bool remove(Entity entity);

    // --- hooks ---------------------------------------------------------------------------------------------------------
    // f(World&, Entity) or f(World&, Entity, T&) is called at once, on the thread of the change, in order of registration. It may
    // change structure, within the rules of loops that run. Order: add, spawn, prefabs, clones: all components of the entities are
    // in place, with their values, then on_add by entity and by component id. remove: on_remove, with the component still in
    // place, then the removal. destroy: for each entity on_destroy, then on_remove by component id, with everything in place; then
    // all of them end. An entity that is destroyed inside a hook of a destruction ends together with it, and takes no components
    // before. A hook is not called for what an earlier one has taken away, nor for a removal inside the same removal. Restores,
    // snapshots and the world's end call none. A hook should not throw; if it does, what was about to end stays, and what was
    // made is there. Without hooks for its types, a call costs a bit test.

    /// Hooks inside hooks: one more asserts, and is not called.
    static constexpr u32 hook_depth_max = 64;
    /// 0 for a type beyond MaxC (asserts).
    template <class T, class F>
    HookId on_add(F&& f) {
        return hook_component<T>(detail::HookKind::add, std::forward<F>(f));
    }
    /// Called by set and patch; not by mut and loops, whose writes come later than the call.
    template <class T, class F>
    HookId on_change(F&& f) {
        return hook_component<T>(detail::HookKind::change, std::forward<F>(f));
    }
    template <class T, class F>
    HookId on_remove(F&& f) {
        return hook_component<T>(detail::HookKind::remove, std::forward<F>(f));
    }
    /// For every entity; f(World&, Entity).
    template <class F>
    HookId on_destroy(F&& f) {
        return hook<int>(detail::HookKind::destroy, MaxC, std::forward<F>(f));
    }
    /// From now on it is not called. False if there is none of this id.
    bool unhook(HookId id);

    // --- relations ------------------------------------------------------------------------------------------------------
    // R: a component with a target (relation.hpp), such as ChildOf. Adding, setting, patching and removing it, clones and prefabs, and
    // the end of either side keep the way back in step; a target written through mut or in a loop counts from the next set or
    // patch on. A target that has ended already is treated as one that ends now. Links are part of snapshots; after a partial restore
    // of R they follow the components, and dead targets stay in them. Adding R that closes a cycle where R is acyclic asserts (relate
    // refuses); what announce() applies may, and all walks end nevertheless.

    /// The entity that the source is linked to. Null without one, O(1).
    template <class R>
    Entity target(Entity source) const;
    template <class R>
    u32 source_count(Entity target) const;
    /// f(Entity) for the sources, in the order in which they were linked. f may end the source that it is given, not others.
    template <class R, class F>
    void each_source(Entity target, F&& f) const;
    /// f(Entity) for the target, its target, and so on.
    template <class R, class F>
    void each_ancestor(Entity source, F&& f) const;
    /// The last of each_ancestor; the entity itself without a target. Null for a dead handle.
    template <class R>
    Entity root(Entity source) const;
    /// f(Entity) or f(Entity, u32 depth) for the sources, each followed by its own, depth from 1. Allocates nothing, does not recurse. f
    /// must not change links of R.
    template <class R, class F>
    void each_descendant(Entity root, F&& f) const;
    /// Sets the target. Error::bad_value, and nothing changed, for a dead handle and a cycle (O(ancestors)); Error::unsupported if a hook
    /// has undone it.
    template <class R>
    Error relate(Entity source, Entity to);
    /// A copy of the entity and all its descendants, linked alike; the copy of the root has the root's own target. Handles inside the
    /// copies that lead into the tree (relations, maps_entities) lead to the copies. Null, and nothing changed, as for clone; ids are used
    /// up. on_add runs when all are there. O(n log n); allocates.
    template <class R = ChildOf>
    Entity clone_tree(Entity root);

    // --- pools ---------------------------------------------------------------------------------------------------------
    /// The pool of T, made if absent. Where there can be none, for a type beyond MaxC and for a new one inside a parallel loop, the
    /// assert handler is called, whether assertions are on or off: there is nothing to return.
    template <class T>
    Pool<T>& pool() {
        Pool<T>* const found = try_pool<T>();
        if (!found) [[unlikely]]
            detail::assert_failed("pool<T>(): more component types than the world's MaxC, or a parallel loop runs", __FILE__, __LINE__);
        return *found;
    }
    /// The same, but null where there can be none.
    template <class T>
    Pool<T>* try_pool() {
        return static_cast<Pool<T>*>(ensure_pool(component_id<T, MaxC>(), component_ops<T>));
    }
    /// Null if nothing made it yet.
    template <class T>
    const Pool<T>* find_pool() const {
        const u32 id = detail::known_component_id<T, MaxC>();
        return id < MaxC ? static_cast<const Pool<T>*>(pools_[id]) : nullptr;
    }
    /// Memory for `count` more components of type T and as many entities, so that making them allocates nothing. Nothing for a type beyond
    /// MaxC (asserts).
    template <class T>
    void reserve(u32 count) {
        Pool<T>* const rows = try_pool<T>();
        THRONG_ASSERT(rows && "more component types than the world's MaxC");
        if (!rows)
            return;
        rows->reserve_rows(count);
        rows->reserve_direct(u64(arena_.slots()) + count);
        arena_.reserve(count);
    }

    // --- loops ---------------------------------------------------------------------------------------------------------
    // The list names component types: T, const T (read in a loop that writes), or Maybe<T> (a pointer, null where absent).
    // Filters are with<...>, without<...> and with<...> && without<...>. Visited is each entity that has all types that are not Maybe,
    // in the order of the rows of the smallest pool among these. f takes (rows...), (u32 entity_idx, rows...),
    // (LazyEntity, rows...) or (Entity, rows...); the last is the slowest, since each handle is looked up.
    // O(rows of that pool). Allocates nothing. An exception of f passes through; rows already visited stay marked.

    /// Reads: rows are const T&; nothing is marked. Any number of threads at once.
    template <class T, class... Ts, class F>
    void each(F&& f) const;
    template <class T, class... Ts, detail::IsFilter Q, class F>
    void each(Q filter, F&& f) const;
    /// Writes: rows are T&; every row visited is marked changed, of all types listed without const, before f sees it.
    template <class T, class... Ts, class F>
    void each_mut(F&& f);
    template <class T, class... Ts, detail::IsFilter Q, class F>
    void each_mut(Q filter, F&& f);
    /// The same in parallel: f is called from all workers at once, for different entities. Inside, no structural change, and
    /// no mut() (mut_shared is for that). Pieces are whole 64-row words of the smallest pool. The marks, and with a pure f the
    /// rows, do not depend on the number of workers.
    template <class T, class... Ts, class F>
    void each(Executor& executor, F&& f) const;
    template <class T, class... Ts, detail::IsFilter Q, class F>
    void each(Executor& executor, Q filter, F&& f) const;
    template <class T, class... Ts, class F>
    void each_mut(Executor& executor, F&& f);
    template <class T, class... Ts, detail::IsFilter Q, class F>
    void each_mut(Executor& executor, Q filter, F&& f);
    /// f takes a Row<T>: reads through -> and *, which never mark; row.mut() writes and marks that row alone.
    /// A filter is asked when the row's turn comes. O(rows of T).
    template <class T, class F>
    void each_row(F&& f);
    template <class T, detail::IsFilter Q, class F>
    void each_row(Q filter, F&& f);
    template <class T, class F>
    void each_row(Executor& executor, F&& f);
    template <class T, detail::IsFilter Q, class F>
    void each_row(Executor& executor, Q filter, F&& f);

    /// For SIMD and other work on plain arrays: f takes (std::span<T>...), or (std::span<const u32> owners, std::span<T>...), all
    /// of one length: consecutive rows of the same entities, in one block. A Maybe<T> gives an empty span where these
    /// entities have none. Spans are as long as the pools are in step (at most block_rows): sort_as makes them long. Listed
    /// types have bytes (no tags: filter by those). Otherwise as each and each_mut.
    template <class T, class... Ts, class F>
    void each_block(F&& f) const;
    template <class T, class... Ts, detail::IsFilter Q, class F>
    void each_block(Q filter, F&& f) const;
    template <class T, class... Ts, class F>
    void each_block(Executor& executor, F&& f) const;
    template <class T, class... Ts, detail::IsFilter Q, class F>
    void each_block(Executor& executor, Q filter, F&& f) const;
    template <class T, class... Ts, class F>
    void each_block_mut(F&& f);
    template <class T, class... Ts, detail::IsFilter Q, class F>
    void each_block_mut(Q filter, F&& f);
    template <class T, class... Ts, class F>
    void each_block_mut(Executor& executor, F&& f);
    template <class T, class... Ts, detail::IsFilter Q, class F>
    void each_block_mut(Executor& executor, Q filter, F&& f);

    // --- row order -----------------------------------------------------------------------------------------------------
    // Rows keep their change marks; nothing is marked. Pointers to rows of the sorted types end. Refused inside a loop over one of
    // them. Allocates scratch, which is kept. Stable: rows that compare equal keep their order, so the result is the same everywhere.

    /// Orders the rows of T by less(const T&, const T&). O(n log n) comparisons, then each row moves at most once. If less throws,
    /// nothing has changed.
    template <class T, class Less>
    void sort(Less less);
    /// Brings pools into step: the entities that have T and all of Ts come first, in T's order and at the same row numbers in
    /// each of these pools; the others follow in their old order. Makes loops over several of these types run straight
    /// through the columns after random additions and removals (EnTT: sort as another pool, groups). O(rows of these pools).
    template <class T, class... Ts>
    void sort_as();

    // --- type-erased access --------------------------------------------------------------------------------------------
    /// Adds a value-initialised row and marks it; an existing one is returned unchanged. Null for a dead handle. The pool must
    /// exist and T be default constructible: asserts otherwise.
    void* add_erased(Entity entity, ComponentId id);
    bool remove_erased(Entity entity, ComponentId id) {
        Meta* m = find(entity);
        if (!m || id >= MaxC || !m->signature.test(id))
            return false;
        return remove_row(*m, entity, id);
    }
    /// add_erased for whoever writes the value afterwards: on_add waits for announce(). A removal before that calls no hook.
    void* add_unannounced(Entity entity, ComponentId id);
    /// Takes components off and adds value-initialised ones, with one change of the entity's signature and list; one that is in both sets
    /// becomes another. on_remove runs first, for what is there, while all else is as it was; on_add waits for announce(). What is
    /// there already is not added. False, and nothing changed, for a dead handle; after hooks that ended the entity too.
    bool exchange_unannounced(Entity entity, const Signature<MaxC>& removed, const Signature<MaxC>& added);
    /// on_change at the next announce(), unless the component is new then; for whoever writes rows through the pool. O(1).
    void changed_unannounced(Entity entity, ComponentId id);
    /// Calls the hooks that wait, in order. What is gone by then is passed over.
    void announce() {
        if (!unannounced_.empty()) [[unlikely]]
            announce_all();
    }
    /// Clears the change bits of all pools. Readers of changes (BasicChangeReader) lose nothing by it.
    void clear_changes();
    /// For a consumer that reads and clears a pool's change words itself: call before, each time. Gives back to the words what
    /// readers of changes took from them, and gives the readers what the words say, so that the words may be set to 0 (not by
    /// clear_changes, which would give them to the readers once more). Nothing to do, one load, without such readers.
    void sync_changes(ComponentId id) {
        if (id < MaxC && streamed_.test(id))
            sync_watched(id);
    }

    // --- structural log ------------------------------------------------------------------------------------------------
    /// From now on, additions and removals of the component, and the end of entities that have it, are logged. Destroying an
    /// entity that has any logged component gives one `destroyed` event and no `removed` ones. An id beyond MaxC asserts, and is
    /// ignored where assertions are off.
    void log_structure(ComponentId id, bool on) {
        THRONG_ASSERT(id < MaxC);
        if (id >= MaxC)
            return;
        if (on)
            logged_.set(id);
        else
            logged_.reset(id);
        update_watch(id);
    }

    // --- snapshots -----------------------------------------------------------------------------------------------------
    // A snapshot is the whole state: entities, slots, generations, free list, id counter, components, row order, change bits and
    // the structural log. After restore the same calls give the same handles. A handle made after the snapshot is dead until
    // the replay makes it again; for types with a direct_index, until any entity is given its id and slot. A consumer of changes
    // must treat a restore as a change of everything. For a snapshot each tick there is BasicRollbackRing (world_rollback.hpp), which
    // copies what has changed.

    /// Fails with Error::unsupported, `out` untouched, if a pool with rows holds a type that cannot be copied. Reuses the memory
    /// of `out`. If a copy throws, `out` is empty.
    Error snapshot_into(Snapshot& out) const;
    /// The same as a value; that failure asserts (and gives an empty snapshot).
    Snapshot snapshot() const;
    /// The same, checked at compile time: Ts are all types that have rows (asserted), and a move-only one does not compile.
    template <class... Ts>
        requires(sizeof...(Ts) > 0 && (std::is_copy_constructible_v<Ts> && ...))
    Snapshot snapshot() const;
    /// Rows of types that the snapshot does not know are destroyed. Error::unsupported, and nothing changed, for an empty
    /// snapshot or one of a world with other block_rows or inline_indices, Error::limit_reached for one with more than entities_max
    /// entities. If a copy throws, the world is left without entities.
    Error restore(const Snapshot& snapshot);

    // Partial: the components of some types alone; everything else goes on. After restore exactly the entities of the
    // snapshot that still live have these components, with the values and in the order of then, marked changed; gains and losses are
    // in the structural log and the removals of change readers. Entities do not come back, and none end. For prediction (roll the
    // predicted types back) and saves.

    /// Error::unsupported, `out` untouched, for a type without a pool and for one that cannot be copied; a type is named once. Reuses
    /// the memory of `out` for the same types. If a copy throws, `out` is empty. O(rows of these types).
    Error snapshot_into(PartialSnapshot& out, std::span<const ComponentId> types) const;
    /// The same as a value, checked at compile time. Makes the pools of Ts.
    template <class... Ts>
        requires(sizeof...(Ts) > 0 && (std::is_copy_constructible_v<Ts> && ...))
    PartialSnapshot snapshot_of();
    /// Error::unsupported, and nothing changed, for an empty snapshot, one of a world with other block_rows, and inside a loop over one
    /// of the types. If a copy throws, nobody has that type, and later ones of the snapshot are as they were. O(rows, old and new).
    Error restore(const PartialSnapshot& snapshot);

    // --- diagnostics ---------------------------------------------------------------------------------------------------
    /// O(pools). What components own themselves (a string's text) is not in it.
    MemoryReport memory_report() const;

private:
    template <u32 N>
    friend class BasicWorldSnapshot;
    template <class T, u32 N>
    friend class Row;
    template <class T, u32 N>
    friend class BasicChangeReader;
    template <u32 N>
    friend class BasicDestroyReader;
    template <u32 N>
    friend class BasicRollbackRing;
    friend struct detail::WorldTestAccess;
    friend struct detail::CommandAccess;

    using State::arena_, State::pools_, State::inline_capacity_, State::entity_count_, State::frozen_, State::last_entity_id_,
        State::index_inserts_, State::logged_, State::streamed_, State::log_, State::doomed_rows_, State::row_moves_, State::moved_owners_,
        State::sort_order_, State::lists_, State::resources_, State::hooks_, State::hooked_, State::destroy_hooks_, State::any_hooks_,
        State::destroying_, State::doomed_, State::removing_, State::unannounced_, State::announcing_, State::related_, State::relations_,
        State::ended_, State::rewrites_, State::restores_, State::has_rollback_, State::orders_, State::options_;
    using State::meta, State::find, State::list_capacity, State::frozen, State::refuse_entity_change, State::has_room, State::refuse_change,
        State::refuse_in_hook, State::row_moved, State::relation_table, State::log_entry;

    /// Whether a direct index can answer for the entity: it knows half of the ids, in which all bits mean none. In a world that has used
    /// them up, the slot decides.
    bool indexed(Entity entity) const { return (entity.entity_id | last_entity_id_) < 0xffffffffu; }
    /// f(pool, row number) of a component, or a null if the handle is dead or the component absent. In line, and no step more than it
    /// takes: how many look-ups wait for memory at once is what fits into the processor's queues.
    template <class T, class F>
    [[gnu::always_inline]] inline std::invoke_result_t<F&, Pool<T>&, u32> with_row(Entity entity, F&& f) const {
        const u32 id = detail::known_component_id<T, MaxC>();
        if constexpr (direct_index<T>) {
            if (indexed(entity)) [[likely]] {
                PoolBase* const pool = id < MaxC ? pools_[id] : nullptr;
                const u32 dense = pool ? pool->direct_row(entity) : no_row;
                return dense != no_row ? f(static_cast<Pool<T>&>(*pool), dense) : nullptr;
            }
        }
        if (entity.entity_idx >= arena_.slots()) [[unlikely]]
            return nullptr;
        const Meta& m = meta(entity.entity_idx);
        if (m.entity_id != entity.entity_id) // 0 with a dead slot, which has no components
            return nullptr;
        const u32* list = m.inline_list();
        if (!m.plain(entity.gen)) [[unlikely]] {
            if (m.gen != entity.gen)
                return nullptr;
            list = m.list();
        }
        const std::size_t rank = m.signature.find(id);
        return rank != m.signature.no_rank ? f(static_cast<Pool<T>&>(*pools_[id]), list[rank]) : nullptr;
    }

    /// log2 of the overflow list for `count` row numbers; 0 if they fit inline.
    u32 overflow_log2_for(u32 count) const;
    void ensure_list(Meta& m, u32 count) {
        if (count > list_capacity(m)) [[unlikely]]
            grow_list(m, count);
    }
    void grow_list(Meta& m, u32 count);
    void insert_index(Meta& m, u32 id, u32 dense) { insert_index_at(m, id, m.signature.rank(id), dense); }
    /// position: the rank of the id.
    void insert_index_at(Meta& m, u32 id, u32 position, u32 dense) {
        u32* const list = m.list();
        for (u32 k = m.count(); k > position; --k) { // a few, for which memmove is not called
            list[k] = list[k - 1];
            asm("" : "+r"(k));
        }
        list[position] = dense;
        m.signature.set(id);
        ++index_inserts_;
    }
    void erase_index(Meta& m, u32 id) { erase_index_at(m, id, m.signature.rank(id)); }
    void erase_index_at(Meta& m, u32 id, u32 position) {
        u32* const list = m.list();
        const u32 last = m.count() - 1;
        for (u32 k = position; k < last; ++k) {
            list[k] = list[k + 1];
            asm("" : "+r"(k));
        }
        m.signature.reset(id);
    }
    /// erase(row) takes it out of its pool, and returns the owner of the one that moved there. position: the rank of the id.
    template <class Erase>
    void take_row(Meta& m, u32 id, u32 position, Erase&& erase) {
        const u32 dense = m.list()[position];
        erase_index_at(m, id, position);
        row_moved(erase(dense), id, dense);
    }
    /// After a change of what is logged, streamed or hooked.
    void update_watch(u32 id);
    PoolBase* ensure_pool(ComponentId id, const ComponentOps& ops) {
        if (id < MaxC && pools_[id]) [[likely]]
            return pools_[id];
        return make_pool(id, ops);
    }
    PoolBase* make_pool(ComponentId id, const ComponentOps& ops);
    /// Room in the direct index for one more entity.
    void reserve_slot_index(u32 id) { pools_[id]->reserve_direct(u64(arena_.slots()) + 1); }

    bool refuse_change(const Signature<MaxC>& signature) const;
    /// The same for the ends of entities, all or none.
    bool refuse_end(std::span<const Entity> entities) const;
    /// What can fail of making `instances` entities with rows in these pools: memory of everything but the values.
    void reserve_batch(PoolBase* const* pools, u32 count, u32 logged, u32 instances);
    /// Makes `entities` out of the built rows of the pools, which ascend by id. Cannot fail after reserve_batch.
    void place_batch(PoolBase* const* pools, u32 count, const Signature<MaxC>& signature, u32 logged, std::span<Entity> entities);
    template <class Build, class... Ts>
    bool spawn_built(std::span<Entity> entities, Build&& build);

    bool remove_row(Meta& m, Entity entity, u32 id);
    template <class T, class F>
    HookId hook(detail::HookKind kind, u32 component, F&& f);
    template <class T, class F>
    HookId hook_component(detail::HookKind kind, F&& f);
    bool instantiate_quietly(const Prefab& prefab, std::span<Entity> entities, const Entity* parents);
    template <class F>
    bool instantiate_filled(const Prefab& prefab, std::span<Entity> entities, F&& fill);
    bool clone_quietly(Entity entity, std::span<Entity> copies);
    template <class R>
    const detail::RelationTable* find_relation() const;
    void relink(u32 id, Entity source, bool whole);
    void relink_all(u32 id);
    void end_targets(Entity entity);
    void drop_links(Entity entity);
    void notify(detail::HookKind kind, u32 id, Entity entity);
    void announce_all();
    void* add_value_initialised(Entity entity, ComponentId id, bool announced);
    void notify_added(const Signature<MaxC>& signature, std::span<const Entity> entities);
    /// By value, so that a spawn without hooks keeps its handle in registers.
    [[gnu::noinline]] void notify_spawned_one(const Signature<MaxC>& signature, Entity entity) {
        if (signature.intersects(hooked_))
            notify_added(signature, {&entity, 1});
    }
    template <class... Ts>
    void notify_spawned(std::span<const Entity> entities) {
        Signature<MaxC> signature;
        (signature.set(component_id<Ts, MaxC>()), ...);
        if (signature.intersects(hooked_)) [[unlikely]]
            notify_added(signature, entities);
    }
    bool notify_removing(Entity entity, u32 id);
    template <class T>
    T* notify_change(Entity entity) {
        notify(detail::HookKind::change, component_id<T, MaxC>(), entity);
        return const_cast<T*>(get<T>(entity));
    }
    u32 destroy_hooked(std::span<const Entity> entities);
    bool destroy_now(Entity entity);
    // What can fail of destroy_now and destroy_batch_now: memory.
    void reserve_end_log(std::size_t count) {
        if (logged_.any())
            log_.reserve_extra(count);
    }
    void reserve_batch_end(const Signature<MaxC>& types, std::size_t count);
    Signature<MaxC> types_with_rows() const;
    u32 destroy_batch_now(std::span<const Entity> entities);
    Entity occupy_slot(const Signature<MaxC>& signature, u32 overflow_log2);
    void free_slot(u32 entity_idx);
    void rows_moved(const RowMove* moves, const u32* owners, u32 count, const Signature<MaxC>& types);
    u32 destroy_piece(std::span<const Entity> entities, const Signature<MaxC>& all, u32 column_rows);
    void copy_state(const BasicWorld& from);
    void reset_entities();
    /// Asserts that all types with rows are among Ts.
    template <class... Ts>
    void assert_listed() const;

    template <class T>
    PoolBase* pool_or_null() const {
        const u32 id = detail::known_component_id<T, MaxC>();
        return id < MaxC ? pools_[id] : nullptr;
    }
    template <class... Ts, class... Ws, class... Xs>
    bool select(Filter<With<Ws...>, Without<Xs...>> filter, detail::Selection<MaxC, sizeof...(Ts) + sizeof...(Ws)>& out) const;
    template <class... Ts, class... Ws, class... Xs, class F>
    void visit(Executor* executor, Filter<With<Ws...>, Without<Xs...>> filter, F& f) const;
    template <class... Ts, class... Ws, class... Xs, class F>
    void visit_blocks(Executor* executor, Filter<With<Ws...>, Without<Xs...>> filter, F& f) const;
    template <class T, class F>
    void visit_rows(Executor* executor, const detail::SlotFilter<MaxC>& filter, F& f);
    /// Calls f with the rows of one slot; 0 if it lacks a type that is not Maybe.
    template <class... Ts, class F>
    u32 call_at(u32 slot, F& f);
    detail::ChangeReaderState* add_change_reader(PoolBase& pool, const ChangeReaderOptions& options);
    void drop_change_reader(PoolBase& pool, detail::ChangeReaderState* state);
    void end_change_stream(PoolBase& pool);
    void stream_removal(Entity entity, const Signature<MaxC>& types, bool destroyed);
    void mark_owed(ComponentId id, const detail::SlotSet& owed);
    void sync_watched(ComponentId id);
    void restore_pool(PoolBase& pool, const PoolBase& from, const u64* entity_ids);
    void align_pools(PoolBase* const* pools, u32 count);
    /// Row i of the pool becomes what row from[i] was; `from` is a permutation of the pool's rows, and is used up.
    void reorder_rows(PoolBase& pool, u32* from);
};

using World = BasicWorld<default_max_components>;
using WorldSnapshot = BasicWorldSnapshot<default_max_components>;

} // namespace throng
