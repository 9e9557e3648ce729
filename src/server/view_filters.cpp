#include "src/server/view_filters.hpp"
#include "src/server/sight.hpp"
#include <algorithm>

namespace throng {

ValueTable::ValueTable(u32 value_bytes, Allocator allocator)
    : value_bytes_(value_bytes), units_(std::max(1u, (value_bytes + 15) / 16)), values_(allocator), entries_(allocator),
      buckets_(allocator), idle_(allocator) {}

u32 ValueTable::hash(const void* value) const {
    u64 mixed = 0x9e3779b97f4a7c15u;
    const auto* bytes = static_cast<const std::byte*>(value);
    for (u32 at = 0; at < value_bytes_; at += 8) {
        u64 word = 0;
        std::memcpy(&word, bytes + at, std::min<u32>(8, value_bytes_ - at));
        mixed = (mixed ^ word) * 0xff51afd7ed558ccdu;
        mixed ^= mixed >> 32;
    }
    return static_cast<u32>(mixed);
}

u32 ValueTable::unused_number() {
    while (idle_.size()) { // one that nobody has taken again
        const u32 number = idle_.back();
        idle_.pop_back();
        Entry& entry = entries_[number];
        entry.listed = false;
        if (entry.uses)
            continue;
        u32* link = &bucket(entry.hash);
        while (*link != number)
            link = &entries_[*link].next;
        *link = entry.next;
        return number;
    }
    if (entries_.empty()) {
        entries_.resize(1); // number 0 is nobody's
        values_.resize(units_);
    }
    const u32 number = entries_.size();
    entries_.resize(number + 1);
    values_.resize(std::size_t(number + 1) * units_);
    idle_.reserve(entries_.capacity());
    if (number >= buckets_.size()) {
        buckets_.resize(std::bit_ceil(number + 1) * 2);
        std::fill(buckets_.begin(), buckets_.end(), 0);
        for (u32 i = 1; i < number; ++i)
            entries_[i].next = std::exchange(bucket(entries_[i].hash), i);
    }
    return number;
}

u32 ValueTable::take(const void* value, bool& anew) {
    const u32 mixed = hash(value);
    anew = false;
    if (!buckets_.empty())
        for (u32 number = bucket(mixed); number; number = entries_[number].next)
            if (entries_[number].hash == mixed && is(number, value)) {
                ++entries_[number].uses;
                return number;
            }
    anew = true;
    const u32 number = unused_number();
    std::memcpy(&values_[std::size_t(number) * units_], value, value_bytes_);
    entries_[number] = {1, std::exchange(bucket(mixed), number), mixed, false};
    return number;
}

void ValueTable::release(u32 number) {
    Entry& entry = entries_[number];
    if (--entry.uses || entry.listed)
        return;
    entry.listed = true;
    idle_.push_back(number);
}

void Verdicts::reserve(u32 viewers, u32 classes) {
    for (u32 viewer = 0; !forgotten_.empty() && viewer < viewers_; ++viewer)
        for (const u32 number : forgotten_)
            if (number / 32 < stride_)
                row(viewer)[number / 32] &= ~(u64(3) << number % 32 * 2);
    forgotten_.clear();
    const u32 words = (classes + 31) / 32;
    if (words > stride_) {
        const u32 stride = std::bit_ceil(words);
        words_.resize(std::size_t(viewers_) * stride);
        for (u32 viewer = viewers_; viewer-- > 0;) { // to where none was, or where those were that have moved on
            u64* const to = &words_[std::size_t(viewer) * stride];
            std::memmove(to, words_.data() + std::size_t(viewer) * stride_, stride_ * sizeof(u64));
            std::fill(to + stride_, to + stride, 0);
        }
        stride_ = stride;
    }
    if (viewers > viewers_) {
        viewers_ = viewers;
        words_.resize(std::size_t(viewers) * stride_);
    }
}

void Verdicts::forget_viewer(u32 viewer) {
    if (viewer < viewers_)
        std::fill_n(row(viewer), stride_, 0);
}

bool filter_allows(const ServerState& state, ClientId client, u32 f, u32 number) {
    const ViewFilter& filter = state.filters.list[f];
    const void* const value = filter.classes.value(number);
    if (f == ViewFilters::group)
        return has_member(state.outbox, static_cast<const VisibleToGroup*>(value)->group, client);
    const ViewFilters::Kind& kind = state.filters.kinds[filter.kind];
    const u32 of_client = kind.number_of(client);
    return filter.type.ask(filter.type.function, value, of_client ? kind.values.value(of_client) : nullptr);
}

u32 decide_filter(const ServerState& state, ClientId client, u32 f, u32 number, u64* row) {
    const u32 verdict = filter_allows(state, client, f, number) ? Verdicts::allowed : Verdicts::refused;
    Verdicts::set(row, number, verdict);
    return verdict;
}

void reserve_verdicts(ServerState& state) {
    for (u32 f = 0; f < state.filters.list.size(); ++f) {
        ViewFilter& filter = state.filters.list[f];
        if (!filter.classes.end())
            continue;
        const u32 viewers = f == ViewFilters::group ? state.clients.size() : state.filters.kinds[filter.kind].values.end();
        filter.verdicts.reserve(std::max(1u, viewers), filter.classes.end());
    }
}

void group_sight_changed(ServerState& state, ClientId id) {
    ViewFilter& filter = state.filters.list[ViewFilters::group];
    if (!filter.classes.end() || id >= state.clients.size())
        return;
    filter.verdicts.forget_viewer(id);
    state.clients[id].view_changed = state.clients[id].attention = state.views_changed = true;
}

void set_filter_value(ServerState& state, ClientId id, u32 k, const void* value) {
    ViewFilters::Kind& kind = state.filters.kinds[k];
    const u32 before = kind.number_of(id);
    if (before ? value && kind.values.is(before, value) : !value)
        return;
    bool anew = false;
    const u32 now = value ? kind.values.take(value, anew) : 0;
    if (anew)
        for (ViewFilter& filter : state.filters.list)
            if (filter.kind == k)
                filter.verdicts.forget_viewer(now);
    if (before)
        kind.values.release(before);
    if (id >= kind.numbers.size())
        kind.numbers.resize(state.clients.size());
    kind.numbers[id] = now;
    ClientState& client = state.clients[id];
    client.view_changed = client.attention = state.views_changed = true;
}

void forget_filter_values(ServerState& state, ClientId client) {
    state.filters.list[ViewFilters::group].verdicts.forget_viewer(client);
    for (ViewFilters::Kind& kind : state.filters.kinds)
        if (const u32 number = kind.number_of(client)) {
            kind.values.release(number);
            kind.numbers[client] = 0;
        }
}

namespace {

i32 kind_of(const ServerState& state, const void* type) {
    for (u32 kind = 0; kind < state.filters.kinds.size(); ++kind)
        if (state.filters.kinds[kind].type == type)
            return static_cast<i32>(kind);
    return -1;
}

void push_filter(ServerState& state, const detail::FilterType& type, u32 kind) {
    const Allocator allocator = state.config.allocator;
    ViewFilter& filter = state.filters.list.emplace_back(type, kind, allocator);
    filter.changes = type.make_changes(allocator.allocate(type.changes_bytes, type.changes_alignment), state.world);
}

} // namespace

void add_group_filter(ServerState& state) {
    struct NoValue {};
    push_filter(state, detail::FilterType::of<VisibleToGroup, NoValue>("VisibleToGroup", nullptr), ~u32(0));
}

Error add_filter(ServerState& state, const detail::FilterType& type) {
    if (!type.name || !type.function)
        return Error::bad_value;
    for (const ViewFilter& filter : state.filters.list)
        if (filter.type.component == type.component && filter.type.client_type == type.client_type)
            return Error::bad_value;
    if (state.filters.list.size() == ViewFilters::count_max)
        return Error::limit_reached;
    const Allocator allocator = state.config.allocator;
    i32 kind = kind_of(state, type.client_type);
    if (kind < 0) {
        kind = static_cast<i32>(state.filters.kinds.size());
        state.filters.kinds.emplace_back(type.client_type, type.client_bytes, allocator);
    }
    push_filter(state, type, static_cast<u32>(kind));
    return Error::none;
}

void end_filters(ServerState& state) {
    for (const ViewFilter& filter : state.filters.list) {
        filter.changes->~FilterChanges();
        state.config.allocator.free(filter.changes, filter.type.changes_bytes, filter.type.changes_alignment);
    }
}

Error Server::add_view_filter(const detail::FilterType& type) {
    return throng::add_filter(*state_, type);
}

Error View::set_value(const void* type, const void* value) {
    const i32 kind = kind_of(*state_, type);
    if (kind < 0)
        return Error::bad_value;
    set_filter_value(*state_, client_, static_cast<u32>(kind), value);
    return Error::none;
}

const void* View::get_value(const void* type) const {
    const i32 kind = kind_of(*state_, type);
    const u32 number = kind < 0 ? 0 : state_->filters.kinds[static_cast<u32>(kind)].number_of(client_);
    return number ? state_->filters.kinds[static_cast<u32>(kind)].values.value(number) : nullptr;
}

} // namespace throng
