#pragma once
// The ECS in one include: entities, components in pools, prefabs, worlds and their snapshots.
#include "throng/commands.hpp"
#include "throng/entity.hpp"
#include "throng/pool.hpp"
#include "throng/prefab.hpp"
#include "throng/signature.hpp"
#include "throng/world.hpp"
