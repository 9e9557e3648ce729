#pragma once
// Scenes: the replicated entities and resources of a world as a file, and from a file back into a world, an empty one or one that goes
// on. Two forms of the same content (docs/scene.md): JSON, to read and edit, and a compact binary one.
//
//     throng::Array<std::byte> file;
//     throng::SceneReport report;
//     throng::Error error = throng::save_scene(world, protocol, file, report, {.form = throng::SceneForm::binary});
//     ...
//     error = throng::load_scene(other_world, protocol, {file.data(), file.size()}, report);
//     if (error != throng::Error::none) show(report.problem); // "line 4, column 9: unknown component "positon""
//
// A scene holds the registered components (fields, and the bytes of opaque functions) of the entities that have Replicated, and the
// registered resources of the world. Values are exact, not rounded to what the wire carries: a save that is loaded and saved again is the
// same save, and quantisers may change between the two. Components, resources and fields are known by name; a field without a name by
// its place, "0" for the first. Entities have no identity but their place in the file, from 0: their scene id. References to them are
// scene ids.
#include "throng/array.hpp"
#include "throng/protocol.hpp"

namespace throng {

enum class SceneForm : u8 { json, binary };

struct SceneSaveOptions {
    SceneForm form = SceneForm::json;
    /// Entities to save beside those that have Replicated, such as what a Client shows. Repeats are saved once.
    std::span<const Entity> also = {};
    bool resources = true; // whether the world's registered resources are saved
    u32 entities_max = 1u << 20;
    u32 bytes_max = 256u << 20; // of the file; beyond 2^31 it counts as 2^31
};

struct SceneLoadOptions {
    /// By scene id: what becomes of the scene's entities. An entity given here keeps its other components; of those in the scene it gets
    /// the ones that it lacks, and the values of the ones that it has. Where the list has a null entity or ends, a new entity is made.
    /// The world's resources are extended in the same way, always: those of the file are made or written over, others stay.
    std::span<const Entity> existing = {};
    u32 entities_max = 1u << 20;
    u32 bytes_max = 256u << 20; // of the file
};

/// What save_scene and load_scene have done, or why not.
struct SceneReport {
    Array<Entity> entities;     // by scene id: what was saved; what it has become. Empty after an error
    u32 created = 0;            // load: new entities
    u32 extended = 0;           // load: given ones
    u64 components = 0;         // values of components, written or read
    u32 resources = 0;          // values of resources, written or read
    u64 references_dropped = 0; // save: references to entities that are not in the scene, or are dead: null in the file
    bool same_protocol = false; // load: the file names the hash of this protocol. For information: names and values decide
    u64 problem_offset = 0;     // load: where in the file, bytes from 0
    char problem[240] = {};     // after an error: what and where, in ASCII: line and column (bytes, both from 1), or byte
};

/// Writes the scene into `out`, in place of what it holds. The world does not change. Entities are in the order of their making, so that
/// equal worlds give equal files, whatever the order of rows.
///
/// Errors, with `out` and report.entities empty: bad_value, an entity of `also` is dead; limit_reached, entities_max; too_large,
/// bytes_max, or an opaque value larger than its component's limit (which is named).
/// Reads the world: other threads may read it, too. Serialize functions run on this thread. O(n log n + components); memory: the file, 16
/// bytes for each saved entity (24 more in the binary form) and 4 for each slot of the world.
Error save_scene(const World& world, const Protocol& protocol, Array<std::byte>& out, SceneReport& report,
                 const SceneSaveOptions& options = {});

/// Reads a scene of either form (which one, its first byte tells) into the world. The bytes may come from anywhere: they are read twice,
/// first to check everything, deserialize functions included, and nothing in the world changes unless all is well. Then entities,
/// components and resources are made (a field that the file leaves out keeps the value that is there, or its default), rows and resources
/// count as changed, all of the entities get Replicated, and at last hooks run, in the order of the file, with everything in place.
///
/// Errors, with the world as it was and report.entities empty; problem says which name, and where: wrong_protocol, a component, resource or
/// field that the protocol lacks or has as something else; unsupported, a file of another kind or version; truncated; bad_value, what
/// docs/scene.md excludes, an opaque value that its function refuses, an entity of `existing` that is dead, given twice or beyond the
/// scene; too_large, bytes_max; limit_reached, entities_max, here or of the world.
///
/// Changes structure: no loop may run (asserts). A given entity that is ending, since this is one of its hooks, gets nothing. If the
/// allocator or a constructor throws, what was made so far stays. O(bytes + entities): time and memory are bounded by the two limits.
/// Memory beside the world: 16 bytes an entity; 4 more for a given one, and 24 for each of its components whose type has hooks.
Error load_scene(World& world, const Protocol& protocol, Bytes scene, SceneReport& report, const SceneLoadOptions& options = {});

} // namespace throng
