/* What a picture of the monitor's curves shows: panels one below the other over one axis of time,
 * each with curves of one unit. They are drawn by us (monitor_svg.c) or by matplotlib. */
#ifndef KS_PYTHON_EXT_MONITOR_PANELS_H
#define KS_PYTHON_EXT_MONITOR_PANELS_H

#include "capture/monitor/curves.h"

enum {
    KS_PANEL_CURVES_MAX = 16, /* one for each GPU */
    KS_PANELS_MAX = 10,
    KS_PANEL_TEXT_SIZE = 48,
};

struct ks_panel_curve {
    uint32_t series;
    char label[KS_PANEL_TEXT_SIZE];
};

struct ks_panel {
    const char *title;
    const char *unit; /* of the axis, as it is scaled */
    double scale;     /* a value times this is in `unit` */
    double top;       /* the axis goes from 0 to here; in `unit` */
    uint32_t curve_count;
    struct ks_panel_curve curves[KS_PANEL_CURVES_MAX];
};

struct ks_panels {
    struct ks_curves *source;
    int64_t from_ns, to_ns; /* that the axis of time covers */
    const char *time_unit;  /* "s", "min", "h" */
    double time_scale;      /* a second times this is in it */
    uint32_t count;
    struct ks_panel list[KS_PANELS_MAX];
};

/* Chooses the panels that have curves between the moments, and how they are scaled. */
void ks_panels_choose(struct ks_panels *panels, struct ks_curves *curves, int64_t from_ns,
                      int64_t to_ns);
/* Of the next mark on an axis from 0 to `top`: 1, 2 or 5 times a power of ten, about `count`. */
double ks_panels_tick(double top, int count);

#endif
