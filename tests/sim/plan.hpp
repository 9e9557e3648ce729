#pragma once
// What one seed does: limits, rates and faults. Swarm testing: each seed leaves out some kinds of action altogether, since faults often
// need the absence of something, and draws all rates of its own.
#include "tests/sim/builds.hpp"
#include "tests/sim/random.hpp"
#include "throng/client.hpp"
#include "throng/loopback.hpp"
#include "throng/server.hpp"

namespace throng_sim {

enum class Action : throng::u8 {
    spawn,
    despawn,
    respawn, // despawn and spawn in one tick: the lane is used again
    insert,
    remove,
    reinsert, // in one tick
    change,
    teleport,
    link,
    note,
    note_large,
    replicate,   // Replicated on an entity that lacks it
    unreplicate, // end_replication
    rereplicate, // and Replicated, in one tick
    out_of_map,
    hide,
    show,
    look, // a view goes elsewhere
    follow,
    radius,
    join,
    leave,
    kick,   // the server closes
    relink, // other faults
    count
};
inline constexpr throng::u32 action_count = static_cast<throng::u32>(Action::count);
const char* to_string(Action action);

struct Plan {
    explicit Plan(throng::u64 seed);
    /// A link with this seed's kinds of faults; a dirty one damages frames, others never do in a raw network.
    throng::LinkConfig faulty_link(Random& random, bool dirty) const;
    /// Whether the client with that name has the other build.
    bool is_other(throng::u32 name) const { return mixed && Random(seed * 29 + name).chance(other_share); }

    throng::u64 seed;
    throng::ServerConfig server;
    throng::ClientConfig client;
    throng::LoopbackConfig network;
    double weights[action_count] = {}; // 0: this seed never does it
    double weight_sum = 0;
    throng::u32 actions_a_tick = 4; // at most
    throng::u32 clients_max = 4;
    throng::u32 entities_first = 60;
    throng::u32 entities_max = 200;
    double replicated_share = 0.9; // of spawns
    double spread = 80;            // entities are born within this of the middle
    double moving_share = 0.3;     // of entities that move on their own
    bool oscillates = false;       // some cross a cell border and come back
    throng::u32 batch_max = 8;     // of hide, show, change
    double rule_chance = 0;        // a tick: a VisibleTo is set, changed or taken away, or a client's layers change
    double filter_chance = 0;      // for each of 4 times a tick: something that filters of views look at changes
    double lasting_chance = 0;     // a tick: an entity becomes Lasting, or is so no longer
    double pause_chance = 0;       // a tick: some entities are paused or go on
    bool heals_paused = false;     // those that are paused at the end of the faults stay so
    double listing_chance = 0;     // a tick: a client's list of entities begins anew, of hidden or of shown ones
    bool multiplexed = false;      // the world is one of several over the connections; the others are not open
    bool second_world = false;     // one of them is open, and has clients of its own
    bool userdata = false;         // each tick has its own
    bool asks_host = false;        // clients join by the host's verdict, at once or later
    double scope_chance = 0;       // a tick: who sees which components of an entity
    double priority_chance = 0;    // a tick: how often an entity is sent changes, to all or to one client
    double ruled_chance = 0;       // for each of 8 times a tick: something that the rules of components look at changes
    double bundle_chance = 0;      // for each of 4 times a tick: parts of a bundle change
    double family_chance = 0;      // for each of 2 times a tick: an entity gets a parent, or loses it
    double diff_chance = 0;        // for each of 8 times a tick: diffs are done to an entity, or something beside them
    double client_end_chance = 0;  // a tick, for each client: it destroys an entity that it was shown
    bool reshows_ended = false;    // after the faults such entities are hidden and shown again; or else the server ends them
    double badge_chance = 0;       // a tick: an immutable component is given, replaced or taken
    double dismiss_chance = 0;     // a tick: a client is disconnected after a flush
    bool says_ticket = false;      // clients say something in their hellos
    bool requires_more = false;    // some clients' rules ask for further components
    double letter_chance = 0;      // a tick: typed messages are sent
    bool messengers = false;       // letters go through Messengers: the server is a listen server, and somebody plays alone
    bool letters_pile_up = false;  // limits of what waits to be sent are small
    double bond_chance = 0;        // a tick: an entity is bound to another one, or freed
    double signature_chance = 0;   // a tick: entities with signatures are made by the server, by clients, or by both
    bool scenes = false;           // at the end worlds are saved as scenes, and loaded
    bool mixed = false;            // the server and some of the clients have builds that differ
    Build server_build, other_build;
    double other_share = 0; // of clients
    // faults
    double loss_percent = 0, burst_percent = 0, reorder_percent = 0, duplicate_percent = 0, truncate_percent = 0;
    throng::u32 delay_us_max = 0, jitter_us_max = 0;
    bool rate_limits = false, blackouts = false;
    // Outsiders: clients that are not meant to end up right. They leave before the healing; the others must not notice them.
    double dirty_share = 0;     // of clients: their links are raw and damage what they carry
    double corrupt_percent = 0; // on those
    double limited_share = 0;   // of clients: they get `limited`
    throng::ClientConfig limited;
};

/// Sets builds that differ.
void mix_builds(Plan& plan);

} // namespace throng_sim
