#pragma once
// Counts the instructions that a program executes in user space, on all threads, where the system lets it (Linux performance events; most
// virtual machines and containers refuse).
#include <cstdint>
#include <optional>

namespace scenarios {

/// Counts while it runs; stopped at first. Threads count that are started after it was made, and the one that made it.
/// Thread rule: one thread.
class InstructionCounter {
public:
    InstructionCounter();
    ~InstructionCounter();
    InstructionCounter(const InstructionCounter&) = delete;
    InstructionCounter& operator=(const InstructionCounter&) = delete;

    void start();
    void stop();
    /// Of all times that it ran; nothing where the system refuses.
    std::optional<std::uint64_t> count() const;

private:
    int event_; // -1: refused
};

} // namespace scenarios
