/* Pictures made of bars: the parts of each step, and what each GPU does and waits for. */
#include <stdio.h>

#include "base/err.h"
#include "measure/sum.h"
#include "page/picture.h"
#include "show/units.h"
#include "show/verdict.h"

enum {
    WIDTH = 900,
    LEFT = 130, /* of the bars; labels stand before */
    RIGHT = 790,
    MARGIN = 20,
    TOP = 74,     /* of the legend */
    LINE = 22,    /* of the legend */
    COLUMN = 215, /* and of its columns */
    COLUMNS = 4,
    ROW = 26, /* of a bar */
    BARS_MAX = 40,
    PARTS_MAX = KS_IDLE_COUNT + 1,
};

/* One bar: its parts add up to `total`. */
struct bar {
    char label[48];
    int64_t parts_ns[PARTS_MAX];
    int64_t total_ns;
};

struct chart {
    const char *title;
    const char *things; /* "steps" */
    const struct ks_picture_key *keys;
    size_t key_count;
    struct bar bars[BARS_MAX];
    size_t count;
    size_t total; /* bars that there would be */
};

/* Okabe and Ito's colours, which people who see few colours can tell apart. */
static const struct ks_picture_key role_keys[KS_ROLE_COUNT] = {
    [KS_ROLE_KERNEL] = {"kernels", "#0072B2"},
    [KS_ROLE_MEMCPY] = {"copies", "#56B4E9"},
    [KS_ROLE_MEMSET] = {"sets", "#8A93A6"},
    [KS_ROLE_COMMUNICATION] = {"communication", "#CC79A7"},
    [KS_ROLE_RUNTIME] = {"runtime calls", "#E69F00"},
    [KS_ROLE_DATALOADER] = {"data loader", "#D55E00"},
    [KS_ROLE_CPU] = {"CPU operators", "#009E73"},
    [KS_ROLE_OTHER] = {"other", "#B9BFCA"},
};

static const struct ks_picture_key idle_keys[PARTS_MAX] = {
    {"busy", "#0072B2"},
    [1 + KS_IDLE_DATA] = {"data", "#D55E00"},
    [1 + KS_IDLE_SYNC] = {"sync", "#CC79A7"},
    [1 + KS_IDLE_HOST_CODE] = {"host code", "#009E73"},
    [1 + KS_IDLE_LAUNCH] = {"launch", "#E69F00"},
    [1 + KS_IDLE_ALLOCATOR] = {"allocator", "#7B5EA7"},
    [1 + KS_IDLE_COLLECTIVE] = {"collective", "#F0E442"},
    [1 + KS_IDLE_KERNEL_TO_KERNEL] = {"kernel gaps", "#56B4E9"},
    [1 + KS_IDLE_PROFILER] = {"profiler", "#8A93A6"},
    [1 + KS_IDLE_UNKNOWN] = {"unknown", "#B9BFCA"},
};

/* ------------------------------------------------------------------ drawing */

static int64_t part_sum(const struct chart *chart, size_t part)
{
    int64_t sum_ns = 0;
    for (size_t i = 0; i < chart->count; i++) {
        sum_ns = ks_sum_add(sum_ns, chart->bars[i].parts_ns[part]);
    }
    return sum_ns;
}

static int64_t longest(const struct chart *chart)
{
    int64_t most_ns = 1;
    for (size_t i = 0; i < chart->count; i++) {
        most_ns = chart->bars[i].total_ns > most_ns ? chart->bars[i].total_ns : most_ns;
    }
    return most_ns;
}

/* What the colours stand for, with the share of all bars; parts without time have no entry. Gives
 * the number of lines. */
static int draw_legend(struct ks_sink *sink, const struct chart *chart)
{
    int64_t all_ns = 0;
    int count = 0;
    for (size_t i = 0; i < chart->count; i++) {
        all_ns = ks_sum_add(all_ns, chart->bars[i].total_ns);
    }
    for (size_t part = 0; part < chart->key_count; part++) {
        int64_t sum_ns = part_sum(chart, part);
        if (sum_ns <= 0) {
            continue;
        }
        if (sink) {
            int x = MARGIN + count % COLUMNS * COLUMN;
            int y = TOP + count / COLUMNS * LINE;
            char text[80];
            int len =
                snprintf(text, sizeof(text), "%s %s", chart->keys[part].label,
                         ks_units_share((double)sum_ns / (double)(all_ns > 0 ? all_ns : 1)).text);
            ks_picture_put(sink,
                           "<rect x=\"%d\" y=\"%d\" width=\"12\" height=\"12\" rx=\"2\" "
                           "fill=\"%s\"/>\n",
                           x, y, chart->keys[part].color);
            ks_picture_text(sink, x + 18, y + 11, "class=\"ink\"",
                            (struct ks_str){text, (size_t)len});
        }
        count++;
    }
    return (count + COLUMNS - 1) / COLUMNS;
}

static void draw_bar(struct ks_sink *sink, const struct chart *chart, const struct bar *bar,
                     double y, double scale)
{
    double x = LEFT;
    ks_picture_text(sink, LEFT - 10, y + 13, "class=\"ink\" text-anchor=\"end\"",
                    ks_str_from(bar->label));
    for (size_t part = 0; part < chart->key_count; part++) {
        double width = (double)bar->parts_ns[part] * scale;
        if (bar->parts_ns[part] > 0) {
            ks_picture_bar(sink, x, y, width, &chart->keys[part],
                           ks_str_from(ks_units_time(bar->parts_ns[part]).text));
            x += width;
        }
    }
    ks_picture_text(sink, x + 8, y + 13, "class=\"ink\"",
                    ks_str_from(ks_units_time(bar->total_ns).text));
}

static enum ks_status draw(const struct chart *chart, const struct ks_view *view, ks_write_cb write,
                           void *user, struct ks_err *err)
{
    struct ks_sink sink;
    struct ks_verdict verdict;
    ks_verdict_compute(view, &verdict);
    int top = TOP + draw_legend(NULL, chart) * LINE + 12;
    bool is_cut = chart->count < chart->total;
    int height = top + (int)chart->count * ROW + (is_cut ? ROW : 0) + 10;
    ks_sink_init(&sink, write, user);
    ks_picture_begin(&sink, WIDTH, height, chart->title, ks_str_from(verdict.text));
    (void)draw_legend(&sink, chart);
    double scale = (double)(RIGHT - LEFT) / (double)longest(chart);
    for (size_t i = 0; i < chart->count; i++) {
        draw_bar(&sink, chart, &chart->bars[i], top + (double)i * ROW, scale);
    }
    if (is_cut) {
        char text[64];
        int len = snprintf(text, sizeof(text), "and %zu more %s", chart->total - chart->count,
                           chart->things);
        ks_picture_text(&sink, LEFT, height - 14, "class=\"faint\"",
                        (struct ks_str){text, (size_t)len});
    }
    ks_picture_end(&sink);
    return ks_sink_finish(&sink, err);
}

/* ------------------------------------------------------------------ what is drawn */

/* "step 7", with the rank where there are several. */
static void label(struct bar *bar, const struct ks_view *view, uint32_t source, const char *word,
                  int64_t number)
{
    int64_t rank = ks_view_rank(view, source);
    if (rank != KS_UNKNOWN && ks_trace_source_count(view->trace) > 1) {
        (void)snprintf(bar->label, sizeof(bar->label), "rank %lld, %s %lld", (long long)rank, word,
                       (long long)number);
    } else {
        (void)snprintf(bar->label, sizeof(bar->label), "%s %lld", word, (long long)number);
    }
}

enum ks_status ks_picture_steps(const struct ks_view *view, ks_write_cb write, void *user,
                                struct ks_err *err)
{
    const struct ks_facts *facts = view->facts;
    struct chart chart = {.title = "Where each step goes",
                          .things = "steps",
                          .keys = role_keys,
                          .key_count = KS_ROLE_COUNT,
                          .total = facts->step_count};
    for (size_t i = 0; i < facts->step_count && chart.count < BARS_MAX; i++) {
        struct bar *bar = &chart.bars[chart.count++];
        bar->total_ns = facts->steps[i].dur_ns;
        label(bar, view, facts->steps[i].source, "step", facts->steps[i].number);
        for (size_t role = 0; role < KS_ROLE_COUNT; role++) {
            bar->parts_ns[role] = facts->steps[i].breakdown_ns[role];
        }
    }
    if (chart.count == 0) {
        return ks_fail(err, KS_ERR_UNSUPPORTED, KS_NO_OFFSET,
                       "Cannot draw steps: the trace holds none");
    }
    return draw(&chart, view, write, user, err);
}

enum ks_status ks_picture_idle(const struct ks_view *view, ks_write_cb write, void *user,
                               struct ks_err *err)
{
    const struct ks_facts *facts = view->facts;
    struct chart chart = {.title = "What each GPU does, and what it waits for",
                          .things = "GPUs",
                          .keys = idle_keys,
                          .key_count = PARTS_MAX,
                          .total = facts->device_count};
    for (size_t i = 0; i < facts->device_count && chart.count < BARS_MAX; i++) {
        const struct ks_device_fact *device = &facts->devices[i];
        struct bar *bar = &chart.bars[chart.count++];
        bar->total_ns = device->span_ns;
        bar->parts_ns[0] = device->busy_ns;
        label(bar, view, device->source, "GPU", device->device);
        for (size_t cause = 0; cause < KS_IDLE_COUNT; cause++) {
            bar->parts_ns[1 + cause] = device->idle_by_cause_ns[cause];
        }
    }
    if (chart.count == 0) {
        return ks_fail(err, KS_ERR_UNSUPPORTED, KS_NO_OFFSET,
                       "Cannot draw idle times: the trace holds no GPU work");
    }
    return draw(&chart, view, write, user, err);
}
