// The JSON form (docs/scene.md 2).
#include "src/registry/field_io.hpp"
#include "src/scene/json_text.hpp"
#include "src/scene/scene_form.hpp"
#include <bit>
#include <cmath>
#include <utility>

namespace throng {
namespace {

// ---------------------------------------------------------------------------------------------------- writing
/// Infinities and NaNs are no numbers of JSON: their bits stand in a string.
template <class T, class Bits>
void put_float(Array<std::byte>& out, Bits bits) {
    const T value = std::bit_cast<T>(bits);
    if (std::isfinite(value)) {
        json_put_number(out, value);
        return;
    }
    json_put(out, "\"0x");
    json_put_hex_number(out, bits, 2 * sizeof bits);
    json_put(out, "\"");
}

void put_value(SceneSource& source, Array<std::byte>& out, const FieldInfo& field, const std::byte* row) {
    const SceneValue kind = scene_value(field);
    if (kind == SceneValue::reference) {
        const u32 id = source.reference(field, row);
        if (id == no_scene_id)
            json_put(out, "null");
        else
            json_put_number(out, u64{id});
        return;
    }
    const u64 value = load_exact(field, row);
    switch (kind) {
    case SceneValue::f32:
        put_float<float>(out, static_cast<u32>(value));
        break;
    case SceneValue::f64:
        put_float<double>(out, value);
        break;
    case SceneValue::signed_integer:
        json_put_number(out, static_cast<i64>(value));
        break;
    case SceneValue::boolean:
        json_put(out, value ? "true" : "false");
        break;
    default:
        json_put_number(out, value);
    }
}

Error put_component(SceneSource& source, Array<std::byte>& out, const ComponentInfo& component, const std::byte* row, u32 id) {
    json_put_string(out, component.name);
    if (component.opaque_bytes_max > 0) {
        Bytes bytes;
        if (const Error error = source.opaque_value(component, row, id, bytes); error != Error::none)
            return error;
        json_put(out, ":");
        json_put_hex(out, bytes);
        return Error::none;
    }
    json_put(out, ":{");
    const std::byte* const fields = source.fields_of(component, row);
    for (u32 f = 0; f < component.field_count; ++f) {
        if (f > 0)
            json_put(out, ",");
        json_put_string(out, FieldKey(component, f));
        json_put(out, ":");
        put_value(source, out, component.fields[f], fields);
    }
    json_put(out, "}");
    return Error::none;
}

Error put_resources(SceneSource& source, Array<std::byte>& out) {
    const char* before = ",\n\"resources\":{\n";
    for (const ComponentInfo& component : source.protocol.components()) {
        const std::byte* const value = source.resource(component);
        if (!value)
            continue;
        json_put(out, std::exchange(before, ",\n"));
        if (const Error error = put_component(source, out, component, value, no_scene_id); error != Error::none)
            return error;
        ++source.report.resources;
        if (const Error error = source.check_size(out); error != Error::none)
            return error;
    }
    json_put(out, "\n}");
    return Error::none;
}

// ---------------------------------------------------------------------------------------------------- reading
class JsonReader {
public:
    JsonReader(const SceneInput& input, SceneSink& sink) : input_(input), sink_(sink), text_(input.bytes), opaque_(input.allocator) {}

    Error read(u32& entity_count) {
        if (const Error error = read_head(); error != Error::none)
            return error;
        if (const Error error = read_parts(); error != Error::none)
            return error;
        if (text_.take(']'))
            return read_end(entity_count);
        do {
            if (const Error error = read_entity(entity_count); error != Error::none)
                return error;
            ++entity_count;
        } while (text_.take(','));
        return text_.take(']') ? read_end(entity_count) : refuse_here("expected ',' or ']' behind an entity");
    }

private:
    /// The beginning of each problem's text: where it is.
    ProblemText problem_at(std::size_t offset) {
        u64 line = 1, column = 1;
        for (std::size_t i = 0; i < offset; ++i, ++column)
            if (input_.bytes[i] == std::byte{'\n'})
                ++line, column = 0;
        input_.report.problem_offset = offset;
        return ProblemText(input_.report.problem).add("line ").add(line).add(", column ").add(column).add(": ");
    }
    Error refuse(Error error, std::size_t offset, std::string_view what) {
        problem_at(offset).add(what);
        return error;
    }
    /// Something else was expected where the text is now; or an end.
    Error refuse_here(std::string_view what) { return refuse(text_.missing(), text_.offset(), what); }

    Error read_key(std::string_view& key) {
        key_offset_ = text_.offset();
        if (const Error error = text_.string(key_, key); error != Error::none)
            return error == Error::too_large ? refuse(error, key_offset_, "a longer name than any")
                                             : refuse(error, text_.offset(), "expected a name in quotes");
        if (!text_.take(':'))
            return refuse_here("expected ':'");
        return Error::none;
    }
    Error read_this_key(std::string_view wanted) {
        std::string_view key;
        if (const Error error = read_key(key); error != Error::none)
            return error;
        if (key == wanted)
            return Error::none;
        problem_at(key_offset_).add("expected ").quote(wanted).add(", not ").quote(key);
        return Error::bad_value;
    }

    Error read_head() {
        if (!text_.take('{'))
            return text_.at_end() ? refuse_here("expected '{'")
                                  : refuse(Error::unsupported, text_.offset(), "neither JSON nor the binary form of a scene");
        if (const Error error = read_this_key("throng_scene"); error != Error::none)
            return error == Error::bad_value ? Error::unsupported : error; // JSON of something else
        const std::size_t version_offset = text_.offset();
        std::string_view token;
        if (const Error error = text_.number(token); error != Error::none)
            return refuse(error, text_.offset(), "expected a version");
        u64 version = 0;
        if (!json_value(token, version) || version < scene_version || version > scene_version_with_resources)
            return refuse(Error::unsupported, version_offset, "another version of the format");
        may_have_resources_ = version == scene_version_with_resources;
        return Error::none;
    }
    /// What may come before the entities, and their beginning.
    Error read_parts() {
        bool may_have_hash = true;
        for (;;) {
            if (!text_.take(','))
                return refuse_here("expected ','");
            std::string_view key;
            if (const Error error = read_key(key); error != Error::none)
                return error;
            if (key == "entities")
                return text_.take('[') ? Error::none : refuse_here("expected '['");
            const bool hash = may_have_hash && key == "protocol", resources = may_have_resources_ && key == "resources";
            if (!hash && !resources) {
                problem_at(key_offset_)
                    .add("expected ")
                    .add(may_have_hash ? "\"protocol\" or " : "")
                    .add(may_have_resources_ ? "\"resources\" or " : "")
                    .add("\"entities\", not ")
                    .quote(key);
                return Error::bad_value;
            }
            if (const Error error = hash ? read_hash() : read_resources(); error != Error::none)
                return error;
            may_have_hash = false;
            may_have_resources_ &= hash;
        }
    }
    Error read_hash() {
        const std::size_t offset = text_.offset();
        if (const Error error = text_.hex(opaque_, 8); error != Error::none || opaque_.size() != 8)
            return refuse(error != Error::none ? error : Error::bad_value, offset, "the protocol hash has 16 digits 0-9, a-f");
        u64 hash = 0;
        for (const std::byte byte : opaque_)
            hash = hash << 8 | static_cast<u64>(byte);
        input_.report.same_protocol = hash == input_.protocol.hash().low;
        return Error::none;
    }
    Error read_end(u32 entity_count) {
        if (!text_.take('}'))
            return refuse_here("expected '}' at the end");
        if (!text_.at_end())
            return refuse(Error::bad_value, text_.offset(), "something behind the end");
        if (largest_target_ != no_scene_id && largest_target_ >= entity_count) {
            problem_at(largest_target_offset_).add("entity ").add(u64{largest_target_}).add(" is beyond the last one");
            return Error::bad_value;
        }
        return Error::none;
    }

    Error read_resources() {
        if (!text_.take('{'))
            return refuse_here("expected '{' of the resources");
        return read_components(no_scene_id);
    }
    Error read_entity(u32 id) {
        if (!text_.sees('{'))
            return refuse_here("expected '{' of an entity");
        if (id == input_.entities_max)
            return refuse(Error::limit_reached, text_.offset(), "more entities than entities_max");
        text_.take('{');
        return read_components(id);
    }
    /// Those of an entity; no_scene_id: resources.
    Error read_components(u32 id) {
        if (text_.take('}'))
            return Error::none;
        u32 seen = 0;
        do {
            if (const Error error = read_component(id, seen); error != Error::none)
                return error;
        } while (text_.take(','));
        if (text_.take('}'))
            return Error::none;
        return refuse_here(id == no_scene_id ? "expected ',' or '}' behind a resource" : "expected ',' or '}' behind a component");
    }
    Error read_component(u32 id, u32& seen) {
        std::string_view name;
        if (const Error error = read_key(name); error != Error::none)
            return error;
        const bool resource = id == no_scene_id;
        const i32 index = find_component(input_.protocol, name, resource);
        if (index < 0) {
            problem_at(key_offset_).add("unknown ").add(resource, name);
            return Error::wrong_protocol;
        }
        if (seen >> index & 1) {
            problem_at(key_offset_).add(resource, name).add(resource ? " twice" : " twice in one entity");
            return Error::bad_value;
        }
        seen |= 1u << index;
        const ComponentInfo& component = input_.protocol.components()[static_cast<u32>(index)];
        sink_.component(id, static_cast<u32>(index));
        const Error error = component.opaque_bytes_max > 0 ? read_opaque(component) : read_fields(component);
        if (error == Error::none)
            sink_.end_component();
        return error;
    }
    Error read_opaque(const ComponentInfo& component) {
        const std::size_t offset = text_.offset();
        if (const Error error = text_.hex(opaque_, component.opaque_bytes_max); error != Error::none) {
            ProblemText problem = problem_at(text_.offset()).add(component);
            if (error == Error::too_large)
                problem.add(" has at most ").add(u64{component.opaque_bytes_max}).add(" bytes");
            else
                problem.add(" needs a string of bytes, two digits 0-9, a-f each");
            return error;
        }
        const Error error = sink_.opaque({opaque_.data(), opaque_.size()});
        if (error != Error::none) {
            problem_at(offset).add(component).add(" refuses these bytes: ").add(to_string(error));
            return Error::bad_value;
        }
        return Error::none;
    }
    Error read_fields(const ComponentInfo& component) {
        if (!text_.take('{')) {
            problem_at(text_.offset()).add(component).add(" needs '{' and its fields");
            return text_.missing();
        }
        if (text_.take('}'))
            return Error::none;
        u32 seen = 0;
        do {
            std::string_view key;
            if (const Error error = read_key(key); error != Error::none)
                return error;
            const i32 f = find_field(component, key);
            if (f < 0) {
                problem_at(key_offset_).add("unknown field ").quote(key).add(" of ").add(component);
                return Error::wrong_protocol;
            }
            if (seen >> f & 1) {
                problem_at(key_offset_).add("field ").quote(key).add(" twice in ").add(component);
                return Error::bad_value;
            }
            seen |= 1u << f;
            if (const Error error = read_field(component, static_cast<u32>(f)); error != Error::none)
                return error;
        } while (text_.take(','));
        return text_.take('}') ? Error::none : refuse_here("expected ',' or '}' behind a field");
    }
    Error read_field(const ComponentInfo& component, u32 f) {
        const FieldInfo& field = component.fields[f];
        const std::size_t offset = text_.offset();
        u64 value = 0;
        Error error;
        if (scene_value(field) == SceneValue::reference) {
            u32 target = no_scene_id;
            error = read_reference(offset, target);
            if (error == Error::none)
                sink_.reference(field, target);
        } else {
            error = read_value(scene_value(field), value);
            if (error == Error::none && !fits(field, value))
                error = Error::bad_value;
            if (error == Error::none)
                sink_.value(field, value);
        }
        if (error != Error::none)
            problem_at(error == Error::truncated ? text_.offset() : offset)
                .add("field ")
                .quote(FieldKey(component, f))
                .add(" of ")
                .add(component)
                .add(" needs ")
                .add(to_string(scene_value(field)))
                .add(" that it can hold");
        return error;
    }
    template <class T>
    Error read_number(u64& value) {
        std::string_view token;
        if (const Error error = text_.number(token); error != Error::none)
            return error;
        T number{};
        if (!json_value(token, number))
            return Error::bad_value;
        if constexpr (sizeof(T) == sizeof(u32))
            value = std::bit_cast<u32>(number);
        else
            value = std::bit_cast<u64>(number);
        return Error::none;
    }
    /// A number, or the bits of what is none.
    template <class T, class Bits>
    Error read_float(u64& value) {
        if (!text_.sees('"'))
            return read_number<T>(value);
        char buffer[2 + 2 * sizeof(Bits)];
        std::string_view string;
        if (const Error error = text_.string(buffer, string); error != Error::none)
            return error == Error::truncated ? error : Error::bad_value;
        if (string.size() != sizeof buffer || string.substr(0, 2) != "0x")
            return Error::bad_value;
        for (const char c : string.substr(2)) {
            if (!((c >= '0' && c <= '9') || (c >= 'a' && c <= 'f')))
                return Error::bad_value;
            value = value << 4 | static_cast<u64>(c <= '9' ? c - '0' : c - 'a' + 10);
        }
        return std::isfinite(std::bit_cast<T>(static_cast<Bits>(value))) ? Error::bad_value : Error::none;
    }
    Error read_value(SceneValue kind, u64& value) {
        switch (kind) {
        case SceneValue::f32:
            return read_float<float, u32>(value);
        case SceneValue::f64:
            return read_float<double, u64>(value);
        case SceneValue::signed_integer:
            return read_number<i64>(value);
        case SceneValue::boolean:
            return read_boolean(value);
        default:
            return read_number<u64>(value);
        }
    }
    Error read_boolean(u64& value) {
        value = text_.sees('t');
        return text_.take_word(value ? "true" : "false");
    }
    Error read_reference(std::size_t offset, u32& target) {
        if (text_.sees('n'))
            return text_.take_word("null");
        u64 value = 0;
        if (const Error error = read_number<u64>(value); error != Error::none)
            return error;
        if (value >= no_scene_id)
            return Error::bad_value;
        target = static_cast<u32>(value);
        // How many entities there are is known at the end.
        if (largest_target_ == no_scene_id || target > largest_target_) {
            largest_target_ = target;
            largest_target_offset_ = offset;
        }
        return Error::none;
    }

    const SceneInput& input_;
    SceneSink& sink_;
    JsonText text_;
    char key_[scene_name_bytes_max];
    std::size_t key_offset_ = 0;
    Array<std::byte> opaque_;
    bool may_have_resources_ = false;
    u32 largest_target_ = no_scene_id;
    std::size_t largest_target_offset_ = 0;
};

} // namespace

Error write_json(SceneSource& source, Array<std::byte>& out) {
    json_put(out, "{\n\"throng_scene\":");
    json_put_number(out, u64{source.version()});
    json_put(out, ",\n\"protocol\":\"");
    json_put_hex_number(out, source.protocol.hash().low, 16);
    json_put(out, "\"");
    if (source.with_resources)
        if (const Error error = put_resources(source, out); error != Error::none)
            return error;
    json_put(out, ",\n\"entities\":[");
    for (u32 id = 0; id < source.entities.size(); ++id) {
        json_put(out, id > 0 ? ",\n{" : "\n{");
        bool first = true;
        for (const ComponentInfo& component : source.protocol.components()) {
            const std::byte* const row = source.row(id, component);
            if (!row)
                continue;
            if (!first)
                json_put(out, ",");
            first = false;
            if (const Error error = put_component(source, out, component, row, id); error != Error::none)
                return error;
            ++source.report.components;
        }
        json_put(out, "}");
        if (const Error error = source.check_size(out); error != Error::none)
            return error;
    }
    json_put(out, "\n]\n}\n");
    return source.check_size(out);
}

Error read_json(const SceneInput& input, SceneSink& sink, u32& entity_count) {
    entity_count = 0;
    return JsonReader(input, sink).read(entity_count);
}

} // namespace throng
