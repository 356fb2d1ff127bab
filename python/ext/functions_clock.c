#include "functions_clock.h"

#include <fcntl.h>
#include <string.h>
#include <unistd.h>

enum { RATE_SPAN_NS_MIN = 10000000 };

static uint64_t loaded_tick;
static uint64_t loaded_ns;
static bool is_trusted;

static bool is_tsc_of_kernel(void)
{
    char name[8] = "";
    int fd = open("/sys/devices/system/clocksource/clocksource0/current_clocksource",
                  O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        return false;
    }
    ssize_t size = read(fd, name, sizeof(name) - 1);
    close(fd);
    return size >= 4 && memcmp(name, "tsc\n", 4) == 0;
}

void ks_functions_clock_init(void)
{
#ifdef __x86_64__
    is_trusted = is_tsc_of_kernel();
#endif
    loaded_ns = ks_functions_monotonic_ns();
    loaded_tick = ks_functions_tick(true);
}

bool ks_functions_clock_is_tsc(void)
{
    return is_trusted;
}

double ks_functions_seconds_per_tick(bool is_tsc)
{
    if (!is_tsc) {
        return 1e-9;
    }
    uint64_t now_ns = ks_functions_monotonic_ns();
    while (now_ns - loaded_ns < RATE_SPAN_NS_MIN) { // only in the first 10 ms of the process
        now_ns = ks_functions_monotonic_ns();
    }
    uint64_t ticks = ks_functions_tick(true) - loaded_tick;
    return (double)(now_ns - loaded_ns) * 1e-9 / (double)ticks;
}
