#include "throng/assert.hpp"
#include "throng/entity.hpp"
#include <mutex>

namespace throng::detail {

u16 assign_component_slot(u16& slot) {
    static std::mutex mutex; // constant-initialised: usable from the initialisers of static objects
    static u16 assigned = 0;
    const std::lock_guard lock(mutex);
    if (slot == 0) {
        THRONG_ASSERT(assigned < no_component && "more component types than a ComponentId can number");
        __atomic_store_n(&slot, ++assigned, __ATOMIC_RELAXED);
    }
    return slot;
}

} // namespace throng::detail
