#pragma once
// Snapshots of a whole world. Part of throng/world.hpp; do not include alone.
#include "throng/world_inline.hpp"

namespace throng {

/// State of a world at one moment. Owns its memory (from the allocator of the world); independent of the world's life. Move only.
template <u32 MaxC>
class BasicWorldSnapshot {
public:
    BasicWorldSnapshot() = default;
    BasicWorldSnapshot(BasicWorldSnapshot&& other) noexcept : state_(std::exchange(other.state_, nullptr)) {}
    BasicWorldSnapshot& operator=(BasicWorldSnapshot&& other) noexcept {
        std::swap(state_, other.state_);
        return *this;
    }
    ~BasicWorldSnapshot();
    bool empty() const { return state_ == nullptr; }
    /// The state, for reading as a world. Null if empty.
    const BasicWorld<MaxC>* world() const { return state_; }

private:
    template <u32 N>
    friend class BasicWorld;
    BasicWorld<MaxC>* state_ = nullptr;
};

template <u32 MaxC>
void BasicWorld<MaxC>::reset_entities() {
    ++rewrites_;
    for (PoolBase* pool : pools_)
        if (pool)
            pool->clear_rows();
    arena_.reset();
    lists_.rewind();
    for (detail::RelationTable& table : relations_)
        table.clear();
    unannounced_.clear();
    entity_count_ = 0;
    log_.clear();
}

template <u32 MaxC>
void BasicWorld<MaxC>::copy_state(const BasicWorld& from) {
    struct Undo {
        BasicWorld* world;
        ~Undo() {
            if (world)
                world->reset_entities();
        }
    } undo{this};
    reset_entities();
    for (u32 id = 0; id < MaxC; ++id)
        if (const PoolBase* source = from.pools_[id]; source && source->size() > 0)
            ensure_pool(static_cast<ComponentId>(id), source->ops())->copy_from(*source);
    for (const detail::RelationTable& table : from.relations_)
        if (from.pools_[table.component()]->size() > 0)
            relation_table(table.component())->copy_from(table);
    arena_.copy_from(from.arena_);
    for (u32 idx = 0; idx < arena_.slots(); ++idx) {
        Meta& m = meta(idx);
        if (m.overflow_log2 == 0)
            continue;
        u32* const list = lists_.take(m.overflow_log2);
        std::memcpy(list, m.overflow_list(), m.count() * sizeof(u32));
        m.set_overflow_list(list);
    }
    log_.append(from.log_.data(), from.log_.size());
    for (u32 id = 0; id < MaxC; ++id)
        update_watch(id);
    entity_count_ = from.entity_count_;
    last_entity_id_ = from.last_entity_id_;
    undo.world = nullptr;
}

template <u32 MaxC>
Error BasicWorld<MaxC>::snapshot_into(Snapshot& out) const {
    if (refuse_in_hook())
        return Error::unsupported;
    for (const PoolBase* pool : pools_)
        if (pool && pool->size() > 0 && !pool->ops().copyable)
            return Error::unsupported;
    if (out.state_ && (out.state_->options_.block_rows != options_.block_rows || out.state_->inline_capacity_ != inline_capacity_))
        out = Snapshot{};
    if (!out.state_) {
        void* memory = options_.allocator.allocate(sizeof(BasicWorld), alignof(BasicWorld));
        out.state_ = ::new (memory) BasicWorld(options_);
    }
    out.state_->copy_state(*this);
    // Marks that readers of changes took from the bits are still marks for the consumer of the bits.
    streamed_.for_each([&](u32 id) {
        if (pools_[id]->size() > 0)
            out.state_->mark_owed(static_cast<ComponentId>(id), pools_[id]->change_stream()->owed());
    });
    return Error::none;
}

template <u32 MaxC>
BasicWorldSnapshot<MaxC> BasicWorld<MaxC>::snapshot() const {
    Snapshot result;
    const Error error = snapshot_into(result);
    THRONG_ASSERT(error == Error::none && "a component of the world cannot be copied");
    (void)error;
    return result;
}

template <u32 MaxC>
template <class... Ts>
void BasicWorld<MaxC>::assert_listed() const {
    Signature<MaxC> named;
    const u32 ids[] = {detail::known_component_id<Ts, MaxC>()...};
    for (const u32 id : ids)
        if (id < MaxC)
            named.set(id);
    for (u32 id = 0; id < MaxC; ++id)
        THRONG_ASSERT((!pools_[id] || pools_[id]->size() == 0 || named.test(id)) && "a component of the world is not listed");
}

template <u32 MaxC>
template <class... Ts>
    requires(sizeof...(Ts) > 0 && (std::is_copy_constructible_v<Ts> && ...))
BasicWorldSnapshot<MaxC> BasicWorld<MaxC>::snapshot() const {
    assert_listed<Ts...>();
    return snapshot();
}

template <u32 MaxC>
Error BasicWorld<MaxC>::restore(const Snapshot& snapshot) {
    if (refuse_in_hook())
        return Error::unsupported;
    const BasicWorld* const from = snapshot.state_;
    if (!from || from->options_.block_rows != options_.block_rows || from->inline_capacity_ != inline_capacity_)
        return Error::unsupported;
    if (from->entity_count_ > options_.entities_max)
        return Error::limit_reached;
    for (const PoolBase* pool : pools_)
        if (pool && refuse_change(*pool))
            return Error::unsupported;
    streamed_.for_each([&](u32 id) { pools_[id]->change_stream()->reserve_slots(from->arena_.slots()); });
    struct Resync { // also when a copy throws
        BasicWorld& world;
        ~Resync() {
            ++world.restores_;
            ++world.ended_.resyncs;
            world.streamed_.for_each([&](u32 id) { world.pools_[id]->change_stream()->resync_all(*world.pools_[id]); });
        }
    } resync{*this};
    copy_state(*from);
    return Error::none;
}

template <u32 MaxC>
BasicWorldSnapshot<MaxC>::~BasicWorldSnapshot() {
    if (state_) {
        const Allocator allocator = state_->options_.allocator;
        state_->~BasicWorld<MaxC>();
        allocator.free(state_, sizeof(*state_), alignof(BasicWorld<MaxC>));
    }
}

extern template class BasicWorldSnapshot<default_max_components>;

} // namespace throng
