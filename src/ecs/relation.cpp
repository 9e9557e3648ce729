#include "throng/relation.hpp"
#include <algorithm>

namespace throng::detail {
namespace {
constexpr std::size_t line_bytes = 64;
} // namespace

RelationTable::~RelationTable() {
    for (RelationLinks* page : pages_)
        if (page)
            pages_.allocator().free(page, page_bytes, line_bytes);
}

void RelationTable::reserve(u32 slot) {
    const u32 page = slot / page_slots;
    if (page >= touched_.size())
        touched_.resize(page + std::size_t(1));
    if (page >= pages_.size())
        pages_.resize(page + std::size_t(1));
    if (pages_[page])
        return;
    RelationLinks* const memory = static_cast<RelationLinks*>(pages_.allocator().allocate(page_bytes, line_bytes));
    std::fill_n(memory, page_slots, RelationLinks{});
    pages_[page] = memory;
}

void RelationTable::link(u32 source, u32 target) {
    RelationLinks& to = at(target);
    const u32 last = to.last;
    to.last = source;
    ++to.count;
    if (last == no_row)
        to.first = source;
    else
        at(last).next = source;
    RelationLinks& from = at(source);
    from.target = target;
    from.previous = last;
    from.next = no_row;
}

void RelationTable::unlink(u32 source) {
    const RelationLinks was = links(source);
    if (was.target == no_row)
        return;
    RelationLinks& from = at(was.target);
    --from.count;
    (was.previous == no_row ? from.first : at(was.previous).next) = was.next;
    (was.next == no_row ? from.last : at(was.next).previous) = was.previous;
    at(source).leave();
}

void RelationTable::drop(u32 slot) {
    const RelationLinks was = links(slot);
    if (was.target == no_row && was.count == 0)
        return;
    unlink(slot);
    for (u32 source = links(slot).first; source != no_row;) {
        RelationLinks& links_now = at(source);
        source = links_now.next;
        links_now.leave();
    }
    at(slot) = RelationLinks{};
}

bool RelationTable::leads_to(u32 from, u32 to, u32 limit) const {
    for (; from != no_row; from = links(from).target)
        if (from == to || limit-- == 0)
            return true;
    return false;
}

void RelationTable::set_page(u32 index, const void* copy) {
    touched_[index] = 0;
    if (copy)
        std::memcpy(static_cast<void*>(pages_[index]), copy, page_bytes);
    else
        std::fill_n(pages_[index], page_slots, RelationLinks{});
}

void RelationTable::copy_from(const RelationTable& other) {
    clear();
    for (u32 page = 0; page < other.pages_.size(); ++page)
        if (other.pages_[page]) {
            reserve(page * page_slots);
            std::copy_n(other.pages_[page], page_slots, pages_[page]);
        }
}

void RelationTable::clear() {
    for (RelationLinks* page : pages_)
        if (page)
            std::fill_n(page, page_slots, RelationLinks{});
}

u64 RelationTable::memory_bytes() const {
    u64 bytes = u64(pages_.capacity()) * sizeof(RelationLinks*) + touched_.capacity();
    for (const RelationLinks* page : pages_)
        bytes += page ? page_bytes : 0;
    return bytes;
}

} // namespace throng::detail
