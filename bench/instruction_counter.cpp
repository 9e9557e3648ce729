#include "bench/instruction_counter.hpp"
#include <linux/perf_event.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace scenarios {

InstructionCounter::InstructionCounter() {
    perf_event_attr wanted{};
    wanted.size = sizeof wanted;
    wanted.type = PERF_TYPE_HARDWARE;
    wanted.config = PERF_COUNT_HW_INSTRUCTIONS;
    wanted.disabled = 1;
    wanted.inherit = 1;
    wanted.exclude_kernel = 1;
    wanted.exclude_hv = 1;
    constexpr int this_process = 0, any_processor = -1, no_group = -1;
    event_ = static_cast<int>(syscall(SYS_perf_event_open, &wanted, this_process, any_processor, no_group, PERF_FLAG_FD_CLOEXEC));
}

InstructionCounter::~InstructionCounter() {
    if (event_ >= 0)
        close(event_);
}

void InstructionCounter::start() {
    if (event_ >= 0)
        ioctl(event_, PERF_EVENT_IOC_ENABLE, 0);
}

void InstructionCounter::stop() {
    if (event_ >= 0)
        ioctl(event_, PERF_EVENT_IOC_DISABLE, 0);
}

std::optional<std::uint64_t> InstructionCounter::count() const {
    std::uint64_t value = 0;
    if (event_ < 0 || read(event_, &value, sizeof value) != static_cast<ssize_t>(sizeof value))
        return std::nullopt;
    return value;
}

} // namespace scenarios
