#pragma once
// How often things happen that a seed may do and may leave out: over many seeds each must.
#include "throng/base.hpp"

namespace throng_sim {

enum class Happening : throng::u8 {
    letter_to_clients, // arrived
    letter_to_server,
    letter_about_ended, // to those who saw what has ended
    letter_to_unjoined, // an independent one
    letter_too_large,
    letter_that_waited, // for its entities, its tick, or those before it
    letter_dropped,     // for having waited too long, or at a limit
    letter_unseen,      // dropped by the server: its sender does not see what it names
    letter_backlogged,
    letter_stayed,  // in its process
    diff_alone,     // in single player
    client_cut_off, // its backlog was too large
    client_ended,   // an entity that it was shown
    ended_came_back,
    badge_replaced,
    client_dismissed, // disconnected after a flush
    ticket_read,      // of a hello
    required_added,   // a component that a client's rules ask for
    bundle_shown,     // by a client, both of its components
    parent_shown,     // by a client, of an entity that it shows
    parent_ended,     // with its children
    component_held,   // by clients, as a report of it says
    component_bytes,  // of an opaque one, the same
    component_hidden, // from a client that sees its entity
    count
};
inline constexpr throng::u32 happening_count = static_cast<throng::u32>(Happening::count);
inline constexpr const char* happening_names[happening_count] = {"letters to clients",
                                                                 "letters to the server",
                                                                 "letters about what has ended",
                                                                 "letters to clients that have not joined",
                                                                 "letters that are too large",
                                                                 "letters that waited",
                                                                 "letters dropped after waiting",
                                                                 "letters dropped for what they name",
                                                                 "letters backlogged",
                                                                 "letters that stayed in their process",
                                                                 "diffs in single player",
                                                                 "clients cut off",
                                                                 "entities ended by clients",
                                                                 "of them came back",
                                                                 "immutable components replaced",
                                                                 "clients dismissed",
                                                                 "tickets read",
                                                                 "required components",
                                                                 "bundles shown",
                                                                 "parents shown",
                                                                 "parents ended with their children",
                                                                 "components held in reports",
                                                                 "opaque bytes in reports",
                                                                 "components hidden"};

struct Tally {
    throng::u64 of[happening_count] = {};
    void add(Happening what, throng::u64 times = 1) { of[static_cast<throng::u32>(what)] += times; }
    Tally& operator+=(const Tally& other) {
        for (throng::u32 i = 0; i < happening_count; ++i)
            of[i] += other.of[i];
        return *this;
    }
};

} // namespace throng_sim
