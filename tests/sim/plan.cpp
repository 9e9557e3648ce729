#include "tests/sim/plan.hpp"

using namespace throng;

namespace throng_sim {

const char* to_string(Action action) {
    constexpr const char* names[action_count] = {"spawn",       "despawn",     "respawn",    "insert", "remove",     "reinsert",
                                                 "change",      "teleport",    "link",       "note",   "note_large", "replicate",
                                                 "unreplicate", "rereplicate", "out_of_map", "hide",   "show",       "look",
                                                 "follow",      "radius",      "join",       "leave",  "kick",       "relink"};
    return names[static_cast<u32>(action)];
}

Plan::Plan(u64 s) : seed(s) {
    Random random(s ^ 0x5eed);
    // limits of the server
    server.cell_size = random.pick({20.0, 32.0, 64.0});
    server.radius_min = 50;
    server.history_ticks = random.pick({2u, 3u, 4u, 8u, 16u, 16u});
    server.records_max = random.pick({16u, 16u, 64u, 4096u});
    server.budget_bytes = random.pick({0u, 0u, 0u, 200u, 600u, 1200u});
    server.message_bytes_max = random.pick({200u, 500u, 1200u, 1200u});
    server.loss_timeout_ticks = random.pick({4u, 8u, 12u});
    server.heartbeat_ticks = random.pick({2u, 7u, 20u});
    server.hash_ticks = random.pick({1u, 1u, 3u});
    server.compression = random.pick({Compression::automatic, Compression::automatic, Compression::never, Compression::always});
    // limits of the clients
    client.ring_versions_max = random.pick({2u, 3u, 6u, 24u, 24u});
    client.max_late_ticks = random.pick({4u, 10u, 32u, 32u});
    // limits of the backend
    network.seed = s;
    network.client_max = 8;
    network.reliable_bytes_max = 8192;
    if (random.chance(0.3))
        network.unreliable = {random.pick({1200u, 2400u, 5000u}), random.pick({2u, 4u, 16u})};
    if (random.chance(0.3))
        network.ordered = {8192, 2};
    // actions
    constexpr double usual[action_count] = {3,   2,   2,   2,   2, 2, 12,  3,   2,   2,   0.3, 1,
                                            0.7, 0.7, 0.2, 1.5, 2, 1, 0.7, 0.5, 0.6, 0.2, 0.1, 0.3};
    const double calm = random.pick({1.0, 1.0, 5.0, 30.0}); // how much rarer structural changes are than changes of values
    for (u32 a = 0; a < action_count; ++a)
        if (!random.chance(0.25) || a == static_cast<u32>(Action::join)) {
            weights[a] = usual[a] * random.between(0.2, 2);
            if (a != static_cast<u32>(Action::change) && a != static_cast<u32>(Action::join))
                weights[a] /= calm;
            weight_sum += weights[a];
        }
    actions_a_tick = random.pick({1u, 4u, 8u});
    clients_max = random.pick({1u, 2u, 3u, 4u});
    entities_first = random.pick({5u, 30u, 60u, 110u});
    entities_max = entities_first + random.pick({5u, 40u, 80u});
    replicated_share = random.pick({1.0, 0.9, 0.5});
    spread = random.pick({10.0, 40.0, 80.0, 150.0});
    moving_share = random.pick({0.0, 0.1, 0.5, 1.0});
    oscillates = random.chance(0.4);
    batch_max = random.pick({1u, 4u, 12u});
    // faults
    if (random.chance(0.8))
        loss_percent = random.pick({2.0, 10.0, 30.0, 50.0});
    if (random.chance(0.3))
        burst_percent = random.between(1, 6);
    if (random.chance(0.4))
        reorder_percent = random.between(2, 40);
    if (random.chance(0.4))
        duplicate_percent = random.between(2, 30);
    if (random.chance(0.2))
        truncate_percent = random.between(1, 10);
    delay_us_max = random.pick({0u, 50'000u, 150'000u, 300'000u});
    jitter_us_max = random.pick({0u, 0u, 60'000u, 250'000u});
    rate_limits = random.chance(0.2);
    blackouts = random.chance(0.3);
    if (rate_limits) // what waits in a slow link when the healing begins must fit into the time
        network.ordered = {8192, 4};
    // later additions, so that seeds keep what they drew before
    server.first_tick = random.pick({1u, 1u, 0xffff'fff0u, 0xffff'ff98u, 0xffff'ff38u, 0x7fff'ffc0u}); // ticks wrap under way
    server.chunks_max = random.pick({1u << 20, 1u << 20, 1u << 20, 1u, 3u, 9u});
    if (random.chance(0.15))
        server.clients_max = 1 + random.below(clients_max);
    if (random.chance(0.25)) {
        network.raw = true;
        dirty_share = random.pick({0.3, 0.6});
        corrupt_percent = random.pick({1.0, 10.0, 40.0});
    }
    limited = client;
    if (random.chance(0.25)) {
        limited_share = random.pick({0.3, 0.6});
        switch (random.below(6)) {
        case 0:
            limited.entities_max = random.pick({1u, 4u, 20u});
            break;
        case 1:
            limited.chunks_max = random.pick({1u, 2u, 4u});
            break;
        case 2:
            limited.references_max = random.pick({1u, 4u});
            break;
        case 3:
            limited.sections_max = random.pick({1u, 3u});
            break;
        case 4:
            limited.opaque_bytes_max = random.pick({16u, 200u});
            break;
        default:
            limited.memory_bytes_max = random.pick({20'000u, 100'000u});
        }
    }
    rule_chance = random.pick({0.0, 0.0, 0.3, 1.0});
    filter_chance = Random(seed ^ 0xf117e4).pick({0.0, 0.0, 0.1, 1.0});
    listing_chance = random.pick({0.0, 0.0, 0.05});
    lasting_chance = random.pick({0.0, 0.2, 1.0});
    server.lasting_max = random.pick({4096u, 4096u, 4u});
    priority_chance = random.pick({0.0, 0.0, 0.3, 1.0});
    multiplexed = Random(seed ^ 0x3417).chance(0.3);
    second_world = multiplexed && Random(seed ^ 0x3418).chance(0.4);
    userdata = Random(seed ^ 0xda7a).chance(0.3);
    asks_host = Random(seed ^ 0xa5c0).chance(0.3); // of its own: other seeds draw what they drew without it
    pause_chance = Random(seed ^ 0x9a05).pick({0.0, 0.0, 0.2, 1.0});
    heals_paused = Random(seed ^ 0x9a06).chance(0.4);
    ruled_chance = Random(seed ^ 0x2d1e).pick({0.0, 0.05, 0.3, 1.0});
    bond_chance = random.pick({0.0, 0.1, 0.3, 1.0});
    bundle_chance = Random(seed ^ 0xb4d1e).pick({0.0, 0.1, 0.5, 1.0});
    family_chance = Random(seed ^ 0xfa311).pick({0.0, 0.0, 0.1, 0.5});
    diff_chance = Random(seed ^ 0xd1ff).pick({0.0, 0.1, 0.5, 1.0});
    scope_chance = Random(seed ^ 0x5c09).pick({0.0, 0.1, 1.0, 1.0});
    signature_chance = Random(seed ^ 0x5197).pick({0.0, 0.0, 0.2, 1.0});
    badge_chance = Random(seed ^ 0xbad6).pick({0.0, 0.1, 0.5});
    dismiss_chance = Random(seed ^ 0xd15a).pick({0.0, 0.0, 0.0, 0.01, 0.03});
    says_ticket = Random(seed ^ 0x71c7).chance(0.5);
    requires_more = Random(seed ^ 0x4e9a).chance(0.3);
    client_end_chance = Random(seed ^ 0xe4d5).pick({0.0, 0.0, 0.0, 0.05, 0.3});
    reshows_ended = Random(seed ^ 0xe4d6).chance(0.5);
    Random letters(seed ^ 0x1e77);
    letter_chance = letters.pick({0.0, 0.0, 0.1, 0.5, 1.0});
    if (letter_chance > 0) {
        client.typed_wait_ms = letters.pick({3000u, 400u, 1'000'000u, 1'000'000u});
        if (letters.chance(0.15))
            client.typed_waiting_max = client.typed_waiting_unreliable_max = 3;
        if (rate_limits || letters.chance(0.3))
            network.unordered = {8192, 4};
        if (letters.chance(0.15))
            server.typed_tick_bytes_max = 12'000;
        if (letters.chance(0.15))
            server.typed_receive_max = 2;
        if (letters.chance(0.3))
            server.typed_backlog_bytes_max = 300;
        letters_pile_up = letters.chance(0.15);
        if (letters_pile_up)
            client.typed_outgoing_bytes_max = 1000;
    }
    messengers = letter_chance > 0 && Random(seed ^ 0x9e55).chance(0.4);
    limited.typed_wait_ms = client.typed_wait_ms;
    limited.typed_waiting_max = limited.typed_waiting_unreliable_max = client.typed_waiting_max;
    limited.typed_outgoing_bytes_max = client.typed_outgoing_bytes_max;
    scenes = Random(seed ^ 0x5ce7e).chance(0.2);
    if (Random(seed ^ 0xb111d).chance(0.2))
        mix_builds(*this);
}

LinkConfig Plan::faulty_link(Random& random, bool dirty) const {
    LinkConfig link;
    link.loss_percent = random.between(0, loss_percent);
    link.burst_enter_percent = burst_percent;
    link.burst_leave_percent = 15;
    link.delay_us = random.below(delay_us_max + 1);
    link.jitter_us = random.below(jitter_us_max + 1);
    link.reorder_percent = reorder_percent;
    link.reorder_extra_us = random.below(300'000);
    link.duplicate_percent = duplicate_percent;
    link.truncate_percent = network.raw && !dirty ? 0 : truncate_percent;
    if (dirty)
        link.corrupt_percent = corrupt_percent;
    if (rate_limits && random.chance(0.7)) {
        link.rate_bytes_per_s = static_cast<u64>(random.pick({3'000, 10'000, 40'000}));
        link.queue_bytes_max = 4096;
    }
    return link;
}

} // namespace throng_sim
