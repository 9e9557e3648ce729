#pragma once
// Typed messages that have arrived and may not be delivered yet, in order of arrival.
#include "src/events/typed_codec.hpp"

namespace throng {

class WaitingMessages {
public:
    WaitingMessages(const MessageTable& table, Allocator allocator)
        : entries_(allocator), bytes_(allocator), waiting_of_(allocator) {
        set_table(table);
    }
    /// Those of another protocol come from now on. What waits is dropped.
    void set_table(const MessageTable& table) {
        clear();
        table_ = &table;
        waiting_of_.resize(table.layouts.size());
    }

    bool empty() const { return entries_.empty(); }
    u32 size() const { return entries_.size(); }
    u32 reliable_count() const { return entries_.size() - unreliable_; }
    u32 unreliable_count() const { return unreliable_; }
    u32 size_bytes() const { return live_bytes_; }
    /// Whether a message of an ordered type must wait because an earlier one does.
    bool blocked(const MessageLayout& layout) const {
        return layout.info->options.channel == Channel::ordered && waiting_of_[table_->number(layout)] > 0;
    }

    void add(const Item& item, TimeUs now);
    /// Drops the one that has waited longest, among the unreliable ones or among the others.
    void drop_oldest(bool unreliable);
    void clear();

    enum class Verdict : u8 { keep, remove };
    /// Asks judge(item, since_us) about each in order. Those of an ordered type behind one that is kept are not asked, and kept.
    template <class Judge>
    void scan(Judge&& judge) {
        u64 held[Protocol::message_count_max / 64] = {};
        u32 kept = 0;
        for (u32 i = 0; i < entries_.size(); ++i) {
            const Entry entry = entries_[i];
            Item item;
            item.number = entry.number;
            item.layout = &table_->layouts[entry.number];
            u64& word = held[entry.number / 64];
            const u64 bit = u64(1) << entry.number % 64;
            const bool ordered = item.layout->info->options.channel == Channel::ordered;
            bool keep = ordered && (word & bit);
            if (!keep && read_payload({bytes_.data() + entry.offset, entry.bytes}, item) == Error::none)
                keep = judge(item, entry.since_us) == Verdict::keep;
            if (keep) {
                word |= bit;
                entries_[kept++] = entry;
            } else {
                forget(entry);
            }
        }
        entries_.resize(kept);
        compact();
    }

private:
    struct Entry {
        u32 number = 0, offset = 0, bytes = 0; // payload in bytes_
        TimeUs since_us = 0;
    };
    bool unreliable(const Entry& entry) const { return table_->layouts[entry.number].info->options.channel == Channel::unreliable; }
    void forget(const Entry& entry);
    void compact();

    const MessageTable* table_ = nullptr;
    Array<Entry> entries_;
    Array<std::byte> bytes_; // in the order of entries_, with gaps
    Array<u32> waiting_of_;  // by number
    u32 unreliable_ = 0, live_bytes_ = 0;
};

} // namespace throng
