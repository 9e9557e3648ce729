#pragma once
// Partial snapshots and the memory report. Part of throng/world.hpp; do not include alone.
#include "throng/world_changes.hpp"
#include "throng/world_snapshot.hpp"

namespace throng {

/// The components of chosen types at one moment, with the entities they belonged to. Owns its memory (from the allocator of the world);
/// independent of the world's life. Move only.
template <u32 MaxC>
class BasicPartialSnapshot {
public:
    BasicPartialSnapshot() = default;
    BasicPartialSnapshot(BasicPartialSnapshot&& other) noexcept : parts_(std::move(other.parts_)) {}
    BasicPartialSnapshot& operator=(BasicPartialSnapshot&& other) noexcept {
        if (this != &other) {
            clear();
            parts_ = std::move(other.parts_);
        }
        return *this;
    }
    ~BasicPartialSnapshot() { clear(); }
    bool empty() const { return parts_.empty(); }
    /// The rows of a type, in the order they had; null if it was not chosen.
    const PoolBase* pool_of(ComponentId id) const {
        for (const Part& part : parts_)
            if (part.rows->component() == id)
                return part.rows;
        return nullptr;
    }

private:
    template <u32 N>
    friend class BasicWorld;
    struct Part {
        PoolBase* rows;
        Array<u64> entity_ids; // of each row
    };
    void clear() {
        for (Part& part : parts_) {
            part.rows->~PoolBase();
            parts_.allocator().free(part.rows, sizeof(PoolBase), alignof(PoolBase));
        }
        parts_.clear();
    }
    Array<Part> parts_;
};
using PartialSnapshot = BasicPartialSnapshot<default_max_components>;

template <u32 MaxC>
Error BasicWorld<MaxC>::snapshot_into(PartialSnapshot& out, std::span<const ComponentId> types) const {
    for (const ComponentId id : types) {
        const PoolBase* const pool = pool_of(id);
        if (!pool || !pool->ops().copyable)
            return Error::unsupported;
    }
    // The same types in the same order, of a world of the same shape: their memory is used again.
    bool same = out.parts_.size() == types.size();
    for (u32 i = 0; same && i < types.size(); ++i)
        same = out.parts_[i].rows->component() == types[i] && out.parts_[i].rows->block_rows() == options_.block_rows;
    struct Undo {
        PartialSnapshot* out;
        ~Undo() {
            if (out)
                out->clear();
        }
    } undo{&out};
    if (!same) {
        out.clear();
        out.parts_ = Array<typename PartialSnapshot::Part>(options_.allocator);
        out.parts_.reserve(types.size());
        for (const ComponentId id : types) {
            void* const memory = options_.allocator.allocate(sizeof(PoolBase), alignof(PoolBase));
            pools_[id]->ops().create_pool(memory, id, options_.allocator, options_.block_rows);
            out.parts_.push_back({static_cast<PoolBase*>(memory), Array<u64>(options_.allocator)});
        }
    }
    for (u32 i = 0; i < types.size(); ++i) {
        const PoolBase& pool = *pools_[types[i]];
        auto& part = out.parts_[i];
        part.rows->copy_from(pool);
        part.entity_ids.resize(pool.size());
        for (u32 row = 0; row < pool.size(); ++row)
            part.entity_ids[row] = meta(pool.owner(row)).entity_id;
    }
    undo.out = nullptr;
    return Error::none;
}

template <u32 MaxC>
template <class... Ts>
requires(sizeof...(Ts) > 0 && (std::is_copy_constructible_v<Ts> && ...)) BasicPartialSnapshot<MaxC> BasicWorld<MaxC>::snapshot_of() {
    static_assert(detail::all_different<Ts...>, "a component type appears twice");
    const ComponentId types[] = {pool<Ts>().component()...};
    PartialSnapshot result;
    const Error error = snapshot_into(result, types);
    THRONG_ASSERT(error == Error::none);
    (void)error;
    return result;
}

template <u32 MaxC>
Error BasicWorld<MaxC>::restore(const PartialSnapshot& snapshot) {
    if (snapshot.empty() || refuse_in_hook())
        return Error::unsupported;
    for (const auto& part : snapshot.parts_) {
        if (part.rows->component() >= MaxC || part.rows->block_rows() != options_.block_rows)
            return Error::unsupported;
        PoolBase* const pool = ensure_pool(part.rows->component(), part.rows->ops());
        if (!pool || refuse_change(*pool))
            return Error::unsupported;
    }
    struct Relink { // also when a copy throws
        BasicWorld& world;
        const PartialSnapshot& snapshot;
        ~Relink() {
            for (const auto& part : snapshot.parts_)
                if (world.related_.test(part.rows->component()))
                    world.relink_all(part.rows->component());
        }
    } relink{*this, snapshot};
    for (const auto& part : snapshot.parts_) // the links of all slots have room: relinking cannot fail
        if (related_.test(part.rows->component()))
            for (u64 slot = 0; slot < arena_.slots(); slot += detail::RelationTable::page_slots)
                relation_table(part.rows->component())->reserve(static_cast<u32>(slot));
    for (const auto& part : snapshot.parts_)
        restore_pool(*pools_[part.rows->component()], *part.rows, part.entity_ids.data());
    return Error::none;
}

// First what can fail but for the copies; then row numbers; then the rows.
template <u32 MaxC>
void BasicWorld<MaxC>::restore_pool(PoolBase& pool, const PoolBase& from, const u64* entity_ids) {
    const u32 id = pool.component();
    const auto lives = [&](u32 row) {
        const u32 owner = from.owner(row);
        return owner < arena_.slots() && meta(owner).entity_id == entity_ids[row];
    };
    const bool logs = logged_.test(id), streams = streamed_.test(id);
    if (from.size() > pool.size())
        pool.reserve_rows(from.size() - pool.size());
    pool.reserve_direct(arena_.slots());
    if (logs)
        log_.reserve_extra(2 * std::size_t(from.size()) + pool.size()); // gains, losses, and all of it lost when a copy throws
    for (u32 row = 0; row < from.size(); ++row)
        if (lives(row) && !meta(from.owner(row)).signature.test(id))
            ensure_list(meta(from.owner(row)), meta(from.owner(row)).count() + 1u);
    pool.clear_changes(); // what readers have not seen is handed to them
    for (u32 row = 0; row < pool.size(); ++row) {
        Meta& m = meta(pool.owner(row));
        arena_.touch(pool.owner(row));
        m.list()[m.signature.rank(id)] = no_row;
    }
    u32 next = 0;
    for (u32 row = 0; row < from.size(); ++row) {
        if (!lives(row))
            continue;
        Meta& m = meta(from.owner(row));
        arena_.touch(from.owner(row));
        if (m.signature.test(id)) {
            m.list()[m.signature.rank(id)] = next++;
            continue;
        }
        insert_index(m, id, next++);
        if (logs)
            log_entry(entity_at(from.owner(row)), id, StructureEvent::Kind::added);
    }
    const auto lose = [&](u32 owner) {
        erase_index(meta(owner), id);
        if (logs)
            log_entry(entity_at(owner), id, StructureEvent::Kind::removed);
        if (streams)
            pool.change_stream()->push_removal({entity_at(owner), false});
    };
    for (u32 row = 0; row < pool.size(); ++row) {
        const Meta& m = meta(pool.owner(row));
        if (m.list()[m.signature.rank(id)] == no_row)
            lose(pool.owner(row));
    }
    pool.clear_rows();
    struct Undo { // a copy threw: nobody has the component
        PoolBase* pool;
        const PoolBase& from;
        decltype(lives)& alive;
        decltype(lose)& erase;
        ~Undo() {
            if (!pool)
                return;
            pool->clear_rows();
            for (u32 row = 0; row < from.size(); ++row)
                if (alive(row))
                    erase(from.owner(row));
        }
    } undo{&pool, from, lives, lose};
    for (u32 row = 0; row < from.size();) {
        u32 count = 0;
        while (row + count < from.size() && lives(row + count))
            ++count;
        pool.append_copies(from, row, count);
        row += count + 1;
    }
    pool.index_rows([&](u32 owner) { return meta(owner).entity_id; });
    undo.pool = nullptr;
}

template <u32 MaxC>
MemoryReport BasicWorld<MaxC>::memory_report() const {
    MemoryReport report;
    report.entities = arena_.memory_bytes();
    report.row_lists = lists_.memory_bytes();
    for (const PoolBase* pool : pools_) {
        if (!pool)
            continue;
        report.pools += sizeof(PoolBase) + pool->memory_bytes();
        report.rows_used += u64(pool->size()) * (pool->row_stride() + sizeof(u32));
        if (pool->change_stream())
            report.change_readers += sizeof(detail::ChangeStream) + pool->change_stream()->memory_bytes();
    }
    report.change_readers += ended_.ended.memory_bytes();
    report.relations = u64(relations_.capacity()) * sizeof(detail::RelationTable);
    for (const detail::RelationTable& table : relations_)
        report.relations += table.memory_bytes();
    report.hooks = hooks_.memory_bytes();
    report.resources = resources_.memory_bytes();
    report.log = u64(log_.capacity()) * sizeof(StructureEvent);
    report.scratch = (u64(doomed_rows_.capacity()) + sort_order_.capacity()) * sizeof(u32) + u64(row_moves_.capacity()) * sizeof(RowMove) +
                     u64(moved_owners_.capacity()) * sizeof(u32) + u64(doomed_.capacity()) * sizeof(Entity) +
                     u64(removing_.capacity()) * sizeof(detail::Removal) + unannounced_.memory_bytes();
    report.total = report.entities + report.row_lists + report.pools + report.change_readers + report.relations + report.hooks +
                   report.resources + report.log + report.scratch;
    return report;
}

} // namespace throng
