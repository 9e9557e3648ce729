#pragma once
// throng as a subject of the ECS cases. Another library takes part by a class with the same members.
#include "bench/ecs/components.hpp"
#include "throng/ecs.hpp"
#include "throng/executor.hpp"
#include <vector>

namespace ecs_bench {

/// Where the worlds' memory comes from. Set by the program.
inline throng::Allocator subject_allocator = throng::default_allocator();

template <int Variant>
class ThrongSubject {
public:
    static constexpr const char* name = "throng";
    static constexpr bool has_changes = true;
    static constexpr bool has_copy = true;
    using C = ComponentSet<Variant>;
    using Handle = throng::Entity;

    ThrongSubject() : world_({.allocator = subject_allocator}) {}
    throng::World& world() { return world_; }

    template <class... Ts>
    Handle create(const Ts&... values) {
        return world_.spawn(Ts(values)...);
    }
    template <class... Ts>
    void create_n(Handle* out, std::size_t count, const Ts&... values) {
        const throng::Prefab prefab = throng::Prefab::of(values...);
        world_.instantiate_n(prefab, {out, count});
    }
    void destroy(Handle e) { world_.destroy(e); }
    void destroy_n(const Handle* entities, std::size_t count) { world_.destroy_batch({entities, count}); }

    template <class T>
    void add(Handle e, const T& value) {
        world_.add<T>(e, value);
    }
    template <class T>
    void remove(Handle e) {
        world_.remove<T>(e);
    }
    template <class T>
    const T* get(Handle e) const {
        return world_.get<T>(e);
    }
    template <class T>
    T* mut(Handle e) {
        return world_.mut<T>(e);
    }
    template <class T>
    bool has(Handle e) const {
        return world_.has<T>(e);
    }

    template <class... Ts, class F>
    void each(F f) {
        world_.each_mut<Ts...>(f);
    }
    /// The library's fastest loop over one type: here blocks of rows, unmarked.
    template <class T, class F>
    void each_fast(F f) {
        throng::Pool<T>& pool = world_.pool<T>();
        for (throng::u32 b = 0; b < pool.block_count(); ++b) {
            T* const rows = pool.rows(b);
            const throng::u32 count = pool.rows_in_block(b);
            for (throng::u32 i = 0; i < count; ++i)
                f(rows[i]);
        }
    }
    /// f(some number of the entity, row)
    template <class T, class F>
    void each_index(F f) {
        world_.each_mut<T>([&](throng::u32 entity_idx, T& row) { f(entity_idx, row); });
    }
    /// f(something that becomes a handle, row)
    template <class T, class F>
    void each_entity(F f) {
        world_.each_mut<T>([&](throng::LazyEntity entity, T& row) { f(entity, row); });
    }
    /// f(handle, row): looked up for every row, wanted or not.
    template <class T, class F>
    void each_resolved(F f) {
        world_.each_mut<T>([&](throng::Entity entity, T& row) { f(entity, row); });
    }
    template <class T, class F>
    void each_parallel(F f) {
        static const throng::ExecutorHandle executor = throng::make_tbb_executor(2);
        world_.each_mut<T>(*executor, f);
    }

    /// The state of a world, for copies that reuse it.
    class Copy {
    public:
        void take(const ThrongSubject& from) { failed_ = from.world_.snapshot_into(snapshot_) != throng::Error::none; }
        void give_back(ThrongSubject& to) { failed_ = to.world_.restore(snapshot_) != throng::Error::none; }
        bool failed() const { return failed_; }

    private:
        throng::WorldSnapshot snapshot_ = {};
        bool failed_ = false;
    };

    template <class T>
    void clear_changes() {
        world_.pool<T>().clear_changes();
    }
    template <class T, class F>
    void each_changed(F f) {
        throng::Pool<T>& pool = world_.pool<T>();
        for (throng::u32 b = 0; b < pool.block_count(); ++b) {
            T* const rows = pool.rows(b);
            for (throng::u64 words = pool.change_summary(b); words != 0; words &= words - 1) {
                const auto w = static_cast<throng::u32>(std::countr_zero(words));
                for (throng::u64 bits = pool.change_words(b)[w]; bits != 0; bits &= bits - 1)
                    f(rows[w * 64 + static_cast<throng::u32>(std::countr_zero(bits))]);
            }
        }
    }

private:
    throng::World world_;
};

} // namespace ecs_bench
