#include "src/client/net_index.hpp"

namespace throng {

NetIndex::NetIndex(Allocator allocator, u32 records_max, u32 links_max)
    : records_(allocator), table_(allocator), links_(allocator), graves_(allocator), records_max_(records_max), links_max_(links_max) {}

void NetIndex::grow_table() {
    const u32 size = table_.empty() ? 32 : static_cast<u32>(table_.size()) * 2;
    table_.clear();
    table_.resize(size, no_record);
    mask_ = size - 1;
    for (u32 r = 0; r < records_.size(); ++r) {
        if (!records_[r].id)
            continue;
        u32 slot = home(records_[r].id);
        while (table_[slot] != no_record)
            slot = (slot + 1) & mask_;
        table_[slot] = r;
    }
}

u32 NetIndex::obtain(NetId id) {
    const u32 known = find(id);
    if (known != no_record)
        return known;
    THRONG_ASSERT(room(1));
    if ((live_ + 1) * 3 > table_.size() * 2)
        grow_table();
    u32 record = free_record_;
    if (record != no_record) {
        free_record_ = records_[record].links_to; // free records are chained by it
    } else {
        record = static_cast<u32>(records_.size());
        records_.push_back({});
    }
    records_[record] = {};
    records_[record].id = id;
    u32 slot = home(id);
    while (table_[slot] != no_record)
        slot = (slot + 1) & mask_;
    table_[slot] = record;
    ++live_;
    return record;
}

void NetIndex::erase_from_table(NetId id) {
    u32 hole = home(id);
    while (records_[table_[hole]].id != id)
        hole = (hole + 1) & mask_;
    // Linear probing: whatever was pushed past the hole moves back, so that no marker is needed.
    for (u32 slot = (hole + 1) & mask_; table_[slot] != no_record; slot = (slot + 1) & mask_) {
        const u32 wanted = home(records_[table_[slot]].id);
        if (((slot - wanted) & mask_) >= ((slot - hole) & mask_)) {
            table_[hole] = table_[slot];
            hole = slot;
        }
    }
    table_[hole] = no_record;
}

void NetIndex::release_unused(u32 record) {
    NetRecord& r = records_[record];
    if (!r.id || r.chunk || r.entity || r.buried || r.links_to != no_link || r.links_from != no_link || r.vanished)
        return;
    erase_from_table(r.id);
    r = {};
    r.links_to = free_record_;
    free_record_ = record;
    --live_;
}

void NetIndex::bury(u32 record, Tick tick) {
    NetRecord& r = records_[record];
    r.tombstone = tick;
    r.buried = true;
    if (graves_empty() || tick_newer(tick, newest_grave_))
        newest_grave_ = tick;
    if (grave_first_ > 16 && grave_first_ * 2 > graves_.size()) {
        const std::size_t left = graves_.size() - grave_first_;
        for (std::size_t i = 0; i < left; ++i)
            graves_[i] = graves_[grave_first_ + i];
        graves_.resize(left);
        grave_first_ = 0;
    }
    graves_.push_back({record, tick, r.id});
}

void NetIndex::expire_tombstones(Tick oldest) {
    while (!graves_empty() && tick_newer(oldest, graves_[grave_first_].tick)) {
        const Grave grave = graves_[grave_first_++];
        NetRecord& r = records_[grave.record];
        if (r.id == grave.id && r.buried && r.tombstone == grave.tick) {
            r.buried = false;
            release_unused(grave.record);
        }
    }
    if (graves_empty()) {
        graves_.clear();
        grave_first_ = 0;
    }
}

void NetIndex::drop_link(u32 index, u32& from_head) {
    const RefLink link = links_[index];
    from_head = link.next_from;
    if (link.prev_to != no_link)
        links_[link.prev_to].next_to = link.next_to;
    else
        records_[link.target].links_to = link.next_to;
    if (link.next_to != no_link)
        links_[link.next_to].prev_to = link.prev_to;
    links_[index].next_from = free_link_;
    free_link_ = index;
    --live_links_;
    release_unused(link.target);
}

u32 NetIndex::set_link(u32 holder, u32 column, NetId target, bool& dropped) {
    dropped = false;
    for (u32* head = &records_[holder].links_from; *head != no_link; head = &links_[*head].next_from) {
        if (links_[*head].column != column)
            continue;
        if (records_[links_[*head].target].id == target)
            return links_[*head].target;
        drop_link(*head, *head);
        break;
    }
    if (!target)
        return no_record;
    u32 to = find(target);
    if (live_links_ >= links_max_ || (to == no_record && !room(reserved_ + 1))) {
        dropped = true;
        return to;
    }
    if (to == no_record)
        to = obtain(target);
    u32 index = free_link_;
    if (index != no_link) {
        free_link_ = links_[index].next_from;
    } else {
        index = static_cast<u32>(links_.size());
        links_.push_back({});
    }
    links_[index] = {holder, to, records_[holder].links_from, records_[to].links_to, no_link, column};
    records_[holder].links_from = index;
    if (records_[to].links_to != no_link)
        links_[records_[to].links_to].prev_to = index;
    records_[to].links_to = index;
    ++live_links_;
    return to;
}

void NetIndex::drop_links_from(u32 holder) { drop_links_from(holder, 0, 0xffffffff); }

void NetIndex::drop_links_from(u32 holder, u32 first, u32 count) {
    u32* head = &records_[holder].links_from;
    while (*head != no_link) {
        if (links_[*head].column - first < count)
            drop_link(*head, *head);
        else
            head = &links_[*head].next_from;
    }
}

void NetIndex::clear() {
    records_.clear();
    table_.clear();
    links_.clear();
    graves_.clear();
    grave_first_ = 0;
    mask_ = live_ = live_links_ = reserved_ = 0;
    free_record_ = no_record;
    free_link_ = no_link;
}

} // namespace throng
