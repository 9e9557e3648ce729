// Listing of docs/guide.md: mimalloc for a world. A program of its own, since linking throng_mimalloc may replace malloc.
// [mimalloc]
#include <throng/ecs.hpp>
#include <throng/mimalloc.hpp>

struct Health { int hp = 100; };

int main() {
    throng::World world({.allocator = throng::mimalloc_allocator()});
    const throng::Entity e = world.spawn(Health{7});
    return world.get<Health>(e)->hp == 7 ? 0 : 1;
}
// [/mimalloc]
