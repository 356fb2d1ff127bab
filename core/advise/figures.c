/* Advice from a handful of numbers, for programs that measured themselves and have no trace.
 *
 * Each sentence names the number that it comes from. A number that is not known (NaN) makes every
 * comparison false, and so nothing is said. Shares are those of the rules that look for the same
 * in a trace; without the time of a step a batch counts as slow from 10 ms on, which is more than
 * a small step takes. */
#include <math.h>
#include <stdio.h>

#include <kscope/kscope.h>

enum { SENTENCE_SIZE = 320 };

static const double SHARE_MIN = 0.05;
static const double BATCH_S_MIN = 0.010;
static const double DEVICE_SHARE_MIN = 0.5;
static const double MEMORY_PERCENT_MAX = 90;
static const double GPU_FREE_MIN = 0.1;

/* Part of the steps that loading takes when nothing loads beside them; NaN: not known. */
static double load_share(const struct ks_run_figures *figures)
{
    double batch_s = figures->batch_s + figures->transform_s;
    return figures->total_s > 0 ? figures->batches * batch_s / figures->total_s : (double)NAN;
}

static bool is_loading_slow(const struct ks_run_figures *figures)
{
    double share = load_share(figures);
    double batch_s = figures->batch_s + figures->transform_s;
    return isnan(share) ? batch_s >= BATCH_S_MIN : share >= SHARE_MIN;
}

static void advise_loading(const struct ks_run_figures *figures, ks_say_cb say, void *user)
{
    char text[SENTENCE_SIZE];
    double batch_ms = (figures->batch_s + figures->transform_s) * 1e3;
    if (!is_loading_slow(figures)) {
        return;
    }
    const char *fix = figures->workers > 0
                          ? "More workers (num_workers), persistent_workers=True and a larger "
                            "prefetch_factor load further ahead"
                          : "Load in worker processes (num_workers > 0, persistent_workers=True), "
                            "so that it goes on during the steps";
    (void)snprintf(text, sizeof(text), "A batch takes %.3g ms to load. %s.", batch_ms, fix);
    say(user, "input.starved", text);
    if (figures->transform_s > figures->batch_s) {
        (void)snprintf(text, sizeof(text),
                       "Of that, %.3g ms are transforms: do once what does not change, or do it "
                       "for a whole batch.",
                       figures->transform_s * 1e3);
        say(user, "input.transform", text);
    }
}

static void advise_device(const struct ks_run_figures *figures, ks_say_cb say, void *user)
{
    char text[SENTENCE_SIZE];
    double share = figures->total_s > 0 ? figures->device_s / figures->total_s : (double)NAN;
    if (share >= DEVICE_SHARE_MIN) {
        (void)snprintf(text, sizeof(text),
                       "The GPU works %.0f %% of the time: mixed precision (bfloat16 autocast) and "
                       "torch.compile make its work shorter.",
                       share * 100);
        say(user, "precision.fp32_matmul", text);
    }
}

static void advise_memory(const struct ks_run_figures *figures, ks_say_cb say, void *user)
{
    char text[SENTENCE_SIZE];
    if (figures->memory_percent >= MEMORY_PERCENT_MAX) {
        (void)snprintf(text, sizeof(text),
                       "Memory of the machine is %.0f %% full: fewer workers, a smaller "
                       "prefetch_factor or a smaller batch leave room.",
                       figures->memory_percent);
        say(user, "memory.full", text);
    }
    if (figures->gpu_free_share < GPU_FREE_MIN) {
        (void)snprintf(text, sizeof(text),
                       "Only %.0f %% of the GPU's memory is free at the peak: gradient "
                       "checkpointing or a smaller batch with accumulation leave room.",
                       figures->gpu_free_share * 100);
        say(user, "memory.gpu_full", text);
    }
}

void ks_figures_advise(const struct ks_run_figures *figures, ks_say_cb say, void *user)
{
    advise_loading(figures, say, user);
    advise_device(figures, say, user);
    advise_memory(figures, say, user);
}
