// Runs one fuzz target without libFuzzer: every file of the corpus as it is, then cut at each of its first lengths, then
// with seeded bit flips. A crash or a sanitizer report is the failure; so is a corpus that reaches nothing.
#include "tests/fuzz/fuzz.hpp"
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <vector>

namespace {

using throng::u64;
using throng::u8;

constexpr std::size_t cut_lengths_max = 512;
constexpr int flipped_copies = 256;

u64 runs = 0;

/// From a heap block of exactly this size, so that the address sanitizer sees one byte too far.
void run(const std::vector<u8>& bytes, std::size_t size_bytes) {
    const std::unique_ptr<u8[]> exact(new u8[size_bytes]);
    std::copy_n(bytes.begin(), size_bytes, exact.get());
    LLVMFuzzerTestOneInput(exact.get(), size_bytes);
    ++runs;
}

u64 next_random(u64& state) { // xorshift64*
    state ^= state >> 12;
    state ^= state << 25;
    state ^= state >> 27;
    return state * 0x2545f4914f6cdd1du;
}

void run_neighbours(const std::vector<u8>& bytes) {
    for (std::size_t length = 0, end = std::min(bytes.size(), cut_lengths_max); length < end; ++length)
        run(bytes, length);
    if (bytes.empty())
        return;
    u64 state = 0x9e3779b97f4a7c15u ^ bytes.size();
    for (int copy = 0; copy < flipped_copies; ++copy) {
        std::vector<u8> flipped = bytes;
        for (u64 flips = 1 + next_random(state) % 4; flips > 0; --flips) {
            const u64 bit = next_random(state) % (flipped.size() * 8);
            flipped[bit / 8] = static_cast<u8>(flipped[bit / 8] ^ 1u << bit % 8);
        }
        run(flipped, flipped.size());
    }
}

} // namespace

int main(int argc, char** argv) {
    if (argc != 2 || !std::filesystem::is_directory(argv[1])) {
        std::fprintf(stderr, "usage: fuzz_<target> CORPUS_FOLDER\n");
        return 2;
    }
    std::vector<std::filesystem::path> files;
    for (const auto& entry : std::filesystem::directory_iterator(argv[1]))
        if (entry.is_regular_file())
            files.push_back(entry.path());
    std::sort(files.begin(), files.end());

    std::vector<std::vector<u8>> corpus;
    for (const auto& file : files) {
        std::ifstream stream(file, std::ios::binary);
        corpus.emplace_back(std::istreambuf_iterator<char>(stream), std::istreambuf_iterator<char>());
        run(corpus.back(), corpus.back().size());
    }
    const u64 accepted = throng::fuzz::accepted_count;
    for (const std::vector<u8>& bytes : corpus)
        run_neighbours(bytes);
    std::printf("%zu inputs, %llu of them accepted, %llu runs\n", corpus.size(), static_cast<unsigned long long>(accepted),
                static_cast<unsigned long long>(runs));
    if (accepted == 0) {
        std::fprintf(stderr, "the corpus reaches nothing: no input was accepted\n");
        return 1;
    }
    return 0;
}
