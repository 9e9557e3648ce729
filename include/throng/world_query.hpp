#pragma once
// What a loop over entities asks for: the types it is given (in the list of each and each_mut), those it may be given
// (Maybe), and those it only filters by (with, without). Part of throng/world.hpp, usable alone.
#include "throng/pool.hpp"
#include "throng/signature.hpp"

namespace throng {

/// In a loop's list: a type that an entity may lack. The body takes a pointer instead of a reference, null where it is absent:
/// `world.each<Position, Maybe<Health>>([](const Position& p, const Health* h) {...})`. bevy calls it Option, flecs optional.
template <class T>
struct Maybe {
    static_assert(!std::is_reference_v<T>);
};

/// Types an entity must have, or must not have, and of which the body is given nothing. A value of a filter is passed in front
/// of the body: `world.each<A>(without<B>, f)`, `world.each<A>(with<Tag> && without<B, C>, f)`.
template <class... Ts>
struct With {};
template <class... Ts>
struct Without {};
template <class... Ts>
inline constexpr With<Ts...> with{};
template <class... Ts>
inline constexpr Without<Ts...> without{};
/// The general form of a filter.
template <class Required, class Excluded>
struct Filter {};

template <class... Ws, class... Xs>
constexpr Filter<With<Ws...>, Without<Xs...>> operator&&(With<Ws...>, Without<Xs...>) {
    return {};
}
template <class... Ws, class... Xs>
constexpr Filter<With<Ws...>, Without<Xs...>> operator&&(Without<Xs...>, With<Ws...>) {
    return {};
}

namespace detail {

template <class F>
struct FilterTraits {
    static constexpr bool is_filter = false;
};
template <class... Ws>
struct FilterTraits<With<Ws...>> {
    static constexpr bool is_filter = true;
    using type = Filter<With<Ws...>, Without<>>;
};
template <class... Xs>
struct FilterTraits<Without<Xs...>> {
    static constexpr bool is_filter = true;
    using type = Filter<With<>, Without<Xs...>>;
};
template <class... Ws, class... Xs>
struct FilterTraits<Filter<With<Ws...>, Without<Xs...>>> {
    static constexpr bool is_filter = true;
    using type = Filter<With<Ws...>, Without<Xs...>>;
};
template <class F>
concept IsFilter = FilterTraits<F>::is_filter;
template <class F>
using FilterOf = typename FilterTraits<F>::type;
using NoFilter = Filter<With<>, Without<>>;

/// A filter as signatures, to be asked about one entity.
template <u32 MaxC>
struct SlotFilter {
    Signature<MaxC> include;
    Signature<MaxC> exclude;
    bool possible = true; // all required types are below MaxC
    bool trivial;

    template <class... Ws, class... Xs>
    explicit SlotFilter(Filter<With<Ws...>, Without<Xs...>>) : trivial(sizeof...(Ws) + sizeof...(Xs) == 0) {
        const u32 required[] = {component_id<Ws, MaxC>()..., no_row}; // no_row: an array has one element at least
        for (u32 i = 0; i < sizeof...(Ws); ++i)
            required[i] < MaxC ? include.set(required[i]) : void(possible = false);
        const u32 excluded[] = {component_id<Xs, MaxC>()..., no_row};
        for (u32 i = 0; i < sizeof...(Xs); ++i)
            if (excluded[i] < MaxC)
                exclude.set(excluded[i]);
    }
    bool passes(const Signature<MaxC>& types) const { return possible && types.contains(include) && !types.intersects(exclude); }
};

/// An entry of a loop's list: which component, and what the body takes for it. Const entries are read and never marked.
template <class T>
struct Term {
    using Component = std::remove_const_t<T>;
    using Row = T;
    using Argument = T&;
    using ReadOnly = const T;
    static constexpr bool optional = false;
    static constexpr bool writes = !std::is_const_v<T>;
    static Argument argument(Row* row) { return *row; }
};
template <class T>
struct Term<Maybe<T>> {
    using Component = std::remove_const_t<T>;
    using Row = T;
    using Argument = T*;
    using ReadOnly = Maybe<const T>;
    static constexpr bool optional = true;
    static constexpr bool writes = !std::is_const_v<T>;
    static Argument argument(Row* row) { return row; }
};
template <class T>
struct Term<const Maybe<T>> : Term<Maybe<const T>> {};

} // namespace detail

template <u32 MaxC>
class BasicWorld;

/// What a loop's body may take instead of an Entity: the handle is looked up only where it is asked for, which spares a cache
/// miss for each entity that the body passes over. Good inside the call.
template <u32 MaxC>
class BasicLazyEntity {
public:
    BasicLazyEntity(const BasicWorld<MaxC>& world, u32 entity_idx) : world_(&world), entity_idx_(entity_idx) {}
    u32 entity_idx() const { return entity_idx_; }
    Entity entity() const { return world_->entity_at(entity_idx_); }
    operator Entity() const { return entity(); }

private:
    const BasicWorld<MaxC>* world_;
    u32 entity_idx_;
};
using LazyEntity = BasicLazyEntity<default_max_components>;

} // namespace throng
