#include "throng/commands.hpp"
#include <algorithm>

namespace throng::detail {
namespace {
constexpr std::size_t block_bytes = 16 * 1024;
constexpr std::size_t block_alignment = 64;

/// Where a segment's next command is.
struct Position {
    const CommandLane& lane;
    u32 block;
    std::size_t offset;

    CommandHeader& next() {
        while (offset == lane.used(block)) {
            ++block;
            offset = 0;
        }
        CommandHeader& header = *std::launder(reinterpret_cast<CommandHeader*>(lane.blocks[block].memory + offset));
        offset += header.next;
        return header;
    }
};
} // namespace

CommandLane::CommandLane(const Allocator& allocator, u32 worker)
    : blocks(allocator), segments(allocator), made(allocator), number(worker) {}

CommandLane::~CommandLane() {
    for (const Block& b : blocks)
        blocks.allocator().free(b.memory, b.bytes, block_alignment);
}

std::byte* CommandLane::next_block(std::size_t bytes, std::size_t alignment) {
    const std::size_t needed = sizeof(CommandHeader) + alignment + bytes + 8;
    u32 next = blocks.empty() ? 0 : block + 1;
    while (next < blocks.size() && blocks[next].bytes < needed)
        ++next;
    if (next == blocks.size()) {
        blocks.reserve_extra(1);
        const std::size_t size = needed < block_bytes ? block_bytes : needed;
        blocks.push_back({static_cast<std::byte*>(blocks.allocator().allocate(size, block_alignment)), size, 0});
    }
    // From here on nothing fails. Blocks that were too small stay empty.
    if (cursor)
        blocks[block].used = static_cast<std::size_t>(cursor - blocks[block].memory);
    for (u32 skipped = block + 1; skipped < next; ++skipped)
        blocks[skipped].used = 0;
    block = next;
    cursor = blocks[block].memory;
    limit = cursor + blocks[block].bytes;
    return cursor;
}

void CommandLane::open(u64 key) {
    if (segments.size() > collected && segments.back().first == commands)
        segments.pop_back(); // nothing was recorded in it
    const std::size_t offset = cursor ? static_cast<std::size_t>(cursor - blocks[block].memory) : 0;
    segments.push_back({key, number, block, offset, commands, 0});
    open_key = key;
}

void CommandLane::clear(bool all_spent) {
    if (!all_spent) {
        Position position{*this, 0, 0};
        for (u32 i = 0; i < commands; ++i) {
            CommandHeader& header = position.next();
            if (header.ops && header.ops->destroy)
                header.ops->destroy(reinterpret_cast<std::byte*>(&header) + header.value);
        }
    }
    segments.clear();
    open_key = no_key;
    block = 0;
    commands = 0;
    pending = 0;
    collected = 0;
    cursor = blocks.empty() ? nullptr : blocks[0].memory;
    limit = blocks.empty() ? nullptr : cursor + blocks[0].bytes;
}

CommandQueueBase::CommandQueueBase(const Allocator& allocator)
    : allocator_(allocator), lanes_(static_cast<CommandLane**>(allocator.allocate(workers_max * sizeof(CommandLane*), block_alignment))),
      order_(allocator), doomed_(allocator) {
    std::fill(lanes_, lanes_ + workers_max, nullptr);
}

CommandQueueBase::~CommandQueueBase() {
    for (u32 i = 0; i < workers_max; ++i)
        if (CommandLane* lane = lanes_[i]) {
            lane->clear(false);
            lane->~CommandLane();
            allocator_.free(lane, sizeof(CommandLane), alignof(CommandLane));
        }
    allocator_.free(lanes_, workers_max * sizeof(CommandLane*), block_alignment);
}

CommandLane& CommandQueueBase::make_lane(u32 worker) {
    void* const memory = allocator_.allocate(sizeof(CommandLane), alignof(CommandLane));
    return *(lanes_[worker] = ::new (memory) CommandLane(allocator_, worker));
}

u32 CommandQueueBase::size() const {
    u32 commands = 0;
    for (u32 i = 0; i < workers_max; ++i)
        commands += lanes_[i] ? lanes_[i]->commands : 0;
    return commands;
}

std::size_t CommandQueueBase::memory_bytes() const {
    std::size_t bytes = workers_max * sizeof(CommandLane*);
    for (u32 i = 0; i < workers_max; ++i)
        if (const CommandLane* lane = lanes_[i]) {
            bytes +=
                sizeof(CommandLane) + lane->segments.capacity() * sizeof(CommandLane::Segment) + lane->made.capacity() * sizeof(Entity);
            for (const CommandLane::Block& block : lane->blocks)
                bytes += block.bytes;
        }
    return bytes;
}

void CommandQueueBase::clear() {
    THRONG_ASSERT(!applying_ && "a command clears its own queue");
    if (!applying_)
        start_over(false);
}

void CommandQueueBase::release_memory() {
    THRONG_ASSERT(!applying_ && "a command clears its own queue");
    if (applying_)
        return;
    start_over(false);
    for (u32 i = 0; i < workers_max; ++i)
        if (CommandLane* lane = std::exchange(lanes_[i], nullptr)) {
            lane->~CommandLane();
            allocator_.free(lane, sizeof(CommandLane), alignof(CommandLane));
        }
}

Entity CommandQueueBase::resolve(Entity entity) const {
    if (!is_pending(entity))
        return entity;
    const u32 worker = static_cast<u32>(entity.entity_id >> 32) & 0x7fffffff;
    const u32 number = static_cast<u32>(entity.entity_id);
    if (entity.gen != (applying_ ? flush_ : flush_ - 1) || worker >= workers_max || !lanes_[worker] ||
        number >= lanes_[worker]->made.size())
        return {};
    return lanes_[worker]->made[number];
}

void CommandQueueBase::start_over(bool all_spent) {
    for (u32 i = 0; i < workers_max; ++i)
        if (lanes_[i])
            lanes_[i]->clear(all_spent);
    order_.clear();
    doomed_.clear();
    phase_ = 0;
    ++flush_;
    applying_ = false;
}

/// Takes the segments recorded since the last call, in the order in which they apply.
void CommandQueueBase::collect(bool first_round) {
    order_.clear();
    for (u32 i = 0; i < workers_max; ++i) {
        CommandLane* const lane = lanes_[i];
        if (!lane)
            continue;
        if (first_round)
            lane->made.clear();
        lane->made.resize(lane->pending);
        const u32 count = lane->segments.size();
        for (u32 s = lane->collected; s < count; ++s) {
            CommandLane::Segment segment = lane->segments[s];
            segment.count = (s + 1 < count ? lane->segments[s + 1].first : lane->commands) - segment.first;
            if (segment.count != 0)
                order_.push_back(segment);
        }
        lane->collected = count;
        lane->open_key = CommandLane::no_key; // what comes now belongs to the next round
    }
    std::sort(order_.begin(), order_.end(), [](const CommandLane::Segment& a, const CommandLane::Segment& b) {
        return a.key != b.key ? a.key < b.key : a.lane != b.lane ? a.lane < b.lane : a.first < b.first;
    });
    for (u32 i = 1; i < order_.size(); ++i)
        THRONG_ASSERT((order_[i - 1].key != order_[i].key || order_[i - 1].lane == order_[i].lane) &&
                      "two workers recorded with the same order number in one phase");
}

void CommandQueueBase::destroy_doomed(void* world, DestroyFn destroy, CommandReport& report) {
    if (doomed_.empty())
        return;
    const u32 destroyed = destroy(world, {doomed_.data(), doomed_.size()});
    report.applied += destroyed;
    report.dropped += doomed_.size() - destroyed;
    doomed_.clear();
}

void CommandQueueBase::replay(const CommandLane::Segment& segment, void* world, DestroyFn destroy, CommandReport& report) {
    CommandLane& lane = *lanes_[segment.lane];
    Position position{lane, segment.block, segment.offset};
    for (u32 i = 0; i < segment.count; ++i) {
        CommandHeader& header = position.next();
        const CommandOps& ops = *header.ops;
        void* const value = reinterpret_cast<std::byte*>(&header) + header.value;
        if (ops.target == CommandTarget::doomed) {
            doomed_.push_back(resolve(header.target));
            header.ops = nullptr;
            continue;
        }
        destroy_doomed(world, destroy, report);
        bool applied = false;
        if (ops.target == CommandTarget::made) {
            Entity made;
            applied = ops.apply(world, made, value, *this);
            lane.made[static_cast<u32>(header.target.entity_id)] = made;
        } else {
            Entity target = resolve(header.target);
            if (ops.target == CommandTarget::none || target)
                applied = ops.apply(world, target, value, *this);
        }
        ++(applied ? report.applied : report.dropped);
        header.ops = nullptr;
        if (ops.destroy)
            ops.destroy(value);
    }
}

CommandReport CommandQueueBase::apply_to(void* world, DestroyFn destroy) {
    THRONG_ASSERT(!applying_ && "a command applies its own queue");
    CommandReport report;
    if (applying_ || empty())
        return report;
    struct End {
        CommandQueueBase& queue;
        bool all_spent = false;
        ~End() { queue.start_over(all_spent); }
    } end{*this};
    applying_ = true;
    for (collect(true); !order_.empty(); collect(false)) {
        THRONG_ASSERT(report.rounds < rounds_max && "applying the commands records new ones without an end");
        if (report.rounds == rounds_max) {
            for (const CommandLane::Segment& segment : order_)
                report.dropped += segment.count;
            return report;
        }
        ++report.rounds;
        for (const CommandLane::Segment& segment : order_)
            replay(segment, world, destroy, report);
        destroy_doomed(world, destroy, report);
    }
    end.all_spent = true;
    return report;
}

} // namespace throng::detail
