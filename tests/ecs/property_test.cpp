// Everything public of a world under random operations, compared with a model that is a map of maps.
#include "numbered.hpp"
#include "support.hpp"
#include "throng/commands.hpp"
#include <doctest/doctest.h>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <vector>

namespace {
using namespace ecs_test;

using A = C<1>; // 32 bytes
using B = C<2>; // direct index
using D = C<3>; // 4 bytes
using S = C<4>; // a string
using R = C<relation_type>;
using H = C<7>; // its hooks add and remove a C<9>
constexpr int logged[] = {2, 4, 70, 127};

struct Being {
    Entity handle;
    std::map<int, int> values;
};

/// What a reader of changes of one type owes.
struct ReaderModel {
    int type;
    std::set<u64> changed;
    std::vector<std::pair<u64, bool>> removed; // entity_id, destroyed
    bool resync = false;
};

struct Model {
    std::map<u64, Being> beings;
    std::set<std::pair<u64, int>> marks; // entity_id, type
    std::map<u64, u64> parents;          // entity_id of the target of R
};

class Run {
public:
    /// `linked`: with relations and hooks. Both kinds of worlds are tried, as destruction goes another way in each.
    Run(u64 seed, const WorldOptions& options, bool linked) : world_(options), queue_(world_), random_{seed}, linked_(linked) {
        for (const int type : logged)
            world_.log_structure(ComponentId(type), true);
        const ChangeReaderOptions deep{.removals_max = 1 << 16};
        for (u32 i = 0; i < 2; ++i) {
            readers_a_[i] = std::make_unique<ChangeReader<A>>(world_, deep);
            readers_s_[i] = std::make_unique<ChangeReader<S>>(world_, deep);
        }
        models_ = {{1, {}, {}}, {1, {}, {}}, {4, {}, {}}, {4, {}, {}}};
        if (!linked)
            return;
        world_.on_add<H>([this](World& world, Entity e, const H& h) {
            ++hooks_called_;
            world.add<C<9>>(e, h.value + 1);
        });
        world_.on_remove<H>([this](World& world, Entity e) {
            ++hooks_called_;
            world.remove<C<9>>(e);
        });
    }

    u32 wrong = 0;
    u32 steps = 0;
    std::map<std::string, u32> done;

    void step() {
        ++steps;
        expected_log_.clear();
        world_.clear_structure_log();
        const u32 action = random_.below(linked_ ? 1040 : 1000);
        if (action >= 1000)
            relate();
        else if (action < 380)
            add_or_write();
        else if (action < 560)
            remove();
        else if (action < 640)
            make();
        else if (action < 700)
            destroy();
        else if (action < 760)
            commands();
        else if (action < 800)
            loops();
        else if (action < 860)
            read_changes();
        else if (action < 870)
            order();
        else if (action < 876)
            take_or_restore();
        else if (action < 882)
            take_or_restore_part();
        else if (action < 890)
            clear_marks();
        else
            look_at_dead();
        compare_log();
    }

    /// The whole world against the model.
    void compare_all() {
        wrong += world_.entity_count() != model_.beings.size();
        wrong += hooks_called_ != hooks_expected_;
        compare_links();
        std::vector<u32> rows(type_count, 0);
        for (const int type : {1, 4})
            world_.sync_changes(ComponentId(type));
        for (const auto& [id, being] : model_.beings) {
            wrong += !world_.alive(being.handle) || world_.entity_at(being.handle.entity_idx) != being.handle;
            wrong += world_.signature(being.handle).count() != being.values.size();
            for (const auto& [type, value] : being.values) {
                ++rows[u32(type)];
                wrong += types[u32(type)].get(world_, being.handle) != value;
                const u32 dense = world_.dense_index(being.handle.entity_idx, ComponentId(type));
                const PoolBase& pool = *world_.pool_of(ComponentId(type));
                wrong += dense >= pool.size() || pool.owner(dense) != being.handle.entity_idx;
                wrong += pool.changed(dense) != (model_.marks.count({id, type}) != 0);
            }
        }
        for (u32 type = 0; type < type_count; ++type)
            wrong += types[type].rows(world_) != rows[type];
        for (const int type : {1, 4}) // who synchronised consumes the words, as a server does
            if (PoolBase* const pool = world_.pool_of(ComponentId(type))) {
                for (u32 b = 0; b < pool->block_count(); ++b) {
                    std::fill_n(pool->change_words(b), pool->block_rows() / 64, 0);
                    pool->end_changes(b);
                }
                for (const auto& [id, being] : model_.beings)
                    model_.marks.erase({id, type});
            }
        const MemoryReport report = world_.memory_report();
        wrong += report.total < report.rows_used;
    }

    u32 links() const { return u32(model_.parents.size()); }
    u32 hooks_called() const { return hooks_called_; }
    u32 population() const { return u32(model_.beings.size()); }
    u32 most_types() const {
        std::size_t most = 0;
        for (const auto& [id, being] : model_.beings)
            most = std::max(most, being.values.size());
        return u32(most);
    }

private:
    // --- the model ---
    void log(u64 id, int type, StructureEvent::Kind kind) { expected_log_.push_back({id, type, int(kind)}); }
    static bool is_logged(int type) { return std::count(std::begin(logged), std::end(logged), type) != 0; }
    void model_mark(u64 id, int type) {
        model_.marks.insert({id, type});
        for (ReaderModel& reader : models_)
            if (reader.type == type)
                reader.changed.insert(id);
    }
    void model_gain(Being& being, int type, int value) {
        model_gain_quietly(being, type, value);
        model_hook(being, type);
    }
    void model_gain_quietly(Being& being, int type, int value) {
        being.values[type] = value;
        model_mark(being.handle.entity_id, type);
        if (is_logged(type))
            log(being.handle.entity_id, type, StructureEvent::Kind::added);
    }
    void model_hook(Being& being, int type) {
        if (!linked_ || type != 7)
            return;
        ++hooks_expected_;
        if (being.values.count(9) == 0)
            model_gain_quietly(being, 9, being.values[7] + 1);
    }
    void model_lose(Being& being, int type) {
        const u64 id = being.handle.entity_id;
        if (linked_ && type == 7) {
            ++hooks_expected_;
            if (being.values.count(9) != 0)
                model_lose(being, 9);
        }
        if (type == relation_type)
            model_.parents.erase(id);
        being.values.erase(type);
        model_.marks.erase({id, type});
        if (is_logged(type))
            log(id, type, StructureEvent::Kind::removed);
        for (ReaderModel& reader : models_)
            if (reader.type == type)
                reader.removed.push_back({id, false});
    }
    void model_birth(Entity handle, const std::map<int, int>& values) {
        wrong += !handle || model_.beings.count(handle.entity_id) != 0;
        for (const Entity old : handles_)
            wrong += old.entity_id == handle.entity_id; // ids are never reused
        handles_.push_back(handle);
        if (handles_.size() > 600)
            handles_.erase(handles_.begin(), handles_.begin() + 200);
        Being& being = model_.beings[handle.entity_id];
        being.handle = handle;
        for (const auto& [type, value] : values)
            model_gain_quietly(being, type, value);
        if (values.count(7) != 0) // all are in place by then
            model_hook(being, 7);
    }
    bool model_death(Entity handle) {
        Being* const being = find(handle);
        if (!being)
            return false;
        bool is_known = false;
        for (const auto& [type, value] : being->values) {
            is_known = is_known || is_logged(type);
            model_.marks.erase({handle.entity_id, type});
            for (ReaderModel& reader : models_)
                if (reader.type == type)
                    reader.removed.push_back({handle.entity_id, true});
        }
        if (is_known)
            log(handle.entity_id, int(no_component), StructureEvent::Kind::destroyed);
        hooks_expected_ += linked_ && being->values.count(7) != 0;
        model_.beings.erase(handle.entity_id);
        model_.parents.erase(handle.entity_id);
        std::vector<Entity> children;
        for (const auto& [child, parent] : model_.parents)
            if (parent == handle.entity_id)
                children.push_back(model_.beings[child].handle);
        for (const Entity child : children)
            model_death(child);
        return true;
    }
    /// As many as are alive when the first of them ends; each takes its children along.
    u32 model_deaths(const std::vector<Entity>& doomed) {
        std::set<u64> living;
        for (const Entity e : doomed)
            if (find(e))
                living.insert(e.entity_id);
        for (const Entity e : doomed)
            model_death(e);
        return u32(living.size());
    }
    bool model_leads_to(u64 from, u64 to) const {
        while (from != to) {
            const auto found = model_.parents.find(from);
            if (found == model_.parents.end())
                return false;
            from = found->second;
        }
        return true;
    }
    void compare_links() {
        std::map<u64, u32> counts;
        for (const auto& [child, parent] : model_.parents)
            ++counts[parent];
        for (const auto& [id, being] : model_.beings) {
            const auto found = model_.parents.find(id);
            const Entity parent = found != model_.parents.end() ? model_.beings[found->second].handle : Entity{};
            wrong += world_.target<R>(being.handle) != parent;
            if (const R* const r = world_.get<R>(being.handle))
                wrong += r->target != parent;
            wrong += world_.source_count<R>(being.handle) != counts[id];
            u32 seen = 0;
            const Entity at = being.handle;
            world_.each_source<R>(at, [&](Entity source) { seen += world_.target<R>(source) == at; });
            wrong += seen != counts[id];
        }
    }
    Being* find(Entity handle) {
        const auto found = model_.beings.find(handle.entity_id);
        return found != model_.beings.end() && found->second.handle == handle ? &found->second : nullptr;
    }
    void compare_log() {
        std::vector<std::array<u64, 3>> seen;
        for (const StructureEvent& event : world_.structure_log())
            seen.push_back({event.entity_id, event.component, u64(event.kind)});
        std::vector<std::array<u64, 3>> expected;
        for (const auto& [id, type, kind] : expected_log_)
            expected.push_back({id, u64(type), u64(kind)});
        std::sort(seen.begin(), seen.end());
        std::sort(expected.begin(), expected.end());
        wrong += seen != expected;
    }

    // --- the operations ---
    Entity any() { return handles_.empty() ? Entity{} : handles_[random_.below(u32(handles_.size()))]; }
    /// A few entities get most additions, so that their lists grow long and short again.
    Entity living() {
        if (model_.beings.empty())
            return {};
        const u32 k = random_.below(4) == 0 ? random_.below(u32(model_.beings.size()))
                                            : random_.below(u32(std::min<std::size_t>(8, model_.beings.size())));
        return std::next(model_.beings.begin(), k)->second.handle;
    }
    Entity any_living() {
        return model_.beings.empty() ? Entity{} : std::next(model_.beings.begin(), random_.below(u32(model_.beings.size())))->second.handle;
    }
    int any_type() {
        const int type = int(random_.below(3) == 0 ? random_.below(8) : random_.below(type_count));
        return type == relation_type && !linked_ ? type + 1 : type; // a pool of it would be enough to have hooks
    }
    std::map<int, int> any_values() {
        std::map<int, int> values;
        for (u32 i = random_.below(40); i > 0; --i)
            values[any_type()] = int(steps) + int(i);
        return values;
    }

    void add_or_write() {
        const Entity e = random_.below(8) == 0 ? any() : living();
        const int type = any_type(), value = int(steps);
        Being* const being = find(e);
        const bool there = being && being->values.count(type) != 0;
        if (random_.below(3) == 0) {
            ++done["write"];
            wrong += types[u32(type)].write(world_, e, value) != there;
            if (there)
                being->values[type] = value, model_mark(e.entity_id, type);
        } else if (type == 1 && random_.below(2) == 0) {
            ++done["set"];
            wrong += (world_.set(e, A{value}) != nullptr) != (being != nullptr);
            if (there)
                being->values[1] = value, model_mark(e.entity_id, 1);
            else if (being)
                model_gain(*being, 1, value);
        } else {
            ++done["add"];
            wrong += types[u32(type)].add(world_, e, value) != (being != nullptr);
            if (being && !there)
                model_gain(*being, type, value);
        }
        if (being)
            wrong += types[u32(type)].get(world_, e) != (being->values.count(type) ? being->values[type] : -1);
    }
    void remove() {
        ++done["remove"];
        const Entity e = random_.below(8) == 0 ? any() : living();
        Being* const being = find(e);
        int type = any_type();
        if (being && !being->values.empty() && random_.below(3) != 0)
            type = std::next(being->values.begin(), random_.below(u32(being->values.size())))->first;
        const bool there = being && being->values.count(type) != 0;
        if (const PoolBase* pool = world_.pool_of(ComponentId(type)); pool && random_.below(4) == 0)
            wrong += world_.remove_erased(e, ComponentId(type)) != there;
        else
            wrong += types[u32(type)].remove(world_, e) != there;
        if (there)
            model_lose(*being, type);
        wrong += types[u32(type)].has(world_, e);
    }
    void make() {
        const int value = int(steps);
        const Entity source = living();
        switch (random_.below(6)) {
        case 0:
            ++done["spawn"];
            model_birth(world_.spawn(S{value}, A{value + 1}, C<100>{value + 2}), {{4, value}, {1, value + 1}, {100, value + 2}});
            break;
        case 1:
            ++done["create"];
            model_birth(world_.create(), {});
            break;
        case 2: {
            ++done["instantiate"];
            const std::map<int, int> values = any_values();
            Prefab prefab;
            for (const auto& [type, v] : values)
                wrong += !types[u32(type)].give(prefab, v);
            Entity made[3];
            wrong += !world_.instantiate_n(prefab, made);
            for (const Entity e : made)
                model_birth(e, values);
            break;
        }
        case 3: {
            ++done["clone"];
            Being* const being = find(source);
            Entity made[2];
            wrong += world_.clone_n(source, made) != (being != nullptr);
            if (being)
                for (const Entity e : made) {
                    model_birth(e, std::map<int, int>(being->values));
                    if (const auto parent = model_.parents.find(source.entity_id); parent != model_.parents.end())
                        model_.parents[e.entity_id] = parent->second;
                }
            break;
        }
        case 4: {
            ++done["spawn_n"];
            Entity made[4];
            wrong += !world_.spawn_n<B, D>(made, [&](u32 i, B& b, D& d) { b.value = int(i), d.value = value; });
            for (int i = 0; i < 4; ++i)
                model_birth(made[i], {{2, i}, {3, value}});
            break;
        }
        default: {
            ++done["spawn_columns"];
            Entity made[2];
            const B column[] = {{value}, {value + 1}};
            wrong += !world_.spawn_columns<B>(made, column);
            model_birth(made[0], {{2, value}});
            model_birth(made[1], {{2, value + 1}});
        }
        }
    }
    void destroy() {
        if (random_.below(3) != 0 && population() < 250) {
            ++done["destroy"];
            const Entity e = any();
            wrong += world_.destroy(e) != model_death(e);
            return;
        }
        ++done["destroy_batch"];
        std::vector<Entity> doomed;
        for (u32 i = 0; i < 12; ++i)
            doomed.push_back(random_.below(2) ? any() : any_living());
        const u32 destroyed = world_.destroy_batch(doomed);
        wrong += destroyed != model_deaths(doomed);
    }
    /// Recorded now, applied in one go; pending handles are targets of later commands.
    void commands() {
        ++done["commands"];
        Commands commands = queue_.commands();
        std::vector<Entity> targets;
        std::vector<std::function<bool()>> expected; // applied? Null: the next of `ends`; consecutive ones end together
        std::vector<Entity> ends;
        for (u32 i = 0; i < 4; ++i)
            targets.push_back(random_.below(2) ? any() : living());
        for (u32 i = random_.below(10) + 1; i > 0; --i) {
            const Entity target = targets[random_.below(u32(targets.size()))];
            const int value = int(steps) * 16 + int(i);
            switch (random_.below(linked_ ? 7 : 6)) {
            case 6: { // a child of what lives, is dead, or is made by this queue
                const Entity pending = commands.spawn(R{value, target}, A{value});
                targets.push_back(pending);
                expected.push_back([=, this] {
                    const Entity child = queue_.resolve(pending), parent = known(target);
                    model_birth(child, {{relation_type, value}, {1, value}});
                    if (find(parent))
                        model_.parents[child.entity_id] = parent.entity_id;
                    else if (target)
                        model_death(child);
                    return true;
                });
                break;
            }
            case 0: {
                const Entity pending = commands.spawn(A{value}, S{value});
                targets.push_back(pending);
                expected.push_back([=, this] { return model_birth(queue_.resolve(pending), {{1, value}, {4, value}}), true; });
                break;
            }
            case 1:
                commands.destroy(target);
                expected.push_back(nullptr);
                ends.push_back(target);
                break;
            case 2:
                commands.add<A>(target, value);
                expected.push_back([=, this] {
                    Being* const being = find(known(target));
                    if (being && being->values.count(1) == 0)
                        model_gain(*being, 1, value);
                    return being != nullptr;
                });
                break;
            case 3:
                commands.set(target, S{value});
                expected.push_back([=, this] {
                    Being* const being = find(known(target));
                    if (being && being->values.count(4) == 0)
                        model_gain(*being, 4, value);
                    else if (being)
                        being->values[4] = value, model_mark(being->handle.entity_id, 4);
                    return being != nullptr;
                });
                break;
            default:
                commands.remove<S>(target);
                expected.push_back([=, this] {
                    Being* const being = find(known(target));
                    if (being && being->values.count(4) != 0)
                        model_lose(*being, 4);
                    return being != nullptr;
                });
            }
        }
        const CommandReport report = queue_.apply();
        u32 applied = 0, ended = 0;
        std::vector<Entity> doomed;
        for (const auto& command : expected) {
            if (!command) {
                doomed.push_back(known(ends[ended++]));
                continue;
            }
            applied += model_deaths(doomed);
            doomed.clear();
            applied += command();
        }
        applied += model_deaths(doomed);
        wrong += report.applied != applied || report.dropped != expected.size() - applied;
    }
    /// A pending handle that was born by now in the model's order, or a plain one.
    Entity known(Entity handle) {
        const Entity e = queue_.resolve(handle);
        return detail::CommandQueueBase::is_pending(handle) && model_.beings.count(e.entity_id) == 0 ? Entity{} : e;
    }
    void loops() {
        ++done["loops"];
        ThreadsForTest threads(2);
        const bool parallel = random_.below(8) == 0;
        std::map<u32, int> seen;
        std::map<u32, int> expected;
        for (auto& [id, being] : model_.beings) {
            const auto a = being.values.find(1), d = being.values.find(3);
            if (a == being.values.end() || being.values.count(2) == 0 || being.values.count(5) != 0)
                continue;
            expected[being.handle.entity_idx] = a->second * 8 + being.values[2] + (d != being.values.end());
            a->second += 3;
            model_mark(id, 1);
            if (d != being.values.end())
                d->second += 5, model_mark(id, 3);
        }
        std::mutex mutex;
        const auto body = [&](u32 idx, A& a, const B& b, D* d) {
            const std::lock_guard lock(mutex);
            wrong += !seen.emplace(idx, a.value * 8 + b.value + (d != nullptr)).second;
            a.value += 3;
            if (d)
                d->value += 5;
        };
        if (parallel)
            world_.each_mut<A, const B, Maybe<D>>(threads, without<C<5>>, body);
        else
            world_.each_mut<A, const B, Maybe<D>>(without<C<5>>, body);
        wrong += seen != expected;

        u64 sum = 0, expected_sum = 0;
        u32 spanned = 0, expected_rows = 0;
        world_.each<S>(with<A>, [&](Entity e, const S& s) { sum += e.entity_id * u64(value_of(s)); });
        world_.each_block<A, const D>([&](std::span<const u32> owners, std::span<const A> a, std::span<const D>) {
            spanned += u32(a.size()) + (owners.size() != a.size());
        });
        world_.each_row<S>([&](Row<S> row) {
            if (row.entity_idx() % 7 == 0)
                row.mut() = S(value_of(*row) + 1);
        });
        for (auto& [id, being] : model_.beings) {
            expected_rows += being.values.count(1) && being.values.count(3);
            const auto s = being.values.find(4);
            if (s == being.values.end())
                continue;
            if (being.values.count(1) != 0)
                expected_sum += id * u64(s->second);
            if (being.handle.entity_idx % 7 == 0)
                ++s->second, model_mark(id, 4);
        }
        wrong += sum != expected_sum || spanned != expected_rows;
    }
    template <class T>
    void read(ChangeReader<T>& reader, ReaderModel& model) {
        wrong += reader.take_resync() != std::exchange(model.resync, false);
        std::vector<std::pair<u64, bool>> removed;
        reader.each_removed([&](const Removal& removal) { removed.push_back({removal.entity.entity_id, removal.destroyed}); });
        std::sort(removed.begin(), removed.end());
        std::sort(model.removed.begin(), model.removed.end());
        wrong += removed != model.removed;
        std::set<u64> changed, expected;
        reader.each([&](Entity e, const T& value) {
            wrong += !changed.insert(e.entity_id).second;
            wrong += value_of(value) != model_.beings[e.entity_id].values[model.type];
        });
        for (const u64 id : model.changed)
            if (const auto found = model_.beings.find(id); found != model_.beings.end() && found->second.values.count(model.type) != 0)
                expected.insert(id);
        wrong += changed != expected;
        model.changed.clear();
        model.removed.clear();
    }
    void read_changes() {
        ++done["readers"];
        const u32 which = random_.below(20) == 0 ? 1 : 0; // one is read seldom
        if (random_.below(2))
            read(*readers_a_[which], models_[which]);
        else
            read(*readers_s_[which], models_[2 + which]);
    }
    void relate() {
        ++done["relate"];
        const Entity source = random_.below(8) == 0 ? any() : any_living(), target = random_.below(8) == 0 ? any() : any_living();
        Being* const being = find(source);
        if (!being || !find(target) || model_leads_to(target.entity_id, source.entity_id)) {
            wrong += world_.relate<R>(source, target) != Error::bad_value;
            return;
        }
        wrong += world_.relate<R>(source, target) != Error::none;
        if (being->values.count(relation_type) != 0)
            model_mark(source.entity_id, relation_type);
        else
            model_gain(*being, relation_type, 0);
        model_.parents[source.entity_id] = target.entity_id;
    }
    void order() {
        ++done["sort"];
        world_.sort<A>([](const A& a, const A& b) { return a.value < b.value; });
        const Pool<A>& pool = world_.pool<A>();
        for (u32 row = 1; row < pool.size(); ++row)
            wrong += pool[row].value < pool[row - 1].value;
        world_.sort_as<A, B, S>();
    }
    void take_or_restore() {
        if (snapshot_.empty() || random_.below(2)) {
            ++done["snapshot"];
            wrong += world_.snapshot_into(snapshot_) != Error::none;
            saved_ = model_;
            saved_handles_ = handles_;
            return;
        }
        ++done["restore"];
        wrong += world_.restore(snapshot_) != Error::none;
        model_ = saved_;
        handles_ = saved_handles_; // handles of later end with it: the same ids will be given to others
        for (ReaderModel& reader : models_) {
            reader.changed.clear();
            reader.removed.clear();
            reader.resync = true;
            for (const auto& [id, being] : model_.beings)
                if (being.values.count(reader.type))
                    reader.changed.insert(id);
        }
        part_ = {}; // its ids are given again, too
    }
    void take_or_restore_part() {
        if (part_.empty() || random_.below(2)) {
            ++done["snapshot_of"];
            const ComponentId of[] = {1, 4, 2};
            world_.pool<A>(), world_.pool<B>(), world_.pool<S>();
            wrong += world_.snapshot_into(part_, of) != Error::none;
            part_saved_ = model_;
            return;
        }
        ++done["restore part"];
        wrong += world_.restore(part_) != Error::none;
        for (auto& [id, being] : model_.beings)
            for (const int type : {1, 2, 4}) {
                const auto then = part_saved_.beings.find(id);
                const bool had = then != part_saved_.beings.end() && then->second.values.count(type) != 0;
                if (!had) {
                    if (being.values.count(type))
                        model_lose(being, type);
                } else if (being.values.count(type)) {
                    being.values[type] = then->second.values[type];
                    model_mark(id, type);
                } else {
                    model_gain(being, type, then->second.values[type]);
                }
            }
    }
    void clear_marks() {
        ++done["clear_changes"];
        world_.clear_changes();
        model_.marks.clear();
    }
    void look_at_dead() {
        ++done["dead"];
        const Entity e = any();
        if (find(e))
            return;
        const int type = any_type();
        wrong += world_.alive(e) || types[u32(type)].has(world_, e) || types[u32(type)].get(world_, e) != -1;
        wrong += world_.signature(e).count() != 0 || bool(world_.clone(e)) || world_.destroy(e);
    }

    World world_;
    CommandQueue queue_;
    Random random_;
    const bool linked_;
    u32 hooks_called_ = 0, hooks_expected_ = 0;
    std::unique_ptr<ChangeReader<A>> readers_a_[2];
    std::unique_ptr<ChangeReader<S>> readers_s_[2];
    std::vector<ReaderModel> models_;
    std::vector<std::tuple<u64, int, int>> expected_log_;
    std::vector<Entity> handles_; // of the last few hundred births, most dead
    Model model_, saved_, part_saved_;
    std::vector<Entity> saved_handles_;
    WorldSnapshot snapshot_;
    PartialSnapshot part_;
};
} // namespace

TEST_SUITE("ecs") {
    TEST_CASE("everything public under random operations, against a model of maps") {
        REQUIRE(assign_ids() == 0);
        const WorldOptions options[] = {{.block_rows = 64}, {.block_rows = 128, .inline_indices = 24}};
        for (u32 k = 0; k < 4; ++k) {
            Run run(1000 + k, options[k % 2], k >= 2);
            u32 most_types = 0, most = 0, most_links = 0;
            for (u32 step = 0; step < 50'000; ++step) {
                run.step();
                if (step % 500 == 0)
                    run.compare_all();
                most = std::max(most, run.population());
                most_links = std::max(most_links, run.links());
                most_types = std::max(most_types, step % 100 ? 0 : run.most_types());
                CAPTURE(step);
                REQUIRE(run.wrong == 0);
            }
            run.compare_all();
            CHECK(run.wrong == 0);
            CHECK(most > 60);       // more than a word of entities
            CHECK(most_types > 24); // lists beyond the inline ones
            for (const auto& operation : run.done) {
                CAPTURE(operation.first);
                CHECK(operation.second > 20);
            }
            CHECK(run.done.size() == (k < 2 ? 22 : 23));
            CHECK((most_links > 20) == (k >= 2));
            CHECK((run.hooks_called() > 1000) == (k >= 2));
        }
    }
}
