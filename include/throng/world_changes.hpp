#pragma once
// Readers of the changes of a world. Part of throng/world.hpp; do not include alone.
#include "throng/changes.hpp"
#include "throng/world_each.hpp"

namespace throng {

/// What happened to the components of type T since this reader looked last. Any number of readers of a type, each at its own pace;
/// none misses anything that another, the server or clear_changes took. Writers pay nothing for readers; add and removal of a
/// type that has readers costs one entry in a ring.
/// Must end before its world. Move only. Thread rule: as the world's non-const functions. Memory: 1 bit an entity slot, from the
/// world's allocator; allocates only when the world has grown since.
template <class T, u32 MaxC = default_max_components>
class BasicChangeReader {
public:
    /// Makes the pool of T if absent. A type beyond MaxC is misuse: asserts, and where assertions are off nothing ever changes for the
    /// reader. The same is so for one that was moved from.
    explicit BasicChangeReader(BasicWorld<MaxC>& world, const ChangeReaderOptions& options = {}) : world_(&world), state_(nullptr) {
        Pool<T>* const rows = world.template try_pool<T>();
        THRONG_ASSERT(rows && "more component types than the world's MaxC");
        if (rows)
            state_ = world.add_change_reader(*rows, options);
    }
    BasicChangeReader(BasicChangeReader&& other) noexcept : world_(other.world_), state_(std::exchange(other.state_, nullptr)) {}
    BasicChangeReader& operator=(BasicChangeReader&& other) noexcept {
        std::swap(world_, other.world_);
        std::swap(state_, other.state_);
        return *this;
    }
    ~BasicChangeReader() {
        if (state_)
            world_->drop_change_reader(*pool(), state_);
    }

    /// True once after the reader lost track: the world was restored, or more components were removed than removals_max. Then forget
    /// what you derived; all rows count as changed, and removals from before are not given.
    bool take_resync() {
        if (!state_)
            return false;
        if (behind()) {
            detail::ChangeStream& stream = *pool()->change_stream();
            stream.mark_all(*state_, *pool());
            state_->read_removals = stream.removals().pushed();
            state_->resync = true;
        }
        return std::exchange(state_->resync, false);
    }
    /// Calls f(const Removal&) for each removal since the last call, in order, also of entities that got the component
    /// again: take removals first, changes then. f may change the world. Returns how many. What take_resync would report is
    /// skipped, and stays to be reported.
    template <class F>
    u32 each_removed(F&& f) {
        if (!state_)
            return 0;
        if (take_resync())
            state_->resync = true;
        const detail::EventRing<Removal>& removals = pool()->change_stream()->removals();
        u32 count = 0;
        while (state_->read_removals != removals.pushed() && !behind()) {
            const Removal removal = removals[state_->read_removals++];
            ++count;
            f(removal);
        }
        return count;
    }
    /// Calls f for each entity whose T was added or marked since the last call, once, with its present value, by ascending slot. f takes
    /// what the body of each<T, Ts...> takes; entities that lack one of Ts are passed over. If f throws, what it has not seen
    /// stays for the next call. Returns how many calls. Inside f no structural change of T; marks of f count for the next call.
    /// O(changed) and a word for 4096 slots.
    template <class... Ts, class F>
    u32 each(F&& f) {
        return each<Ts...>(detail::NoFilter{}, f);
    }
    /// The same for entities that pass the filter: changes of others are passed over, and are not kept for later.
    template <class... Ts, detail::IsFilter Q, class F>
    u32 each(Q, F&& f) {
        if (!state_)
            return 0;
        const detail::SlotFilter<MaxC> filter(detail::FilterOf<Q>{});
        PoolBase& rows = *pool();
        rows.change_stream()->fold(rows);
        const PoolBase* const guarded[] = {&rows};
        const detail::IterationGuard guard(guarded, 1);
        u32 calls = 0;
        detail::SlotSet& changed = state_->changed;
        for (u32 s = 0; s < changed.summary_words(); ++s) {
            if (changed.summary(s) == 0)
                continue;
            struct Walk { // puts back what was not seen
                detail::SlotSet& set;
                u32 summary;
                u32 word = 0;
                u64 bits = 0;
                ~Walk() {
                    if (bits != 0)
                        set.add(word, bits);
                    set.repair(summary);
                }
            } walk{changed, s};
            for (u64 left = changed.summary(s); left != 0; left &= left - 1) {
                walk.word = s * 64 + static_cast<u32>(std::countr_zero(left));
                for (walk.bits = changed.take(walk.word); walk.bits != 0;) {
                    const u32 slot = walk.word * 64 + static_cast<u32>(std::countr_zero(walk.bits));
                    walk.bits &= walk.bits - 1;
                    if (filter.trivial || filter.passes(world_->signature(world_->entity_at(slot))))
                        calls += world_->template call_at<const T, typename detail::Term<Ts>::ReadOnly...>(slot, f);
                }
            }
        }
        return calls;
    }
    /// Whether the entity's T would be given by each. False for a dead handle.
    bool changed(Entity entity) const {
        if (!state_ || !world_->template has<T>(entity))
            return false;
        const u32 dense = world_->dense_index(entity.entity_idx, component_id<T, MaxC>());
        return pool()->changed(dense) || state_->changed.test(entity.entity_idx);
    }
    /// Counts all changes and removals up to now as read.
    void skip() {
        if (!state_)
            return;
        pool()->change_stream()->fold(*pool());
        state_->changed.clear();
        state_->read_removals = pool()->change_stream()->removals().pushed();
        state_->resync = false;
    }

private:
    PoolBase* pool() const { return world_->pool_of(component_id<T, MaxC>()); }
    bool behind() const {
        const detail::EventRing<Removal>& removals = pool()->change_stream()->removals();
        return removals.pushed() - state_->read_removals > removals.capacity();
    }
    BasicWorld<MaxC>* world_;
    detail::ChangeReaderState* state_;
};
template <class T>
using ChangeReader = BasicChangeReader<T, default_max_components>;

/// Which entities have ended since this reader looked last, whatever components they had: for maps from entities to anything. Any number
/// of readers, each at its own pace. Destroying costs an entry in a ring that all share while there are readers, and a test without.
/// Nothing is compared with a time, so nothing wraps.
/// Must end before its world. Move only. Thread rule: as the world's non-const functions. Memory: 16 bytes for each of destroyed_max,
/// from the world's allocator, while there are readers.
template <u32 MaxC = default_max_components>
class BasicDestroyReader {
public:
    /// May throw what the allocator throws.
    explicit BasicDestroyReader(BasicWorld<MaxC>& world, const DestroyReaderOptions& options = {}) : world_(&world) {
        stream().ended.grow(options.destroyed_max);
        ++stream().readers;
        skip();
    }
    BasicDestroyReader(BasicDestroyReader&& other) noexcept
        : world_(std::exchange(other.world_, nullptr)), next_(other.next_), resyncs_(other.resyncs_), resync_(other.resync_) {}
    BasicDestroyReader& operator=(BasicDestroyReader&& other) noexcept {
        std::swap(world_, other.world_);
        std::swap(next_, other.next_);
        std::swap(resyncs_, other.resyncs_);
        std::swap(resync_, other.resync_);
        return *this;
    }
    ~BasicDestroyReader() {
        if (world_ && --stream().readers == 0)
            stream().ended.end();
    }

    /// True once after the reader lost track: a WorldSnapshot was restored, or more entities ended than destroyed_max. Then ask
    /// alive() of each handle that is kept; what has ended up to now is not given any more.
    bool take_resync() {
        if (behind()) {
            skip();
            resync_ = true;
        }
        return std::exchange(resync_, false);
    }
    /// Calls f(Entity) for each entity that has ended since the last call, in order, also through hooks, relations, commands and the
    /// restore of a rollback ring (in the order of slots; one that it brings back is alive again, and may end again). f may change the
    /// world. Returns how many calls. What take_resync would report is skipped, and stays to be reported.
    template <class F>
    u32 each(F&& f) {
        resync_ = take_resync();
        u32 count = 0;
        while (next_ != stream().ended.pushed() && !behind()) {
            const Entity entity = stream().ended[next_++];
            ++count;
            f(entity);
        }
        return count;
    }
    /// Counts all that have ended up to now as read.
    void skip() {
        next_ = stream().ended.pushed();
        resyncs_ = stream().resyncs;
        resync_ = false;
    }

private:
    detail::DestroyStream& stream() const { return world_->ended_; }
    bool behind() const { return resyncs_ != stream().resyncs || stream().ended.pushed() - next_ > stream().ended.capacity(); }
    BasicWorld<MaxC>* world_;
    u64 next_ = 0;
    u64 resyncs_ = 0;
    bool resync_ = false;
};
using DestroyReader = BasicDestroyReader<default_max_components>;

template <u32 MaxC>
template <class... Ts, class F>
u32 BasicWorld<MaxC>::call_at(u32 slot, F& f) {
    constexpr u32 count = sizeof...(Ts);
    constexpr bool optional[count] = {detail::Term<Ts>::optional...};
    const u32 ids[count] = {detail::known_component_id<typename detail::Term<Ts>::Component, MaxC>()...};
    u32 dense[count];
    for (u32 i = 0; i < count; ++i) {
        dense[i] = dense_index(slot, static_cast<ComponentId>(ids[i] < MaxC ? ids[i] : MaxC));
        if (dense[i] == no_row && !optional[i])
            return 0;
    }
    [&]<std::size_t... I>(std::index_sequence<I...>) {
        detail::call_body<typename detail::Term<Ts>::Argument...>(
            *this, f, slot,
            detail::Term<Ts>::argument(dense[I] != no_row ? detail::term_row<Ts>(*this->pools_[ids[I]], dense[I]) : nullptr)...);
    }
    (std::make_index_sequence<count>{});
    return 1;
}

template <u32 MaxC>
detail::ChangeReaderState* BasicWorld<MaxC>::add_change_reader(PoolBase& pool, const ChangeReaderOptions& options) {
    const bool fresh = !pool.change_stream();
    if (fresh)
        pool.set_change_stream(::new (options_.allocator.allocate(sizeof(detail::ChangeStream), alignof(detail::ChangeStream)))
                                   detail::ChangeStream(options_.allocator));
    struct Undo {
        BasicWorld& world;
        PoolBase* pool;
        ~Undo() {
            if (pool)
                world.end_change_stream(*pool);
        }
    } undo{*this, fresh ? &pool : nullptr};
    detail::ChangeReaderState* const state = pool.change_stream()->add_reader(pool, options);
    undo.pool = nullptr;
    streamed_.set(pool.component());
    update_watch(pool.component());
    return state;
}

template <u32 MaxC>
void BasicWorld<MaxC>::drop_change_reader(PoolBase& pool, detail::ChangeReaderState* state) {
    if (pool.change_stream()->drop_reader(state))
        return;
    sync_changes(pool.component());
    end_change_stream(pool);
    streamed_.reset(pool.component());
    update_watch(pool.component());
}

template <u32 MaxC>
void BasicWorld<MaxC>::end_change_stream(PoolBase& pool) {
    detail::ChangeStream* const stream = pool.change_stream();
    pool.set_change_stream(nullptr);
    stream->~ChangeStream();
    options_.allocator.free(stream, sizeof(*stream), alignof(detail::ChangeStream));
}

template <u32 MaxC>
void BasicWorld<MaxC>::stream_removal(Entity entity, const Signature<MaxC>& types, bool destroyed) {
    types.for_each([&](u32 id) {
        if (streamed_.test(id))
            pools_[id]->change_stream()->push_removal({entity, destroyed});
    });
}

template <u32 MaxC>
void BasicWorld<MaxC>::mark_owed(ComponentId id, const detail::SlotSet& owed) {
    for (u32 s = 0; s < owed.summary_words(); ++s)
        for (u64 left = owed.summary(s); left != 0; left &= left - 1) {
            const u32 word = s * 64 + static_cast<u32>(std::countr_zero(left));
            for (u32 slot = word * 64; slot < word * 64 + 64; ++slot)
                if (owed.test(slot))
                    if (const u32 dense = dense_index(slot, id); dense != no_row)
                        pools_[id]->mark_changed(dense);
        }
}

template <u32 MaxC>
void BasicWorld<MaxC>::sync_watched(ComponentId id) {
    PoolBase& pool = *pools_[id];
    pool.change_stream()->fold(pool);
    mark_owed(id, pool.change_stream()->owed());
    pool.change_stream()->owed().clear();
}

} // namespace throng
