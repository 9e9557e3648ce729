#include "throng/assert.hpp"
#include "throng/entity.hpp"

namespace throng::detail {

// Places are taken in order and never given back, each by one exchange. Whoever finds a free place has seen that all before it are
// others': so no type takes two, and none stays free below one that is taken. Nothing but the addresses is shared, so no order of
// memory is needed, and a place of a type that was unloaded with its library is never followed.
u16 assign_type_number(u16& number, const u16** places, u32 count) {
    THRONG_ASSERT(count < unassigned);
    for (u32 i = 0; i < count; ++i) {
        const u16* owner = __atomic_load_n(&places[i], __ATOMIC_RELAXED);
        if (!owner && __atomic_compare_exchange_n(&places[i], &owner, &number, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED))
            owner = &number;
        if (owner == &number) {
            __atomic_store_n(&number, static_cast<u16>(i), __ATOMIC_RELAXED);
            return static_cast<u16>(i);
        }
    }
    THRONG_ASSERT(false && "more types than can be numbered");
    return unassigned;
}

} // namespace throng::detail
