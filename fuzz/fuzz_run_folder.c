/* What lies in the folder of a run beside traces: a status file, lines of the monitor, and names.
 * The same bytes are tried as each of them.
 *
 * What must hold, beside what sanitizers see: texts end and hold no control bytes, times are above
 * zero, paces are above zero and finite, what is described fits, and no clock loses more than all
 * of itself. */
#include <math.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "read/reader.h"
#include "read/run_clocks.h"
#include "read/run_machine.h"
#include "read/run_monitor.h"
#include "read/run_name.h"
#include "read/run_status.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_status(const struct ks_run_status *status)
{
    const char *text = status->process.explanation;
    KS_ASSERT(memchr(text, '\0', KS_RUN_EXPLANATION_SIZE));
    for (; *text; text++) {
        KS_ASSERT((unsigned char)*text >= 0x20);
    }
    KS_ASSERT(status->after.count <= KS_STEP_TIMES_MAX &&
              status->before.count <= KS_STEP_TIMES_MAX);
    for (size_t i = 0; i < status->after.count; i++) {
        KS_ASSERT(status->after.list[i] > 0);
    }
}

static void check_told(const struct ks_live_rank *rank)
{
    KS_ASSERT(memchr(rank->program, '\0', sizeof(rank->program)));
    KS_ASSERT(rank->step_ns >= 0 && rank->step_spread_ns >= 0 && rank->last_step_ns >= 0);
    KS_ASSERT(rank->rate_count <= KS_LIVE_RATES_MAX);
    for (size_t i = 0; i < rank->rate_count; i++) {
        KS_ASSERT(isfinite(rank->rates[i]) && rank->rates[i] > 0.0);
    }
    KS_ASSERT(rank->rate_count > 0 ? rank->steps_per_s > 0.0 : isnan(rank->steps_per_s));
}

static void check_clocks(struct ks_str text)
{
    struct ks_source source = {.pid = 1};
    struct ks_source *list[] = {&source};
    ks_run_clocks_add_line(text, list, 1);
    ks_run_clocks_finish(&source.clocks);
    KS_ASSERT(source.clocks.looks >= 0 && source.clocks.mhz <= source.clocks.mhz_max);
    for (size_t i = 0; i < KS_CLOCK_HOLDS; i++) {
        KS_ASSERT(source.clocks.held[i] <= source.clocks.looks);
        KS_ASSERT(source.clocks.lost_ppm[i] >= 0 && source.clocks.lost_ppm[i] < 1000000);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct ks_run_status status;
    struct ks_run_monitor monitor;
    struct ks_live_machine machine;
    struct ks_live_rank rank;
    struct ks_run_name name;
    char *copy = ks_alloc(size + KS_WINDOW_PAD, 1);
    KS_ASSERT(copy);
    if (size > 0) {
        memcpy(copy, data, size);
    }
    struct ks_str text = {copy, size};
    if (ks_run_status_parse(text, &status) == KS_OK) {
        check_status(&status);
        ks_run_status_tell(&status, &rank);
        check_told(&rank);
    }
    if (ks_run_machine_parse(text, &machine)) {
        KS_ASSERT(machine.gpu_count <= KS_LIVE_GPUS_MAX && !isinf(machine.cpu_percent));
    }
    if (ks_run_monitor_parse(text, &monitor)) {
        char words[160];
        (void)ks_run_monitor_describe(&monitor, words, sizeof(words));
        KS_ASSERT(memchr(words, '\0', sizeof(words)));
    }
    check_clocks(text);
    if (ks_run_name_parse(text, &name)) {
        KS_ASSERT(name.rank >= 0 && name.pid >= 0 && name.window >= 0);
    }
    ks_free(copy);
    return 0;
}
