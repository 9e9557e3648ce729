#pragma once
// The server: what it keeps for each (client, chunk), and how sends, acks and losses change that.
#include "tests/model/mirror.hpp"
#include "tests/model/world.hpp"

#include <deque>

namespace model {

/// R4: all that the server knows of a chunk on a client.
struct ChunkView {
    Mask visible = 0; // lanes that the client should see
    Mask known = 0;   // lanes that it may hold: sent and not acked as gone
    Mask limbo = 0;   // known lanes without a usable baseline: sent in full next time
    Mask pending = 0; // known lanes to send
    Tick baseline = 0;
    Tick struct_tick = 0;  // the last structural change
    std::array<Mask, lane_count> unseen{}, kept{}; // components of the visible lanes
    Mask struct_lanes = 0; // struct-split: lanes with a private change that an unresolved record may predate
};

/// A message in flight. Serves acks only (R6).
struct Record {
    int message_id = 0;
    Tick tick = 0;
    struct Part {
        int chunk = 0;
        Mask mask = 0; // payload lanes and gone lanes
    };
    std::vector<Part> parts;
    bool lost = false; // its lanes are pending again; an ack that still comes counts (R5)
};

struct ClientView {
    std::array<ChunkView, max_chunks> chunks{};
    std::deque<Record> records; // oldest first
    int next_message_id = 0;
    Tick last_sent_tick = 0;
    Tick settled = no_baseline; // R9
};

struct Outgoing {
    int client = 0;
    Message message;
};

class Server {
public:
    Server(Context context, const World& world);

    /// Capture, interest, plan, encode, assemble. `out` receives what the backend accepted.
    void run_tick(Tick tick, std::vector<Outgoing>& out);
    void receive(int client, const Acks& acks);

    /// Known lanes whose present state the client has not acked.
    Mask unacked(int client, int chunk) const;
    const ClientView& view(int client) const { return clients_[client]; }

private:
    // interest
    void update_interest(int client, int chunk, Mirror::Captured captured);
    Mask changed(const ChunkView& view, const Mirror& mirror, Tick after, Tick until) const;
    void promote(ChunkView& view, const Mirror& mirror) const;
    void revive(int client, int chunk);
    bool in_flight(const ClientView& client, int chunk) const;
    void withdraw(int client, int chunk, Mask lanes);
    // plan and assemble
    struct Draft { // a message in the making: one entry per key
        struct Entry {
            int chunk;
            Tick baseline;
            Mask mask = 0, gone = 0;
        };
        std::vector<Entry> entries;
    };
    using Group = std::vector<Slot>; // slots that travel together
    std::vector<Group> plan(int client);
    Group travelling_with(int client, Slot slot) const;
    bool unconfirmed(int client, Slot slot) const;
    bool needs_full(const ChunkView& view, const Mirror& mirror, int lane);
    bool add_to(Draft& draft, int client, const Group& group);
    void update_settled(int client);
    void flush(int client, const Draft& draft, std::vector<Outgoing>& out);
    // acks and loss
    void lose(int client, Record& record);
    void infer_timeouts();
    void ack_part(ChunkView& view, const Mirror& mirror, Tick sent, Mask mask);
    Mask refused_lanes(const ChunkView& view, const Mirror& mirror, Tick sent) const;

    Context context_;
    const World& world_;
    Tick tick_ = 0;
    std::vector<Mirror> mirrors_;
    std::vector<ClientView> clients_;
};

} // namespace model
