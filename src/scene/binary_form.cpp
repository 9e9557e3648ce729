// The binary form (docs/scene.md 3).
#include "src/registry/field_io.hpp"
#include "src/scene/scene_form.hpp"
#include "throng/wire.hpp"
#include <bit>
#include <cstring>

namespace throng {
namespace {

constexpr std::string_view magic = "THRSCENE";
constexpr u32 opaque_mark = 255; // in place of a field count
enum class OwnerForm : u8 { mask, gaps };

/// Width of values in bytes; the byte order is little-endian.
u32 width_of(u64 value) {
    return static_cast<u32>(std::bit_width(value) + 7) / 8;
}

// Signed integers are written in zigzag, so that small ones are narrow.
u64 to_code(SceneValue kind, u64 value) {
    return kind == SceneValue::signed_integer ? value << 1 ^ (static_cast<i64>(value) < 0 ? ~u64{0} : 0) : value;
}
u64 from_code(SceneValue kind, u64 code) {
    return kind == SceneValue::signed_integer ? code >> 1 ^ (~(code & 1) + 1) : code;
}

// ---------------------------------------------------------------------------------------------------- writing
struct SavedRow {
    u32 id;
    const std::byte* row;
};

class BinaryWriter {
public:
    BinaryWriter(SceneSource& source, Array<std::byte>& out)
        : source_(source), out_(out), rows_(source.world.options().allocator), codes_(source.world.options().allocator) {}

    Error write() {
        text(magic);
        integer(source_.version(), 2);
        integer(source_.protocol.hash().low, 8);
        varint(static_cast<u32>(source_.entities.size()));
        const u32 count_at = out_.size();
        integer(0, 1);
        u32 count = 0;
        for (const ComponentInfo& component : source_.protocol.components()) {
            rows_.clear();
            for (u32 id = 0; id < source_.entities.size(); ++id)
                if (const std::byte* const row = source_.row(id, component))
                    rows_.push_back({id, row});
            if (rows_.empty())
                continue;
            ++count;
            source_.report.components += rows_.size();
            if (const Error error = put_component(component); error != Error::none)
                return error;
        }
        out_[count_at] = static_cast<std::byte>(count);
        if (source_.with_resources)
            if (const Error error = put_resources(); error != Error::none)
                return error;
        return source_.check_size(out_);
    }

private:
    /// Each like a component that has one owner, without the list of owners.
    Error put_resources() {
        const u32 count_at = out_.size();
        integer(0, 1);
        u32 count = 0;
        for (const ComponentInfo& component : source_.protocol.components()) {
            const std::byte* const value = source_.resource(component);
            if (!value)
                continue;
            ++count;
            rows_.clear();
            rows_.push_back({no_scene_id, value});
            if (const Error error = put_component(component); error != Error::none)
                return error;
        }
        out_[count_at] = static_cast<std::byte>(count);
        source_.report.resources = count;
        return Error::none;
    }
    void integer(u64 value, u32 bytes) {
        for (u32 i = 0; i < bytes; ++i)
            out_.push_back(static_cast<std::byte>(value >> (8 * i)));
    }
    void varint(u32 value) {
        std::byte bytes[varint_bytes_max];
        out_.append(bytes, write_varint(bytes, value));
    }
    void text(std::string_view text) { out_.append(reinterpret_cast<const std::byte*>(text.data()), text.size()); }
    void name(std::string_view name) {
        integer(name.size(), 1);
        text(name);
    }

    Error put_component(const ComponentInfo& component) {
        name(component.name);
        const bool opaque = component.opaque_bytes_max > 0;
        integer(opaque ? opaque_mark : component.field_count, 1);
        for (u32 f = 0; f < component.field_count; ++f) {
            name(FieldKey(component, f));
            integer(static_cast<u64>(scene_value(component.fields[f])), 1);
        }
        if (!is_resource(component))
            put_owners();
        if (opaque)
            return put_opaque(component);
        for (u32 f = 0; f < component.field_count; ++f) {
            put_column(component, component.fields[f]);
            if (const Error error = source_.check_size(out_); error != Error::none)
                return error;
        }
        return Error::none;
    }
    void put_owners() {
        u32 gap_bytes = varint_bytes(rows_.size()), next = 0;
        for (const SavedRow& saved : rows_) {
            gap_bytes += varint_bytes(saved.id - next);
            next = saved.id + 1;
        }
        const u32 mask_bytes = static_cast<u32>((source_.entities.size() + 7) / 8);
        if (mask_bytes <= gap_bytes) {
            integer(static_cast<u64>(OwnerForm::mask), 1);
            const u32 begin = out_.size();
            out_.resize(begin + mask_bytes);
            for (const SavedRow& saved : rows_)
                out_[begin + saved.id / 8] |= static_cast<std::byte>(1u << saved.id % 8);
            return;
        }
        integer(static_cast<u64>(OwnerForm::gaps), 1);
        varint(rows_.size());
        next = 0;
        for (const SavedRow& saved : rows_) {
            varint(saved.id - next);
            next = saved.id + 1;
        }
    }
    void put_column(const ComponentInfo& component, const FieldInfo& field) {
        const SceneValue kind = scene_value(field);
        codes_.clear();
        u64 all = 0;
        for (const SavedRow& saved : rows_) {
            const std::byte* const from = source_.fields_of(component, saved.row);
            // A reference is its scene id + 1, and 0 is null; no_scene_id wraps to that.
            codes_.push_back(kind == SceneValue::reference ? u64{source_.reference(field, from) + 1}
                                                           : to_code(kind, load_exact(field, from)));
            all |= codes_.back();
        }
        const u32 width = width_of(all);
        integer(width, 1);
        for (const u64 code : codes_)
            integer(code, width);
    }
    Error put_opaque(const ComponentInfo& component) {
        for (const SavedRow& saved : rows_) {
            Bytes bytes;
            if (const Error error = source_.opaque_value(component, saved.row, saved.id, bytes); error != Error::none)
                return error;
            varint(static_cast<u32>(bytes.size()));
            out_.append(bytes.data(), bytes.size());
            if (const Error error = source_.check_size(out_); error != Error::none)
                return error;
        }
        return Error::none;
    }

    SceneSource& source_;
    Array<std::byte>& out_;
    Array<SavedRow> rows_;
    Array<u64> codes_;
};

// ---------------------------------------------------------------------------------------------------- reading
class BinaryReader {
public:
    BinaryReader(const SceneInput& input, SceneSink& sink) : input_(input), sink_(sink), left_(input.bytes) {}

    Error read(u32& entity_count) {
        if (left_.size() < magic.size())
            return too_short();
        left_ = left_.subspan(magic.size());
        u64 version = 0, hash = 0, components = 0;
        if (const Error error = integer(version, 2); error != Error::none)
            return error;
        if (version < scene_version || version > scene_version_with_resources)
            return refuse(Error::unsupported, magic.size(), "another version of the format");
        if (const Error error = integer(hash, 8); error != Error::none)
            return error;
        input_.report.same_protocol = hash == input_.protocol.hash().low;
        const std::size_t count_at = offset();
        if (const Error error = varint(entity_count); error != Error::none)
            return error;
        if (entity_count > input_.entities_max)
            return refuse(Error::limit_reached, count_at, "more entities than entities_max");
        if (const Error error = integer(components, 1); error != Error::none)
            return error;
        entity_count_ = entity_count;
        for (; components > 0; --components)
            if (const Error error = read_component(false); error != Error::none)
                return error;
        u64 resources = 0;
        if (version == scene_version_with_resources)
            if (const Error error = integer(resources, 1); error != Error::none)
                return error;
        for (; resources > 0; --resources)
            if (const Error error = read_component(true); error != Error::none)
                return error;
        return left_.empty() ? Error::none : refuse(Error::bad_value, offset(), "something behind the end");
    }

private:
    std::size_t offset() const { return input_.bytes.size() - left_.size(); }
    ProblemText problem_at(std::size_t offset) {
        input_.report.problem_offset = offset;
        return ProblemText(input_.report.problem).add("byte ").add(u64{offset}).add(": ");
    }
    Error refuse(Error error, std::size_t offset, std::string_view what) {
        problem_at(offset).add(what);
        return error;
    }
    Error too_short() { return refuse(Error::truncated, input_.bytes.size(), "the file ends too early"); }

    Error integer(u64& value, u32 bytes) {
        if (left_.size() < bytes)
            return too_short();
        value = load(left_.data(), bytes);
        left_ = left_.subspan(bytes);
        return Error::none;
    }
    static u64 load(const std::byte* from, u32 bytes) {
        u64 value = 0;
        for (u32 i = 0; i < bytes; ++i)
            value |= static_cast<u64>(from[i]) << (8 * i);
        return value;
    }
    Error varint(u32& value) {
        const std::size_t begin = offset();
        const Error error = read_varint(left_, value);
        if (error == Error::truncated)
            return too_short();
        return error == Error::none ? error : refuse(error, begin, "no number");
    }
    Error bytes(std::size_t count, Bytes& taken) {
        if (left_.size() < count)
            return too_short();
        taken = left_.first(count);
        left_ = left_.subspan(count);
        return Error::none;
    }
    /// `at`: where the name itself begins.
    Error name(std::string_view& name, std::size_t& at) {
        u64 size = 0;
        if (const Error error = integer(size, 1); error != Error::none)
            return error;
        at = offset();
        Bytes taken;
        const Error error = bytes(size, taken);
        name = {reinterpret_cast<const char*>(taken.data()), taken.size()};
        return error;
    }

    Error read_component(bool resource) {
        std::string_view text;
        std::size_t at = 0;
        if (const Error error = name(text, at); error != Error::none)
            return error;
        const i32 index = find_component(input_.protocol, text, resource);
        if (index < 0) {
            problem_at(at).add("unknown ").add(resource, text);
            return Error::wrong_protocol;
        }
        if (seen_ >> index & 1) {
            problem_at(at).add(resource, text).add(" twice");
            return Error::bad_value;
        }
        seen_ |= 1u << index;
        const ComponentInfo& component = input_.protocol.components()[static_cast<u32>(index)];
        u64 field_count = 0;
        const std::size_t fields_at = offset();
        if (const Error error = integer(field_count, 1); error != Error::none)
            return error;
        const bool opaque = component.opaque_bytes_max > 0;
        if (opaque != (field_count == opaque_mark)) {
            problem_at(fields_at).add(component).add(opaque ? " has fields, but is opaque here" : " is opaque, but has fields here");
            return Error::wrong_protocol;
        }
        columns_count_ = opaque ? 0 : static_cast<u32>(field_count);
        if (const Error error = read_fields(component); error != Error::none)
            return error;
        if (resource)
            own_once();
        else if (const Error error = read_owners(component); error != Error::none)
            return error;
        if (opaque)
            return read_opaque(component, static_cast<u32>(index));
        for (u32 i = 0; i < columns_count_; ++i)
            if (const Error error = read_column(component, columns_[i]); error != Error::none)
                return error;
        return say(component, static_cast<u32>(index));
    }
    Error read_fields(const ComponentInfo& component) {
        u32 seen = 0;
        for (u32 i = 0; i < columns_count_; ++i) {
            std::string_view key;
            std::size_t at = 0;
            if (const Error error = name(key, at); error != Error::none)
                return error;
            const std::size_t kind_at = offset();
            u64 kind = 0;
            if (const Error error = integer(kind, 1); error != Error::none)
                return error;
            const i32 f = find_field(component, key);
            if (f < 0) {
                problem_at(at).add("unknown field ").quote(key).add(" of ").add(component);
                return Error::wrong_protocol;
            }
            if (seen >> f & 1) {
                problem_at(at).add("field ").quote(key).add(" twice in ").add(component);
                return Error::bad_value;
            }
            seen |= 1u << f;
            columns_[i].field = static_cast<u32>(f);
            const SceneValue here = scene_value(component.fields[f]);
            if (kind > static_cast<u64>(SceneValue::reference))
                return refuse(Error::bad_value, kind_at, "no kind of field");
            if (kind != static_cast<u64>(here)) {
                problem_at(kind_at)
                    .add("field ")
                    .quote(key)
                    .add(" of ")
                    .add(component)
                    .add(" is ")
                    .add(to_string(static_cast<SceneValue>(kind)))
                    .add(", but here ")
                    .add(to_string(here));
                return Error::wrong_protocol;
            }
        }
        return Error::none;
    }

    // ---- which entities have the component
    /// The list of a resource: one owner, whatever entities there are.
    void own_once() {
        static constexpr std::byte no_gap{0};
        owner_form_ = OwnerForm::gaps;
        owner_count_ = 1;
        owners_ = {&no_gap, 1};
    }
    /// Checks the list, and leaves it where each_owner reads it.
    Error read_owners(const ComponentInfo& component) {
        const std::size_t at = offset();
        const auto refuse_owners = [&](std::size_t where) {
            problem_at(where).add("no list of the entities that have component ").quote(component.name);
            return Error::bad_value;
        };
        u64 form = 0;
        if (const Error error = integer(form, 1); error != Error::none)
            return error;
        if (form > static_cast<u64>(OwnerForm::gaps))
            return refuse_owners(at);
        owner_form_ = static_cast<OwnerForm>(form);
        owner_count_ = 0;
        if (owner_form_ == OwnerForm::mask) {
            if (const Error error = bytes((std::size_t{entity_count_} + 7) / 8, owners_); error != Error::none)
                return error;
            for (const std::byte byte : owners_)
                owner_count_ += static_cast<u32>(std::popcount(static_cast<u8>(byte)));
            if (owner_count_ == 0 || (entity_count_ % 8 != 0 && static_cast<u32>(owners_.back()) >> entity_count_ % 8 != 0))
                return refuse_owners(at);
            return Error::none;
        }
        if (const Error error = varint(owner_count_); error != Error::none)
            return error;
        if (owner_count_ == 0 || owner_count_ > entity_count_)
            return refuse_owners(at);
        const Bytes begin = left_;
        u64 next = 0;
        for (u32 i = 0; i < owner_count_; ++i) {
            const std::size_t gap_at = offset();
            u32 gap = 0;
            if (const Error error = varint(gap); error != Error::none)
                return error;
            next += u64{gap} + 1;
            if (next > entity_count_)
                return refuse_owners(gap_at);
        }
        owners_ = begin.first(begin.size() - left_.size());
        return Error::none;
    }
    /// f(u32 id) -> Error, in ascending order, until one fails.
    template <class F>
    Error each_owner(F&& f) {
        if (owner_form_ == OwnerForm::mask) {
            for (u32 id = 0; id < entity_count_; ++id)
                if (static_cast<u32>(owners_[id / 8]) >> id % 8 & 1)
                    if (const Error error = f(id); error != Error::none)
                        return error;
            return Error::none;
        }
        Bytes gaps = owners_;
        for (u32 i = 0, next = 0; i < owner_count_; ++i, ++next) {
            u32 gap = 0;
            if (const Error error = read_varint(gaps, gap); error != Error::none)
                return error;
            next += gap;
            if (const Error error = f(next); error != Error::none)
                return error;
        }
        return Error::none;
    }

    // ---- values
    struct Column {
        u32 field = 0;
        u32 width = 0;
        Bytes codes;
        std::size_t at = 0;
    };
    Error read_column(const ComponentInfo& component, Column& column) {
        const std::size_t at = offset();
        u64 width = 0;
        if (const Error error = integer(width, 1); error != Error::none)
            return error;
        if (width > 8)
            return refuse_value(component, column, at);
        column.width = static_cast<u32>(width);
        column.at = offset();
        return bytes(std::size_t{owner_count_} * column.width, column.codes);
    }
    Error refuse_value(const ComponentInfo& component, const Column& column, std::size_t at) {
        problem_at(at)
            .add("field ")
            .quote(FieldKey(component, column.field))
            .add(" of ")
            .add(component)
            .add(" needs ")
            .add(to_string(scene_value(component.fields[column.field])))
            .add(" that it can hold");
        return Error::bad_value;
    }
    Error say(const ComponentInfo& component, u32 index) {
        std::size_t place = 0;
        return each_owner([&](u32 id) {
            sink_.component(id, index);
            for (u32 i = 0; i < columns_count_; ++i) {
                const Column& column = columns_[i];
                const FieldInfo& field = component.fields[column.field];
                const SceneValue kind = scene_value(field);
                const std::size_t begin = place * column.width;
                const u64 code = column.width ? load(column.codes.data() + begin, column.width) : 0, value = from_code(kind, code);
                if (kind == SceneValue::reference ? code > entity_count_ : !fits(field, value))
                    return refuse_value(component, column, column.at + begin);
                if (kind == SceneValue::reference)
                    sink_.reference(field, static_cast<u32>(code) - 1);
                else
                    sink_.value(field, value);
            }
            sink_.end_component();
            ++place;
            return Error::none;
        });
    }
    Error read_opaque(const ComponentInfo& component, u32 index) {
        return each_owner([&](u32 id) {
            const std::size_t at = offset();
            u32 size = 0;
            if (const Error error = varint(size); error != Error::none)
                return error;
            if (size > component.opaque_bytes_max) {
                problem_at(at).add(component).add(" has at most ").add(u64{component.opaque_bytes_max}).add(" bytes");
                return Error::too_large;
            }
            Bytes value;
            if (const Error error = bytes(size, value); error != Error::none)
                return error;
            sink_.component(id, index);
            if (const Error error = sink_.opaque(value); error != Error::none) {
                problem_at(at).add(component).add(" refuses these bytes: ").add(to_string(error));
                return Error::bad_value;
            }
            sink_.end_component();
            return Error::none;
        });
    }

    const SceneInput& input_;
    SceneSink& sink_;
    Bytes left_;
    u32 entity_count_ = 0;
    u32 seen_ = 0; // components
    OwnerForm owner_form_ = OwnerForm::mask;
    u32 owner_count_ = 0;
    Bytes owners_;
    u32 columns_count_ = 0; // no more than the component's fields, since each is one of them and comes once
    Column columns_[ComponentInfo::fields_max];
};

} // namespace

Error write_binary(SceneSource& source, Array<std::byte>& out) {
    return BinaryWriter(source, out).write();
}

Error read_binary(const SceneInput& input, SceneSink& sink, u32& entity_count) {
    entity_count = 0;
    return BinaryReader(input, sink).read(entity_count);
}

bool is_binary(Bytes file) {
    const std::size_t count = file.size() < magic.size() ? file.size() : magic.size();
    return count > 0 && std::memcmp(file.data(), magic.data(), count) == 0;
}

} // namespace throng
