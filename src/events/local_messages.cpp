#include "src/events/local_messages.hpp"

namespace throng {
namespace {
constexpr u32 block_bytes_min = 16384;
}

LocalMessages::LocalMessages(const MessageTable& table, u32 bytes_max, Allocator allocator)
    : allocator_(allocator), entries_(allocator), blocks_(allocator),
      block_bytes_(table.object_bytes_max > block_bytes_min ? table.object_bytes_max : block_bytes_min),
      alignment_(table.object_alignment_max), bytes_max_(bytes_max) {}

LocalMessages::~LocalMessages() {
    clear();
    for (std::byte* block : blocks_)
        allocator_.free(block, block_bytes_, alignment_);
}

Error LocalMessages::add(const MessageLayout& layout, Route route, const void* message) {
    const MessageInfo& info = *layout.info;
    if (u64(total_) + info.size_bytes > bytes_max_)
        return Error::limit_reached;
    u32 at = (used_ + info.alignment - 1) / info.alignment * info.alignment;
    if (block_ < blocks_.size() && at + info.size_bytes > block_bytes_) {
        ++block_;
        at = 0;
    }
    if (block_ == blocks_.size())
        blocks_.push_back(static_cast<std::byte*>(allocator_.allocate(block_bytes_, alignment_)));
    void* object = blocks_[block_] + at;
    info.copy(object, message);
    entries_.push_back({&layout, route, object});
    used_ = at + info.size_bytes;
    total_ += info.size_bytes;
    return Error::none;
}

void LocalMessages::clear() {
    for (const Entry& entry : entries_)
        entry.layout->info->destroy(entry.object);
    entries_.clear();
    block_ = used_ = total_ = taken_ = 0;
}

} // namespace throng
