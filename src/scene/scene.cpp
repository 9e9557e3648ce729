#include "throng/scene.hpp"
#include "src/registry/field_io.hpp"
#include "src/scene/scene_form.hpp"
#include "throng/world.hpp"
#include <algorithm>
#include <cstring>

namespace throng {
namespace {

// ---------------------------------------------------------------------------------------------------- save
/// What is to be saved, in the order in which it was made.
Error collect(const World& world, const Protocol& protocol, const SceneSaveOptions& options, Array<Entity>& entities, SceneReport& report) {
    if (const Pool<Replicated>* const replicated = world.find_pool<Replicated>())
        for (u32 dense = 0; dense < replicated->size(); ++dense)
            entities.push_back(world.entity_at(replicated->owner(dense)));
    for (const Entity entity : options.also) {
        if (!world.alive(entity)) {
            ProblemText(report.problem).add("an entity to save as well is dead");
            return Error::bad_value;
        }
        entities.push_back(entity);
    }
    std::sort(entities.begin(), entities.end(), [](const Entity& a, const Entity& b) { return a.entity_id < b.entity_id; });
    const auto leave_out = [&](ComponentId component) { // the entity that resources travel with is not the game's
        const auto has = [&](const Entity& entity) { return world.dense_index(entity.entity_idx, component) != no_row; };
        entities.resize(static_cast<std::size_t>(std::remove_if(entities.begin(), entities.end(), has) - entities.begin()));
    };
    for (const ComponentInfo& component : protocol.components())
        if (is_resource(component))
            leave_out(component.id);
    if (const Pool<ResourceEntity>* const tagged = world.find_pool<ResourceEntity>(); tagged && tagged->size() > 0)
        leave_out(component_id<ResourceEntity>());
    entities.resize(static_cast<std::size_t>(std::unique(entities.begin(), entities.end()) - entities.begin()));
    if (entities.size() > options.entities_max) {
        ProblemText(report.problem).add("more entities than entities_max = ").add(u64{options.entities_max});
        return Error::limit_reached;
    }
    return Error::none;
}

void begin(SceneReport& report) {
    report.entities.clear();
    Array<Entity> entities = std::move(report.entities); // keeps its memory
    report = SceneReport{std::move(entities)};
}

// ---------------------------------------------------------------------------------------------------- load
/// An object of any of the protocol's opaque types, to try deserialize functions on.
class TrialObject {
public:
    TrialObject(World& world, const Protocol& protocol) : world_(world), allocator_(world.options().allocator) {
        for (const ComponentInfo& component : protocol.components())
            if (component.opaque_bytes_max > 0) {
                const ComponentOps& ops = world.pool_of(component.id)->ops();
                bytes_ = std::max(bytes_, ops.size);
                alignment_ = std::max(alignment_, ops.alignment);
            }
        memory_ = bytes_ > 0 ? allocator_.allocate(bytes_, alignment_) : nullptr;
    }
    TrialObject(const TrialObject&) = delete;
    TrialObject& operator=(const TrialObject&) = delete;
    ~TrialObject() { allocator_.free(memory_, bytes_, alignment_); }
    Error read(const ComponentInfo& component, Bytes bytes) {
        const ComponentOps& ops = world_.pool_of(component.id)->ops();
        ops.construct(memory_);
        const Error error = component.deserialize(memory_, bytes);
        if (ops.destroy)
            ops.destroy(memory_, 1);
        return error;
    }

private:
    World& world_;
    Allocator allocator_;
    u32 bytes_ = 0, alignment_ = 1;
    void* memory_ = nullptr;
};

/// First reading: what the readers cannot judge themselves.
class CheckSink final : public SceneSink {
public:
    CheckSink(World& world, const Protocol& protocol) : protocol_(protocol), trial_(world, protocol) {}
    void component(u32, u32 component) override { component_ = component; }
    void value(const FieldInfo&, u64) override {}
    void reference(const FieldInfo&, u32) override {}
    Error opaque(Bytes bytes) override { return trial_.read(protocol_.components()[component_], bytes); }
    void end_component() override {}

private:
    const Protocol& protocol_;
    u32 component_ = 0;
    TrialObject trial_;
};

/// Second reading: into the world. Entities are there, and nothing can be refused.
class ApplySink final : public SceneSink {
public:
    ApplySink(World& world, const Protocol& protocol, SceneReport& report)
        : world_(world), protocol_(protocol), report_(report), changed_(world.options().allocator) {}
    void component(u32 id, u32 component) override {
        info_ = &protocol_.components()[component];
        if (is_resource(*info_)) {
            void* const there = info_->resource.mut(world_);
            row_ = static_cast<std::byte*>(there ? there : info_->resource.make(world_));
            ++report_.resources;
            return find_fields();
        }
        entity_ = report_.entities[id];
        PoolBase& pool = *world_.pool_of(info_->id);
        const u32 dense = world_.dense_index(entity_.entity_idx, info_->id);
        if (dense == no_row) {
            row_ = static_cast<std::byte*>(world_.add_unannounced(entity_, info_->id));
        } else {
            row_ = static_cast<std::byte*>(pool.row(dense));
            pool.mark_changed(dense);
            if (world_.hooked(info_->id))
                changed_.push_back({entity_, info_->id});
        }
        ++report_.components;
        find_fields();
    }
    void value(const FieldInfo& field, u64 value) override {
        if (row_)
            store_exact(field, fields_, value);
    }
    void reference(const FieldInfo& field, u32 target) override {
        const Entity entity = target == no_scene_id ? Entity{} : report_.entities[target];
        if (row_)
            std::memcpy(fields_ + field.offset_bytes, &entity, sizeof entity);
    }
    Error opaque(Bytes bytes) override { // it has read them before
        return row_ ? info_->deserialize(row_, bytes) : Error::none;
    }
    void end_component() override {
        if (const WireForm& form = info_->form; row_ && form.size_bytes > 0)
            form.read(form.from_wire, object_, row_);
    }

    /// Hooks: of what was added, then of what was changed. One at a time, since the world's list of what waits is searched.
    void announce() {
        world_.announce();
        for (const Changed& changed : changed_) {
            world_.changed_unannounced(changed.entity, changed.component);
            world_.announce();
        }
    }

private:
    void find_fields() {
        fields_ = row_;
        if (const WireForm& form = info_->form; row_ && form.size_bytes > 0) {
            form.write(form.to_wire, row_, object_);
            fields_ = object_;
        }
    }
    struct Changed {
        Entity entity;
        ComponentId component;
    };
    World& world_;
    const Protocol& protocol_;
    SceneReport& report_;
    const ComponentInfo* info_ = nullptr;
    Entity entity_;
    std::byte* row_ = nullptr;    // null: of an entity that is ending
    std::byte* fields_ = nullptr; // in it, or in what it travels as:
    alignas(wire_form_alignment_max) std::byte object_[wire_form_bytes_max];
    Array<Changed> changed_;
};

Error check_existing(const World& world, std::span<const Entity> existing, u32 entity_count, SceneReport& report) {
    if (existing.size() > entity_count) {
        ProblemText(report.problem).add("more existing entities than the scene's ").add(u64{entity_count});
        return Error::bad_value;
    }
    Array<u32> given(world.options().allocator);
    for (u32 id = 0; id < existing.size(); ++id) {
        if (!existing[id])
            continue;
        if (!world.alive(existing[id])) {
            ProblemText(report.problem).add("the existing entity for scene id ").add(u64{id}).add(" is dead");
            return Error::bad_value;
        }
        given.push_back(existing[id].entity_idx);
    }
    std::sort(given.begin(), given.end());
    if (std::adjacent_find(given.begin(), given.end()) != given.end()) {
        ProblemText(report.problem).add("an existing entity is given for two scene ids");
        return Error::bad_value;
    }
    const u32 fresh = entity_count - given.size();
    if (fresh > world.options().entities_max - world.entity_count()) {
        ProblemText(report.problem).add("the world has no room for ").add(u64{fresh}).add(" more entities");
        return Error::limit_reached;
    }
    return Error::none;
}

} // namespace

Error save_scene(const World& world, const Protocol& protocol, Array<std::byte>& out, SceneReport& report,
                 const SceneSaveOptions& options) {
    begin(report);
    out.clear();
    Error error = collect(world, protocol, options, report.entities, report);
    if (error == Error::none) {
        const Allocator& allocator = world.options().allocator;
        Array<u32> id_of_slot(allocator);
        id_of_slot.resize(world.entity_slots(), no_scene_id);
        for (u32 id = 0; id < report.entities.size(); ++id)
            id_of_slot[report.entities[id].entity_idx] = id;
        const std::span<const ComponentInfo> components = protocol.components();
        const bool with_resources = options.resources && std::any_of(components.begin(), components.end(), [&](const ComponentInfo& c) {
                                        return is_resource(c) && c.resource.get(world);
                                    });
        SceneSource source{world,
                           protocol,
                           {report.entities.data(), report.entities.size()},
                           {id_of_slot.data(), id_of_slot.size()},
                           with_resources,
                           std::min(options.bytes_max, 1u << 31),
                           report,
                           Array<std::byte>(allocator),
                           {}};
        error = options.form == SceneForm::json ? write_json(source, out) : write_binary(source, out);
    }
    if (error != Error::none) {
        out.clear();
        report.entities.clear();
    }
    return error;
}

Error load_scene(World& world, const Protocol& protocol, Bytes scene, SceneReport& report, const SceneLoadOptions& options) {
    THRONG_ASSERT(!world.in_parallel_loop());
    begin(report);
    if (scene.size() > options.bytes_max) {
        ProblemText(report.problem).add("the file has more than bytes_max = ").add(u64{options.bytes_max}).add(" bytes");
        return Error::too_large;
    }
    for (const ComponentInfo& component : protocol.components())
        component.ensure_pool(world);
    const SceneInput input{scene, protocol, options.entities_max, report, world.options().allocator};
    const auto read = is_binary(scene) ? read_binary : read_json;
    u32 entity_count = 0;
    CheckSink check(world, protocol);
    if (const Error error = read(input, check, entity_count); error != Error::none)
        return error;
    if (const Error error = check_existing(world, options.existing, entity_count, report); error != Error::none)
        return error;

    report.entities.reserve(entity_count);
    for (u32 id = 0; id < entity_count; ++id) {
        const bool given = id < options.existing.size() && options.existing[id];
        report.entities.push_back(given ? options.existing[id] : world.create());
        ++(given ? report.extended : report.created);
    }
    ApplySink apply(world, protocol, report);
    const Error again = read(input, apply, entity_count);
    THRONG_ASSERT(again == Error::none && "a deserialize function refuses what it has read before");
    static_cast<void>(again);
    world.pool<Replicated>();
    for (const Entity entity : report.entities)
        if (!world.has<Replicated>(entity))
            world.add_unannounced(entity, component_id<Replicated>());
    apply.announce();
    return Error::none;
}

} // namespace throng
