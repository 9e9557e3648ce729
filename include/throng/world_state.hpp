#pragma once
// What a world holds, and the look-ups that all of its calls are made of. Part of throng/world.hpp; do not include alone.
#include "throng/arena.hpp"
#include "throng/changes.hpp"
#include "throng/hooks.hpp"
#include "throng/pool.hpp"
#include "throng/resources.hpp"
#include "throng/signature.hpp"
#include "throng/world_types.hpp"
#include <span>

namespace throng::detail {

/// The base of BasicWorld: entities, pools and logs, for reading, and whether they may change now. Nothing here changes structure.
template <u32 MaxC>
class WorldState {
public:
    using Meta = EntityMeta<MaxC>;

    const WorldOptions& options() const { return options_; }

    bool alive(Entity entity) const { return find(entity) != nullptr; }
    u32 entity_count() const { return entity_count_; }
    /// All slots ever used are below this.
    u32 entity_slots() const { return arena_.slots(); }
    /// The entity in a slot; null if it is dead or was never used.
    Entity entity_at(u32 entity_idx) const {
        if (entity_idx >= arena_.slots())
            return {};
        const Meta& m = meta(entity_idx);
        return m.entity_id != 0 ? Entity{m.entity_id, entity_idx, m.gen} : Entity{};
    }
    /// Ids handed out so far are 1 .. last_entity_id().
    u64 last_entity_id() const { return last_entity_id_; }
    /// How often all of the state was replaced, by restore of a snapshot or of a rollback ring: what is derived from the world by its
    /// log and marks alone is then to be compared with it anew. Never goes back.
    u64 restore_count() const { return restores_; }
    /// The types an entity has; empty for a dead handle.
    Signature<MaxC> signature(Entity entity) const {
        const Meta* m = find(entity);
        return m ? m->signature : Signature<MaxC>{};
    }

    /// Values of which the world has one each. Not part of snapshots: restore leaves them as they are.
    Resources& resources() { return resources_; }
    const Resources& resources() const { return resources_; }

    /// A parallel loop over this world runs: no structural change, no mut().
    bool in_parallel_loop() const { return frozen(); }

    /// Null if the pool was not made yet, or the id is beyond MaxC.
    PoolBase* pool_of(ComponentId id) { return id < MaxC ? pools_[id] : nullptr; }
    const PoolBase* pool_of(ComponentId id) const { return id < MaxC ? pools_[id] : nullptr; }
    /// Row of a component in its pool; no_row if the slot is dead or lacks it.
    u32 dense_index(u32 entity_idx, ComponentId id) const {
        if (entity_idx >= arena_.slots() || id >= MaxC)
            return no_row;
        const Meta& m = meta(entity_idx);
        return m.signature.test(id) ? m.list()[m.signature.rank(id)] : no_row;
    }
    /// Brings what dense_index reads of a slot into the cache; a hint, any index is allowed.
    void prefetch(u32 entity_idx) const {
        if (entity_idx < arena_.slots())
            detail::prefetch(&meta(entity_idx));
    }
    /// A component that has any hook (a destruction hook alone is none).
    bool hooked(ComponentId id) const { return id < MaxC && hooked_.test(id); }

    /// In order of occurrence. Good until the next structural change.
    std::span<const StructureEvent> structure_log() const { return {log_.data(), log_.size()}; }
    /// Keeps the memory.
    void clear_structure_log() { log_.clear(); }
    /// How many row numbers were inserted one by one so far. Spawn and prefabs do not insert.
    u64 index_insert_count() const { return index_inserts_; }

protected:
    explicit WorldState(const WorldOptions& options)
        : arena_(options.allocator, meta_bytes(options.inline_indices), options.block_rows),
          inline_capacity_((meta_bytes(options.inline_indices) - static_cast<u32>(sizeof(Meta))) / static_cast<u32>(sizeof(u32))),
          log_(options.allocator), doomed_rows_(options.allocator), row_moves_(options.allocator), moved_owners_(options.allocator),
          sort_order_(options.allocator), lists_(options.allocator), resources_(options.allocator), hooks_(options.allocator),
          doomed_(options.allocator), removing_(options.allocator), unannounced_(options.allocator), relations_(options.allocator),
          ended_(options.allocator), options_(options) {}
    WorldState(const WorldState&) = delete;
    WorldState& operator=(const WorldState&) = delete;
    ~WorldState() = default;

    /// Bytes of a slot with as many row numbers in it.
    static u32 meta_bytes(u32 inline_indices) {
        const u32 needed = static_cast<u32>(sizeof(Meta)) + (inline_indices < 2 ? 2 : inline_indices) * static_cast<u32>(sizeof(u32));
        return needed <= 64 ? 64 : std::bit_ceil(needed);
    }
    Meta& meta(u32 entity_idx) { return *static_cast<Meta*>(arena_.at(entity_idx)); }
    const Meta& meta(u32 entity_idx) const { return *static_cast<const Meta*>(arena_.at(entity_idx)); }
    const Meta* find(Entity entity) const {
        if (entity.entity_idx >= arena_.slots()) [[unlikely]]
            return nullptr;
        const Meta& m = meta(entity.entity_idx);
        return m.entity_id == entity.entity_id && m.gen == entity.gen && entity.entity_id != 0 ? &m : nullptr;
    }
    Meta* find(Entity entity) { return const_cast<Meta*>(static_cast<const WorldState*>(this)->find(entity)); }
    u32 list_capacity(const Meta& m) const { return m.overflow_log2 != 0 ? u32(1) << m.overflow_log2 : inline_capacity_; }

    bool frozen() const { return __atomic_load_n(&frozen_, __ATOMIC_RELAXED) != 0; }
    /// True, after an assertion, if entities may not be made or ended now.
    bool refuse_entity_change() const {
        THRONG_ASSERT(!frozen() && "no structural change inside a parallel loop");
        return frozen();
    }
    /// Whether `count` more entities fit: entities_max, and ids below 2^63 (the bit beyond marks pending handles of a CommandQueue).
    bool has_room(u64 count) const { return count + entity_count_ <= options_.entities_max && count <= (~u64(0) >> 1) - last_entity_id_; }
    /// refuse_entity_change for the rows of a pool.
    [[gnu::always_inline]] bool refuse_change(const PoolBase& pool) const { // g++ 12 made calls of it in add and remove
        const bool parallel = frozen(), looping = pool.iterating();
        if (!(parallel | looping)) [[likely]]
            return false;
        THRONG_ASSERT(!parallel && "no structural change inside a parallel loop");
        THRONG_ASSERT(!looping && "no structural change of a pool inside a loop over it");
        return true;
    }
    /// True, after an assertion, where the state of the world is one that no snapshot may hold or replace.
    bool refuse_in_hook() const {
        THRONG_ASSERT(hooks_.depth() == 0 && "no snapshot and no restore inside a hook");
        return hooks_.depth() != 0;
    }

    /// Writes back where the row of a moved owner is now.
    void row_moved(u32 owner, u32 id, u32 dense) {
        if (owner != no_row) {
            Meta& moved = meta(owner);
            THRONG_ASSERT_SLOW(moved.entity_id != 0 && moved.signature.test(id) && "a row of an entity that has ended, or lacks the type");
            arena_.touch(owner);
            moved.list()[moved.signature.rank(id)] = dense;
        }
    }
    RelationTable* relation_table(u32 id) {
        for (RelationTable& table : relations_)
            if (table.component() == id)
                return &table;
        return nullptr;
    }
    void log_entry(Entity entity, u32 id, StructureEvent::Kind kind) {
        log_.push_back({entity.entity_id, entity.entity_idx, static_cast<ComponentId>(id), kind});
    }

    LinearArena arena_;
    PoolBase* pools_[MaxC] = {};
    u32 inline_capacity_;
    u32 entity_count_ = 0;
    mutable u32 frozen_ = 0; // parallel loops running
    u64 last_entity_id_ = 0;
    u64 index_inserts_ = 0;
    Signature<MaxC> logged_;
    Signature<MaxC> streamed_; // types with readers of changes
    Array<StructureEvent> log_;
    Array<u32> doomed_rows_; // scratch of destroy_batch, and the next
    Array<RowMove> row_moves_;
    Array<u32> moved_owners_;
    Array<u32> sort_order_; // scratch of sort and sort_as
    IndexPool lists_;
    Resources resources_;
    HookTable hooks_;
    Signature<MaxC> hooked_; // types with any hook
    u32 destroy_hooks_ = 0;
    bool any_hooks_ = false; // of any kind
    bool destroying_ = false;
    Array<Entity> doomed_; // of the running destruction
    Array<Removal> removing_;
    WaitingHooks unannounced_;
    bool announcing_ = false;
    Signature<MaxC> related_; // relation types
    Array<RelationTable> relations_;
    DestroyStream ended_;
    u64 rewrites_ = 0; // how often all of the state was replaced, which no mark tells
    u64 restores_ = 0; // the same, and restores of a rollback ring
    bool has_rollback_ = false;
    mutable u64 orders_ = 0; // names of the orders of blocks handed out so far
    WorldOptions options_;
};

} // namespace throng::detail
