#pragma once
// Rules: of which entities a component is replicated, by the types of components that the entity has. The server alone asks them; a
// client shows what comes.
//
//     protocol.component<Position>("position").field(...);                                       // entities without Important
//     protocol.component<Position>("precise position").field(...).when(throng::with<Important>);
//     protocol.component<Mana>("mana").field(...).when(throng::without<Hidden> && throng::any_of<Wizard, Witch>);
//     protocol.bundle<Ammo, Weapon>();                                                           // both, or neither
#include "throng/protocol_field.hpp"
#include "throng/signature.hpp"

namespace throng {

/// In a rule: types of which an entity must have at least one. One a rule.
template <class... Ts>
struct AnyOf {};
template <class... Ts>
inline constexpr AnyOf<Ts...> any_of{};

/// Which entities a rule lets through: those that have all of some types, none of others, and at least one of any. Made from with<...>,
/// without<...>, any_of<...> and what && joins of them; the default is every entity. Types need not be registered. Several rules of a
/// component are alternatives ("or").
struct EntityFilter {
    Signature<default_max_components> all, none, any;
    u32 type_count = 0;          // types that are named
    const char* wrong = nullptr; // what finish() refuses

    EntityFilter() = default;
    template <class... Ts>
    EntityFilter(With<Ts...>) {
        name_types<Ts...>(all);
    }
    template <class... Ts>
    EntityFilter(Without<Ts...>) {
        name_types<Ts...>(none);
    }
    template <class... Ts>
    EntityFilter(AnyOf<Ts...>) {
        name_types<Ts...>(any);
    }
    template <class... Ws, class... Xs>
    EntityFilter(Filter<With<Ws...>, Without<Xs...>>) {
        name_types<Ws...>(all);
        name_types<Xs...>(none);
    }

    bool matches(const Signature<default_max_components>& types) const {
        return types.contains(all) && !types.intersects(none) && (!any.any() || types.intersects(any));
    }
    friend bool operator==(const EntityFilter& a, const EntityFilter& b) { return a.all == b.all && a.none == b.none && a.any == b.any; }

private:
    template <class... Ts>
    void name_types(Signature<default_max_components>& list) {
        const auto name = [&](u32 id) {
            id < default_max_components ? list.set(id) : void(wrong = "a rule names a type beyond the 128th");
        };
        (name(component_id<Ts>()), ...);
        type_count += static_cast<u32>(sizeof...(Ts));
    }
};
inline EntityFilter operator&&(EntityFilter a, const EntityFilter& b) {
    if (b.wrong)
        a.wrong = b.wrong;
    if (a.any.any() && b.any.any())
        a.wrong = "a rule has one any_of";
    a.all |= b.all;
    a.none |= b.none;
    a.any |= b.any;
    a.type_count += b.type_count;
    return a;
}

/// One rule of a component.
struct ComponentRule {
    EntityFilter filter;
    i32 priority = 1;
};

/// Who sees a component of an entity that it sees (throng/scopes.hpp). Others do not know whether the entity has it.
enum class Audience : u8 {
    everyone,
    owner,  // the client of its OwnedBy
    others, // all but that client
    group,  // the members of the group of its SharedWith
};

/// How a component travels as another type, or a resource as a component.
struct WireForm {
    using AnyFn = void (*)();
    u32 size_bytes = 0;                           // of the type that travels; 0: the component itself does
    AnyFn to_wire = nullptr, from_wire = nullptr; // as registered
    void (*make)(void* wire) = nullptr;           // from nothing
    void (*write)(AnyFn to_wire, const void* component, void* wire) = nullptr;
    void (*read)(AnyFn from_wire, const void* wire, void* component) = nullptr;
};
/// Largest type that a component travels as.
inline constexpr u32 wire_form_bytes_max = 1024;
inline constexpr u32 wire_form_alignment_max = 16;

/// T travels as U.
template <class T, class U>
WireForm wire_form(U (*to_wire)(const T&), T (*from_wire)(const U&)) {
    static_assert(!std::is_same_v<T, U>, "another type: else what is registered travels itself");
    static_assert(std::is_default_constructible_v<T> && std::is_move_assignable_v<T>, "clients make what is replicated from nothing");
    static_assert(std::is_default_constructible_v<U> && std::is_trivially_copyable_v<U>, "what travels is a plain struct of fields");
    static_assert(sizeof(U) <= wire_form_bytes_max && alignof(U) <= wire_form_alignment_max, "what travels is small");
    WireForm form;
    form.size_bytes = sizeof(U);
    form.to_wire = reinterpret_cast<WireForm::AnyFn>(to_wire);
    form.from_wire = reinterpret_cast<WireForm::AnyFn>(from_wire);
    form.make = [](void* wire) { ::new (wire) U(); };
    form.write = [](WireForm::AnyFn fn, const void* value, void* wire) {
        ::new (wire) U(reinterpret_cast<U (*)(const T&)>(fn)(*static_cast<const T*>(value)));
    };
    form.read = [](WireForm::AnyFn fn, const void* wire, void* value) {
        *static_cast<T*>(value) = reinterpret_cast<T (*)(const U&)>(fn)(*static_cast<const U*>(wire));
    };
    return form;
}

/// A resource of the server's world, as a component of the entity that stands for them on the wire. The value comes first.
template <class T>
struct ResourceValue {
    T value{};
};
/// Tag component of that entity, in the server's world alone.
struct ResourceEntity {};

/// How a component that is a resource's value comes from the server's world and into a client's. All null: it is none.
struct ResourceAccess {
    u32 (*version)(const World&) = nullptr;
    const void* (*get)(const World&) = nullptr;            // the resource; null: there is none
    void (*publish)(World&, Entity) = nullptr;             // makes the entity's component as the resource is, or takes it away
    void (*take)(World&, const void* component) = nullptr; // makes the resource as the component is
    void (*clear)(World&) = nullptr;
    void* (*mut)(World&) = nullptr;  // the resource, written from here on; null: there is none, or it is immutable
    void* (*make)(World&) = nullptr; // a new one, from nothing
};
template <class T>
ResourceAccess resource_access() {
    ResourceAccess access;
    access.version = [](const World& world) { return world.resources().template version<T>(); };
    access.get = [](const World& world) -> const void* { return world.resources().template get<T>(); };
    access.publish = [](World& world, Entity entity) {
        const T* const value = world.resources().template get<T>();
        if (!value)
            world.template remove<ResourceValue<T>>(entity);
        else if (auto* const there = world.template mut<ResourceValue<T>>(entity))
            there->value = *value;
        else
            world.template add<ResourceValue<T>>(entity, ResourceValue<T>{*value});
    };
    access.take = [](World& world, const void* component) {
        const T& value = static_cast<const ResourceValue<T>*>(component)->value;
        if constexpr (!is_immutable<T>)
            if (T* const there = world.resources().template mut<T>()) {
                *there = value;
                return;
            }
        world.resources().template emplace<T>(value);
    };
    access.clear = [](World& world) { world.resources().template remove<T>(); };
    access.mut = [](World& world) -> void* {
        if constexpr (is_immutable<T>)
            return nullptr; // it is made anew
        else
            return world.resources().template mut<T>();
    };
    access.make = [](World& world) -> void* { return &world.resources().template emplace<T>(); };
    return access;
}

/// How a component with functions instead of fields travels.
struct OpaqueFunctions {
    SerializeFn serialize = nullptr;
    /// Into a component made from nothing.
    DeserializeFn deserialize = nullptr;
    /// Into the component that the client has, which may keep what it holds beside. Null: as deserialize.
    DeserializeFn deserialize_in_place = nullptr;
    /// Whether the bytes can be read, without a component: for each value before anything is changed, and for values that are not
    /// applied. Says yes only if the two others do. Null: deserialize into a component that is thrown away.
    Error (*consume)(std::span<const std::byte> in) = nullptr;
};

struct DiffOptions {
    u32 history = 64; // diffs that the server keeps of a component of an entity, 1..4096; for clients that lack more it is sent whole
};
/// How a component with functions is sent as what was done to it (OpaqueBuilder::diffs).
struct DiffFunctions {
    using AnyFn = void (*)();
    u32 history = 0;              // 0: it has none
    const void* op_type = nullptr; // one address a type
    AnyFn serialize = nullptr, deserialize = nullptr, apply = nullptr; // as registered
    u32 (*write)(AnyFn serialize, const void* op, std::span<std::byte> out) = nullptr;
    Error (*apply_op)(AnyFn apply, void* component, const void* op) = nullptr;
    Error (*apply_bytes)(const DiffFunctions& diffs, void* component, std::span<const std::byte> op) = nullptr;
    bool other_type = false; // refused by finish(): `apply` is for another component
};
inline constexpr u32 diff_history_max = 4096;
namespace detail {
template <class Op>
inline constexpr char op_type = 0;
}

/// One replicated component, as registered. A type may be registered under several names, with rules that tell them apart: an entity
/// has at most one of them on the wire, and the client's component is the same.
struct ComponentInfo : FieldList {
    static constexpr u32 name_bytes_max = 48;
    static constexpr u32 rules_max = 8;
    char name[name_bytes_max] = {};
    ComponentId id = 0;
    u32 size_bytes = 0;
    i32 spatial_fields[2] = {-1, -1};     // index into fields, or -1
    ComponentId extrapolated_by = 0xffff; // component that holds the velocity, 0xffff: none
    u32 extrapolated_offsets[2] = {0, 0}; // of the velocity fields inside that component, bytes
    u32 opaque_bytes_max = 0;             // 0: columns; else opaque
    SerializeFn serialize = nullptr;
    DeserializeFn deserialize = nullptr;
    DeserializeFn deserialize_in_place = nullptr;
    Error (*consume)(std::span<const std::byte> in) = nullptr;
    DiffFunctions diffs;
    WireForm form;                         // fields are those of the type that travels
    ResourceAccess resource;               // not null: it is a resource's value
    void (*ensure_pool)(World&) = nullptr; // creates the pool, so that type-erased access works
    u32 related_fields = 0;                // bit i: field i binds entities to a cluster; bit 31: of no such field
    bool once = false;                     // later changes are not sent
    bool immutable = false;                // is_immutable: clients replace it
    Audience audience = Audience::everyone; // not part of the hash: a reader does not need it
    ComponentRule rules[rules_max] = {};
    u32 rule_count = 0; // registered; 0: all entities. finish() refuses more than rules_max
};

/// What all registrations of components can say.
template <class Builder>
class RuleBuilder {
public:
    explicit RuleBuilder(ComponentInfo* info) : info_(info) {}

    /// A rule: entities that the filter lets through have the component on the wire. Of the rules of one type the highest priority decides
    /// which registration that is, of equals the registration that came first. Without a priority it is 1 + the number of types that
    /// the filter names. Without any rule, all entities that have the component. finish() refuses two rules of one filter.
    Builder& when(const EntityFilter& filter) { return when(filter, static_cast<i32>(1 + filter.type_count)); }
    Builder& when(const EntityFilter& filter, i32 priority) {
        if (info_->rule_count < ComponentInfo::rules_max)
            info_->rules[info_->rule_count] = {filter, priority};
        ++info_->rule_count;
        return static_cast<Builder&>(*this);
    }
    /// Who sees it, of those who see the entity (throng/scopes.hpp); not for the spatial component.
    Builder& audience(Audience audience) {
        info_->audience = audience;
        return static_cast<Builder&>(*this);
    }
    /// Clients get the value that the component has at the end of the tick in which a replicated entity gets it (or the entity becomes
    /// replicated, or a rule lets it through), whenever they come; what is written later is not sent. Taking it away is, and
    /// giving it again makes a new one. References are the exception: when an entity that one names gains or loses its net id, the
    /// component is read again.
    Builder& once() {
        info_->once = true;
        return static_cast<Builder&>(*this);
    }

protected:
    ComponentInfo* info_;
};

/// Returned by Protocol::component_as; describes the fields of U, the type that travels, in wire order.
template <class U>
class ConvertedBuilder : public FieldBuilder<U, ConvertedBuilder<U>>, public RuleBuilder<ConvertedBuilder<U>> {
public:
    explicit ConvertedBuilder(ComponentInfo* info) : FieldBuilder<U, ConvertedBuilder<U>>(info), RuleBuilder<ConvertedBuilder<U>>(info) {}
};

/// Returned by Protocol::resource; describes the fields of T in wire order. By Protocol::resource_as: of the type that travels.
template <class T>
class ResourceBuilder : public FieldBuilder<T, ResourceBuilder<T>> {
public:
    explicit ResourceBuilder(ComponentInfo* info) : FieldBuilder<T, ResourceBuilder<T>>(info), info_(info) {}
    /// Clients get the value that it has at the end of the tick in which it is made, and hear of its end.
    ResourceBuilder& once() {
        info_->once = true;
        return *this;
    }
    /// Who has it: the client or the group that the resources' entity (Server::keep_resource_entity) is owned by or shared with, the
    /// same one for all resources of a world. ScopedTo and VisibleTo of that entity tell resources apart: a Scope names ResourceValue<T>.
    ResourceBuilder& audience(Audience audience) {
        info_->audience = audience;
        return *this;
    }

private:
    ComponentInfo* info_;
};

/// Returned by Protocol::opaque.
class OpaqueBuilder : public RuleBuilder<OpaqueBuilder> {
public:
    using RuleBuilder::RuleBuilder;

    /// What the server does to the component by Server::apply_diff (to a resource by apply_resource_diff) is sent as it is, an Op in the
    /// bytes of `serialize`, where that takes fewer bytes than the component, and clients do the same. Whatever else changes the
    /// component, and whoever lacks more than the server has kept, is answered with the whole component, so that clients always come
    /// to what the server has.
    ///
    /// The functions are called on both sides, from any worker; `deserialize` and `apply` must be total on a client, since the bytes
    /// come from the network. `apply` depends on component and Op alone, and returns an Error instead of a change. Both sides make
    /// components from nothing, apply Ops and serialize them, so all that Ops depend on must be in the bytes of the component. Not for
    /// immutable components, nor for those sent once. An Op that takes more bytes than the component is sent as the component.
    template <class T, class Op>
    OpaqueBuilder& diffs(u32 (*serialize)(const Op& op, std::span<std::byte> out),
                         Error (*deserialize)(Op& op, std::span<const std::byte> in), Error (*apply)(T& component, const Op& op),
                         const DiffOptions& options = {}) {
        static_assert(std::is_default_constructible_v<Op>, "clients make what they read from nothing");
        using Any = DiffFunctions::AnyFn;
        DiffFunctions& d = info_->diffs;
        d.history = options.history >= 1 && options.history <= diff_history_max ? options.history : diff_history_max + 1;
        d.op_type = &detail::op_type<Op>;
        d.serialize = reinterpret_cast<Any>(serialize);
        d.deserialize = reinterpret_cast<Any>(deserialize);
        d.apply = reinterpret_cast<Any>(apply);
        d.write = [](Any fn, const void* op, std::span<std::byte> out) {
            return reinterpret_cast<u32 (*)(const Op&, std::span<std::byte>)>(fn)(*static_cast<const Op*>(op), out);
        };
        d.apply_op = [](Any fn, void* component, const void* op) {
            return reinterpret_cast<Error (*)(T&, const Op&)>(fn)(*static_cast<T*>(component), *static_cast<const Op*>(op));
        };
        d.apply_bytes = [](const DiffFunctions& self, void* component, std::span<const std::byte> in) {
            Op op{};
            const Error error = reinterpret_cast<Error (*)(Op&, std::span<const std::byte>)>(self.deserialize)(op, in);
            return error != Error::none ? error : self.apply_op(self.apply, component, &op);
        };
        d.other_type = info_->id != (info_->resource.version ? component_id<ResourceValue<T>>() : component_id<T>());
        return *this;
    }
};

} // namespace throng
