#pragma once
// Server half of the naive engine (see state.hpp for what it is and what it sends).
//
// Interest: a client sees entities nearer than R to the one it follows and keeps those nearer than 1.1 R, exactly, entity by
// entity. Each client is examined on every 4th tick, in turns, as in the engine: at the speeds of the scenarios
// everything within 0.85 R is visible and nothing beyond 1.2 R. A despawn is noticed at once.
//
// Entities have numbers of the engine's own, given by place on the ground when the engine starts, so that neighbours are
// neighbours in memory too; later ones take what is free.
//
// State per client and entity: the tick of the newest acknowledged record (hash map). State per entity: the last 16 quantised
// versions. A record that is lost is sent again; one that is merely not acknowledged yet is not.
#include "bench/naive/state.hpp"
#include "throng/executor.hpp"
#include "throng/transport.hpp"
#include <new>
#include <vector>

namespace naive {

struct ServerConfig {
    float radius_m = 60;
    u32 tick_hz = 20;
    u32 client_max = 1024;
};

/// Figures of one tick; names as in the bench output.
struct TickReport {
    u64 pairs = 0;      // records whose entity differs from what the client has acknowledged (gone records are not counted)
    u64 sent_lanes = 0; // records
    u64 bytes = 0;
    u64 messages = 0;
    u64 refused = 0;    // messages the backend did not take; their records count as lost
    u64 bad_acks = 0;
    u64 visible = 0;    // sum over clients
};

/// Memory in huge pages where the system gives them: neighbours in a table of 60 MB then cost no page walk each.
template <class T>
struct HugePages {
    using value_type = T;
    HugePages() = default;
    template <class U>
    HugePages(const HugePages<U>&) {}
    T* allocate(std::size_t count);
    void deallocate(T* memory, std::size_t) { ::operator delete(static_cast<void*>(memory), std::align_val_t(huge_page_bytes)); }
    friend bool operator==(HugePages, HugePages) { return true; }
    static constexpr std::size_t huge_page_bytes = 2u << 20;
};

/// Told where a stage of the tick begins, for timing. May be null.
struct StageHook {
    void (*begin)(void* context, const char* name) = nullptr;
    void* context = nullptr;
};

class Server final : public throng::ServerBackendSink {
public:
    /// Replicates the entities of `world` that have Replicated, Position, Heading, Velocity and Vitals. Consumes the world's change
    /// marks and its structure log of Replicated (cleared in tick). World, backend and executor must outlive this.
    Server(throng::World& world, throng::ServerBackend& backend, throng::Executor& executor, const ServerConfig& config);
    ~Server();
    Server(const Server&) = delete;
    Server& operator=(const Server&) = delete;

    /// The entity that a connected client's interest follows; a destroyed one leaves the interest where it was.
    void follow(throng::ClientId client, throng::Entity entity);
    /// Takes what has arrived from the backend. Acknowledgements are processed by the next tick.
    void receive(throng::TimeUs now);
    /// One replication step: ack, capture, interest, send, flush. Ticks rise by 1 from call to call.
    TickReport tick(throng::Tick tick, throng::TimeUs now, const StageHook& hook = {});

    /// True when nothing waits for this client and nothing is under way.
    bool settled(throng::ClientId client) const;
    /// Calls f(entity number, generation, state) for what the client should hold.
    template <class F>
    void each_visible(throng::ClientId client, F&& f) const {
        for (const u32 entity : clients_[client].visible)
            if (heads_[entity].alive)
                f(entity, heads_[entity].generation, newest(entity));
    }
    /// Slot in the world of an entity number that a client sees.
    u32 world_index(u32 entity) const { return heads_[entity].world_idx; }
    u32 visible_count(throng::ClientId client) const { return static_cast<u32>(clients_[client].visible.size()); }
    /// Of the per-client state: visible lists, maps, rings.
    u64 client_bytes() const;

    void on_connect(throng::ClientId client) override;
    void on_disconnect(throng::ClientId client) override;
    void on_message(throng::ClientId client, throng::Channel channel, throng::Bytes message) override;

private:
    /// One entity as one client knows it.
    struct Pair {
        u32 key = 0;
        u32 acked = 0;     // tick of the newest acknowledged record, 0: none
        u32 since = 0;     // tick at which it came into view: older acknowledgements do not count
        u32 sent = 0;      // tick of the newest record, 0: to be sent whatever changed
        u8 generation = 0;
        u8 losses = 0;     // in a row; after three the client may lack the baseline
        bool gone = false; // left the view; the client may still hold it
    };
    struct Gone {
        u32 entity, since, sent; // sent 0: to be sent
        u8 generation;
    };
    struct Message {
        u32 tick, first, count;
        bool open;
    };
    struct Client {
        bool connected = false;
        bool placed = false;       // x, z are known
        throng::Entity followed = {};
        float x = 0, z = 0;
        std::vector<u32> visible = {};
        EntityMap<Pair> pairs = {};
        u32 resends = 0;           // pairs with sent == 0
        std::vector<Gone> gone = {};
        std::vector<Message> messages = {}; // ring by message number
        u32 first_open = 1, next_number = 1;
        std::vector<u32> records = {}; // ring: entity << 1 | gone
        u32 next_record = 0;
        u32 newest_acked_tick = 0;
        std::vector<std::byte> inbox = {}; // u32 size, bytes, ...
    };
    struct alignas(64) Scratch {
        std::vector<u32> stamp = {}; // [entity] mark of the client that is examined
        u32 mark = 0;
        std::vector<u32> crossed = {};
        TickReport report = {};
    };
    static constexpr u32 versions = 16;
    /// Hot part of an entity.
    struct Head {
        u32 changed = 0; // tick of the newest version
        u32 count = 0;   // versions so far
        float x = 0, z = 0;
        u32 cell = 0;    // grid cell and place in it
        u32 place = 0;
        u32 world_idx = 0;
        u8 generation = 0;
        bool alive = false;
        u16 run = 0;     // the newest so many versions are one tick apart
    };
    static_assert(sizeof(Head) == 32);
    struct alignas(64) History {
        u32 tick[versions];
        State state[versions];
    };
    struct Item {
        float x, z;
        u32 entity;
    };
    struct Pools {
        throng::Pool<scenarios::Position>& position;
        throng::Pool<scenarios::Heading>& heading;
        throng::Pool<scenarios::Velocity>& velocity;
        throng::Pool<scenarios::Vitals>& vitals;
        bool aligned; // an entity has the same row in all four
    };

    void structure();
    void capture();
    void track(u32 world_idx);
    void untrack(u32 world_idx);
    void capture_entity(const Pools& pools, u32 entity, Scratch& scratch);
    u32 cell_of(float x, float z) const;
    void enter_cell(u32 entity, float x, float z);
    void leave_cell(u32 entity);
    void ack(Client& client, Scratch& scratch);
    void settle_message(Client& client, u32 number, bool lost);
    void record_lost(Client& client, u32 record, u32 tick);
    void record_acked(Client& client, u32 record, u32 tick);
    void interest(Client& client, Scratch& scratch);
    void send(throng::ClientId id, Client& client, Scratch& scratch);
    const State* version(u32 entity, u32 tick) const;
    const State& newest(u32 entity) const { return history_[entity].state[(heads_[entity].count - 1) % versions]; }
    u32 open_message(Client& client);
    void close_message(throng::ClientId id, Client& client, Scratch& scratch, const u8* begin, const u8* end);

    throng::World& world_;
    throng::ServerBackend& backend_;
    throng::Executor& executor_;
    ServerConfig config_;
    throng::Tick tick_ = 0;
    i32 factor_;
    std::vector<Head> heads_ = {};
    std::vector<History, HugePages<History>> history_ = {};
    std::vector<u32> free_ = {};      // numbers, used from free_first_ on
    std::size_t free_first_ = 0;
    std::vector<u32> number_of_ = {}; // [world slot]
    std::vector<u32> row_ = {};       // last known row of an entity's position
    std::vector<u64> touched_ = {};   // a bit an entity
    float cell_m_ = 1, cells_per_m_ = 1;
    u32 columns_ = 1;
    std::vector<std::vector<Item>> cells_ = {};
    std::vector<Client> clients_;
    std::vector<Scratch> scratch_;
    std::vector<u32> crossed_ = {};
};

} // namespace naive
