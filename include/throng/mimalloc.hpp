#pragma once
// mimalloc behind the Allocator hook. Not part of the throng library: link throng_mimalloc (meson: throng_mimalloc_dep,
// pkg-config: throng-mimalloc), which exists where mimalloc was found.
//
// Mind what linking does on Debian and Ubuntu: their libmimalloc.so replaces malloc and operator new of every process that
// links it, and they ship no other form. A host that links throng_mimalloc therefore takes mimalloc for everything; a host
// that wants its malloc untouched links throng alone, which never needs mimalloc. With a mimalloc that was built without the
// override (MI_OVERRIDE=OFF), only what goes through the hook is taken from it.
#include "throng/memory.hpp"

namespace throng {

/// Takes memory by mi_malloc_aligned and returns it by mi_free. Thread rule: any thread may free what another one took (no
/// mi_heap is used: in mimalloc 2 a heap belongs to one thread). Out of memory: aborts. Lifetime: the process.
Allocator mimalloc_allocator();

} // namespace throng
