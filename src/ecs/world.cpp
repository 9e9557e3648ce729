#include "throng/world.hpp"

namespace throng {

static_assert(sizeof(EntityMeta<128>) + 8 * sizeof(u32) == 64, "an entity with 8 inline row numbers is one cache line");

template class BasicWorld<default_max_components>;
template class BasicWorldSnapshot<default_max_components>;

} // namespace throng
