// Every ordered pair of what may become of an entity, in one tick; the clients' worlds are then compared with the server's.
#include "tests/conformance/state_support.hpp"
#include <cmath>
#include <map>
#include <optional>
#include <set>

using namespace throng;
using namespace conformance::state;

namespace {
struct Purse { // its owner's
    int gold = 0;
};
std::unique_ptr<Protocol> make_matrix_protocol() {
    auto protocol = std::make_unique<Protocol>();
    const Range map{-1000, 1000, 0.01}, step{-20, 20, 0.01};
    protocol->component<Place>("place").field(&Place::x, map).field(&Place::z, map).spatial(&Place::x, &Place::z);
    protocol->component<Health>("health").field(&Health::hp).field(&Health::angry);
    protocol->component<Speed>("speed").field(&Speed::x, step).field(&Speed::z, step);
    protocol->component<Purse>("purse").field(&Purse::gold).audience(Audience::owner);
    protocol->component<Lasting>("lasting");
    if (protocol->finish() != Error::none)
        throw std::runtime_error(protocol->problem());
    return protocol;
}

/// One client has a list of what is hidden from it, the other of what it is shown. The test keeps both lists itself. The first client owns
/// what is owned, the second is on the layer that VisibleTo and scopes ask for.
struct Matrix {
    static constexpr int lists = 2;
    static constexpr u64 layer = 2;
    StateNet net{{.heartbeat_ticks = 0}, {}, make_matrix_protocol()};
    /// What a client shows of an entity, to wire precision; -1: it does not have that.
    struct Look {
        int hp = -1, gold = -1;
        long x = -1, speed = -1;
        bool lasting = false;
        friend bool operator==(const Look&, const Look&) = default;
    };
    using Seen = std::optional<Look>; // nothing: the entity is not there
    struct Subject {
        Entity entity;
        long id = 0;          // its z, which never changes
        bool ended = false;   // in this tick, by end_replication
        bool left = false;    // it was destroyed while it was paused
        bool renewed = false; // given Lasting, or not any more: another entity for clients, once it is replicated
        // By client: what it may show. While it sees the entity, the last one, once that has arrived; of a Lasting entity that it does not
        // see any more, one of all that were on the way.
        std::vector<Seen> may[lists] = {{Seen()}, {Seen()}};
        bool sees[lists] = {}; // at the last tick at which it was replicated
    };
    StateNet::Peer* peers[lists];
    std::set<u64> listed[lists]; // entity ids: hidden from the first client, shown to the second
    std::vector<Subject> made;
    int serial = 0;
    long ids = 0;

    Matrix() {
        for (auto*& peer : peers) {
            peer = &net.join();
            net.server.view(peer->id).look_at(0, 0, {.radius = 400});
        }
        net.server.view(peers[0]->id).set_layers(1);
        net.server.view(peers[1]->id).set_layers(1 | layer);
        net.server.view(peers[1]->id).hide_all();
        Entity bystander; // in the same chunk
        spawn(bystander);
        set_hidden(bystander, false);
    }

    void spawn(Entity& e) {
        const long id = 1000 + ++ids % 4000;
        ++serial;
        e = net.world.spawn(Place{10, float(id) * 0.01f}, Health{serial, false}, Purse{serial}, Replicated{});
        made.push_back({e, id});
    }
    void destroy(Entity e) {
        subject(e).left |= net.world.alive(e) && !net.world.has<Replicated>(e);
        net.world.destroy(e);
    }
    void end(Entity e) {
        subject(e).ended = true;
        (void)net.server.end_replication(e);
    }
    void set_lasting(Entity e, bool lasting) {
        if (net.world.alive(e) && net.world.has<Lasting>(e) != lasting) {
            subject(e).renewed = true;
            lasting ? void(net.world.add<Lasting>(e)) : void(net.world.remove<Lasting>(e));
        }
    }
    Subject& subject(Entity e) {
        return *std::find_if(made.begin(), made.end(), [&](const Subject& one) { return one.entity == e; });
    }
    void set_hidden(Entity e, bool hidden) {
        for (int list = 0; list < lists; ++list) {
            View view = net.server.view(peers[list]->id);
            if (hidden)
                view.hide(e);
            else
                view.show(e);
            if (hidden == (list == 0))
                listed[list].insert(e.entity_id);
            else
                listed[list].erase(e.entity_id);
        }
    }
    void place(Entity e, float x) {
        if (Place* place = net.world.mut<Place>(e))
            place->x = x;
    }

    static long steps(float value) { return std::lround(double(value) * 100); }
    static Look look(const World& world, Entity e) {
        const Health* const health = world.get<Health>(e);
        const Purse* const purse = world.get<Purse>(e);
        const Speed* const speed = world.get<Speed>(e);
        return {health ? health->hp : -1, purse ? purse->gold : -1, steps(world.get<Place>(e)->x), speed ? steps(speed->x) : -1,
                world.has<Lasting>(e)};
    }
    /// Of what the server has, what the client may see.
    Look look(Entity e, int list) const {
        Look out = look(net.world, e);
        if (net.world.has<ScopedTo>(e) && list == 0)
            out.hp = -1;
        if (!net.world.has<OwnedBy>(e) || list != 0)
            out.gold = -1;
        return out;
    }
    bool allowed(Entity e, int list) const {
        return std::fabs(net.world.get<Place>(e)->x) < 340 && listed[list].contains(e.entity_id) == (list == 1) &&
               (list == 1 || !net.world.has<VisibleTo>(e));
    }
    /// The world is now as a tick will find it. Clients must show what is alive, replicated, near, and allowed by their list and layers;
    /// what is paused stays as it was, and so does what was destroyed then; what is Lasting stays as it was seen last.
    void note() {
        for (Subject& one : made) {
            const Entity e = one.entity;
            const bool alive = net.world.alive(e), replicated = alive && net.world.has<Replicated>(e);
            for (int list = 0; list < lists; ++list) {
                if (one.ended || (!alive && !one.left)) {
                    one.may[list] = {Seen()};
                    one.sees[list] = false;
                }
                if (!replicated)
                    continue;
                one.sees[list] = allowed(e, list);
                if (one.renewed || !(one.sees[list] || net.world.has<Lasting>(e)))
                    one.may[list] = {Seen()};
                if (one.sees[list])
                    one.may[list].push_back(look(e, list));
            }
            one.ended = false;
            one.renewed &= !replicated;
        }
    }
    /// Everything has arrived.
    void settle() {
        net.settle();
        for (Subject& one : made)
            for (int list = 0; list < lists; ++list)
                if (one.sees[list])
                    one.may[list] = {one.may[list].back()};
    }
    static std::string text(const Seen& seen) {
        if (!seen)
            return "nothing";
        std::string out;
        for (const long value : {long(seen->hp), long(seen->gold), seen->x, seen->speed, long(seen->lasting)})
            out.append(std::to_string(value)).append(" ");
        return out;
    }
    /// Empty if both clients show what they may, and no entity besides. After settle.
    std::string wrong() {
        for (int list = 0; list < lists; ++list) {
            const World& there = *peers[list]->world;
            const std::string who = std::string("client ").append(std::to_string(list));
            std::map<long, Look> shown;
            there.each<Place>([&](Entity e, const Place& place) { shown.emplace(steps(place.z), look(there, e)); });
            if (shown.size() != there.entity_count())
                return who + " shows an entity twice, or one without a place";
            for (Subject& one : made) {
                const auto it = shown.find(one.id);
                const Seen now = it == shown.end() ? Seen() : Seen(it->second);
                if (std::find(one.may[list].begin(), one.may[list].end(), now) == one.may[list].end())
                    return who + " shows " + text(now) + ", and not " + text(one.may[list].back());
                one.may[list] = {now}; // and that it shows from now on
                shown.erase(one.id);
            }
            if (!shown.empty())
                return who + " shows another entity";
        }
        return {};
    }
};

struct Operation {
    const char* name;
    void (*run)(Matrix& m, Entity& e); // of a dead entity: nothing, or to no effect
};
constexpr Operation operations[] = {
    {"spawn", [](Matrix& m, Entity& e) { m.spawn(e); }}, // another one, which is then meant; the first lives on
    {"despawn", [](Matrix& m, Entity& e) { m.destroy(e); }},
    {"insert",
     [](Matrix& m, Entity& e) {
         m.net.world.add<Speed>(e, Speed{float(++m.serial % 1000) * 0.01f, 0});
     }},
    {"remove", [](Matrix& m, Entity& e) { m.net.world.remove<Speed>(e); }},
    {"mutate",
     [](Matrix& m, Entity& e) {
         if (Health* health = m.net.world.mut<Health>(e))
             health->hp = ++m.serial;
         if (Purse* purse = m.net.world.mut<Purse>(e))
             purse->gold = m.serial;
     }},
    {"hide", [](Matrix& m, Entity& e) { m.set_hidden(e, true); }},
    {"show", [](Matrix& m, Entity& e) { m.set_hidden(e, false); }},
    {"move", [](Matrix& m, Entity& e) { m.place(e, 150); }},  // another chunk
    {"leave", [](Matrix& m, Entity& e) { m.place(e, 900); }}, // out of sight
    {"pause", [](Matrix& m, Entity& e) { m.net.world.remove<Replicated>(e); }},
    {"resume", [](Matrix& m, Entity& e) { m.net.world.add<Replicated>(e); }},
    {"end", [](Matrix& m, Entity& e) { m.end(e); }}, // clients lose it, and the server keeps it
    {"scope",                                        // one client does not see its Health
     [](Matrix& m, Entity& e) { m.net.world.set(e, ScopedTo(Scope::of<Health>(), {.any_of = Matrix::layer})); }},
    {"unscope", [](Matrix& m, Entity& e) { m.net.world.remove<ScopedTo>(e); }},
    {"own", [](Matrix& m, Entity& e) { m.net.world.set(e, OwnedBy{m.peers[0]->id}); }}, // one client sees its Purse
    {"disown", [](Matrix& m, Entity& e) { m.net.world.remove<OwnedBy>(e); }},
    {"restrict", [](Matrix& m, Entity& e) { m.net.world.set(e, VisibleTo{.any_of = Matrix::layer}); }}, // one client does not see it
    {"allow", [](Matrix& m, Entity& e) { m.net.world.remove<VisibleTo>(e); }},
    {"last", [](Matrix& m, Entity& e) { m.set_lasting(e, true); }}, // it stays when it is out of sight
    {"pass", [](Matrix& m, Entity& e) { m.set_lasting(e, false); }},
};

/// When the start was: in the tick of the spawn, which has just been sent, or is settled; or later, and has just been sent.
enum class Begin { sent, settled, later };

/// Each start with each pair of operations in one tick, on one entity or the second on its neighbour. With several workers, which take
/// long to wake for so little, each start has one of the beginnings.
void run_matrix(bool two_entities, Begin begin) {
    for (const Operation& start : operations) {
        if (conformance::setting().workers > 1 && (&start - operations) % 3 != static_cast<int>(begin))
            continue;
        Matrix m;
        for (const Operation& first : operations)
            for (const Operation& second : operations) {
                Entity subject, neighbour;
                for (Entity* e : {&subject, &neighbour}) {
                    m.spawn(*e);
                    m.set_hidden(*e, false);
                }
                if (begin == Begin::later) {
                    m.note();
                    m.settle();
                }
                for (Entity* e : {&subject, &neighbour})
                    start.run(m, *e);
                m.note();
                if (begin == Begin::settled)
                    m.settle();
                else
                    m.net.step();
                first.run(m, subject);
                second.run(m, two_entities ? neighbour : subject);
                m.note();
                m.settle();
                const std::string wrong = m.wrong(), names = std::string(start.name) + ", " + first.name + ", " + second.name;
                CHECK_MESSAGE(wrong.empty(), (names + ": " + wrong));
                for (std::size_t i = 1; i < m.made.size(); ++i) {
                    m.end(m.made[i].entity); // of what was left behind, too
                    m.net.world.destroy(m.made[i].entity);
                }
                m.made.erase(m.made.begin() + 1, m.made.end());
            }
        m.settle();
        CHECK(m.wrong().empty());
        CHECK(m.peers[0]->world->entity_count() == 1);
    }
}
} // namespace

TEST_CASE("matrix/pairs_on_one_entity") {
    for (const Begin begin : {Begin::sent, Begin::settled, Begin::later})
        run_matrix(false, begin);
}

TEST_CASE("matrix/pairs_on_two_entities_of_a_chunk") {
    for (const Begin begin : {Begin::sent, Begin::settled, Begin::later})
        run_matrix(true, begin);
}
