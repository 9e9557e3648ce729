// The engine under test: Server and real Clients over the loopback network.
#include "bench/alloc_count.hpp"
#include "bench/instruction_counter.hpp"
#include "bench/metered_executor.hpp"
#include "bench/program/engine.hpp"
#include "bench/verify.hpp"
#include "src/server/state.hpp"
#include "throng/client.hpp"
#include "throng/server.hpp"
#include <algorithm>
#include <bit>
#include <cstdio>
#include <vector>

namespace bench {
namespace {

u64 cpu_now() {
    return static_cast<u64>(scenarios::thread_cpu_ns());
}
u64 wall_now() {
    return static_cast<u64>(scenarios::wall_ns());
}

struct Peer {
    explicit Peer(throng::Allocator allocator) : world(throng::WorldOptions{.allocator = allocator, .block_rows = 64}) {}
    throng::World world;
    std::unique_ptr<throng::Client> client;
    bool viewed = false;
};

throng::Compression compression_of(const Options& options) {
    return options.compression == "never"    ? throng::Compression::never
           : options.compression == "always" ? throng::Compression::always
                                             : throng::Compression::automatic;
}

/// Passes loops on, or runs them on the calling thread.
class SwitchedExecutor final : public throng::Executor {
public:
    explicit SwitchedExecutor(throng::ExecutorHandle inner) : inner_(std::move(inner)) {}
    u32 worker_count() const override { return inner_->worker_count(); }
    void parallel_for(u32 count, u32 grain, RangeFn fn, void* context) override {
        (alone ? serial_ : inner_)->parallel_for(count, grain, fn, context);
    }
    bool alone = false;

private:
    throng::ExecutorHandle inner_, serial_ = throng::make_serial_executor();
};

class ThrongEngine final : public Engine {
public:
    ThrongEngine(const Options& options, std::unique_ptr<scenarios::Trace> trace, std::unique_ptr<scenarios::Motion> motion)
        : options_(options), scenario_(*options.scenario), trace_(std::move(trace)), motion_owner_(std::move(motion)),
          motion_(*motion_owner_), executor_(make_executor(options.executor, options.workers)),
          protocol_({.tick_hz = scenario_.tick_hz, .dictionary = options.dictionary}), network_(network_config()) {
        scenarios::add_components(protocol_);
        if (protocol_.finish() != throng::Error::none)
            std::fprintf(stderr, "%s\n", protocol_.problem());
        motion_.populate(world_, executor_);
        server_ = std::make_unique<throng::Server>(world_, protocol_, network_.server(),
                                                   throng::ServerConfig{.executor = &executor_,
                                                                        .allocator = server_memory_.allocator(),
                                                                        .cell_size = options.cell_m > 0 ? options.cell_m : scenario_.cell_m,
                                                                        .radius_min = scenario_.radius_m,
                                                                        .budget_bytes = scenario_.budget_bytes,
                                                                        .history_ticks = options.history_ticks,
                                                                        .compression = compression_of(options),
                                                                        .thread_cpu_ns = cpu_now,
                                                                        .wall_ns = wall_now});
        for (u32 i = 0; i < executor_.worker_count(); ++i)
            slabs_.push_back(std::make_unique<throng::SharedSlabs>());
        for (u32 i = 0; i < executor_.worker_count(); ++i)
            scratch_.push_back(std::make_unique<throng::ClientScratch>(protocol_));
    }
    const char* problem() const { return server_->problem(); }
    void connect() override;
    void move_world() override;
    void serve() override;
    void drive_clients() override;
    void open_window(u32 ticks) override;
    scenarios::Run close_window() override;
    void work_alone(bool alone) override { executor_.alone = alone; }
    bool run_whole(scenarios::Run& run, bool& failed) override;
    void finish(scenarios::Run& run, bool& failed) override;

private:
    throng::LoopbackConfig network_config() {
        throng::LoopbackConfig config = network_of(options_);
        if (options_.hash)
            config.trace = hash_.hook();
        return config;
    }
    bool loaded(u32 id) const;
    throng::WorkerState::FullPayloads full_payloads() const;
    void promise(bool& failed);

    struct Window {
        throng::TickReport sum;      // of counts and stage times
        std::vector<double> tick_ns; // busiest worker
        u64 ticks = 0, allocations = 0, instructions = 0, encoded_bits = 0;
        double client_ns = 0, pairs = 0;
        throng::WorkerState::FullPayloads full_before; // when the window was opened
    };
    void add(Window& window, const throng::TickReport& report) const;
    scenarios::Run figures(const Window& window) const;

    scenarios::InstructionCounter instructions_; // before the executor's threads
    const Options& options_;
    const scenarios::Scenario& scenario_;
    std::unique_ptr<scenarios::Trace> trace_;
    std::unique_ptr<scenarios::Motion> motion_owner_;
    scenarios::Motion& motion_;
    throng::SharedSlabs server_memory_{throng::default_allocator(), throng::SlabPages::huge};
    SwitchedExecutor executor_;
    throng::Protocol protocol_;
    throng::World world_{throng::WorldOptions{.allocator = server_memory_.allocator()}};
    throng::OutputHash hash_;
    throng::LoopbackNetwork network_;
    std::unique_ptr<throng::Server> server_;
    std::vector<std::unique_ptr<throng::SharedSlabs>> slabs_; // of the clients that a worker drives
    std::vector<std::unique_ptr<throng::ClientScratch>> scratch_;
    std::vector<std::unique_ptr<Peer>> peers_;
    throng::TimeUs now_ = 0;
    Window window_;
    bool measuring_ = false, keys_differ_ = false;
    std::vector<double> client_ns_; // of one tick, by worker
};

void ThrongEngine::connect() {
    for (u32 i = 0; i < client_count(options_); ++i) {
        const throng::LinkConfig link = link_of(options_, i);
        const throng::ClientId id = network_.connect(link, link);
        const throng::Allocator memory = slabs_[i % slabs_.size()]->allocator();
        auto peer = std::make_unique<Peer>(memory);
        // Clients are driven in fixed ranges, one worker each, so that they may share the worker's scratch.
        const throng::ClientConfig config{.allocator = memory, .scratch = scratch_[i % scratch_.size()].get()};
        peer->client = std::make_unique<throng::Client>(peer->world, protocol_, network_.client(id), config);
        peers_.push_back(std::move(peer));
    }
}

void ThrongEngine::move_world() {
    now_ += tick_us(scenario_);
    motion_.step(world_, executor_);
}

void ThrongEngine::serve() {
    const u64 before = scenarios::allocation_counts().total();
    server_->receive(now_);
    const u32 count = static_cast<u32>(peers_.size());
    for (u32 i = 0; i < count; ++i)
        if (server_->joined(i) && (!peers_[i]->viewed || scenario_.source == scenarios::Source::trace)) {
            const throng::Entity followed = motion_.followed(i, count);
            if (followed)
                server_->view(i).follow(followed, {.radius = scenario_.radius_m});
            peers_[i]->viewed = true;
        }
    const u64 instructions = instructions_.count().value_or(0);
    instructions_.start();
    const throng::TickReport& report = server_->tick(now_);
    instructions_.stop();
    if (measuring_) {
        window_.instructions += instructions_.count().value_or(0) - instructions;
        window_.allocations += scenarios::allocation_counts().total() - before;
        add(window_, report);
    }
}

void ThrongEngine::drive_clients() {
    const u64 before = scenarios::allocation_counts().total();
    const u32 count = static_cast<u32>(peers_.size()), lanes = static_cast<u32>(scratch_.size());
    std::vector<double>& client_ns = client_ns_;
    client_ns.assign(lanes, 0);
    throng::for_ranges(executor_, lanes, 1, [&](u32 begin, u32 end, u32) {
        for (u32 lane = begin; lane < end; ++lane) {
            const double start = scenarios::thread_cpu_ns();
            for (u32 i = lane; i < count; i += lanes) {
                (void)peers_[i]->client->receive(now_);
                (void)peers_[i]->client->send(now_);
            }
            client_ns[lane] = scenarios::thread_cpu_ns() - start;
        }
    });
    if (measuring_) {
        for (const double ns : client_ns)
            window_.client_ns += ns;
        window_.allocations += scenarios::allocation_counts().total() - before;
    }
}

void ThrongEngine::open_window(u32 ticks) {
    window_ = {};
    window_.tick_ns.reserve(ticks);
    window_.full_before = full_payloads();
    measuring_ = true;
}

scenarios::Run ThrongEngine::close_window() {
    measuring_ = false;
    if (window_.sum.keys != window_.sum.encodes) {
        std::fprintf(stderr, "%s: %llu keys but %llu encodes\n", scenario_.name, static_cast<unsigned long long>(window_.sum.keys),
                     static_cast<unsigned long long>(window_.sum.encodes));
        keys_differ_ = true;
    }
    return figures(window_);
}

void ThrongEngine::add(Window& window, const throng::TickReport& r) const {
    throng::TickReport& s = window.sum;
    double busiest = 0;
    for (u32 i = 0; i < throng::stage_count; ++i) {
        s.stages[i].cpu_ns += r.stages[i].cpu_ns;
        s.stages[i].wall_ns += r.stages[i].wall_ns;
        busiest += static_cast<double>(r.stages[i].cpu_max_ns);
    }
    window.tick_ns.push_back(busiest);
    ++window.ticks;
    s.pairs += r.pairs;
    s.sent_lanes += r.sent_lanes;
    s.bytes += r.bytes;
    s.heartbeat_bytes += r.heartbeat_bytes;
    s.payload_bytes += r.payload_bytes;
    s.shared_bytes += r.shared_bytes;
    s.zstd_bytes += r.zstd_bytes;
    s.keys += r.keys;
    s.encodes += r.encodes;
    s.client_bytes_max = std::max(s.client_bytes_max, r.client_bytes_max);
    for (const throng::ComponentCost& cost : server_->state().component_costs)
        window.encoded_bits += cost.bits;
}

scenarios::Run ThrongEngine::figures(const Window& w) const {
    scenarios::Run run;
    const double ticks = static_cast<double>(w.ticks);
    const throng::TickReport& s = w.sum;
    double cpu = 0;
    for (u32 i = 0; i < throng::stage_count; ++i) {
        const bool parallel =
            static_cast<throng::Stage>(i) != throng::Stage::structure && static_cast<throng::Stage>(i) != throng::Stage::flush;
        run.stages.push_back({throng::to_string(static_cast<throng::Stage>(i)), static_cast<double>(s.stages[i].cpu_ns) / ticks,
                              static_cast<double>(s.stages[i].wall_ns) / ticks, parallel});
        cpu += static_cast<double>(s.stages[i].cpu_ns);
    }
    const double pairs = static_cast<double>(s.pairs);
    run.set("ticks", ticks);
    run.set("pairs", pairs / ticks);
    run.set("sent_lanes", static_cast<double>(s.sent_lanes) / ticks);
    run.set("bytes_per_tick", static_cast<double>(s.bytes) / ticks);
    if (s.pairs) {
        run.set("bytes_per_pair", static_cast<double>(s.bytes) / pairs);
        run.set("ns_per_pair", cpu / pairs);
    }
    run.set("tick_ms_p50", scenarios::percentile(w.tick_ns, 0.5) / 1e6);
    run.set("tick_ms_p99", scenarios::percentile(w.tick_ns, 0.99) / 1e6);
    run.set("tick_ms_max", scenarios::percentile(w.tick_ns, 1) / 1e6);
    run.set("encodes", static_cast<double>(s.encodes) / ticks);
    run.set("distinct_keys", static_cast<double>(s.keys) / ticks);
    run.set("encoded_bytes", static_cast<double>(w.encoded_bits) / 8 / ticks);
    if (s.payload_bytes) {
        run.set("shared_share", static_cast<double>(s.shared_bytes) / static_cast<double>(s.payload_bytes));
        run.set("zstd_share", static_cast<double>(s.zstd_bytes) / static_cast<double>(s.payload_bytes));
    }
    if (scenario_.join && options_.compression != "always") { // where zstd alone is tried, there is nothing to compare with
        const throng::WorkerState::FullPayloads full = full_payloads();
        run.set("full_state_ratio",
                static_cast<double>(full.sent - w.full_before.sent) / static_cast<double>(full.packed - w.full_before.packed));
    }
    run.set("client_bytes_max", s.client_bytes_max);
    if (!peers_.empty())
        run.set("kbps", static_cast<double>(s.bytes) / ticks * 8 * scenario_.tick_hz / 1000 / static_cast<double>(peers_.size()));
    run.set("allocs_per_tick", static_cast<double>(w.allocations) / ticks);
    if (instructions_.count())
        run.set("instructions", static_cast<double>(w.instructions) / ticks);
    if (s.sent_lanes)
        run.set("apply_ns_per_entity", w.client_ns / static_cast<double>(s.sent_lanes));
    const throng::ServerMemory memory = server_->memory();
    run.set("bytes_per_client_chunk", static_cast<double>(memory.client_chunk_bytes));
    run.set("bytes_side_tables",
            memory.client_chunks ? static_cast<double>(memory.side_table_bytes) / static_cast<double>(memory.client_chunks) : 0);
    return run;
}

throng::WorkerState::FullPayloads ThrongEngine::full_payloads() const {
    throng::WorkerState::FullPayloads sum;
    for (const throng::WorkerState& worker : server_->state().workers) {
        sum.sent += worker.full_payloads.sent;
        sum.packed += worker.full_payloads.packed;
    }
    return sum;
}

/// At least 95 % of what the client is meant to see has been acknowledged in full. Not all: in a moving world something new is
/// always under way.
bool ThrongEngine::loaded(u32 id) const {
    const throng::ClientState& client = server_->state().clients[id];
    if (!client.joined)
        return false;
    int visible = 0, held = 0;
    for (const throng::ClientChunk& view : client.chunks) {
        visible += std::popcount(view.visible);
        held += std::popcount(view.visible & view.known & ~view.limbo);
    }
    return visible > 0 && held * 20 >= visible * 19;
}

/// R10, for a sample of the clients.
void ThrongEngine::promise(bool& failed) {
    throng_verify::Verifier verifier(protocol_, world_, *server_);
    const u32 count = static_cast<u32>(peers_.size()), step = std::max(1u, count / 32);
    for (u32 i = 0; i < count; i += step) {
        const throng::Entity followed = motion_.followed(i, count);
        const auto* at = followed ? world_.get<scenarios::Position>(followed) : nullptr;
        if (!at || !server_->joined(i))
            continue;
        if (const auto difference = verifier.check_promise(i, at->x, at->z, scenario_.radius_m); difference) {
            std::fprintf(stderr, "%s: visibility promise broken: %s\n", scenario_.name, difference.text.c_str());
            failed = true;
            return;
        }
    }
}

bool ThrongEngine::run_whole(scenarios::Run& run, bool& failed) {
    if (!scenario_.join)
        return false;
    for (u32 i = 0; i < plan_of(options_).warmup_ticks / 4; ++i)
        tick();
    connect();
    open_window(2000);
    std::vector<char> done(peers_.size(), 0);
    u32 ticks = 0, left = static_cast<u32>(peers_.size());
    for (; left && ticks < 2000; ++ticks) {
        tick();
        for (u32 i = 0; i < peers_.size(); ++i)
            if (!done[i] && loaded(i)) {
                done[i] = 1;
                --left;
            }
    }
    if (left) {
        std::fprintf(stderr, "join: %u clients have not got everything after %u ticks\n", left, ticks);
        failed = true;
    }
    run = close_window();
    run.set("joined_s", ticks * scenario_.tick_s());
    return true;
}

void ThrongEngine::finish(scenarios::Run& run, bool& failed) {
    promise(failed);
    failed |= keys_differ_;
    if (options_.hash)
        run.output_hash = scenarios::hash_text(hash_.high, hash_.low);
    run.set("peak_rss_mib", scenarios::peak_rss_mib());
    run.set("memcpy_gb_s", scenarios::memcpy_gb_s());
}

} // namespace

std::unique_ptr<Engine> make_throng_engine(const Options& options) {
    auto trace = std::make_unique<scenarios::Trace>();
    auto motion = make_motion(options, *trace);
    if (!motion)
        return nullptr;
    auto engine = std::make_unique<ThrongEngine>(options, std::move(trace), std::move(motion));
    if (!*engine->problem())
        return engine;
    std::fprintf(stderr, "%s: %s\n", options.scenario->name, engine->problem());
    return nullptr;
}

} // namespace bench
