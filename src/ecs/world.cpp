#include "throng/world.hpp"

namespace throng {

static_assert(sizeof(EntityMeta<128>) + 8 * sizeof(u32) == 64, "an entity with 8 inline row numbers is one cache line");

template class BasicWorld<128>;
template class BasicWorldSnapshot<128>;

} // namespace throng
