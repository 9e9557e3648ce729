// conformance [--workers=N] [--loss=PERCENT] [doctest's options]
#include "tests/conformance/support.hpp"
#include <cstdio>
#include <cstdlib>
#include <cstring>

int main(int count, char** values) {
    conformance::Setting& setting = conformance::setting();
    for (int i = 1; i < count; ++i) {
        if (std::strncmp(values[i], "--workers=", 10) == 0)
            setting.workers = static_cast<throng::u32>(std::atoi(values[i] + 10));
        if (std::strncmp(values[i], "--loss=", 7) == 0)
            setting.loss_percent = std::atof(values[i] + 7);
    }
    if (setting.workers < 1 || setting.workers > 64 || !(setting.loss_percent >= 0 && setting.loss_percent <= 90)) {
        std::fputs("usage: conformance [--workers=1..64] [--loss=0..90] [doctest's options]\n", stderr);
        return 2;
    }
    doctest::Context context(count, values);
    return context.run();
}
