#pragma once
// The world, whole: its class and everything that its functions are made of. Include this one.
#include "throng/world_batch.hpp"
#include "throng/world_block.hpp"
#include "throng/world_changes.hpp"
#include "throng/world_class.hpp"
#include "throng/world_each.hpp"
#include "throng/world_hooks.hpp"
#include "throng/world_inline.hpp"
#include "throng/world_partial.hpp"
#include "throng/world_relations.hpp"
#include "throng/world_rollback.hpp"
#include "throng/world_snapshot.hpp"
#include "throng/world_sort.hpp"
