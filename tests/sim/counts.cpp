#include "tests/sim/counts.hpp"
#include "src/server/state.hpp"

namespace throng_sim {
using namespace throng;

namespace {

void compare(const char* what, u64 counted, u64 expected, Failure& failure) {
    if (counted != expected)
        failure.report("reports of clients: %s %llu, not %llu", what, static_cast<unsigned long long>(counted),
                       static_cast<unsigned long long>(expected));
}

u32 visible_count(const Server& server, ClientId id) {
    u32 count = 0;
    server.each_visible(id, [](void* sum, Entity) { ++*static_cast<u32*>(sum); }, &count);
    return count;
}

} // namespace

void check_counts(Server& server, const TickReport& report, Failure& failure) {
    ClientTraffic sum;
    for (ClientId id = 0; id < server.state().clients.size(); ++id) {
        const ClientReport client = server.client_report(id);
        sum += client.last;
        compare("visible", client.visible, visible_count(server, id), failure);
        compare("settled", client.settled, server.settled(id), failure);
        if (client.settled && (client.current != client.visible || client.unsent || client.leaving || client.limbo || client.open_ends))
            failure.report("client %u is settled, but not in its report", id);
        if (client.last.repeated_lanes && !client.last.lost_messages && !client.last.acked_messages)
            failure.report("client %u: lanes are repeated, though nothing was lost or heard of", id);
    }
    compare("messages", sum.messages, report.messages, failure);
    compare("bytes", sum.bytes, report.bytes, failure);
    compare("payload_bytes", sum.payload_bytes, report.payload_bytes, failure);
    compare("lanes", sum.lanes, report.pairs, failure);
    compare("full_lanes", sum.full_lanes, report.sent_full_lanes, failure);
    compare("gone_lanes", sum.gone_lanes, report.gone_lanes, failure);
    compare("heartbeats", sum.heartbeats, report.heartbeats, failure);
    compare("acked_messages", sum.acked_messages, report.acked_messages, failure);
    compare("lost_messages", sum.lost_messages, report.lost_messages, failure);
    compare("unapplied_sections", sum.unapplied_sections, report.unapplied_sections, failure);
    compare("repeated_lanes", sum.repeated_lanes, report.repeated_lanes, failure);
}

} // namespace throng_sim
