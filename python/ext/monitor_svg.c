#include "monitor_svg.h"

#include <stdarg.h>
#include <stdio.h>

/* Pixels. */
enum {
    WIDTH = 960,
    LEFT = 70,   /* of the axes */
    RIGHT = 750, /* the legend stands behind */
    LEGEND = 770,
    TOP = 34,     /* of the first panel's title */
    TITLE = 22,   /* between a title and its axes */
    HEIGHT = 110, /* of the axes */
    GAP = 34,     /* below them; below the last for the axis of time */
    BOTTOM = 14,  /* and below the last panel */
    LINE = 17,    /* of the legend */
    COLORS = 8,
    Y_TICKS = 4,
    X_TICKS = 8,
};

/* Okabe and Ito's, which people who see few colours can tell apart; the palest comes last. */
static const char *const COLOR_LIST[COLORS] = {"#0072B2", "#D55E00", "#009E73", "#CC79A7",
                                               "#56B4E9", "#E69F00", "#000000", "#F0E442"};

/* Grows as it is written. */
struct text {
    char *ptr;
    size_t len;
    size_t size;
    int is_short; /* there was no memory for it */
};

struct axes {
    struct text *out;
    const struct ks_panels *panels;
    const struct ks_panel *panel;
    double top; /* the pixel of the panel's upper edge */
};

static int make_room(struct text *out, size_t more)
{
    size_t size = out->size;
    while (size < out->len + more) {
        size = size > 0 ? 2 * size : 65536;
    }
    char *grown = size > out->size ? PyMem_Realloc(out->ptr, size) : out->ptr;
    out->is_short |= grown == NULL;
    if (grown) {
        out->ptr = grown;
        out->size = size;
    }
    return grown != NULL;
}

__attribute__((format(printf, 2, 3))) static void put(struct text *out, const char *format, ...)
{
    enum { PART_MAX = 1024 }; /* more than any part of a picture */
    va_list words;
    if (out->is_short || !make_room(out, PART_MAX)) {
        return;
    }
    va_start(words, format);
    int len = vsnprintf(out->ptr + out->len, PART_MAX, format, words);
    va_end(words);
    out->len += len > 0 ? (size_t)len : 0;
}

static double x_of(const struct ks_panels *panels, int64_t time_ns)
{
    double share = (double)(time_ns - panels->from_ns) / (double)(panels->to_ns - panels->from_ns);
    return LEFT + share * (RIGHT - LEFT);
}

static double y_of(const struct axes *axes, double value)
{
    double share = value * axes->panel->scale / axes->panel->top;
    return axes->top + HEIGHT * (1 - (share < 1 ? share : 1));
}

static void draw_text(struct text *out, double x, double y, const char *style, const char *text)
{
    put(out, "<text x=\"%.1f\" y=\"%.1f\" %s>%s</text>\n", x, y, style, text);
}

/* ------------------------------------------------------------------ axes */

static void draw_y_axis(const struct axes *axes)
{
    double tick = ks_panels_tick(axes->panel->top, Y_TICKS);
    char text[32];
    for (int i = 0; i * tick <= axes->panel->top * 1.0001; i++) {
        double y = axes->top + HEIGHT * (1 - i * tick / axes->panel->top);
        put(axes->out, "<line x1=\"%d\" y1=\"%.1f\" x2=\"%d\" y2=\"%.1f\" stroke=\"#e4e4e4\"/>\n",
            LEFT, y, RIGHT, y);
        (void)snprintf(text, sizeof(text), "%.6g", i * tick);
        draw_text(axes->out, LEFT - 8, y + 4, "text-anchor=\"end\" fill=\"#555\"", text);
    }
}

/* Marks at all panels, numbers below the last. */
static void draw_x_axis(const struct axes *axes, int is_last)
{
    const struct ks_panels *panels = axes->panels;
    double whole = (double)(panels->to_ns - panels->from_ns) / 1e9 * panels->time_scale;
    double tick = ks_panels_tick(whole, X_TICKS);
    double bottom = axes->top + HEIGHT;
    char text[32];
    for (int i = 0; i * tick <= whole * 1.0001; i++) {
        double x = LEFT + (RIGHT - LEFT) * (i * tick / whole);
        put(axes->out, "<line x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\" stroke=\"#888\"/>\n",
            x, bottom, x, bottom + 4);
        (void)snprintf(text, sizeof(text), "%.6g", i * tick);
        if (is_last) {
            draw_text(axes->out, x, bottom + 18, "text-anchor=\"middle\" fill=\"#555\"", text);
        }
    }
    put(axes->out, "<path d=\"M%d %.1fV%.1fH%d\" fill=\"none\" stroke=\"#888\"/>\n", LEFT,
        axes->top, bottom, RIGHT);
    if (is_last) {
        (void)snprintf(text, sizeof(text), "time, %s", panels->time_unit);
        draw_text(axes->out, (LEFT + RIGHT) / 2.0, bottom + 36, "text-anchor=\"middle\"", text);
    }
}

/* ------------------------------------------------------------------ curves */

/* Lowest and highest values as a band, where points stand for several. */
static void draw_band(const struct axes *axes, const struct ks_curve_point *points, uint32_t count,
                      const char *color)
{
    int is_thick = 0;
    for (uint32_t i = 0; i < count; i++) {
        is_thick |= points[i].max > points[i].min;
    }
    if (!is_thick) {
        return;
    }
    put(axes->out, "<polygon fill=\"%s\" fill-opacity=\"0.18\" points=\"", color);
    for (uint32_t i = 0; i < count; i++) {
        put(axes->out, "%.1f,%.1f ", x_of(axes->panels, points[i].end_ns),
            y_of(axes, (double)points[i].max));
    }
    for (uint32_t i = count; i-- > 0;) {
        put(axes->out, "%.1f,%.1f ", x_of(axes->panels, points[i].end_ns),
            y_of(axes, (double)points[i].min));
    }
    put(axes->out, "\"/>\n");
}

/* A value that is alone is a dot. */
static void draw_curve(const struct axes *axes, uint32_t index)
{
    const struct ks_panels *panels = axes->panels;
    struct ks_curve_point points[KS_CURVE_POINTS_MAX];
    const char *color = COLOR_LIST[index % COLORS];
    uint32_t count = ks_curves_points(panels->source, axes->panel->curves[index].series,
                                      panels->from_ns, panels->to_ns, points);
    draw_band(axes, points, count, color);
    if (count == 1) {
        put(axes->out, "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"3\" fill=\"%s\"/>\n",
            x_of(panels, points[0].end_ns), y_of(axes, (double)points[0].mean), color);
        return;
    }
    put(axes->out,
        "<polyline fill=\"none\" stroke=\"%s\" stroke-width=\"1.5\" "
        "stroke-linejoin=\"round\" points=\"",
        color);
    for (uint32_t i = 0; i < count; i++) {
        put(axes->out, "%.1f,%.1f ", x_of(panels, points[i].end_ns),
            y_of(axes, (double)points[i].mean));
    }
    put(axes->out, "\"/>\n");
}

static void draw_legend(const struct axes *axes)
{
    for (uint32_t i = 0; i < axes->panel->curve_count; i++) {
        double y = axes->top + 8 + LINE * (double)i;
        put(axes->out,
            "<line x1=\"%d\" y1=\"%.1f\" x2=\"%d\" y2=\"%.1f\" stroke=\"%s\" "
            "stroke-width=\"3\"/>\n",
            LEGEND, y, LEGEND + 18, y, COLOR_LIST[i % COLORS]);
        draw_text(axes->out, LEGEND + 24, y + 4, "", axes->panel->curves[i].label);
    }
}

static void draw_panel(struct text *out, const struct ks_panels *panels, uint32_t index, double top)
{
    const struct axes axes = {
        .out = out, .panels = panels, .panel = &panels->list[index], .top = top + TITLE};
    char title[96];
    (void)snprintf(title, sizeof(title), "%s, %s", axes.panel->title, axes.panel->unit);
    draw_text(out, LEFT, top + TITLE - 9, "font-weight=\"bold\"", title);
    draw_y_axis(&axes);
    for (uint32_t i = 0; i < axes.panel->curve_count; i++) {
        draw_curve(&axes, i);
    }
    draw_x_axis(&axes, index + 1 == panels->count);
    draw_legend(&axes);
}

/* ------------------------------------------------------------------ the picture */

/* The legend of many GPUs is longer than the axes are high. */
static double room_of(const struct ks_panel *panel)
{
    double legend = LINE * (double)panel->curve_count;
    return TITLE + (legend > HEIGHT ? legend : HEIGHT) + GAP;
}

static void draw(struct text *out, const struct ks_panels *panels)
{
    double height = TOP + BOTTOM;
    double top = TOP;
    for (uint32_t i = 0; i < panels->count; i++) {
        height += room_of(&panels->list[i]);
    }
    put(out,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%.0f\" "
        "viewBox=\"0 0 %d %.0f\" font-family=\"sans-serif\" font-size=\"12\" fill=\"#222\">\n"
        "<title>System monitor</title>\n<rect width=\"%d\" height=\"%.0f\" fill=\"#fff\"/>\n",
        WIDTH, height, WIDTH, height, WIDTH, height);
    draw_text(out, LEFT, 24, "font-size=\"16\"",
              panels->count > 0 ? "System monitor" : "System monitor: nothing was measured");
    for (uint32_t i = 0; i < panels->count; i++) {
        draw_panel(out, panels, i, top);
        top += room_of(&panels->list[i]);
    }
    put(out, "</svg>\n");
}

PyObject *ks_monitor_svg(const struct ks_panels *panels)
{
    struct text text = {0};
    draw(&text, panels);
    PyObject *svg = text.is_short || !text.ptr
                        ? PyErr_NoMemory()
                        : PyUnicode_DecodeUTF8(text.ptr, (Py_ssize_t)text.len, NULL);
    PyMem_Free(text.ptr);
    return svg;
}
