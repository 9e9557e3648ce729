#pragma once
// Which clients see which components of an entity that they see: by who owns it, by groups and by layers. Who sees the entity at all is
// said by throng/visibility.hpp and by views. What a client does not see of an entity is absent there, as if the server's entity did not
// have it: it is not sent, not told of, and taken away when it is hidden, unless the scope has another Lifetime. Exact, from the next tick
// on. Of all this, only which components a client keeps is sent.
//
//     protocol.component<Inventory>("inventory").field(&Inventory::gold).audience(throng::Audience::owner);
//     world.add<OwnedBy>(avatar, {client});
//     world.add<ScopedTo>(avatar, {Scope::of<Health, Mana>(), {.any_of = red_team}});
//
// Change these components through marking accessors (mut, add, each_mut).
#include "throng/array.hpp"
#include "throng/assert.hpp"
#include "throng/entity.hpp"
#include "throng/signature.hpp"
#include "throng/visibility.hpp"

namespace throng {

/// Component of a replicated entity: the client that owns it, for Audience::owner and Audience::others. Holds for this connection of the
/// client: who connects later, and gets its id, does not own the entity. Give it while the client is connected; without it, or with an id
/// that was nobody's, nobody is the owner.
struct OwnedBy {
    ClientId client = 0;
    friend constexpr bool operator==(const OwnedBy&, const OwnedBy&) = default;
};

/// Component of a replicated entity: the group (Server::make_group) that sees its components of Audience::group. A group that is dropped
/// has no members; its id may be given to the next group.
struct SharedWith {
    GroupId group = 0;
    friend constexpr bool operator==(const SharedWith&, const SharedWith&) = default;
};

/// A set of component types.
class Scope {
public:
    constexpr Scope() = default;
    template <class... Ts>
    static Scope of() {
        Scope scope;
        (scope.listed_.set(component_id<Ts>()), ...);
        return scope;
    }
    /// All components of the protocol but these.
    template <class... Ts>
    static Scope all_except() {
        Scope scope = of<Ts...>();
        scope.except_ = true;
        return scope;
    }
    constexpr bool has(ComponentId component) const { return (component < default_max_components && listed_.test(component)) != except_; }
    friend constexpr bool operator==(const Scope&, const Scope&) = default;

private:
    Signature<default_max_components> listed_;
    bool except_ = false;
};

/// What becomes of a component at a client from which a scope hides it. Of several scopes that do, the shortest counts; what an Audience
/// hides is while_visible.
enum class Lifetime : u8 {
    while_visible, // it goes
    after_first,   // it stays, if the client has it, as it was, and hears of nothing: neither of changes nor of its end
    always         // the same, and an entity that comes to the client brings it along, hidden or not, as it is then
};

/// Component of a replicated entity: the layers (View::set_layers) on which a client sees its components of a scope. A component in several
/// scopes is seen where each of them lets it be; one in none is not affected. Lasting is seen always. Once a client may see what it kept
/// again, it has what the entity has: the present value, or nothing. An entity that goes to another cell of the map comes to the client
/// anew: of `always` it brings the value of then, of `after_first` what the client still has of it, nothing if that was lost on the way.
class ScopedTo {
public:
    static constexpr u32 scopes_max = 64; // the first few take no memory of their own
    struct Rule {
        Scope scope;
        VisibleTo to;
        Lifetime lifetime = Lifetime::while_visible;
        friend constexpr bool operator==(const Rule&, const Rule&) = default;
    };

    ScopedTo() = default;
    ScopedTo(const Scope& scope, const VisibleTo& to, Lifetime lifetime = Lifetime::while_visible) { also(scope, to, lifetime); }
    ScopedTo(const ScopedTo& other) { copy(other); }
    ScopedTo(ScopedTo&&) noexcept = default;
    ScopedTo& operator=(const ScopedTo& other) {
        if (this != &other)
            copy(other);
        return *this;
    }
    ScopedTo& operator=(ScopedTo&&) noexcept = default;

    /// One more scope. Beyond scopes_max it asserts; without asserts the last scope is then one of all components, that nobody sees: what
    /// cannot be kept must not show what it was to hide.
    ScopedTo& also(const Scope& scope, const VisibleTo& to, Lifetime lifetime = Lifetime::while_visible) {
        THRONG_ASSERT(count() < scopes_max);
        if (count() >= scopes_max)
            more_.back() = {Scope::all_except(), {.all_of = 1, .none_of = 1}, Lifetime::while_visible};
        else if (first_count_ < few)
            first_[first_count_++] = {scope, to, lifetime};
        else
            more_.push_back({scope, to, lifetime});
        return *this;
    }
    /// How many there are, and each of them in order.
    u32 count() const { return first_count_ + more_.size(); }
    const Rule& rule(u32 i) const { return i < few ? first_[i] : more_[i - few]; }

private:
    static constexpr u32 few = 4;
    void copy(const ScopedTo& other) {
        more_.clear();
        more_.append(other.more_.data(), other.more_.size());
        for (u32 i = 0; i < few; ++i)
            first_[i] = other.first_[i];
        first_count_ = other.first_count_;
    }
    Rule first_[few];
    u32 first_count_ = 0;
    Array<Rule> more_;
};

} // namespace throng
