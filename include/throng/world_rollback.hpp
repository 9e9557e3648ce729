#pragma once
// Repeated snapshots for rollback, each as large as what has changed. Part of throng/world.hpp; do not include alone.
#include "throng/arena.hpp"
#include "throng/rollback.hpp"
#include "throng/world_changes.hpp"
#include "throng/world_snapshot.hpp"

namespace throng {

/// The last states of one world, by frame number: save once a tick, restore to any frame that is held, simulate on. A save copies
/// only the runs (64 rows of a pool, 64 entity slots, 1024 slots of a relation) that were written since the one before, a restore
/// writes only those in which the world differs. Memory: one copy of the world, and for each frame what changed up to the next; from the
/// world's allocator, and kept, so that a world that repeats itself causes no allocation.
///
/// A frame is what a WorldSnapshot is, without change bits: entities, slots, generations, free list, id counter, components, row order,
/// links and the structural log. After restore the same calls give the same handles, and resources and hooks are as they were.
/// Writes are known by their marks: what goes through a `const_cast` or a pointer kept from before the last save is not seen.
///
/// Change marks and readers go on over a restore: all rows of the runs that it wrote count as changed, and for each component that an
/// entity has lost by it readers get a removal, for each that has ended by it a destruction. Only the readers' own limits may make them
/// start over.
///
/// Must end before its world, which has one ring at most (asserts). Not movable. Thread rule: as the world's non-const functions.
template <u32 MaxC = default_max_components>
class BasicRollbackRing {
public:
    /// Keeps up to `frames_max` frames, 1 or more.
    BasicRollbackRing(BasicWorld<MaxC>& world, u32 frames_max);
    BasicRollbackRing(const BasicRollbackRing&) = delete;
    BasicRollbackRing& operator=(const BasicRollbackRing&) = delete;
    ~BasicRollbackRing();

    /// The world as it is now becomes frame `number`; frames later than the one that was saved or restored last are dropped, and the
    /// oldest where there would be more than frames_max. Error::bad_value if the number is not above that last one, Error::unsupported
    /// inside hooks and parallel loops, and where a pool with rows holds a type that cannot be copied; nothing changes then. If a copy
    /// or the allocator throws, the later frames are gone and all else is as it was.
    /// O(runs written) copies, and a look at each block of rows and at a byte for 64 slots.
    Error save(u64 number);
    /// The same, checked at compile time: Ts are all types that have rows (asserted), and a move-only one does not compile.
    template <SnapshotComponent... Ts>
        requires(sizeof...(Ts) > 0)
    Error save(u64 number);
    /// The world as it was in that frame. All frames stay, later ones until the next save: one may go back and forth.
    /// Error::bad_value for a frame that is not held, Error::unsupported inside hooks and loops; nothing changes then. If a copy or the
    /// allocator throws, the world is left without entities; the frames stay. O(runs that differ), and as save.
    Error restore(u64 number);

    bool holds(u64 number) const { return find(number) < count_; }
    u32 frame_count() const { return count_; }
    u32 frames_max() const { return frames_.size() - 1; }
    /// 0 without frames.
    u64 oldest_frame() const { return count_ != 0 ? at(0).number : 0; }
    u64 newest_frame() const { return count_ != 0 ? at(count_ - 1).number : 0; }
    /// Runs that the last save or restore copied, and their bytes.
    u32 copied_runs() const { return copied_runs_; }
    u64 copied_bytes() const { return copied_bytes_; }
    /// All that the ring holds of the world's allocator. O(frames + MaxC).
    u64 memory_bytes() const;

private:
    using World = BasicWorld<MaxC>;
    using Meta = EntityMeta<MaxC>;
    struct Frame {
        explicit Frame(const Allocator& allocator) : rows(allocator), log(allocator), changes(allocator) {}
        u64 number = 0;
        u64 last_entity_id = 0;
        u32 entity_count = 0;
        LinearArena::Numbers slots = {};
        Array<u32> rows; // of each pool
        Array<StructureEvent> log;
        Array<detail::RollbackChange> changes; // between the frame before and this one
    };
    static constexpr u32 slots_column = 0;
    static constexpr u32 first_pool_column = 1;
    static constexpr u32 first_relation_column = first_pool_column + MaxC;

    Frame& at(u32 i) { return frames_[(first_ + i) % frames_.size()]; }
    const Frame& at(u32 i) const { return frames_[(first_ + i) % frames_.size()]; }
    u32 find(u64 number) const {
        u32 i = 0;
        while (i < count_ && at(i).number != number)
            ++i;
        return i;
    }
    detail::RollbackColumn& relation_column(u32 index) {
        while (first_relation_column + index >= columns_.size())
            columns_.emplace_back(columns_.allocator());
        return columns_[first_relation_column + index];
    }
    void release(u32 column, const detail::RunCopy& copy) noexcept;
    void drop_changes(Frame& frame) noexcept {
        for (const detail::RollbackChange& change : frame.changes)
            release(change.column, change.copy);
        frame.changes.clear();
    }
    void take_back(Frame& fresh) noexcept;
    template <class F>
    void save_run(Frame& fresh, u32 column, u32 run, F&& copy);
    void save_slots(Frame& fresh, bool all);
    void save_pool(Frame& fresh, PoolBase& pool, bool all);
    void save_relation(Frame& fresh, u32 index, bool all);
    bool refuse() const;
    void prepare(const Frame& to);
    void find_stale(u32 index, bool all);
    void list_owners(const Frame& to);
    void move_to(u32 index);
    void apply(const Frame& to);
    void restore_slots(const Frame& to);
    void restore_relation(u32 index);
    void count_copied(u32 column, u32 runs) {
        copied_runs_ += runs;
        copied_bytes_ += u64(runs) * columns_[column].stock.copy_bytes();
    }

    World* world_;
    Array<Frame> frames_; // a ring with one place more than frames_max, for the frame that is being saved
    Array<detail::RollbackColumn> columns_;
    Array<Entity> owners_; // scratch of restore: who may lose a component that has readers, type by type; then who may end
    Array<u32> owners_end_;
    IndexPool lists_; // row numbers of the copied slots that have more than inline_indices
    u32 first_ = 0;
    u32 count_ = 0;
    u32 current_ = 0;        // the frame whose runs the columns hold
    u64 rewrites_ = ~u64(0); // of the world when its state was last known here
    u32 copied_runs_ = 0;
    u64 copied_bytes_ = 0;
};
using RollbackRing = BasicRollbackRing<default_max_components>;

template <u32 MaxC>
BasicRollbackRing<MaxC>::BasicRollbackRing(World& world, u32 frames_max)
    : world_(&world), frames_(world.options_.allocator), columns_(world.options_.allocator), owners_(world.options_.allocator),
      owners_end_(world.options_.allocator), lists_(world.options_.allocator) {
    THRONG_ASSERT(frames_max > 0 && !world.has_rollback_);
    frames_.reserve(frames_max + std::size_t(1));
    for (u32 i = 0; i <= frames_max; ++i)
        frames_.emplace_back(world.options_.allocator).rows.resize(MaxC);
    columns_.reserve(first_relation_column);
    while (columns_.size() < first_relation_column)
        columns_.emplace_back(world.options_.allocator);
    columns_[slots_column].stock.set_shape(LinearArena::run_cells * world.arena_.cell_bytes(), 64);
    owners_end_.resize(MaxC);
    world.has_rollback_ = true;
}

/// True where the state of the world is one that no frame may hold or replace.
template <u32 MaxC>
bool BasicRollbackRing<MaxC>::refuse() const {
    bool refused = world_->refuse_in_hook() || world_->refuse_entity_change();
    for (const PoolBase* pool : world_->pools_)
        refused = refused || (pool && world_->refuse_change(*pool));
    return refused;
}

template <u32 MaxC>
BasicRollbackRing<MaxC>::~BasicRollbackRing() {
    for (Frame& frame : frames_)
        drop_changes(frame);
    for (u32 column = 0; column < columns_.size(); ++column)
        for (const detail::RunCopy& copy : columns_[column].runs)
            release(column, copy);
    world_->has_rollback_ = false;
}

template <u32 MaxC>
u64 BasicRollbackRing<MaxC>::memory_bytes() const {
    u64 bytes = u64(frames_.capacity()) * sizeof(Frame) + u64(columns_.capacity()) * sizeof(detail::RollbackColumn) +
                u64(owners_.capacity()) * sizeof(Entity) + u64(owners_end_.capacity()) * sizeof(u32) + lists_.memory_bytes();
    for (const Frame& frame : frames_)
        bytes += u64(frame.rows.capacity()) * sizeof(u32) + u64(frame.log.capacity()) * sizeof(StructureEvent) +
                 u64(frame.changes.capacity()) * sizeof(detail::RollbackChange);
    for (const detail::RollbackColumn& column : columns_)
        bytes += column.memory_bytes();
    return bytes;
}

template <u32 MaxC>
void BasicRollbackRing<MaxC>::release(u32 column, const detail::RunCopy& copy) noexcept {
    if (!copy.memory)
        return;
    if (column == slots_column) {
        for (u32 i = 0; i < copy.count; ++i)
            if (const Meta& m = *reinterpret_cast<const Meta*>(copy.memory + std::size_t(i) * world_->arena_.cell_bytes()); m.overflow_log2)
                lists_.give(m.overflow_list(), m.overflow_log2);
    } else if (column < first_relation_column) {
        if (const auto destroy = world_->pools_[column - first_pool_column]->ops().destroy)
            destroy(copy.memory, copy.count);
    }
    columns_[column].stock.give(copy.memory);
}

// --- saving -----------------------------------------------------------------------------------------------------------------------
template <u32 MaxC>
Error BasicRollbackRing<MaxC>::save(u64 number) {
    if (refuse())
        return Error::unsupported;
    if (count_ != 0 && number <= at(current_).number)
        return Error::bad_value;
    for (const PoolBase* pool : world_->pools_)
        if (pool && pool->size() > 0 && !pool->ops().copyable)
            return Error::unsupported;
    while (count_ > current_ + 1)
        drop_changes(at(--count_));

    copied_runs_ = 0;
    copied_bytes_ = 0;
    Frame& fresh = at(count_);
    struct Undo {
        BasicRollbackRing& ring;
        Frame* fresh;
        ~Undo() {
            if (fresh)
                ring.take_back(*fresh);
        }
    } undo{*this, &fresh};
    fresh.log.clear();
    fresh.log.append(world_->log_.data(), world_->log_.size());
    const bool all = rewrites_ != world_->rewrites_;
    save_slots(fresh, all);
    for (u32 id = 0; id < MaxC; ++id) {
        fresh.rows[id] = world_->pools_[id] ? world_->pools_[id]->size() : 0;
        if (world_->pools_[id])
            save_pool(fresh, *world_->pools_[id], all);
    }
    for (u32 i = 0; i < world_->relations_.size(); ++i)
        save_relation(fresh, i, all);
    undo.fresh = nullptr;

    fresh.number = number;
    fresh.last_entity_id = world_->last_entity_id_;
    fresh.entity_count = world_->entity_count_;
    fresh.slots = world_->arena_.numbers();
    rewrites_ = world_->rewrites_;
    if (count_ == frames_max()) {
        first_ = (first_ + 1) % frames_.size();
        --count_;
    }
    current_ = count_++;
    drop_changes(at(0)); // nothing is before the oldest
    return Error::none;
}

template <u32 MaxC>
template <SnapshotComponent... Ts>
    requires(sizeof...(Ts) > 0)
Error BasicRollbackRing<MaxC>::save(u64 number) {
    world_->template assert_listed<Ts...>();
    return save(number);
}

/// Copies a run and enters the copy; copy(RunCopy&) counts what it has built, so that it can be ended if it throws.
template <u32 MaxC>
template <class F>
void BasicRollbackRing<MaxC>::save_run(Frame& fresh, u32 column, u32 run, F&& copy) {
    detail::RollbackColumn& to = columns_[column];
    if (run >= to.runs.size())
        to.runs.resize(run + std::size_t(1));
    fresh.changes.reserve_extra(1);
    struct Built {
        BasicRollbackRing& ring;
        u32 column;
        detail::RunCopy copy;
        ~Built() { ring.release(column, copy); }
    } built{*this, column, {to.stock.take(), 0}};
    copy(built.copy);
    fresh.changes.push_back({column, run, std::exchange(to.runs[run], built.copy)});
    built.copy = {};
    count_copied(column, 1);
}

/// A save has failed: what it copied is given back, and counts as written again.
template <u32 MaxC>
void BasicRollbackRing<MaxC>::take_back(Frame& fresh) noexcept {
    for (const detail::RollbackChange& change : fresh.changes) {
        release(change.column, std::exchange(columns_[change.column].runs[change.run], change.copy));
        if (change.column == slots_column)
            world_->arena_.set_touched(change.run, true);
        else if (change.column < first_relation_column)
            world_->pools_[change.column - first_pool_column]->set_written(change.run);
        else
            world_->relations_[change.column - first_relation_column].set_touched(change.run, true);
    }
    fresh.changes.clear();
}

template <u32 MaxC>
void BasicRollbackRing<MaxC>::save_slots(Frame& fresh, bool all) {
    LinearArena& arena = world_->arena_;
    for (u32 run = 0; run < arena.run_count(); ++run) {
        if (!all && !arena.touched(run))
            continue;
        save_run(fresh, slots_column, run, [&](detail::RunCopy& copy) {
            const u32 first = run * LinearArena::run_cells, left = arena.slots() - first;
            const u32 count = left < LinearArena::run_cells ? left : LinearArena::run_cells;
            std::memcpy(copy.memory, arena.at(first), std::size_t(count) * arena.cell_bytes());
            for (; copy.count < count; ++copy.count) {
                Meta& m = *reinterpret_cast<Meta*>(copy.memory + std::size_t(copy.count) * arena.cell_bytes());
                if (m.overflow_log2 == 0)
                    continue;
                u32* const list = lists_.take(m.overflow_log2);
                std::memcpy(list, m.overflow_list(), m.count() * sizeof(u32));
                m.set_overflow_list(list);
            }
        });
        arena.set_touched(run, false);
    }
}

template <u32 MaxC>
void BasicRollbackRing<MaxC>::save_pool(Frame& fresh, PoolBase& pool, bool all) {
    const u32 column = first_pool_column + pool.component();
    if (columns_[column].stock.copy_bytes() == 0)
        columns_[column].stock.set_shape(pool.run_copy_bytes(), pool.run_copy_alignment());
    const u32 runs_a_block = pool.block_rows() / PoolBase::run_rows, runs = pool.run_count();
    for (u32 b = 0; b < pool.block_count(); ++b)
        for (u64 left = all ? ~u64(0) >> (64 - runs_a_block) : pool.written_runs(b); left != 0; left &= left - 1) {
            const u32 run = b * runs_a_block + static_cast<u32>(std::countr_zero(left));
            if (run >= runs)
                break;
            save_run(fresh, column, run, [&](detail::RunCopy& copy) { copy.count = pool.save_run(run, copy.memory); });
            pool.end_written(run);
        }
}

template <u32 MaxC>
void BasicRollbackRing<MaxC>::save_relation(Frame& fresh, u32 index, bool all) {
    using Table = detail::RelationTable;
    Table& table = world_->relations_[index];
    detail::RollbackColumn& column = relation_column(index);
    if (column.stock.copy_bytes() == 0)
        column.stock.set_shape(Table::page_bytes, 64);
    for (u32 page = 0; page < table.page_count(); ++page) {
        if (!table.page(page) || (!all && !table.touched(page)))
            continue;
        save_run(fresh, first_relation_column + index, page, [&](detail::RunCopy& copy) {
            std::memcpy(copy.memory, table.page(page), Table::page_bytes);
            copy.count = Table::page_slots;
        });
        table.set_touched(page, false);
    }
}

// --- restoring --------------------------------------------------------------------------------------------------------------------
template <u32 MaxC>
Error BasicRollbackRing<MaxC>::restore(u64 number) {
    if (refuse())
        return Error::unsupported;
    const u32 index = find(number);
    if (index == count_)
        return Error::bad_value;
    const Frame& to = at(index);
    copied_runs_ = 0;
    copied_bytes_ = 0;
    prepare(to);
    find_stale(index, rewrites_ != world_->rewrites_);
    list_owners(to);
    move_to(index);
    struct Undo {
        World* world;
        ~Undo() {
            if (!world)
                return;
            world->reset_entities();
            ++world->ended_.resyncs;
            world->streamed_.for_each([&](u32 id) { world->pools_[id]->change_stream()->resync_all(*world->pools_[id]); });
        }
    } undo{world_};
    ++world_->restores_;
    apply(to);
    undo.world = nullptr;
    rewrites_ = world_->rewrites_;
    return Error::none;
}

/// What can fail but for copies of components and lists of row numbers.
template <u32 MaxC>
void BasicRollbackRing<MaxC>::prepare(const Frame& to) {
    const auto room = [](detail::RollbackColumn& column, u32 runs) {
        runs = runs > column.runs.size() ? runs : column.runs.size();
        column.stale.resize(runs / 64 + std::size_t(1));
    };
    World& world = *world_;
    room(columns_[slots_column], world.arena_.run_count());
    world.log_.reserve(to.log.size());
    for (u32 id = 0; id < MaxC; ++id) {
        PoolBase* const pool = world.pools_[id];
        if (!pool)
            continue;
        room(columns_[first_pool_column + id], pool->run_count());
        if (to.rows[id] > pool->size())
            pool->reserve_rows(to.rows[id] - pool->size());
        pool->reserve_direct(to.slots.slots);
        if (world.streamed_.test(id))
            pool->change_stream()->reserve_slots(to.slots.slots);
    }
    for (u32 i = 0; i < world.relations_.size(); ++i)
        room(relation_column(i), world.relations_[i].page_count());
}

/// Notes the runs that were written since the ring last knew them, those whose last rows have gone from the world, and those in which
/// the frame differs from the current one.
template <u32 MaxC>
void BasicRollbackRing<MaxC>::find_stale(u32 index, bool all) {
    World& world = *world_;
    const Frame& to = at(index);
    for (u32 i = (index < current_ ? index : current_) + 1; i <= (index < current_ ? current_ : index); ++i)
        for (const detail::RollbackChange& change : at(i).changes)
            columns_[change.column].set_stale(change.run);
    detail::RollbackColumn& slots = columns_[slots_column];
    for (u32 run = 0; run < world.arena_.run_count(); ++run)
        if (world.arena_.touched(run))
            slots.set_stale(run);
    for (u32 id = 0; id < MaxC; ++id) {
        const PoolBase* const pool = world.pools_[id];
        if (!pool)
            continue;
        detail::RollbackColumn& column = columns_[first_pool_column + id];
        const u32 runs_a_block = pool->block_rows() / PoolBase::run_rows;
        for (u32 b = 0; b < pool->block_count(); ++b)
            column.stale[b * runs_a_block / 64] |= pool->written_runs(b) << (b * runs_a_block % 64);
        for (u32 row = pool->size(); row < to.rows[id]; row = (row | (PoolBase::run_rows - 1)) + 1)
            column.set_stale(row / PoolBase::run_rows);
    }
    for (u32 i = 0; i < world.relations_.size(); ++i)
        for (u32 page = 0; page < world.relations_[i].page_count(); ++page)
            if (world.relations_[i].touched(page))
                relation_column(i).set_stale(page);
    for (u32 column = 0; all && column < columns_.size(); ++column)
        for (u64& word : columns_[column].stale)
            word = ~u64(0);
}

template <u32 MaxC>
void BasicRollbackRing<MaxC>::list_owners(const Frame& to) {
    owners_.clear();
    for (u32 id = 0; id < MaxC; ++id) {
        if (world_->streamed_.test(id)) {
            const PoolBase& pool = *world_->pools_[id];
            for (u32 row = 0; row < pool.size(); ++row)
                if (row >= to.rows[id] || columns_[first_pool_column + id].is_stale(row / PoolBase::run_rows))
                    owners_.push_back(world_->entity_at(pool.owner(row)));
        }
        owners_end_[id] = owners_.size();
    }
    if (world_->ended_.readers != 0)
        for (u32 slot = 0; slot < world_->arena_.slots(); ++slot)
            if (columns_[slots_column].is_stale(slot / LinearArena::run_cells))
                if (const Entity entity = world_->entity_at(slot))
                    owners_.push_back(entity);
}

/// Exchanges copies until the columns hold the frame's.
template <u32 MaxC>
void BasicRollbackRing<MaxC>::move_to(u32 index) {
    const auto exchange = [this](Frame& frame) {
        for (detail::RollbackChange& change : frame.changes)
            std::swap(columns_[change.column].runs[change.run], change.copy);
    };
    for (; current_ > index; --current_)
        exchange(at(current_));
    for (; current_ < index; ++current_)
        exchange(at(current_ + 1));
}

template <u32 MaxC>
void BasicRollbackRing<MaxC>::apply(const Frame& to) {
    World& world = *world_;
    for (u32 id = 0; id < MaxC; ++id)
        if (PoolBase* const pool = world.pools_[id]) {
            detail::RollbackColumn& column = columns_[first_pool_column + id];
            count_copied(first_pool_column + id, pool->restore_runs(to.rows[id], column.stale.data(), column.runs.data()));
        }
    restore_slots(to);
    for (u32 i = 0; i < world.relations_.size(); ++i)
        restore_relation(i);
    // From here on nothing fails.
    world.entity_count_ = to.entity_count;
    world.last_entity_id_ = to.last_entity_id;
    world.log_.clear();
    world.log_.append(to.log.data(), to.log.size());
    world.unannounced_.clear();
    u32 next = 0;
    for (u32 id = 0; id < MaxC; ++id) {
        PoolBase* const pool = world.pools_[id];
        if (!pool)
            continue;
        pool->index_runs(columns_[first_pool_column + id].stale.data(), [&](u32 owner) { return world.meta(owner).entity_id; });
        for (; next < owners_end_[id]; ++next)
            if (const Meta* const m = world.find(owners_[next]); !m || !m->signature.test(id))
                pool->change_stream()->push_removal({owners_[next], m == nullptr});
    }
    for (; next < owners_.size(); ++next)
        if (!world.find(owners_[next]))
            world.ended_.ended.push(owners_[next]);
    for (detail::RollbackColumn& column : columns_)
        for (u64& word : column.stale)
            word = 0;
}

template <u32 MaxC>
void BasicRollbackRing<MaxC>::restore_slots(const Frame& to) {
    LinearArena& arena = world_->arena_;
    const detail::RollbackColumn& column = columns_[slots_column];
    const u32 live = arena.slots();
    const u32 runs = arena.run_count() > column.runs.size() ? arena.run_count() : column.runs.size();
    for (u32 run = 0; run < runs; ++run) {
        if (!column.is_stale(run))
            continue;
        const u32 first = run * LinearArena::run_cells;
        for (u32 slot = first; slot < live && slot < first + LinearArena::run_cells; ++slot)
            if (Meta& m = world_->meta(slot); m.overflow_log2 != 0) {
                world_->lists_.give(m.overflow_list(), m.overflow_log2);
                m.overflow_log2 = 0;
            }
        arena.set_touched(run, false);
        if (first >= to.slots.slots)
            continue;
        const detail::RunCopy& copy = column.runs[run];
        const u32 left = to.slots.slots - first, count = left < LinearArena::run_cells ? left : LinearArena::run_cells;
        std::memcpy(arena.at(first), copy.memory, std::size_t(count) * arena.cell_bytes());
        for (u32 slot = first; slot < first + count; ++slot)
            if (Meta& m = world_->meta(slot); m.overflow_log2 != 0) {
                u32* const list = world_->lists_.take(m.overflow_log2);
                std::memcpy(list, m.overflow_list(), m.count() * sizeof(u32));
                m.set_overflow_list(list);
            }
        count_copied(slots_column, 1);
    }
    arena.set_numbers(to.slots);
}

template <u32 MaxC>
void BasicRollbackRing<MaxC>::restore_relation(u32 index) {
    detail::RelationTable& table = world_->relations_[index];
    const detail::RollbackColumn& column = columns_[first_relation_column + index];
    for (u32 page = 0; page < table.page_count(); ++page) {
        if (!table.page(page) || !column.is_stale(page))
            continue;
        const std::byte* const copy = page < column.runs.size() ? column.runs[page].memory : nullptr;
        table.set_page(page, copy);
        count_copied(first_relation_column + index, 1);
    }
}

} // namespace throng
