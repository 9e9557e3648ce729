#include "src/scene/scene_form.hpp"
#include "src/registry/field_io.hpp"
#include <charconv>
#include <cstring>

namespace throng {

SceneValue scene_value(const FieldInfo& field) {
    switch (field.type) {
    case FieldType::f32:
        return SceneValue::f32;
    case FieldType::f64:
        return SceneValue::f64;
    case FieldType::int8:
    case FieldType::int16:
    case FieldType::int32:
    case FieldType::int64:
        return SceneValue::signed_integer;
    case FieldType::boolean:
        return SceneValue::boolean;
    case FieldType::entity:
        return SceneValue::reference;
    default:
        return SceneValue::unsigned_integer;
    }
}

const char* to_string(SceneValue value) {
    constexpr const char* names[] = {"a 32-bit float",      "a 64-bit float", "a signed integer",
                                     "an unsigned integer", "a bool",         "a reference"};
    return names[static_cast<u32>(value)];
}

bool fits(const FieldInfo& field, u64 value) {
    const auto narrow = [&](auto zero) { return static_cast<u64>(static_cast<decltype(zero)>(value)) == value; };
    switch (field.type) {
    case FieldType::int8:
        return narrow(i8{});
    case FieldType::int16:
        return narrow(i16{});
    case FieldType::int32:
        return narrow(i32{});
    case FieldType::uint8:
        return narrow(u8{});
    case FieldType::uint16:
        return narrow(u16{});
    case FieldType::f32:
    case FieldType::uint32:
        return narrow(u32{});
    case FieldType::boolean:
        return value < 2;
    default:
        return true;
    }
}

FieldKey::FieldKey(const ComponentInfo& component, u32 field) {
    if (component.fields[field].name) {
        text = component.fields[field].name;
    } else {
        const char* const end = std::to_chars(digits, digits + sizeof digits, field).ptr;
        text = {digits, static_cast<std::size_t>(end - digits)};
    }
}

i32 find_component(const Protocol& protocol, std::string_view name, bool resource) {
    const std::span<const ComponentInfo> components = protocol.components();
    for (u32 c = 0; c < components.size(); ++c)
        if (name == components[c].name && is_resource(components[c]) == resource)
            return static_cast<i32>(c);
    return -1;
}

i32 find_field(const ComponentInfo& component, std::string_view key) {
    for (u32 f = 0; f < component.field_count; ++f)
        if (key == FieldKey(component, f).text)
            return static_cast<i32>(f);
    return -1;
}

ProblemText& ProblemText::add(std::string_view text) {
    const std::size_t room = out_.size() - 1 - size_, count = text.size() < room ? text.size() : room;
    std::memcpy(out_.data() + size_, text.data(), count);
    size_ += count;
    out_[size_] = 0;
    return *this;
}

ProblemText& ProblemText::add(u64 number) {
    char digits[20];
    return add({digits, static_cast<std::size_t>(std::to_chars(digits, digits + sizeof digits, number).ptr - digits)});
}

ProblemText& ProblemText::quote(std::string_view name) {
    constexpr std::size_t shown_max = 48;
    char shown[shown_max];
    const std::size_t count = name.size() < shown_max ? name.size() : shown_max;
    for (std::size_t i = 0; i < count; ++i)
        shown[i] = name[i] >= 0x20 && name[i] < 0x7f ? name[i] : '?';
    return add("\"").add({shown, count}).add(name.size() > shown_max ? "...\"" : "\"");
}

const std::byte* SceneSource::row(u32 id, const ComponentInfo& component) const {
    if (is_resource(component) || !protocol.layout().is_first_of_type(static_cast<u32>(&component - protocol.components().data())))
        return nullptr;
    const u32 dense = world.dense_index(entities[id].entity_idx, component.id);
    return dense != no_row ? static_cast<const std::byte*>(world.pool_of(component.id)->row(dense)) : nullptr;
}

const std::byte* SceneSource::resource(const ComponentInfo& component) const {
    return is_resource(component) ? static_cast<const std::byte*>(component.resource.get(world)) : nullptr;
}

const std::byte* SceneSource::fields_of(const ComponentInfo& component, const std::byte* row) {
    if (component.form.size_bytes == 0)
        return row;
    component.form.write(component.form.to_wire, row, object);
    return object;
}

u32 SceneSource::reference(const FieldInfo& field, const std::byte* row) {
    Entity target;
    std::memcpy(&target, row + field.offset_bytes, sizeof target);
    if (!target)
        return no_scene_id;
    const u32 id = target.entity_idx < id_of_slot.size() ? id_of_slot[target.entity_idx] : no_scene_id;
    if (id != no_scene_id && entities[id] == target)
        return id;
    ++report.references_dropped;
    return no_scene_id;
}

Error SceneSource::opaque_value(const ComponentInfo& component, const std::byte* row, u32 id, Bytes& value) {
    opaque.resize(component.opaque_bytes_max);
    const u32 bytes = component.serialize(row, {opaque.data(), opaque.size()});
    if (bytes > component.opaque_bytes_max) {
        ProblemText problem = ProblemText(report.problem).add(component);
        if (!is_resource(component))
            problem.add(" of entity ").add(u64{id});
        problem.add(" needs more than ").add(u64{component.opaque_bytes_max}).add(" bytes");
        return Error::too_large;
    }
    value = {opaque.data(), bytes};
    return Error::none;
}

Error SceneSource::check_size(const Array<std::byte>& file) {
    if (file.size() <= bytes_max)
        return Error::none;
    ProblemText(report.problem).add("the file has more than bytes_max = ").add(u64{bytes_max}).add(" bytes");
    return Error::too_large;
}

} // namespace throng
