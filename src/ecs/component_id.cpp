#include "throng/assert.hpp"
#include "throng/entity.hpp"
#include "throng/resources.hpp"
#include <mutex>

namespace throng::detail {

namespace {
std::mutex mutex; // constant-initialised: usable from the initialisers of static objects

u16 assign(u16& slot, u16& assigned) {
    const std::lock_guard lock(mutex);
    if (slot == 0) {
        THRONG_ASSERT(assigned < no_component && "more types than a u16 can number");
        __atomic_store_n(&slot, ++assigned, __ATOMIC_RELAXED);
    }
    return slot;
}
} // namespace

u16 assign_component_slot(u16& slot, u16& assigned) {
    return assign(slot, assigned);
}

u16 assign_resource_slot(u16& slot) {
    static u16 assigned = 0;
    return assign(slot, assigned);
}

} // namespace throng::detail
