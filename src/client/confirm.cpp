// What a client knows of ticks (R9): which state of an entity has come, and up to where all of it is here.
#include "src/client/client_impl.hpp"
#include <bit>

namespace throng {

void Client::Impl::start_history(u32 record, Tick tick) {
    if (histories.size() <= record) {
        histories.reserve_extra(record + 1 - histories.size());
        histories.resize(record + 1);
    }
    histories[record] = ConfirmHistory(tick);
}

/// Of a section that is applied. Lanes that are not open brought an older state: it has come all the same. Unless what is shown is older
/// still: an entity that was to come to a lane which is another's by now has never been shown so.
void Client::Impl::note_carried(const HeldChunk& chunk, const StagedSection& section, u64 open, Tick tick) {
    for (u64 m = section.lanes; m; m &= m - 1) {
        const u32 lane = static_cast<u32>(std::countr_zero(m));
        const u32 record = open >> lane & 1 ? chunk.record[lane] : index.find(section.occupants->net_id[lane]);
        if (record == no_record || !index[record].entity || tick_newer(tick, index[record].tick))
            continue;
        if (config.confirm_history)
            histories[record].confirm(tick);
        const NetRecord& r = index[record];
        if (config.on_carried && (open >> lane & 1) && r.chunk == &chunk && r.lane == lane)
            scratch->carried.push_back(record);
    }
}

void Client::Impl::report_carried(Tick tick) {
    for (std::size_t i = 0; i < scratch->carried.size(); ++i) {
        const NetRecord& r = index[scratch->carried[i]];
        if (r.chunk && world.alive(r.entity))
            config.on_carried(config.context, r.entity, r.id, tick);
    }
    scratch->carried.clear();
}

bool Client::confirmed(Tick tick) const {
    const Impl& impl = *impl_;
    return impl.any_settled && !tick_newer(impl.welcome_tick, tick) && !tick_newer(tick, impl.settled_tick);
}

const ConfirmHistory* Client::confirm_history(Entity entity) const {
    const Impl& impl = *impl_;
    const NetId id = impl.config.confirm_history ? net_id(entity) : NetId{};
    return id ? &impl.histories[impl.index.find(id)] : nullptr;
}

bool Client::confirmed(Entity entity, Tick tick) const { return confirmed_any(entity, tick, tick); }

bool Client::confirmed_any(Entity entity, Tick first, Tick last) const {
    const ConfirmHistory* history = confirm_history(entity);
    if (!history || tick_newer(first, last))
        return false;
    if (history->carried_any(first, last))
        return true;
    if (!impl_->any_settled)
        return false;
    // Settled ticks count while the entity was seen: from since() on, and of a frozen one up to when it was last carried.
    Tick end = impl_->settled_tick;
    if (frozen(entity) && tick_newer(end, history->newest()))
        end = history->newest();
    const Tick begin = tick_newer(first, history->since()) ? first : history->since();
    return !tick_newer(begin, last) && !tick_newer(begin, end);
}

} // namespace throng
