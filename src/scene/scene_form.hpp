#pragma once
// What the two forms of a scene share: what there is to write, what a reader says of a file, how names and values are judged. The forms
// differ in how they put it into bytes, and in nothing else.
#include "throng/scene.hpp"
#include <string_view>

namespace throng {

/// What a field is in a file: what its member can hold, whatever quantises it on the wire. The numbers are those of the binary form.
enum class SceneValue : u8 { f32, f64, signed_integer, unsigned_integer, boolean, reference };
SceneValue scene_value(const FieldInfo& field);
const char* to_string(SceneValue value);
/// Whether the member can hold it: bits of a float, an integer widened to 64 bits, 0 or 1. Not for references.
bool fits(const FieldInfo& field, u64 value);

/// Names of components and fields have at most 47 bytes; what is longer is none of ours.
inline constexpr u32 scene_name_bytes_max = 255;
/// What a field is called in files: its name, or its place.
struct FieldKey {
    FieldKey(const ComponentInfo& component, u32 field);
    operator std::string_view() const { return text; }
    char digits[4] = {};
    std::string_view text;
};
/// Versions of both forms. A writer takes the oldest that has what it writes, so that older builds read what they can.
inline constexpr u32 scene_version = 1, scene_version_with_resources = 2;
inline bool is_resource(const ComponentInfo& component) {
    return component.resource.version != nullptr;
}
/// A component, or a resource, by name; none of ours: -1.
i32 find_component(const Protocol& protocol, std::string_view name, bool resource);
i32 find_field(const ComponentInfo& component, std::string_view key);

/// Composes the text of a problem; cuts what does not fit.
class ProblemText {
public:
    explicit ProblemText(std::span<char> out) : out_(out) { out_[0] = 0; }
    ProblemText& add(std::string_view text);
    ProblemText& add(u64 number);
    /// A name out of a file: in quotes, at most 48 bytes of it, others than printable ASCII as '?'.
    ProblemText& quote(std::string_view name);
    /// `component "name"` or `resource "name"`; or one of that name.
    ProblemText& add(const ComponentInfo& component) { return add(is_resource(component), component.name); }
    ProblemText& add(bool resource, std::string_view name) { return add(resource ? "resource " : "component ").quote(name); }

private:
    std::span<char> out_; // the last byte stays 0
    std::size_t size_ = 0;
};

// ---- to a file
inline constexpr u32 no_scene_id = 0xffffffff;

/// What is to be saved.
struct SceneSource {
    const World& world;
    const Protocol& protocol;
    std::span<const Entity> entities; // by scene id
    std::span<const u32> id_of_slot;  // by entity_idx; no_scene_id
    bool with_resources;              // there are some, and they are asked for
    u32 bytes_max;
    SceneReport& report;
    Array<std::byte> opaque;                                                     // scratch of opaque_value
    alignas(wire_form_alignment_max) std::byte object[wire_form_bytes_max] = {}; // of fields_of

    u32 version() const { return with_resources ? scene_version_with_resources : scene_version; }
    /// The component's row, or null. Of several registrations of a type the first one speaks for it.
    const std::byte* row(u32 id, const ComponentInfo& component) const;
    /// The world's resource, or null, also for what is none.
    const std::byte* resource(const ComponentInfo& component) const;
    /// Where the fields of a component's row are: in it, or in what it travels as; good until the next call.
    const std::byte* fields_of(const ComponentInfo& component, const std::byte* row);
    /// The scene id that a reference field leads to; no_scene_id: null. Counts those that are dropped.
    u32 reference(const FieldInfo& field, const std::byte* row);
    /// What the component's function writes; valid until the next call. too_large: more than it may; says so in the report.
    Error opaque_value(const ComponentInfo& component, const std::byte* row, u32 id, Bytes& value);
    /// too_large, and says so in the report, once the file is larger than bytes_max.
    Error check_size(const Array<std::byte>& file);
};
/// Append the file to `out`.
Error write_json(SceneSource& source, Array<std::byte>& out);
Error write_binary(SceneSource& source, Array<std::byte>& out);

// ---- from a file
/// What a reader calls, in the order of the file. Each component of an entity comes once: component, then its values, then end_component.
/// Each resource, too; it is of no entity.
class SceneSink {
public:
    virtual void component(u32 id, u32 component) = 0;
    virtual void value(const FieldInfo& field, u64 value) = 0;      // fits
    virtual void reference(const FieldInfo& field, u32 target) = 0; // no_scene_id: null
    virtual Error opaque(Bytes bytes) = 0;                          // an error ends the reading
    virtual void end_component() = 0;

protected:
    ~SceneSink() = default;
};

struct SceneInput {
    Bytes bytes;
    const Protocol& protocol;
    u32 entities_max;
    SceneReport& report; // problem, problem_offset, same_protocol
    Allocator allocator;
};
/// Read all of a file. entity_count: how many entities it has, complete only at the end. An error says what and where in the report; what
/// was said before holds of a prefix. Allocate nothing but room for one opaque value.
Error read_json(const SceneInput& input, SceneSink& sink, u32& entity_count);
Error read_binary(const SceneInput& input, SceneSink& sink, u32& entity_count);
/// Whether the file is one of the binary form, or the beginning of one.
bool is_binary(Bytes file);

} // namespace throng
