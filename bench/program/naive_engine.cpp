// The baseline: an honest engine that works per (client, entity), on the same world, links and executor.
#include "bench/metered_executor.hpp"
#include "bench/naive/client.hpp"
#include "bench/naive/server.hpp"
#include "bench/program/engine.hpp"
#include "throng/protocol.hpp"
#include <cstdio>
#include <vector>

namespace bench {
namespace {

class NaiveEngine final : public Engine {
public:
    NaiveEngine(const Options& options, std::unique_ptr<scenarios::Trace> trace, std::unique_ptr<scenarios::Motion> motion)
        : options_(options), scenario_(*options.scenario), trace_(std::move(trace)), motion_owner_(std::move(motion)),
          motion_(*motion_owner_), executor_(make_executor(options.executor, options.workers)),
          metered_(*executor_), network_(network_of(options)) {
        motion_.populate(world_, *executor_);
        server_ = std::make_unique<naive::Server>(
            world_, network_.server(), metered_,
            naive::ServerConfig{.radius_m = scenario_.radius_m, .tick_hz = scenario_.tick_hz, .client_max = client_count(options)});
    }
    void connect() override;
    void move_world() override;
    void serve() override;
    void drive_clients() override;
    void open_window(u32 ticks) override;
    scenarios::Run close_window() override;
    void work_alone(bool) override {}
    void finish(scenarios::Run&, bool&) override {}

private:
    const Options& options_;
    const scenarios::Scenario& scenario_;
    std::unique_ptr<scenarios::Trace> trace_;
    std::unique_ptr<scenarios::Motion> motion_owner_;
    scenarios::Motion& motion_;
    throng::SharedSlabs world_memory_{throng::default_allocator(), throng::SlabPages::huge};
    throng::ExecutorHandle executor_;
    scenarios::MeteredExecutor metered_;
    throng::World world_{throng::WorldOptions{.allocator = world_memory_.allocator()}};
    throng::LoopbackNetwork network_;
    std::unique_ptr<naive::Server> server_;
    std::vector<std::unique_ptr<naive::Client>> clients_;
    throng::TimeUs now_ = 0;
    throng::Tick tick_ = 0;
    bool followed_ = false;
    // of the window
    bool measuring_ = false;
    u32 ticks_ = 0;
    double cpu_ns_ = 0;
    naive::TickReport sum_;
    std::vector<double> tick_ns_;
};

void NaiveEngine::connect() {
    for (u32 i = 0; i < client_count(options_); ++i) {
        const throng::LinkConfig link = link_of(options_, i);
        clients_.push_back(std::make_unique<naive::Client>(network_.client(network_.connect(link, link)), scenario_.tick_hz));
    }
}

void NaiveEngine::move_world() {
    now_ += tick_us(scenario_);
    motion_.step(world_, *executor_);
}

void NaiveEngine::serve() {
    const u32 count = static_cast<u32>(clients_.size());
    server_->receive(now_);
    if (!followed_ || scenario_.source == scenarios::Source::trace)
        for (u32 i = 0; i < count; ++i)
            if (const throng::Entity entity = motion_.followed(i, count))
                server_->follow(i, entity);
    followed_ = true;
    metered_.start();
    const naive::TickReport report =
        server_->tick(++tick_, now_, {[](void* self, const char* name) { static_cast<NaiveEngine*>(self)->metered_.stage(name); }, this});
    metered_.stop();
    if (!measuring_)
        return;
    ++ticks_;
    cpu_ns_ += metered_.cpu_ns();
    tick_ns_.push_back(metered_.max_worker_ns());
    sum_.pairs += report.pairs;
    sum_.sent_lanes += report.sent_lanes;
    sum_.bytes += report.bytes;
}

void NaiveEngine::drive_clients() {
    throng::for_ranges(*executor_, static_cast<u32>(clients_.size()), 16, [&](u32 begin, u32 end, u32) {
        for (u32 i = begin; i < end; ++i)
            clients_[i]->update(now_);
    });
}

void NaiveEngine::open_window(u32 ticks) {
    ticks_ = 0;
    cpu_ns_ = 0;
    sum_ = {};
    tick_ns_.clear();
    tick_ns_.reserve(ticks);
    metered_.clear_stages();
    measuring_ = true;
}

scenarios::Run NaiveEngine::close_window() {
    measuring_ = false;
    scenarios::Run run;
    const double pairs = static_cast<double>(sum_.pairs);
    run.set("ticks", ticks_);
    run.set("pairs", pairs / ticks_);
    run.set("sent_lanes", static_cast<double>(sum_.sent_lanes) / ticks_);
    run.set("bytes_per_tick", static_cast<double>(sum_.bytes) / ticks_);
    if (sum_.pairs) {
        run.set("bytes_per_pair", static_cast<double>(sum_.bytes) / pairs);
        run.set("ns_per_pair", cpu_ns_ / pairs);
    }
    run.set("tick_ms_p50", scenarios::percentile(tick_ns_, 0.5) / 1e6);
    run.set("tick_ms_max", scenarios::percentile(tick_ns_, 1) / 1e6);
    for (scenarios::StageFigure stage : metered_.stages()) {
        stage.cpu_ns /= ticks_;
        stage.wall_ns /= ticks_;
        run.stages.push_back(stage);
    }
    return run;
}

} // namespace

std::unique_ptr<Engine> make_naive_engine(const Options& options) {
    auto trace = std::make_unique<scenarios::Trace>();
    auto motion = make_motion(options, *trace);
    return motion ? std::make_unique<NaiveEngine>(options, std::move(trace), std::move(motion)) : nullptr;
}

} // namespace bench
