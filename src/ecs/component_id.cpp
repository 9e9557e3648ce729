#include "throng/assert.hpp"
#include "throng/entity.hpp"
#include "throng/resources.hpp"
#include <mutex>

namespace throng::detail {

namespace {
std::mutex mutex; // constant-initialised: usable from the initialisers of static objects
} // namespace

u16 assign_type_number(u16& number, u16& assigned) {
    const std::lock_guard lock(mutex);
    THRONG_ASSERT((number != unassigned || assigned != unassigned) && "more types than a u16 can number");
    if (number == unassigned && assigned != unassigned)
        __atomic_store_n(&number, assigned++, __ATOMIC_RELAXED);
    return number;
}

} // namespace throng::detail
