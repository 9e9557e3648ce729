// Every ordered pair of what may become of an entity, in one tick; the clients' worlds are then compared with the server's.
#include "tests/conformance/state_support.hpp"
#include <cmath>
#include <optional>
#include <set>
#include <tuple>

using namespace throng;
using namespace conformance::state;

namespace {
/// One client has a list of what is hidden from it, the other of what it is shown. The test keeps both lists itself.
struct Matrix {
    static constexpr int lists = 2;
    StateNet net;
    /// An entity as it looks: its number, place and speed, to wire precision.
    using Look = std::tuple<int, long, long, long>;
    struct Subject {
        Entity entity;
        bool ended = false;                    // in this tick, by end_replication
        bool left = false;                     // it was destroyed while it was paused
        std::optional<Look> looks[lists] = {}; // on the clients, since the last tick at which it was replicated
    };
    StateNet::Peer* peers[lists];
    std::set<u64> listed[lists]; // entity ids: hidden from the first client, shown to the second
    std::vector<Subject> made;
    int serial = 0;

    Matrix() {
        for (auto*& peer : peers) {
            peer = &net.join();
            net.server.view(peer->id).look_at(0, 0, {.radius = 400});
        }
        net.server.view(peers[1]->id).hide_all();
        Entity bystander; // in the same chunk
        spawn(bystander);
        set_hidden(bystander, false);
    }

    void spawn(Entity& e) {
        e = net.world.spawn(Place{10, 10}, Health{++serial, false}, Replicated{});
        made.push_back({e});
    }
    void destroy(Entity e) {
        subject(e).left |= net.world.alive(e) && !net.world.has<Replicated>(e);
        net.world.destroy(e);
    }
    void end(Entity e) {
        subject(e).ended = true;
        (void)net.server.end_replication(e);
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
            *place = {x, 10};
    }

    static Look look(const World& world, Entity e) {
        const auto steps = [](float value) { return std::lround(double(value) * 100); };
        const Health* health = world.get<Health>(e);
        const Place* place = world.get<Place>(e);
        const Speed* speed = world.get<Speed>(e);
        return {health ? health->hp : -1, place ? steps(place->x) : -1, place ? steps(place->z) : -1, speed ? steps(speed->x) : -1};
    }
    /// The world is now as a tick will find it. Clients must show what is alive, replicated, near, and allowed by their list; what is
    /// paused stays as it was, and so does what was destroyed then.
    void note() {
        for (Subject& one : made) {
            const Entity e = one.entity;
            const bool alive = net.world.alive(e), replicated = alive && net.world.has<Replicated>(e);
            for (int list = 0; list < lists; ++list) {
                auto& there = one.looks[list];
                if (one.ended || (!alive && !one.left))
                    there.reset();
                if (!replicated)
                    continue;
                there.reset();
                if (std::fabs(net.world.get<Place>(e)->x) < 340 && listed[list].contains(e.entity_id) == (list == 1))
                    there = look(net.world, e);
            }
            one.ended = false;
        }
    }
    std::vector<Look> expected(int list) const {
        std::vector<Look> out;
        for (const Subject& one : made)
            if (one.looks[list])
                out.push_back(*one.looks[list]);
        std::sort(out.begin(), out.end());
        return out;
    }
    std::vector<Look> shown(int list) const {
        std::vector<Look> out;
        peers[list]->world->each<Health>([&](Entity e, const Health&) { out.push_back(look(*peers[list]->world, e)); });
        std::sort(out.begin(), out.end());
        return out;
    }
    /// Both clients show what they must, and no entity besides.
    bool right() const {
        for (int list = 0; list < lists; ++list)
            if (const auto looks = expected(list); shown(list) != looks || peers[list]->world->entity_count() != looks.size())
                return false;
        return true;
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
     }},
    {"hide", [](Matrix& m, Entity& e) { m.set_hidden(e, true); }},
    {"show", [](Matrix& m, Entity& e) { m.set_hidden(e, false); }},
    {"move", [](Matrix& m, Entity& e) { m.place(e, 150); }},  // another chunk
    {"leave", [](Matrix& m, Entity& e) { m.place(e, 900); }}, // out of sight
    {"pause", [](Matrix& m, Entity& e) { m.net.world.remove<Replicated>(e); }},
    {"resume", [](Matrix& m, Entity& e) { m.net.world.add<Replicated>(e); }},
    {"end", [](Matrix& m, Entity& e) { m.end(e); }}, // clients lose it, and the server keeps it
};

/// When the start was: in the tick of the spawn, which has just been sent, or is settled; or later, and has just been sent.
enum class Begin { sent, settled, later };

/// Each start with each pair of operations in one tick, on one entity or the second on its neighbour.
void run_matrix(bool two_entities, Begin begin) {
    for (const Operation& start : operations) {
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
                    m.net.settle();
                }
                for (Entity* e : {&subject, &neighbour})
                    start.run(m, *e);
                m.note();
                if (begin == Begin::settled)
                    m.net.settle();
                else
                    m.net.step();
                first.run(m, subject);
                second.run(m, two_entities ? neighbour : subject);
                m.note();
                m.net.settle();
                CHECK_MESSAGE(m.right(), start.name << ", then " << first.name << " and " << second.name);
                for (std::size_t i = 1; i < m.made.size(); ++i) {
                    m.end(m.made[i].entity); // of what was left behind, too
                    m.net.world.destroy(m.made[i].entity);
                }
                m.made.erase(m.made.begin() + 1, m.made.end());
            }
        m.net.settle();
        CHECK(m.right());
        CHECK(m.peers[0]->world->entity_count() == 1);
    }
}
} // namespace

TEST_CASE("matrix/pairs_on_one_entity") {
    for (const Begin begin : {Begin::sent, Begin::settled, Begin::later})
        run_matrix(false, begin);
}

TEST_CASE("matrix/pairs_on_two_entities_of_a_chunk") {
    for (const Begin begin : {Begin::settled, Begin::later})
        run_matrix(true, begin);
}
