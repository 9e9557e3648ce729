// The baseline: an honest engine that works per (client, entity), on the same world, links and executor.
#include "bench/metered_executor.hpp"
#include "bench/naive/client.hpp"
#include "bench/naive/server.hpp"
#include "bench/program/setup.hpp"
#include "throng/protocol.hpp"
#include <cstdio>
#include <vector>

namespace bench {
namespace {

class NaiveRun {
public:
    NaiveRun(const Options& options, scenarios::Motion& motion)
        : options_(options), scenario_(*options.scenario), motion_(motion), executor_(make_executor(options.executor, options.workers)),
          metered_(*executor_), network_(network_of(options)) {
        motion_.populate(world_, *executor_);
        server_ = std::make_unique<naive::Server>(
            world_, network_.server(), metered_,
            naive::ServerConfig{.radius_m = scenario_.radius_m, .tick_hz = scenario_.tick_hz, .client_max = client_count(options)});
        for (u32 i = 0; i < client_count(options); ++i) {
            const throng::LinkConfig link = link_of(options, i);
            clients_.push_back(std::make_unique<naive::Client>(network_.client(network_.connect(link, link)), scenario_.tick_hz));
        }
    }

    scenarios::Run run() {
        const Plan plan = plan_of(options_);
        for (u32 i = 0; i < plan.warmup_ticks; ++i)
            tick();
        std::vector<scenarios::Run> runs;
        for (u32 w = 0; w < plan.windows; ++w) {
            cpu_ns_ = 0;
            sum_ = {};
            tick_ns_.clear();
            metered_.clear_stages();
            for (u32 i = 0; i < plan.window_ticks; ++i)
                tick();
            runs.push_back(figures(plan.window_ticks));
        }
        return scenarios::median_run(runs);
    }

private:
    void tick() {
        const u32 count = static_cast<u32>(clients_.size());
        now_ += tick_us(scenario_);
        motion_.step(world_, *executor_);
        server_->receive(now_);
        if (!followed_ || scenario_.source == scenarios::Source::trace)
            for (u32 i = 0; i < count; ++i)
                if (const throng::Entity entity = motion_.followed(i, count))
                    server_->follow(i, entity);
        followed_ = true;
        metered_.start();
        const naive::TickReport report =
            server_->tick(++tick_, now_, {[](void* self, const char* name) { static_cast<NaiveRun*>(self)->metered_.stage(name); }, this});
        metered_.stop();
        cpu_ns_ += metered_.cpu_ns();
        tick_ns_.push_back(metered_.max_worker_ns());
        sum_.pairs += report.pairs;
        sum_.sent_lanes += report.sent_lanes;
        sum_.bytes += report.bytes;
        throng::for_ranges(*executor_, count, 16, [&](u32 begin, u32 end, u32) {
            for (u32 i = begin; i < end; ++i)
                clients_[i]->update(now_);
        });
    }

    scenarios::Run figures(u32 ticks) const {
        scenarios::Run run;
        const double pairs = static_cast<double>(sum_.pairs);
        run.set("ticks", ticks);
        run.set("pairs", pairs / ticks);
        run.set("sent_lanes", static_cast<double>(sum_.sent_lanes) / ticks);
        run.set("bytes_per_tick", static_cast<double>(sum_.bytes) / ticks);
        if (sum_.pairs) {
            run.set("bytes_per_pair", static_cast<double>(sum_.bytes) / pairs);
            run.set("ns_per_pair", cpu_ns_ / pairs);
        }
        run.set("tick_ms_p50", scenarios::percentile(tick_ns_, 0.5) / 1e6);
        run.set("tick_ms_max", scenarios::percentile(tick_ns_, 1) / 1e6);
        for (scenarios::StageFigure stage : metered_.stages()) {
            stage.cpu_ns /= ticks;
            stage.wall_ns /= ticks;
            run.stages.push_back(stage);
        }
        return run;
    }

    const Options& options_;
    const scenarios::Scenario& scenario_;
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
    double cpu_ns_ = 0;
    naive::TickReport sum_;
    std::vector<double> tick_ns_;
};

} // namespace

scenarios::Run run_naive(const Options& options, bool& failed) {
    scenarios::Trace trace;
    std::string problem;
    const auto motion = make_motion(options, trace, problem);
    scenarios::Run run;
    if (motion)
        run = std::make_unique<NaiveRun>(options, *motion)->run();
    else
        std::fprintf(stderr, "%s: %s\n", options.scenario->name, problem.c_str());
    failed |= !motion;
    describe(run, options, "naive");
    return run;
}

} // namespace bench
