#pragma once
// An independent check that a client shows what it should: the client's World is compared, component by component, with the
// server's World as filtered by what that client may see. The wire's quantisers are written anew here, in plain double
// arithmetic, from the words of throng/protocol.hpp; the rings, mirrors and masks of the library are never looked at.
// Tests, the bench and the demo all use it.
#include "throng/client.hpp"
#include "throng/server.hpp"
#include <string>
#include <vector>

namespace throng_verify {

enum class Kind : throng::u8 {
    none,
    value,     // a field, or the bytes of an opaque component
    ghost,     // the client shows what it must not, or what nobody sent
    missing,   // the client lacks an entity
    reference, // a reference names the wrong entity, or none
    component, // a component is there and should not be, or the other way round
    stale,     // any of these, on a client that has not heard all yet
    promise,   // the visibility promise: something near is not visible, or something far is
};
const char* to_string(Kind kind);

struct Difference {
    Kind kind = Kind::none;
    std::string text; // one line: entity, component, field, both values
    explicit operator bool() const { return kind != Kind::none; }
};

/// Compares clients with one server. Keep one for many clients: it holds scratch of the size of the server's world. The
/// server's world must not have changed since Server::tick. One thread at a time.
class Verifier {
public:
    /// Where chunks_max is small: entities without a net id are replicated to nobody, whatever their place.
    bool unhoused_allowed = false;
    /// Where lasting_max is small: Lasting entities may be shown to nobody.
    bool lasting_refused_allowed = false;
    /// Clients destroy entities themselves: what named one keeps its dead handle where it would be null.
    bool dead_references_allowed = false;
    /// Filters of the server, which keep the entity from the client; null: there are none.
    bool (*filtered)(const void* context, throng::ClientId client, throng::Entity entity) = nullptr;
    const void* filter_context = nullptr;
    /// Of entities that were destroyed while they were paused: clients may have them, as they were.
    std::vector<throng::NetId> left_behind;

    Verifier(const throng::Protocol& protocol, const throng::World& server_world, throng::Server& server);

    /// The first difference, or none: in order of the server's slots, then of components and fields; ghosts come last, in
    /// order of the client's slots. `still_since`: the server's world has not changed after this tick. A difference on a client
    /// that is not yet known to hold all of that tick (Client::settled_tick) is called stale; it hears of it by a heartbeat at the
    /// latest, so let heartbeat_ticks and a round trip pass before. Cost: about a microsecond per
    /// visible entity.
    Difference check(throng::ClientId client, const throng::World& client_world, const throng::Client& client_half,
                     throng::Tick still_since);

    /// The promise of visibility for a view at (a, b): everything replicated within 0.85 radius is visible, unless hidden, or not
    /// allowed by VisibleTo or by `filtered`, and then never (but once, if it is Lasting from the start); nothing beyond 1.2 radius is;
    /// what has no place is visible. Of what is visible, the components are those that audiences and ScopedTo leave. Looks at every
    /// replicated entity.
    Difference check_promise(throng::ClientId client, double a, double b, double radius);

    /// Entities compared, and fields, since the verifier was made: a check that compared nothing proves nothing.
    throng::u64 entities_compared() const { return entities_compared_; }
    throng::u64 fields_compared() const { return fields_compared_; }

private:
    struct Pair; // one entity on both sides
    void collect_visible(throng::ClientId client);
    bool is_visible(throng::Entity entity) const;
    bool any_scopes() const;
    /// `kept`: it is hidden, but the client may have what it had of it; `brought`: also what the entity brought along.
    enum class Sight : throng::u8 { hidden, kept, brought, seen };
    Sight sight(throng::ClientId client, throng::Entity entity, const throng::ComponentInfo& info) const;
    bool is_remembered(throng::NetId id, const throng::World& client_world, throng::Entity shown) const;
    bool is_left_behind(throng::NetId id) const;
    Difference first_difference(throng::ClientId client, const throng::World& client_world, const throng::Client& client_half);
    Difference compare_entity(const Pair& pair);
    const throng::ComponentInfo* on_wire(throng::u32 component, throng::Entity entity) const;
    Difference compare_field(const Pair& pair, const throng::ComponentInfo& info, throng::u32 field, const std::byte* server_row,
                             const std::byte* client_row);
    Difference compare_reference(const Pair& pair, const throng::ComponentInfo& info, throng::u32 field, throng::Entity server_target,
                                 throng::Entity client_target);
    Difference compare_opaque(const Pair& pair, const throng::ComponentInfo& info, const void* server_row, const void* client_row);
    Difference find_ghost(const throng::World& client_world, const throng::Client& client_half);

    const throng::Protocol& protocol_;
    const throng::World& world_;
    throng::Server& server_;
    bool audiences_ = false; // a component has one
    std::vector<throng::u64> visible_mark_; // by server entity_idx: serial of the client that sees it
    std::vector<throng::Entity> visible_;
    std::vector<throng::NetId> visible_ids_; // sorted
    throng::u64 serial_ = 0;
    std::vector<std::byte> server_bytes_, client_bytes_;
    throng::u64 entities_compared_ = 0, fields_compared_ = 0;
};

/// Damages a client's world so that a check must fail with the same name: value, ghost, missing or reference. (stale needs no
/// damage: let the client receive nothing from some tick on, while the world still changes.) False: nothing is there to damage.
bool sabotage(Kind kind, const throng::Protocol& protocol, throng::World& client_world, const throng::Client& client_half);

/// The kind that `name` names, for --sabotage; none if it is not one of value, ghost, missing, reference, stale.
Kind sabotage_kind(const char* name);

} // namespace throng_verify
