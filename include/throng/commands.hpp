#pragma once
// Structural change recorded now and made later: what a loop, also a parallel one, wants to spawn, destroy, add or remove. The
// recorded commands are applied in the order of the loop's rows, whatever thread recorded them, so that the world afterwards,
// the handles included, does not depend on the executor or on the number of workers.
//
// Where the data lives: each worker writes a stream of its own (32-byte header, then the value, built in place), cut into
// segments that are tagged (phase, order): the phase counts loops, the order is the first row of the loop's piece. Pieces differ
// with the number of workers, but the segments of a phase, sorted by order, always spell the same sequence. apply() sorts the
// segments, not the commands. Streams keep their memory.
//
// Sources of ideas: pending handles and a sort key per job as in Unity's EntityCommandBuffer, one function pointer per command as
// in bevy's CommandQueue; here the key is per piece of a loop, at no cost per command.
#include "throng/world.hpp"
#include <tuple>

namespace throng {

template <u32 MaxC>
class BasicCommands;
template <u32 MaxC>
class BasicCommandQueue;

/// What apply() did.
struct CommandReport {
    /// Commands whose target was alive when their turn came (its component may have been there, or absent, already), and what made
    /// entities. What hooks and relations do then counts for nothing: they may take the component off at once, or end the entity.
    u32 applied = 0;
    /// Commands whose target was dead or never made, or that the world refused: a type beyond MaxC, a limit, a component for an entity
    /// that is being destroyed.
    u32 dropped = 0;
    u32 rounds = 0; ///< 1, and 1 more each time that applying recorded more commands (a hook or call() did)
};

namespace detail {
class CommandQueueBase;

/// What a command's target handle is.
enum class CommandTarget : u8 {
    entity, ///< must be alive, or pending and made by now
    made,   ///< a pending handle that this command gives a meaning to
    doomed, ///< entity to destroy; consecutive ones are destroyed as one batch
    none
};

/// One constant table per kind of command and type.
struct CommandOps {
    CommandTarget target;
    /// False: dropped. `world` is the queue's BasicWorld. Where the command makes an entity, it goes to `target`. The value may
    /// be moved from; destroy ends it. Null for doomed.
    bool (*apply)(void* world, Entity& target, void* value, CommandQueueBase& queue);
    void (*destroy)(void* value); ///< null: nothing to do
};

struct CommandHeader {
    const CommandOps* ops; ///< null: applied
    Entity target;
    u32 next;  ///< bytes to the next header
    u32 value; ///< bytes to the value
};

/// The stream of one worker. Written by that worker alone, read by apply.
struct alignas(128) CommandLane {
    struct Block {
        std::byte* memory;
        std::size_t bytes;
        std::size_t used; // of a block that is full
    };
    struct Segment {
        u64 key; // phase << 32 | order
        u32 lane;
        u32 block;
        std::size_t offset;
        u32 first; // commands of the lane before it
        u32 count;
    };
    static constexpr u64 no_key = ~u64(0);         // of no segment
    static constexpr u64 own_thread = ~u64(0) - 1; // of a recorder that has no segment yet

    CommandLane(const Allocator& allocator, u32 number);
    CommandLane(const CommandLane&) = delete;
    ~CommandLane();

    /// Where a header goes, with room for a value behind it (value_at). May throw what the allocator throws.
    std::byte* room(std::size_t bytes, std::size_t alignment) {
        std::byte* const at = cursor;
        if (end_of(at, bytes, alignment) > reinterpret_cast<std::uintptr_t>(limit)) [[unlikely]]
            return next_block(bytes, alignment);
        return at;
    }
    static std::byte* value_at(std::byte* header, std::size_t alignment) {
        const std::uintptr_t first = reinterpret_cast<std::uintptr_t>(header) + sizeof(CommandHeader);
        return header + sizeof(CommandHeader) + (((first + alignment - 1) & ~(alignment - 1)) - first);
    }
    void commit(std::byte* header, const CommandOps& ops, Entity target, std::byte* value, std::size_t bytes) {
        const std::size_t next = (static_cast<std::size_t>(value - header) + bytes + 7) & ~std::size_t(7);
        ::new (static_cast<void*>(header)) CommandHeader{&ops, target, static_cast<u32>(next), static_cast<u32>(value - header)};
        cursor = header + next;
        ++commands;
    }
    void open(u64 key);
    /// Destroys the values that were not applied (none are left if all_spent); forgets everything but `made`, keeps the memory.
    void clear(bool all_spent);
    /// Bytes of block b in use.
    std::size_t used(u32 b) const { return b == block ? static_cast<std::size_t>(cursor - blocks[b].memory) : blocks[b].used; }

    Array<Block> blocks;
    Array<Segment> segments;
    Array<Entity> made; // what pending handles became
    std::byte* cursor = nullptr;
    std::byte* limit = nullptr;
    u64 open_key = no_key; // of the segment being written
    u32 block = 0;         // being written, if blocks.size() > 0
    u32 commands = 0;
    u32 pending = 0;   // handles given out
    u32 collected = 0; // segments that apply has taken
    u32 number;

private:
    static std::uintptr_t end_of(std::byte* header, std::size_t bytes, std::size_t alignment) {
        const std::uintptr_t first = reinterpret_cast<std::uintptr_t>(header) + sizeof(CommandHeader);
        return ((first + alignment - 1) & ~(std::uintptr_t(alignment) - 1)) + ((bytes + 7) & ~std::size_t(7));
    }
    std::byte* next_block(std::size_t bytes, std::size_t alignment);
};

/// The part of a queue that knows neither MaxC nor types.
class CommandQueueBase {
public:
    /// Workers are numbered below this (Executor::worker_count() <= workers_max).
    static constexpr u32 workers_max = 1024;
    /// Rounds of one apply. Commands recorded in the last one are dropped, and it asserts: something records without an end.
    static constexpr u32 rounds_max = 64;

    CommandQueueBase(const CommandQueueBase&) = delete;
    CommandQueueBase& operator=(const CommandQueueBase&) = delete;

    /// Commands recorded and not yet applied. Not while workers record.
    u32 size() const;
    bool empty() const { return size() == 0; }
    /// Drops what is recorded. Keeps the memory.
    void clear();
    /// Gives the memory of the streams back; drops what is recorded.
    void release_memory();
    /// Bytes of the streams.
    std::size_t memory_bytes() const;
    /// The entity that a pending handle of the last apply became: null if that one was dropped, or from an earlier apply. Any
    /// other handle is returned as it is.
    Entity resolve(Entity entity) const;
    /// From here on, recorded commands apply after all that were recorded before. record() and commands() do it by themselves.
    void next_phase() {
        THRONG_ASSERT(phase_ < 0xfffffffe);
        ++phase_;
    }

    static bool is_pending(Entity entity) { return (entity.entity_id >> 63) != 0; }

protected:
    template <u32 N>
    friend class throng::BasicCommands;

    explicit CommandQueueBase(const Allocator& allocator);
    ~CommandQueueBase();

    CommandLane& lane(u32 worker) {
        THRONG_ASSERT(worker < workers_max && "an executor with more workers than a CommandQueue takes");
        CommandLane* const found = lanes_[worker];
        return found ? *found : make_lane(worker);
    }
    /// The handle that the lane's next command of kind `made` gets; it counts lane.pending up once it is recorded.
    Entity next_pending(const CommandLane& lane) const { return {u64(1) << 63 | u64(lane.number) << 32 | lane.pending, no_row, flush_}; }
    using DestroyFn = u32 (*)(void* world, std::span<const Entity> doomed);
    CommandReport apply_to(void* world, DestroyFn destroy);

    u32 phase_ = 0;

private:
    CommandLane& make_lane(u32 worker);
    void collect(bool first_round);
    void replay(const CommandLane::Segment& segment, void* world, DestroyFn destroy, CommandReport& report);
    void destroy_doomed(void* world, DestroyFn destroy, CommandReport& report);
    void start_over(bool all_spent);

    Allocator allocator_;
    CommandLane** lanes_; // workers_max of them, null until the worker records
    u32 flush_ = 1;       // the apply that pending handles given out now belong to
    bool applying_ = false;
    Array<CommandLane::Segment> order_; // scratch of apply
    Array<Entity> doomed_;              // destroys not yet made
};

template <u32 MaxC, class F>
class RecordedBody;
} // namespace detail

/// Records into one stream of a queue. Cheap to make and to copy. Handles given may be dead by the time of apply(): the
/// command is then dropped and counted; a handle never reaches a later entity in the same slot. Values are built when
/// recorded and moved once when applied; whatever is dropped is destroyed. Each call: O(1), allocates when a stream grows. If a
/// value's constructor or the allocator throws, nothing was recorded.
template <u32 MaxC>
class BasicCommands {
public:
    using World = BasicWorld<MaxC>;

    /// World::spawn. The result is a pending handle: good in this queue (as a target, as the target of a relation, and inside values
    /// whose type has map_entities) until the apply, and for resolve after it. Dead for the world; do not keep it in components. A
    /// relation to one that comes to nothing is one to a target that has ended.
    template <class... Ts>
    Entity spawn(Ts&&... values);
    /// World::instantiate; the prefab must live until the apply, so a temporary does not compile.
    Entity instantiate(const BasicPrefab<MaxC>& prefab);
    Entity instantiate(BasicPrefab<MaxC>&&) = delete;
    void destroy(Entity entity);
    /// World::add: a component that is there by then is kept, and the value dropped.
    template <class T, class... A>
    void add(Entity entity, A&&... args);
    /// World::set: the last one recorded wins.
    template <class T>
    void set(Entity entity, T&& value);
    /// World::remove; without effect if the component is absent by then.
    template <class T>
    void remove(Entity entity);
    /// Calls f(World&) or f(World&, const CommandQueue&) when its turn comes; the second can resolve pending handles.
    template <class F>
    void call(F&& f);

private:
    friend class BasicCommandQueue<MaxC>;
    template <u32 N, class F>
    friend class detail::RecordedBody;
    BasicCommands(BasicCommandQueue<MaxC>& queue, detail::CommandLane& lane, u64 key)
        : queue_(&queue), lane_(&lane), key_(key), own_thread_(key == detail::CommandLane::own_thread) {}
    /// Makes this recorder's segment the one being written.
    void open();
    template <class Value, class... A>
    void record(const detail::CommandOps& ops, Entity target, A&&... args);

    BasicCommandQueue<MaxC>* queue_;
    detail::CommandLane* lane_;
    u64 key_;
    bool own_thread_; // takes a new phase whenever another recorder wrote in between
};

/// Commands for one world, from any number of workers. Recording: one thread per worker number at a time. All else: alone, and
/// outside loops over the world. Must not outlive the world in use (its destructor does not touch it).
template <u32 MaxC>
class BasicCommandQueue : public detail::CommandQueueBase {
public:
    using World = BasicWorld<MaxC>;
    using Commands = BasicCommands<MaxC>;

    /// Takes 8 KiB; a stream takes 16 KiB when its worker first records. Workers allocate from the allocator at the same time.
    explicit BasicCommandQueue(World& world) : BasicCommandQueue(world, world.options().allocator) {}
    BasicCommandQueue(World& world, const Allocator& allocator) : CommandQueueBase(allocator), world_(&world) {}

    /// A recorder for the calling thread, outside parallel loops. Its commands apply in the order of recording, also relative to
    /// loops that ran before or between.
    Commands commands() { return {*this, lane(0), detail::CommandLane::own_thread}; }
    /// A recorder for a piece of a parallel loop of your own: `worker` as the executor said, `order` a number that is the
    /// piece's own (usually its `begin`) in the phase. Call next_phase() before the loop.
    Commands commands(u32 worker, u32 order) { return {*this, lane(worker), u64(phase_) << 32 | order}; }
    /// Wraps a loop body that takes a Commands& first, for any each of the world, with an executor or without:
    /// `world.each_mut<Health>(jobs, queue.record([](Commands& commands, Entity e, Health& h) { ... }))`. Call it where the loop
    /// starts; use the result for that one loop. A loop inside the body uses the same Commands, not record().
    template <class F>
    detail::RecordedBody<MaxC, F> record(F&& f) {
        next_phase();
        return {*this, phase_, std::forward<F>(f)};
    }
    /// Makes all recorded changes, in order: phase by phase, rows ascending, then as recorded. Commands recorded meanwhile (by
    /// hooks and call()) follow after the last one. Consecutive destroys are one destroy_batch. Allocates what the world needs,
    /// and nothing in steady state. If something throws, the rest is dropped.
    CommandReport apply() {
        return apply_to(world_, [](void* world, std::span<const Entity> doomed) {
            World& w = *static_cast<World*>(world);
            return doomed.size() == 1 ? u32(w.destroy(doomed[0])) : w.destroy_batch(doomed);
        });
    }

private:
    friend class BasicCommands<MaxC>;
    template <u32 N, class F>
    friend class detail::RecordedBody;
    World* world_;
};

using CommandQueue = BasicCommandQueue<default_max_components>;
using Commands = BasicCommands<default_max_components>;

} // namespace throng

#include "throng/commands_inline.hpp"
