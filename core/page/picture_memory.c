/* A picture of curves: what the allocator held, for each device. */
#include <stdio.h>

#include "base/alloc.h"
#include "base/err.h"
#include "page/page_curves.h"
#include "page/picture.h"
#include "show/units.h"

enum {
    WIDTH = 900,
    LEFT = 90,
    RIGHT = 880,
    TOP = 110,
    BOTTOM = 330,
    HEIGHT = 370,
    LEGEND_Y = 70,
    DEVICES_MAX = 6, /* as many as there are colours that can be told apart */
    Y_TICKS = 4,
    X_TICKS = 8,
};

static const char *const colors[DEVICES_MAX] = {"#0072B2", "#D55E00", "#009E73",
                                                "#CC79A7", "#56B4E9", "#E69F00"};

struct plot {
    struct ks_sink *sink;
    const struct ks_view *view;
    const struct ks_page_curves *curves;
    int64_t start_ns;
    int64_t end_ns;
    double most; /* bytes at the upper edge */
};

static double x_of(const struct plot *plot, int64_t ns)
{
    double share = (double)(ns - plot->start_ns) / (double)(plot->end_ns - plot->start_ns);
    share = share < 0 ? 0 : share > 1 ? 1 : share;
    return LEFT + share * (RIGHT - LEFT);
}

static double y_of(const struct plot *plot, double bytes)
{
    return BOTTOM - bytes / plot->most * (BOTTOM - TOP);
}

/* The smallest power of two that makes at most so many steps. */
static double tick_of_bytes(double most)
{
    double tick = 1;
    while (most / tick > Y_TICKS) {
        tick *= 2;
    }
    return tick;
}

/* 1, 2 or 5 times a power of ten. */
static int64_t tick_of_time(int64_t length_ns)
{
    int64_t tick = 1;
    for (int i = 0; length_ns / tick > X_TICKS; i++) {
        tick = i % 3 == 1 ? tick / 2 * 5 : tick * 2;
    }
    return tick;
}

static void draw_axes(const struct plot *plot, double tick)
{
    for (double bytes = 0; bytes <= plot->most; bytes += tick) {
        double y = y_of(plot, bytes);
        ks_picture_put(plot->sink,
                       "<line class=\"rule\" x1=\"%d\" y1=\"%.1f\" x2=\"%d\" y2=\"%.1f\"/>\n", LEFT,
                       y, RIGHT, y);
        ks_picture_text(plot->sink, LEFT - 8, y + 4, "class=\"faint\" text-anchor=\"end\"",
                        ks_str_from(ks_units_bytes((int64_t)bytes).text));
    }
    int64_t step_ns = tick_of_time(plot->end_ns - plot->start_ns);
    for (int64_t ns = 0; ns <= plot->end_ns - plot->start_ns; ns += step_ns) {
        double x = x_of(plot, plot->start_ns + ns);
        ks_picture_put(plot->sink, "<path class=\"edge\" d=\"M%.1f %dv5\"/>\n", x, BOTTOM);
        ks_picture_text(plot->sink, x, BOTTOM + 20, "class=\"faint\" text-anchor=\"middle\"",
                        ks_str_from(ks_units_time(ns).text));
        if (ns > INT64_MAX - step_ns) {
            break;
        }
    }
    ks_picture_put(plot->sink, "<path class=\"edge\" d=\"M%d %dV%dH%d\"/>\n", LEFT, TOP, BOTTOM,
                   RIGHT);
}

static double value_of(const struct ks_page_point *point, bool is_reserved)
{
    return is_reserved ? point->second_max : point->max;
}

/* A step where the value changes: memory does not grow between events. */
static void draw_curve(const struct plot *plot, size_t curve, bool is_reserved)
{
    bool is_first = true;
    for (size_t i = 0; i < plot->curves->point_count; i++) {
        const struct ks_page_point *point = &plot->curves->points[i];
        if (point->curve != curve || value_of(point, is_reserved) < 0) {
            continue;
        }
        double x = x_of(plot, point->start_ns);
        double y = y_of(plot, value_of(point, is_reserved));
        if (is_first) {
            ks_picture_put(plot->sink, "<path fill=\"none\" stroke=\"%s\" stroke-width=\"%s\" %s",
                           colors[curve], is_reserved ? "1.2" : "1.8",
                           is_reserved ? "stroke-dasharray=\"5 4\" " : "");
            ks_picture_put(plot->sink, "d=\"M%.1f %.1f", x, y);
        } else {
            ks_picture_put(plot->sink, "H%.1fV%.1f", x, y);
        }
        is_first = false;
    }
    if (!is_first) {
        ks_picture_put(plot->sink, "H%d\"/>\n", RIGHT);
    }
}

static void draw_name(const struct plot *plot, size_t curve)
{
    const struct ks_page_curve *of = &plot->curves->list[curve];
    int64_t rank = ks_view_rank(plot->view, ks_trace_track(plot->view->trace, of->track)->source);
    char text[64];
    size_t used = 0;
    int x = LEFT + (int)curve % 3 * 260;
    int y = LEGEND_Y + (int)curve / 3 * 20;
    if (rank != KS_UNKNOWN) {
        used = (size_t)snprintf(text, sizeof(text), "rank %lld, ", (long long)rank);
    }
    used += (size_t)(of->device < 0 ? snprintf(text + used, sizeof(text) - used, "host")
                                    : snprintf(text + used, sizeof(text) - used, "GPU %lld",
                                               (long long)of->device));
    ks_picture_put(plot->sink, "<path stroke=\"%s\" stroke-width=\"3\" d=\"M%d %dh20\"/>\n",
                   colors[curve], x, y);
    ks_picture_text(plot->sink, x + 26, y + 4, "class=\"ink\"", (struct ks_str){text, used});
}

static enum ks_status draw(struct plot *plot, struct ks_err *err)
{
    size_t count = plot->curves->count < DEVICES_MAX ? plot->curves->count : DEVICES_MAX;
    char subtitle[120];
    int len = snprintf(subtitle, sizeof(subtitle),
                       "Solid: allocated; dashed: reserved. The largest value of each stretch");
    if (count < plot->curves->count) {
        len += snprintf(subtitle + len, sizeof(subtitle) - (size_t)len, "; %zu more devices",
                        plot->curves->count - count);
    }
    ks_picture_begin(plot->sink, WIDTH, HEIGHT, "Memory over time",
                     (struct ks_str){subtitle, (size_t)len});
    for (size_t i = 0; i < plot->curves->point_count; i++) {
        const struct ks_page_point *point = &plot->curves->points[i];
        double value = point->max > point->second_max ? point->max : point->second_max;
        plot->most = point->curve < count && value > plot->most ? value : plot->most;
    }
    double tick = tick_of_bytes(plot->most);
    draw_axes(plot, tick);
    for (size_t i = 0; i < count; i++) {
        draw_name(plot, i);
        draw_curve(plot, i, true);
        draw_curve(plot, i, false);
    }
    ks_picture_end(plot->sink);
    return ks_sink_finish(plot->sink, err);
}

static enum ks_status gather(struct ks_page_curves *curves, const struct ks_view *view,
                             struct ks_err *err)
{
    const struct ks_export_options all = {0};
    struct ks_row_filter filter;
    KS_TRY(ks_row_filter_init(&filter, view, &all, err));
    KS_TRY(ks_page_curves_add_memory(curves, view, &filter, err));
    return curves->count > 0
               ? KS_OK
               : ks_fail(err, KS_ERR_UNSUPPORTED, KS_NO_OFFSET,
                         "Cannot draw memory: the trace holds no events of an allocator "
                         "(profile_memory=True records them)");
}

enum ks_status ks_picture_memory(const struct ks_view *view, ks_write_cb write, void *user,
                                 struct ks_err *err)
{
    struct ks_page_curves curves;
    struct plot plot = {.view = view, .curves = &curves, .most = 1};
    ks_trace_span(view->trace, &plot.start_ns, &plot.end_ns);
    plot.end_ns = plot.end_ns > plot.start_ns ? plot.end_ns : plot.start_ns + 1;
    ks_page_curves_init(&curves, plot.start_ns, plot.end_ns);
    enum ks_status status = gather(&curves, view, err);
    struct ks_sink *sink = status == KS_OK ? ks_alloc(1, sizeof(*sink)) : NULL;
    if (sink) {
        ks_sink_init(sink, write, user);
        plot.sink = sink;
        status = draw(&plot, err);
    } else if (status == KS_OK) {
        status = ks_fail(err, KS_ERR_NOMEM, KS_NO_OFFSET, "Cannot draw memory: no memory");
    }
    ks_free(sink);
    ks_page_curves_release(&curves);
    return status;
}
