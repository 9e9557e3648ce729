#include "bench/naive/server.hpp"
#include "throng/assert.hpp"
#include <algorithm>
#include <cmath>
#include <span>
#include <sys/mman.h>
#include <utility>

namespace naive {

static constexpr u32 client_grain = 16;
static constexpr u32 examine_period_ticks = 4;
static constexpr u32 messages_open_max = 8192;
static constexpr float hysteresis = 1.1f;
static constexpr u32 no_number = ~0u;

template <class T>
T* HugePages<T>::allocate(std::size_t count) {
    const std::size_t bytes = count * sizeof(T);
    void* memory = ::operator new(bytes, std::align_val_t(huge_page_bytes));
    (void)madvise(memory, bytes, MADV_HUGEPAGE); // a refusal costs speed only
    return static_cast<T*>(memory);
}

Server::Server(throng::World& world, throng::ServerBackend& backend, throng::Executor& executor, const ServerConfig& config)
    : world_(world), backend_(backend), executor_(executor), config_(config), factor_(prediction_factor(config.tick_hz)),
      clients_(config.client_max), scratch_(executor.worker_count()) {
    const auto extent = static_cast<float>(2 * scenarios::world_half_m);
    cell_m_ = std::max(config.radius_m * hysteresis / 2, extent / 1024);
    cells_per_m_ = 1 / cell_m_;
    columns_ = static_cast<u32>(std::ceil(extent / cell_m_));
    cells_.resize(std::size_t(columns_) * columns_);
    world_.log_structure(throng::component_id<throng::Replicated>(), true);
    const throng::Pool<throng::Replicated>& pool = world_.pool<throng::Replicated>();
    world_.pool<scenarios::Position>();
    world_.pool<scenarios::Heading>();
    world_.pool<scenarios::Velocity>();
    world_.pool<scenarios::Vitals>();
    world_.clear_structure_log();
    std::vector<std::pair<u32, u32>> by_place;
    by_place.reserve(pool.size());
    for (u32 row = 0; row < pool.size(); ++row)
        if (const auto* position = world_.get<scenarios::Position>(world_.entity_at(pool.owner(row))))
            by_place.emplace_back(cell_of(position->x, position->z), pool.owner(row));
    std::sort(by_place.begin(), by_place.end());
    for (const auto& [cell, world_idx] : by_place)
        track(world_idx);
}

Server::~Server() = default;

// --- entities

u32 Server::cell_of(float x, float z) const {
    const auto half = static_cast<float>(scenarios::world_half_m);
    const auto last = static_cast<float>(columns_ - 1);
    const auto column = static_cast<u32>(std::clamp((x + half) * cells_per_m_, 0.0f, last));
    const auto row = static_cast<u32>(std::clamp((z + half) * cells_per_m_, 0.0f, last));
    return row * columns_ + column;
}

void Server::enter_cell(u32 entity, float x, float z) {
    Head& head = heads_[entity];
    head.x = x;
    head.z = z;
    head.cell = cell_of(x, z);
    std::vector<Item>& items = cells_[head.cell];
    head.place = static_cast<u32>(items.size());
    items.push_back({x, z, entity});
}

void Server::leave_cell(u32 entity) {
    const Head& head = heads_[entity];
    std::vector<Item>& items = cells_[head.cell];
    items[head.place] = items.back();
    heads_[items[head.place].entity].place = head.place;
    items.pop_back();
}

void Server::track(u32 world_idx) {
    if (world_idx >= number_of_.size()) {
        const std::size_t size = std::max<std::size_t>(world_.entity_slots(), std::size_t(world_idx) + 1);
        number_of_.resize(size, no_number);
    }
    const auto* position = world_.get<scenarios::Position>(world_.entity_at(world_idx));
    if (number_of_[world_idx] != no_number || !position)
        return;
    u32 entity = 0;
    // Numbers rest before they are used again: records about their last holder are settled by then, as a rule.
    if (free_.size() - free_first_ > 256) {
        entity = free_[free_first_++];
        if (free_first_ * 2 > free_.size()) {
            free_.erase(free_.begin(), free_.begin() + static_cast<std::ptrdiff_t>(free_first_));
            free_first_ = 0;
        }
    } else {
        entity = static_cast<u32>(heads_.size());
        heads_.emplace_back();
        history_.emplace_back();
        row_.push_back(0);
        touched_.resize(entity / 64 + 1);
        for (Scratch& s : scratch_)
            s.stamp.push_back(0);
    }
    number_of_[world_idx] = entity;
    Head& head = heads_[entity];
    ++head.generation;
    head.alive = true;
    head.world_idx = world_idx;
    head.count = 0;
    head.run = 0;
    head.changed = 0;
    enter_cell(entity, position->x, position->z);
    touched_[entity / 64] |= u64(1) << (entity % 64);
}

void Server::untrack(u32 world_idx) {
    if (world_idx >= number_of_.size() || number_of_[world_idx] == no_number)
        return;
    const u32 entity = number_of_[world_idx];
    leave_cell(entity);
    heads_[entity].alive = false;
    number_of_[world_idx] = no_number;
    free_.push_back(entity);
}

void Server::structure() {
    for (const throng::StructureEvent& e : world_.structure_log()) {
        if (e.kind == throng::StructureEvent::Kind::added)
            track(e.entity_idx);
        else
            untrack(e.entity_idx);
    }
    world_.clear_structure_log();
}

/// Row of a component. Entities that are spawned with the same components have the same rows in all pools, one after the
/// other; `hint` makes that case a comparison.
static u32 row_of(const throng::World& world, const throng::PoolBase& pool, u32 world_idx, u32 hint) {
    return hint < pool.size() && pool.owner(hint) == world_idx ? hint : world.dense_index(world_idx, pool.component());
}

void Server::capture_entity(const Pools& pools, u32 entity, Scratch& scratch) {
    Head& head = heads_[entity];
    const u32 world_idx = head.world_idx;
    u32& hint = row_[entity];
    hint = row_of(world_, pools.position, world_idx, hint);
    const u32 heading = pools.aligned ? hint : row_of(world_, pools.heading, world_idx, hint);
    const u32 velocity = pools.aligned ? hint : row_of(world_, pools.velocity, world_idx, hint);
    const u32 vitals = pools.aligned ? hint : row_of(world_, pools.vitals, world_idx, hint);
    if (hint == throng::no_row || heading == throng::no_row || velocity == throng::no_row || vitals == throng::no_row)
        return;
    const scenarios::Position& position = pools.position[hint];
    if (position.x != head.x || position.z != head.z) {
        head.x = position.x;
        head.z = position.z;
        Item& item = cells_[head.cell][head.place];
        item.x = head.x;
        item.z = head.z;
        if (cell_of(head.x, head.z) != head.cell)
            scratch.crossed.push_back(entity);
    }
    const State now = quantise(position, pools.heading[heading], pools.velocity[velocity], pools.vitals[vitals]);
    History& h = history_[entity];
    if (head.count > 0 && h.state[(head.count - 1) % versions] == now)
        return;
    h.state[head.count % versions] = now;
    h.tick[head.count % versions] = tick_;
    head.run = static_cast<u16>(head.count > 0 && tick_ - head.changed == 1 ? std::min<u32>(head.run + 1u, versions) : 1);
    ++head.count;
    head.changed = tick_;
}

void Server::capture() {
    // Mark over pool blocks, then gather over touched words: each entity is quantised once.
    const throng::PoolBase* const pools[4] = {&world_.pool<scenarios::Position>(), &world_.pool<scenarios::Heading>(),
                                              &world_.pool<scenarios::Velocity>(), &world_.pool<scenarios::Vitals>()};
    const auto touch = [&](const u32* owners, u64 rows) {
        for (; rows; rows &= rows - 1) {
            const u32 slot = owners[static_cast<u32>(__builtin_ctzll(rows))];
            const u32 entity = slot < number_of_.size() ? number_of_[slot] : no_number;
            if (entity == no_number)
                continue;
            const u64 bit = u64(1) << (entity % 64);
            if (!(__atomic_load_n(&touched_[entity / 64], __ATOMIC_RELAXED) & bit))
                __atomic_fetch_or(&touched_[entity / 64], bit, __ATOMIC_RELAXED);
        }
    };
    // Entities that are spawned with the same components have the same rows in all pools: comparing the owner columns, which
    // are read in order, saves look-ups of rows, and all but one of what changed in several components.
    bool aligned = true;
    for (u32 b = 0; b < pools[0]->block_count() && aligned; ++b)
        for (u32 k = 1; k < 4 && aligned; ++k)
            aligned = pools[k]->size() == pools[0]->size() && pools[k]->block_rows() == pools[0]->block_rows() &&
                      std::memcmp(pools[k]->owners(b), pools[0]->owners(b), pools[0]->rows_in_block(b) * sizeof(u32)) == 0;
    const std::span<const throng::PoolBase* const> marked(pools, aligned ? 1 : 4);
    for (const throng::PoolBase* pool : marked) {
        const u32 words_per_block = pool->block_rows() / 64;
        throng::for_ranges(executor_, pool->block_count(), 1, [&](u32 begin, u32 end, u32) {
            for (u32 b = begin; b < end; ++b) {
                for (u32 w = 0; w < words_per_block; ++w) {
                    u64 rows = pool->change_words(b)[w];
                    for (u32 k = 1; k < 4 && aligned; ++k)
                        rows |= pools[k]->change_words(b)[w];
                    touch(pool->owners(b) + w * 64, rows);
                }
            }
        });
    }
    const Pools typed{world_.pool<scenarios::Position>(), world_.pool<scenarios::Heading>(), world_.pool<scenarios::Velocity>(),
                      world_.pool<scenarios::Vitals>(), aligned};
    constexpr u32 words_a_piece = 32;
    throng::for_ranges(executor_, static_cast<u32>(touched_.size()), words_a_piece, [&](u32 begin, u32 end, u32 worker) {
        u32 entities[words_a_piece * 64], count = 0;
        for (u32 w = begin; w < end; ++w) {
            for (u64 m = std::exchange(touched_[w], 0); m; m &= m - 1)
                entities[count++] = w * 64 + static_cast<u32>(__builtin_ctzll(m));
        }
        // What is needed first is fetched first: an entity's head, then its history, rows and cell, then its place in the cell.
        constexpr u32 head_ahead = 16, rows_ahead = 8, place_ahead = 4;
        for (u32 k = 0; k < count + head_ahead; ++k) {
            if (k < count) {
                throng::detail::prefetch(&heads_[entities[k]]);
                throng::detail::prefetch(&row_[entities[k]]);
            }
            if (const u32 i = k - (head_ahead - rows_ahead); i < count) {
                const Head& head = heads_[entities[i]];
                const History& h = history_[entities[i]];
                throng::detail::prefetch_write(&h.tick);
                throng::detail::prefetch_write(&h.state[head.count % versions]);
                throng::detail::prefetch(&h.state[(head.count - 1) % versions]);
                throng::detail::prefetch(&cells_[head.cell]);
                const u32 row = row_[entities[i]];
                if (aligned && row < typed.position.size()) {
                    for (const throng::PoolBase* pool : pools)
                        throng::detail::prefetch(pool->row(row));
                    const u32 block_rows = typed.position.block_rows();
                    throng::detail::prefetch(&typed.position.owners(row / block_rows)[row % block_rows]);
                }
            }
            if (const u32 i = k - (head_ahead - place_ahead); i < count)
                if (const Head& head = heads_[entities[i]]; head.alive)
                    throng::detail::prefetch_write(&cells_[head.cell][head.place]);
            if (const u32 i = k - head_ahead; i < count && heads_[entities[i]].alive)
                capture_entity(typed, entities[i], scratch_[worker]);
        }
    });
    world_.clear_changes();
    crossed_.clear();
    for (Scratch& s : scratch_) {
        crossed_.insert(crossed_.end(), s.crossed.begin(), s.crossed.end());
        s.crossed.clear();
    }
    std::sort(crossed_.begin(), crossed_.end()); // which worker found it must not matter
    for (const u32 entity : crossed_) {
        leave_cell(entity);
        enter_cell(entity, heads_[entity].x, heads_[entity].z);
    }
}

// The state an entity had in messages of `tick`; null if it is no longer held.
const State* Server::version(u32 entity, u32 tick) const {
    const Head& head = heads_[entity];
    const History& h = history_[entity];
    const u32 oldest = head.count > versions ? head.count - versions : 0;
    // What moves has a version a tick: the age tells the place. Otherwise search from there.
    const u32 age = throng::tick_newer(head.changed, tick) ? head.changed - tick : 0;
    if (age < head.run)
        return &h.state[(head.count - 1 - age) % versions];
    u32 i = age < head.count - oldest ? head.count - 1 - age : oldest;
    while (i + 1 < head.count && !throng::tick_newer(h.tick[(i + 1) % versions], tick))
        ++i;
    while (throng::tick_newer(h.tick[i % versions], tick)) {
        if (i == oldest)
            return nullptr;
        --i;
    }
    return &h.state[i % versions];
}

// --- connections

void Server::on_connect(throng::ClientId client) {
    THRONG_ASSERT(client < clients_.size() && "more clients than client_max");
    clients_[client] = Client{};
    clients_[client].connected = true;
    clients_[client].messages.resize(64);
    clients_[client].records.resize(1024);
}

void Server::on_disconnect(throng::ClientId client) { clients_[client] = Client{}; }

void Server::on_message(throng::ClientId client, throng::Channel, throng::Bytes message) {
    std::vector<std::byte>& inbox = clients_[client].inbox;
    if (message.size() > message_bytes_max || inbox.size() > 64 * 1024)
        return;
    const auto size = static_cast<u32>(message.size());
    const auto* head = reinterpret_cast<const std::byte*>(&size);
    inbox.insert(inbox.end(), head, head + sizeof size);
    inbox.insert(inbox.end(), message.begin(), message.end());
}

void Server::follow(throng::ClientId client, throng::Entity entity) { clients_[client].followed = entity; }

void Server::receive(throng::TimeUs now) { backend_.poll(now, *this); }

// --- acknowledgements

void Server::record_lost(Client& client, u32 record, u32 tick) {
    if (record & 1) {
        for (Gone& g : client.gone)
            if (g.entity == record >> 1 && g.sent == tick)
                g.sent = 0;
        return;
    }
    Pair* pair = client.pairs.find(record >> 1);
    if (!pair || pair->gone || pair->sent != tick)
        return; // a newer record is under way
    pair->sent = 0;
    ++client.resends;
    if (++pair->losses >= 3)
        pair->acked = 0;
}

void Server::record_acked(Client& client, u32 record, u32 tick) {
    if (record & 1) {
        for (std::size_t i = 0; i < client.gone.size(); ++i) {
            if (client.gone[i].entity == record >> 1 && !throng::tick_newer(client.gone[i].since, tick)) {
                client.gone[i] = client.gone.back();
                client.gone.pop_back();
                client.pairs.erase(record >> 1);
                return;
            }
        }
        return;
    }
    Pair* pair = client.pairs.find(record >> 1);
    if (!pair || pair->gone || throng::tick_newer(pair->since, tick))
        return;
    if (pair->acked == 0 || throng::tick_newer(tick, pair->acked))
        pair->acked = tick;
    pair->losses = 0;
}

void Server::settle_message(Client& client, u32 number, bool lost) {
    Message& message = client.messages[number & (client.messages.size() - 1)];
    message.open = false;
    const auto mask = static_cast<u32>(client.records.size() - 1);
    for (u32 r = message.first; r != message.first + message.count; ++r) {
        if (lost) {
            record_lost(client, client.records[r & mask], message.tick);
        } else {
            client.pairs.prefetch(client.records[(r + 4) & mask] >> 1);
            record_acked(client, client.records[r & mask], message.tick);
        }
    }
}

void Server::ack(Client& client, Scratch& scratch) {
    const auto mask = static_cast<u32>(client.messages.size() - 1);
    const auto* bytes = reinterpret_cast<const u8*>(client.inbox.data());
    for (std::size_t at = 0; at < client.inbox.size();) {
        u32 size = 0;
        std::memcpy(&size, bytes + at, sizeof size);
        at += sizeof size;
        Reader reader{bytes + at, bytes + at + size};
        at += size;
        const u32 newest = reader.raw<u32>();
        const u32 words = reader.byte();
        if (!reader.ok || words == 0 || words > ack_words_max || reader.end - reader.at != static_cast<std::ptrdiff_t>(words * 8) ||
            newest - client.first_open >= client.next_number - client.first_open) {
            // An acknowledgement of old messages only is nothing bad: reordered, or everything was settled before.
            if (!reader.ok || words == 0 || words > ack_words_max || !throng::tick_newer(client.next_number, newest))
                ++scratch.report.bad_acks;
            continue;
        }
        for (u32 w = 0; w < words; ++w) {
            for (u64 m = reader.raw<u64>(); m; m &= m - 1) {
                const u32 number = newest - w * 64 - static_cast<u32>(__builtin_ctzll(m));
                if (number - client.first_open >= client.next_number - client.first_open)
                    continue;
                const Message& message = client.messages[number & mask];
                if (!message.open)
                    continue;
                if (client.newest_acked_tick == 0 || throng::tick_newer(message.tick, client.newest_acked_tick))
                    client.newest_acked_tick = message.tick;
                settle_message(client, number, false);
            }
        }
    }
    client.inbox.clear();
    // Messages older than the newest acknowledged tick are lost; so is what nobody answers for a second or two.
    while (client.first_open != client.next_number) {
        const Message& message = client.messages[client.first_open & mask];
        if (message.open) {
            const bool overtaken = client.newest_acked_tick != 0 && throng::tick_newer(client.newest_acked_tick, message.tick);
            const bool crowded = client.next_number - client.first_open > messages_open_max - 64;
            if (!overtaken && !crowded && tick_ - message.tick < 40)
                break;
            settle_message(client, client.first_open, true);
        }
        ++client.first_open;
    }
}

// --- interest

void Server::interest(Client& client, Scratch& scratch) {
    if (const auto* position = world_.get<scenarios::Position>(client.followed)) {
        client.x = position->x;
        client.z = position->z;
        client.placed = true;
    }
    if (!client.placed)
        return;
    const float x = client.x, z = client.z;
    const float enter = config_.radius_m * config_.radius_m, leave = enter * hysteresis * hysteresis;
    const u32 mark = ++scratch.mark;
    std::size_t kept = 0;
    for (std::size_t i = 0; i < client.visible.size(); ++i) {
        const u32 entity = client.visible[i];
        const Head& head = heads_[entity];
        bool stays = head.alive;
        if (stays) {
            const float dx = head.x - x, dz = head.z - z;
            stays = dx * dx + dz * dz < leave;
        }
        if (stays) {
            scratch.stamp[entity] = mark;
            client.visible[kept++] = entity;
            continue;
        }
        Pair& pair = *client.pairs.find(entity);
        if (pair.sent == 0)
            --client.resends;
        pair.gone = true;
        client.gone.push_back({entity, tick_, 0, pair.generation});
    }
    client.visible.resize(kept);
    const auto half = static_cast<float>(scenarios::world_half_m);
    const auto last = static_cast<float>(columns_ - 1);
    const auto column = [&](float at) { return static_cast<u32>(std::clamp((at + half) * cells_per_m_, 0.0f, last)); };
    const float radius = config_.radius_m;
    const u32 left = column(x - radius), right = column(x + radius);
    for (u32 row = column(z - radius); row <= column(z + radius); ++row) {
        for (u32 c = left; c <= right; ++c) {
            for (const Item& item : cells_[std::size_t(row) * columns_ + c]) {
                const float dx = item.x - x, dz = item.z - z;
                if (dx * dx + dz * dz >= enter || scratch.stamp[item.entity] == mark)
                    continue;
                Pair& pair = *client.pairs.insert(item.entity);
                if (pair.gone) {
                    for (std::size_t i = 0; i < client.gone.size(); ++i) {
                        if (client.gone[i].entity == item.entity) {
                            client.gone[i] = client.gone.back();
                            client.gone.pop_back();
                            break;
                        }
                    }
                }
                const u32 key = pair.key;
                pair = Pair{};
                pair.key = key;
                pair.since = tick_;
                pair.generation = heads_[item.entity].generation;
                ++client.resends;
                client.visible.push_back(item.entity);
            }
        }
    }
}

// --- sending

u32 Server::open_message(Client& client) {
    if (client.next_number - client.first_open == client.messages.size()) {
        std::vector<Message> wider(client.messages.size() * 2);
        for (u32 n = client.first_open; n != client.next_number; ++n)
            wider[n & (wider.size() - 1)] = client.messages[n & (client.messages.size() - 1)];
        client.messages.swap(wider);
    }
    const u32 number = client.next_number++;
    client.messages[number & (client.messages.size() - 1)] = {tick_, client.next_record, 0, true};
    return number;
}

void Server::close_message(throng::ClientId id, Client& client, Scratch& scratch, const u8* begin, const u8* end) {
    const u32 number = client.next_number - 1;
    Message& message = client.messages[number & (client.messages.size() - 1)];
    message.count = client.next_record - message.first;
    const throng::Bytes bytes(reinterpret_cast<const std::byte*>(begin), static_cast<std::size_t>(end - begin));
    if (backend_.send(id, throng::Channel::unreliable, bytes) == throng::SendResult::accepted) {
        scratch.report.bytes += bytes.size();
        ++scratch.report.messages;
    } else {
        ++scratch.report.refused;
        settle_message(client, number, true);
    }
}

void Server::send(throng::ClientId id, Client& client, Scratch& scratch) {
    u8 buffer[message_bytes_max];
    u8* out = buffer;
    const u8* const limit = buffer + message_bytes_max - record_bytes_max;
    const auto room = [&] { // makes a message with space for one more record
        if (out > limit) {
            close_message(id, client, scratch, buffer, out);
            out = buffer;
        }
        if (out == buffer) {
            const u32 head[2] = {tick_, open_message(client)};
            std::memcpy(out, head, sizeof head);
            out += sizeof head;
        }
        // Records of the oldest open message up to the newest must stay in the ring.
        const u32 first = client.messages[client.first_open & (client.messages.size() - 1)].first;
        if (client.next_record - first == client.records.size()) {
            std::vector<u32> wider(client.records.size() * 2);
            for (u32 r = first; r != client.next_record; ++r)
                wider[r & (wider.size() - 1)] = client.records[r & (client.records.size() - 1)];
            client.records.swap(wider);
        }
    };
    const auto remember = [&](u32 record) { client.records[client.next_record++ & (client.records.size() - 1)] = record; };

    for (Gone& gone : client.gone) {
        if (gone.sent != 0)
            continue;
        room();
        out = put_varint(out, gone.entity);
        out = put_varint(out, kind_gone);
        *out++ = gone.generation;
        gone.sent = tick_;
        remember(gone.entity << 1 | 1);
    }
    const std::size_t count = client.visible.size();
    const u32* const visible = client.visible.data();
    u64 pairs = 0, sent = 0;
    for (std::size_t i = 0; i < count; ++i) {
        if (i + 6 < count)
            throng::detail::prefetch(&heads_[visible[i + 6]]);
        const u32 entity = visible[i];
        if (i + 3 < count) {
            const Head& ahead = heads_[visible[i + 3]];
            if (ahead.changed == tick_) {
                throng::detail::prefetch(&history_[visible[i + 3]].state[(ahead.count - 1) % versions]);
                throng::detail::prefetch(&history_[visible[i + 3]].state[(ahead.count - 5) % versions]); // about where baselines are
                client.pairs.prefetch(visible[i + 3]);
            }
        }
        const Head& head = heads_[entity];
        const bool dirty = head.changed == tick_;
        if ((!dirty && client.resends == 0) || !head.alive)
            continue;
        Pair& pair = *client.pairs.find(entity);
        if (pair.generation != head.generation) { // the slot was reused between two looks: another entity
            client.resends += pair.sent != 0;
            pair.sent = 0;
            pair.acked = 0;
            pair.since = tick_;
            pair.generation = head.generation;
        }
        if (!dirty && pair.sent != 0)
            continue;
        const State& now = newest(entity);
        const State* base = pair.acked != 0 ? version(entity, pair.acked) : nullptr;
        room();
        out = put_varint(out, entity);
        if (base) {
            const u32 age = tick_ - pair.acked;
            out = put_varint(out, kind_delta + age);
            out = put_difference(out, now, predict(*base, age, factor_));
            pairs += !(now == *base);
        } else {
            out = put_varint(out, kind_full);
            *out++ = head.generation;
            out = put_difference(out, now, State{});
            ++pairs;
        }
        client.resends -= pair.sent == 0;
        pair.sent = tick_;
        remember(entity << 1);
        ++sent;
    }
    if (out != buffer)
        close_message(id, client, scratch, buffer, out);
    scratch.report.pairs += pairs;
    scratch.report.sent_lanes += sent;
    scratch.report.visible += count;
}

TickReport Server::tick(throng::Tick tick, throng::TimeUs now, const StageHook& hook) {
    tick_ = tick;
    const auto stage = [&](const char* name) {
        if (hook.begin)
            hook.begin(hook.context, name);
    };
    for (Scratch& s : scratch_)
        s.report = {};
    const auto clients = static_cast<u32>(clients_.size());
    const auto each_client = [&](auto&& f) {
        throng::for_ranges(executor_, clients, client_grain, [&](u32 begin, u32 end, u32 worker) {
            for (u32 c = begin; c < end; ++c)
                if (clients_[c].connected)
                    f(c, clients_[c], scratch_[worker]);
        });
    };
    stage("ack");
    each_client([&](u32, Client& client, Scratch& scratch) { ack(client, scratch); });
    stage("structure");
    structure();
    stage("capture");
    capture();
    stage("interest");
    each_client([&](u32 id, Client& client, Scratch& scratch) {
        if ((tick + id) % examine_period_ticks == 0 || !client.placed)
            interest(client, scratch);
    });
    stage("send");
    each_client([&](u32 id, Client& client, Scratch& scratch) { send(id, client, scratch); });
    stage("flush");
    backend_.flush(now);
    TickReport total;
    for (const Scratch& s : scratch_) {
        total.pairs += s.report.pairs;
        total.sent_lanes += s.report.sent_lanes;
        total.bytes += s.report.bytes;
        total.messages += s.report.messages;
        total.refused += s.report.refused;
        total.bad_acks += s.report.bad_acks;
        total.visible += s.report.visible;
    }
    return total;
}

bool Server::settled(throng::ClientId client) const {
    const Client& c = clients_[client];
    if (!c.gone.empty() || c.resends != 0)
        return false;
    for (u32 n = c.first_open; n != c.next_number; ++n)
        if (c.messages[n & (c.messages.size() - 1)].open)
            return false;
    return true;
}

u64 Server::client_bytes() const {
    u64 sum = 0;
    for (const Client& c : clients_)
        sum += sizeof c + c.visible.capacity() * 4 + c.pairs.entries().capacity() * sizeof(Pair) + c.gone.capacity() * sizeof(Gone) +
               c.messages.capacity() * sizeof(Message) + c.records.capacity() * 4 + c.inbox.capacity();
    return sum;
}

} // namespace naive
