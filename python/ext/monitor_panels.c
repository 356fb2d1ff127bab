#include "monitor_panels.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { KINDS_MAX = 6, TICKS = 4, MINUTE = 60, HOUR = 3600, MINUTES_FROM = 600, HOURS_FROM = 4 };

struct kind {
    const char *title;
    int is_percent_of_all; /* the axis ends at 100 */
    enum ks_metric metrics[KINDS_MAX];
    uint32_t count;
};

static const struct kind KINDS[] = {
    {"CPU of the process", 0, {KS_METRIC_CPU_PROCESS, KS_METRIC_CPU_PROCESS_SYSTEM}, 2},
    {"Memory of the process", 0, {KS_METRIC_MEMORY_RSS, KS_METRIC_MEMORY_PSS}, 2},
    {"Input and output of the process",
     0,
     {KS_METRIC_IO_READ, KS_METRIC_IO_WRITE, KS_METRIC_IO_DISK_READ, KS_METRIC_IO_DISK_WRITE},
     4},
    {"Busy",
     1,
     {KS_METRIC_CPU_MACHINE, KS_METRIC_MEMORY_MACHINE, KS_METRIC_GROUP_MEMORY_USED,
      KS_METRIC_DISK_BUSY},
     4},
    {"Waiting",
     1,
     {KS_METRIC_PRESSURE_CPU, KS_METRIC_PRESSURE_MEMORY, KS_METRIC_PRESSURE_IO,
      KS_METRIC_GROUP_THROTTLED_PERIODS},
     4},
    {"Disks and network of the machine",
     0,
     {KS_METRIC_DISK_READ, KS_METRIC_DISK_WRITE, KS_METRIC_NET_RECEIVE, KS_METRIC_NET_SEND,
      KS_METRIC_NET_RDMA_RECEIVE, KS_METRIC_NET_RDMA_SEND},
     6},
    {"GPU busy", 1, {KS_METRIC_GPU_BUSY}, 1},
    {"GPU memory", 0, {KS_METRIC_GPU_MEMORY}, 1},
    {"GPU power", 0, {KS_METRIC_GPU_POWER}, 1},
};

enum { KIND_COUNT = sizeof(KINDS) / sizeof(*KINDS) };

_Static_assert((int)KIND_COUNT <= (int)KS_PANELS_MAX, "each may be there");

static uint32_t index_count(enum ks_metric metric)
{
    return metric < KS_METRIC_SINGLE_COUNT ? 1 : KS_METRIC_GPUS_MAX;
}

/* Adds the curves that have values, and notes the highest. */
static void add_curves(const struct ks_panels *panels, struct ks_panel *panel,
                       enum ks_metric metric, double *highest)
{
    for (uint32_t i = 0; i < index_count(metric); i++) {
        uint32_t series = ks_series_of(metric, i);
        struct ks_curve_summary summary;
        if (panel->curve_count == KS_PANEL_CURVES_MAX ||
            !ks_curves_summary(panels->source, series, panels->from_ns, panels->to_ns, &summary)) {
            continue;
        }
        struct ks_panel_curve *curve = &panel->curves[panel->curve_count++];
        curve->series = series;
        if (ks_series_index(series) < 0) {
            (void)snprintf(curve->label, sizeof(curve->label), "%s", ks_metric_kinds[metric].name);
        } else {
            (void)snprintf(curve->label, sizeof(curve->label), "GPU %u", i);
        }
        *highest = summary.max > *highest ? summary.max : *highest;
    }
}

/* Bytes in the largest unit that leaves a number of at least 1. */
static void choose_unit(struct ks_panel *panel, enum ks_metric metric, double highest)
{
    static const struct {
        double size;
        const char *bytes, *rate;
    } UNITS[] = {{1e9, "GB", "GB/s"}, {1e6, "MB", "MB/s"}, {1e3, "kB", "kB/s"}};
    const char *unit = ks_metric_kinds[metric].unit;
    int is_rate = strcmp(unit, "bytes/s") == 0;
    panel->unit = strcmp(unit, "percent") == 0 ? "%" : unit;
    panel->scale = 1;
    if (!is_rate && strcmp(unit, "bytes") != 0) {
        return;
    }
    for (size_t i = 0; i < sizeof(UNITS) / sizeof(*UNITS) && panel->scale >= 1; i++) {
        if (highest >= UNITS[i].size) {
            panel->unit = is_rate ? UNITS[i].rate : UNITS[i].bytes;
            panel->scale = 1 / UNITS[i].size;
        }
    }
}

double ks_panels_tick(double top, int count)
{
    static const double STEPS[] = {1, 2, 5};
    double rough = top / count;
    double power = pow(10, floor(log10(rough)));
    for (size_t i = 0; i < sizeof(STEPS) / sizeof(*STEPS); i++) {
        if (STEPS[i] * power >= rough * 0.999) {
            return STEPS[i] * power;
        }
    }
    return 10 * power;
}

/* Up to the next mark. Curves that are 0 all along lie on an axis up to 1. */
static double top_of(const struct kind *kind, const struct ks_panel *panel, double highest)
{
    double high = highest * panel->scale;
    if (kind->is_percent_of_all) {
        return 100;
    }
    if (high <= 0) {
        return 1;
    }
    double tick = ks_panels_tick(high, TICKS);
    return tick * ceil(high / tick * 0.9999);
}

static void choose_time(struct ks_panels *panels)
{
    double seconds = (double)(panels->to_ns - panels->from_ns) / 1e9;
    panels->time_unit = "s";
    panels->time_scale = 1;
    if (seconds >= (double)HOURS_FROM * HOUR) {
        panels->time_unit = "h";
        panels->time_scale = 1.0 / HOUR;
    } else if (seconds >= MINUTES_FROM) {
        panels->time_unit = "min";
        panels->time_scale = 1.0 / MINUTE;
    }
}

void ks_panels_choose(struct ks_panels *panels, struct ks_curves *curves, int64_t from_ns,
                      int64_t to_ns)
{
    *panels = (struct ks_panels){.source = curves, .from_ns = from_ns, .to_ns = to_ns};
    choose_time(panels);
    for (size_t i = 0; curves && i < KIND_COUNT; i++) {
        const struct kind *kind = &KINDS[i];
        struct ks_panel *panel = &panels->list[panels->count];
        double highest = 0;
        *panel = (struct ks_panel){.title = kind->title};
        for (uint32_t j = 0; j < kind->count; j++) {
            add_curves(panels, panel, kind->metrics[j], &highest);
        }
        if (panel->curve_count > 0) {
            choose_unit(panel, kind->metrics[0], highest);
            panel->top = top_of(kind, panel, highest);
            panels->count++;
        }
    }
}
