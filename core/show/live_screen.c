/* A picture of a run while it goes on, for a terminal of any width. Order: what runs, how fast,
 * what its ranks do, what it uses of the machine, what the latest window says, what to change
 * first. Nothing that comes from the folder reaches the terminal but through plain.h. */
#include <math.h>
#include <stdio.h>

#include "base/err.h"
#include "show/ink.h"
#include "show/live_picture.h"
#include "show/plain.h"
#include "show/sentences.h"
#include "show/step_parts.h"
#include "show/units.h"
#include "show/verdict.h"

enum {
    WIDTH_DEFAULT = 100,
    WIDTH_MIN = 24, /* narrower ones are cut by the terminal */
    LABEL_WIDTH = 9,
    BAR_WIDTH_MAX = 72,
    GAUGE_WIDTH = 10,
    FINDINGS_MAX = 3,
    EXPLANATIONS_MAX = 2,
    GPUS_SHOWN_MAX = 4,
    QUIET_S = 10, /* without a step for so long: it is said */
};

static const double HOT_SHARE = 0.9; /* of memory: from here on it stands out */

struct sheet {
    const struct ks_live_picture *picture;
    const struct ks_live_style *style;
    struct ks_live_sum sum;
    size_t width;
    size_t used; /* columns of the line so far */
    bool has_item;
    struct ks_text out;
    struct ks_text item; /* what comes next, safe for a terminal */
};

/* ------------------------------------------------------------------ lines of items */

static void begin(struct sheet *sheet, const char *label)
{
    ks_ink(&sheet->out, sheet->style->colour, KS_INK_FAINT);
    ks_text_printf(&sheet->out, "%-*.*s ", LABEL_WIDTH - 1, LABEL_WIDTH - 1, label);
    ks_ink(&sheet->out, sheet->style->colour, KS_INK_END);
    sheet->used = LABEL_WIDTH;
    sheet->has_item = false;
}

static void end(struct sheet *sheet)
{
    ks_text_append(&sheet->out, "\n", 1);
}

static void feed(struct sheet *sheet)
{
    ks_text_printf(&sheet->out, "\n%*s", LABEL_WIDTH, "");
    sheet->used = LABEL_WIDTH;
    sheet->has_item = false;
}

/* Puts sheet->item into the line, or into the next one when it does not fit; what fits into none
 * loses its middle. */
static void put_in(struct sheet *sheet, enum ks_ink ink)
{
    struct ks_str item = {sheet->item.ptr, sheet->item.len};
    size_t width = ks_plain_width(item);
    if (sheet->has_item && sheet->used + 2 + width > sheet->width) {
        feed(sheet);
    }
    if (sheet->has_item) {
        ks_text_append(&sheet->out, "  ", 2);
        sheet->used += 2;
    }
    ks_ink(&sheet->out, sheet->style->colour, ink);
    ks_plain_append_fit(&sheet->out, item, sheet->width - sheet->used);
    ks_ink(&sheet->out, sheet->style->colour, KS_INK_END);
    sheet->used += width < sheet->width - sheet->used ? width : sheet->width - sheet->used;
    sheet->has_item = true;
    sheet->out.failed = sheet->out.failed || sheet->item.failed;
    ks_text_reset(&sheet->item);
}

static void put(struct sheet *sheet)
{
    put_in(sheet, KS_INK_END);
}

/* Puts sheet->item as words, broken at blanks. */
static void put_words(struct sheet *sheet, enum ks_ink ink)
{
    struct ks_str rest = {sheet->item.ptr, sheet->item.len};
    ks_ink(&sheet->out, sheet->style->colour, ink);
    while (rest.len > 0) {
        const char *blank = memchr(rest.ptr, ' ', rest.len);
        struct ks_str word = {rest.ptr, blank ? (size_t)(blank - rest.ptr) : rest.len};
        size_t width = ks_plain_width(word);
        if (sheet->has_item && sheet->used + 1 + width > sheet->width) {
            feed(sheet);
        }
        if (sheet->has_item) {
            ks_text_append(&sheet->out, " ", 1);
            sheet->used += 1;
        }
        ks_plain_append_fit(&sheet->out, word, sheet->width - sheet->used);
        sheet->used += width < sheet->width - sheet->used ? width : sheet->width - sheet->used;
        sheet->has_item = true;
        size_t step = word.len + (blank ? 1 : 0);
        rest = (struct ks_str){rest.ptr + step, rest.len - step};
    }
    ks_ink(&sheet->out, sheet->style->colour, KS_INK_END);
    sheet->out.failed = sheet->out.failed || sheet->item.failed;
    ks_text_reset(&sheet->item);
}

/* ------------------------------------------------------------------ small pieces */

/* "45 s", "1 min 23 s", "2 h 03 min", "3 d 4 h". */
static struct ks_unit_text duration(int64_t ns)
{
    struct ks_unit_text out;
    long long s = ns / 1000000000LL;
    if (s < 60) {
        snprintf(out.text, sizeof(out.text), "%lld s", s);
    } else if (s < 3600) {
        snprintf(out.text, sizeof(out.text), "%lld min %02lld s", s / 60, s % 60);
    } else if (s < 48 * 3600LL) {
        snprintf(out.text, sizeof(out.text), "%lld h %02lld min", s / 3600, s / 60 % 60);
    } else {
        snprintf(out.text, sizeof(out.text), "%lld d %lld h", s / 86400, s / 3600 % 24);
    }
    return out;
}

/* Three significant digits: "1,234", "182", "5.41", "0.0312". */
static struct ks_unit_text pace(double steps_per_s)
{
    struct ks_unit_text out;
    if (steps_per_s >= 999.5) {
        return ks_units_count((int64_t)fmin(steps_per_s + 0.5, 9e18));
    }
    int decimals = steps_per_s >= 99.95    ? 0
                   : steps_per_s >= 9.995  ? 1
                   : steps_per_s >= 0.9995 ? 2
                                           : 4;
    snprintf(out.text, sizeof(out.text), "%.*f", decimals, steps_per_s);
    return out;
}

static void append_gauge(struct sheet *sheet, double share)
{
    int full = (int)lround(fmin(fmax(share, 0.0), 1.0) * GAUGE_WIDTH);
    for (int i = 0; i < GAUGE_WIDTH; i++) {
        const char *plain = i < full ? "#" : ".";
        const char *block = i < full ? "\u2588" : "\u2591";
        ks_text_printf(&sheet->item, "%s", sheet->style->ascii ? plain : block);
    }
}

/* A column for each pace, as high as it is of the highest; as many of the latest as fit. */
static void append_spark(struct sheet *sheet, const struct ks_live_rank *rank, size_t room)
{
    static const char *const blocks[] = {"\u2581", "\u2582", "\u2583", "\u2584",
                                         "\u2585", "\u2586", "\u2587", "\u2588"};
    static const char plain[] = "_.:-=+*#";
    double highest = 0.0;
    size_t from = rank->rate_count > room ? rank->rate_count - room : 0;
    for (size_t i = from; i < rank->rate_count; i++) {
        highest = fmax(highest, rank->rates[i]);
    }
    for (size_t i = from; i < rank->rate_count && highest > 0.0; i++) {
        size_t level = (size_t)lround(rank->rates[i] / highest * (KS_COUNT_OF(blocks) - 1));
        if (sheet->style->ascii) {
            ks_text_append(&sheet->item, &plain[level], 1);
        } else {
            ks_text_append_str(&sheet->item, ks_str_from(blocks[level]));
        }
    }
}

/* ------------------------------------------------------------------ what runs */

static void write_head(struct sheet *sheet)
{
    const struct ks_live_picture *picture = sheet->picture;
    const struct ks_live_rank *most = sheet->sum.most;
    static const enum ks_ink inks[] = {
        [KS_LIVE_RUNNING] = KS_INK_GOOD,
        [KS_LIVE_ENDING] = KS_INK_WARN,
        [KS_LIVE_OVER] = KS_INK_STRONG,
    };
    begin(sheet, ks_live_state_word(picture->state));
    if (most && most->program[0]) {
        ks_plain_append(&sheet->item, ks_str_from(most->program));
    } else {
        ks_plain_append(&sheet->item, ks_str_from(picture->path));
    }
    size_t room = sheet->width - sheet->used;
    struct ks_text whole = sheet->item; /* one line, however long */
    ks_text_init(&sheet->item);
    ks_plain_append_fit(&sheet->item, (struct ks_str){whole.ptr, whole.len}, room);
    sheet->item.failed = sheet->item.failed || whole.failed;
    ks_text_release(&whole);
    put_in(sheet, KS_INK_STRONG);
    end(sheet);
    begin(sheet, "");
    if (sheet->sum.dur_ns > 0) {
        ks_text_printf(&sheet->item, "%s", duration(sheet->sum.dur_ns).text);
        put_in(sheet, inks[picture->state]);
    }
    if (picture->rank_count > 1) {
        ks_text_printf(&sheet->item, "%zu ranks", picture->rank_count);
        put(sheet);
    }
    ks_text_printf(&sheet->item, "%s step%s", ks_units_count(sheet->sum.steps).text,
                   sheet->sum.steps == 1 ? "" : "s");
    put(sheet);
    if (picture->machine && picture->machine->process_count >= 0) {
        ks_text_printf(&sheet->item, "%lld process%s, %lld threads",
                       (long long)picture->machine->process_count,
                       picture->machine->process_count == 1 ? "" : "es",
                       (long long)picture->machine->threads);
        put(sheet);
    }
    end(sheet);
}

/* ------------------------------------------------------------------ how fast */

static void put_pace(struct sheet *sheet, const char *before, const struct ks_live_rank *rank)
{
    double each_s = 1.0 / rank->steps_per_s; /* a pace is above 0 */
    ks_text_printf(&sheet->item, "%s%s steps/s", before, pace(rank->steps_per_s).text);
    put_in(sheet, KS_INK_STRONG);
    if (each_s < 9e9) {
        ks_text_printf(&sheet->item, "%s each", ks_units_time((int64_t)(each_s * 1e9)).text);
        put(sheet);
    }
}

static void put_silence(struct sheet *sheet)
{
    const struct ks_live_picture *picture = sheet->picture;
    int64_t silent_ns = picture->now_ns - sheet->sum.last_step_ns;
    bool is_said = sheet->sum.last_step_ns > 0 && picture->state == KS_LIVE_RUNNING &&
                   silent_ns > QUIET_S * 1000000000LL &&
                   sheet->sum.state_counts[KS_RUN_RECORDING] == 0;
    if (is_said) {
        ks_text_printf(&sheet->item, "no step since %s", duration(silent_ns).text);
        put_in(sheet, KS_INK_WARN);
    }
}

static void write_pace(struct sheet *sheet)
{
    const struct ks_live_rank *median = sheet->sum.median;
    const struct ks_live_rank *most = sheet->sum.most;
    begin(sheet, "pace");
    if (!median) {
        ks_text_printf(&sheet->item, "%s", sheet->sum.steps > 0 ? "not known yet" : "no step yet");
        put(sheet);
        put_silence(sheet);
    } else {
        put_pace(sheet, sheet->picture->state == KS_LIVE_RUNNING ? "" : "at last ", median);
        put_silence(sheet);
        append_spark(sheet, median, sheet->width - LABEL_WIDTH);
        put(sheet);
    }
    if (most && most->step_ns > 0) {
        ks_text_printf(&sheet->item, "unprofiled %s", ks_units_time(most->step_ns).text);
        if (most->step_spread_ns > 0) {
            ks_text_printf(&sheet->item, " %s %s", sheet->style->ascii ? "+-" : "\u00b1",
                           ks_units_time(most->step_spread_ns).text);
        }
        put(sheet);
    }
    end(sheet);
}

static void put_rank_pace(struct sheet *sheet, const char *word, const struct ks_live_rank *rank)
{
    ks_text_printf(&sheet->item, "%s %s/s (rank %lld)", word, pace(rank->steps_per_s).text,
                   (long long)rank->process.rank);
    put(sheet);
}

/* ------------------------------------------------------------------ ranks */

static const char *doing_of(enum ks_run_state state, bool is_plural)
{
    switch (state) {
    case KS_RUN_WAITING: return is_plural ? "wait for the window" : "waiting for the window";
    case KS_RUN_RECORDING: return is_plural ? "record the window" : "recording the window";
    case KS_RUN_DONE: return is_plural ? "have their windows" : "the windows are recorded";
    case KS_RUN_OFF: return is_plural ? "are not recorded" : "not recorded any more";
    case KS_RUN_UNKNOWN: break;
    }
    return is_plural ? "say nothing" : "it does not say what it does";
}

static void put_states(struct sheet *sheet)
{
    size_t kinds = 0;
    if (sheet->picture->rank_count == 0) {
        ks_text_printf(&sheet->item, "no process has imported torch yet");
        put(sheet);
    }
    for (size_t i = 0; i < KS_COUNT_OF(sheet->sum.state_counts); i++) {
        kinds += sheet->sum.state_counts[i] > 0;
    }
    for (size_t i = 0; i < KS_COUNT_OF(sheet->sum.state_counts); i++) {
        size_t count = sheet->sum.state_counts[i];
        enum ks_run_state state = (enum ks_run_state)i;
        if (count == 0) {
            continue;
        }
        bool is_single = sheet->picture->rank_count == 1;
        if (is_single) {
            ks_text_printf(&sheet->item, "%s", doing_of(state, false));
        } else if (kinds == 1) {
            ks_text_printf(&sheet->item, "all %s", doing_of(state, true));
        } else {
            ks_text_printf(&sheet->item, "%zu %s", count, doing_of(state, true));
        }
        put_in(sheet, state == KS_RUN_OFF ? KS_INK_WARN : KS_INK_END);
    }
}

/* While a rank waits, what it would say if it ended now is of no interest. */
static bool has_reason(const struct ks_live_rank *rank)
{
    const struct ks_run_process *process = &rank->process;
    bool is_at_work = process->is_running &&
                      (process->state == KS_RUN_WAITING || process->state == KS_RUN_RECORDING);
    return process->explanation[0] && !is_at_work;
}

/* Why nothing, or not all, is recorded. */
static void write_reasons(struct sheet *sheet)
{
    size_t said = 0;
    for (size_t i = 0; i < sheet->picture->rank_count && said < EXPLANATIONS_MAX; i++) {
        const struct ks_live_rank *rank = sheet->picture->ranks[i];
        if (!has_reason(rank)) {
            continue;
        }
        begin(sheet, said++ == 0 ? "why" : "");
        if (sheet->picture->rank_count > 1) {
            ks_text_printf(&sheet->item, "rank %lld: ", (long long)rank->process.rank);
        }
        ks_plain_append(&sheet->item, ks_str_from(rank->process.explanation));
        put_words(sheet, KS_INK_WARN);
        end(sheet);
    }
}

static void write_ranks(struct sheet *sheet)
{
    const struct ks_live_picture *picture = sheet->picture;
    if (picture->paced_count > 1) {
        begin(sheet, "ranks");
        put_rank_pace(sheet, "slowest", sheet->sum.slowest);
        put_rank_pace(sheet, "median", sheet->sum.median);
        put_rank_pace(sheet, "fastest", sheet->sum.fastest);
        end(sheet);
    }
    if (picture->state != KS_LIVE_OVER) { /* then only the reasons count */
        begin(sheet, "state");
        put_states(sheet);
        end(sheet);
    }
    write_reasons(sheet);
}

/* ------------------------------------------------------------------ the machine */

static void write_cpu(struct sheet *sheet, const struct ks_live_machine *machine)
{
    if (!isfinite(machine->cpu_percent) && !isfinite(machine->machine_cpu_percent)) {
        return;
    }
    begin(sheet, "CPU");
    if (isfinite(machine->cpu_percent)) {
        ks_text_printf(&sheet->item, "%.0f %% (%.1f cores)", machine->cpu_percent,
                       machine->cpu_percent / 100.0);
        put(sheet);
    }
    if (machine->cgroup_cpu_quota_us > 0 && machine->cgroup_cpu_period_us > 0) {
        ks_text_printf(&sheet->item, "limit %.2f cores",
                       (double)machine->cgroup_cpu_quota_us /
                           (double)machine->cgroup_cpu_period_us);
        put(sheet);
    }
    if (machine->throttled > 0 && machine->periods > 0) {
        ks_text_printf(&sheet->item, "held back in %.0f %% of periods",
                       100.0 * (double)machine->throttled / (double)machine->periods);
        put_in(sheet, KS_INK_HOT);
    }
    if (isfinite(machine->machine_cpu_percent)) {
        ks_text_printf(&sheet->item, "machine %.0f %% busy", machine->machine_cpu_percent);
        put(sheet);
    }
    end(sheet);
}

static void write_memory(struct sheet *sheet, const struct ks_live_machine *machine)
{
    int64_t limit = machine->cgroup_memory_max_bytes;
    if (machine->rss_bytes < 0) {
        return;
    }
    begin(sheet, "memory");
    ks_text_printf(&sheet->item, "%s resident", ks_units_bytes(machine->rss_bytes).text);
    put(sheet);
    if (limit > 0 && machine->cgroup_memory_bytes >= 0) {
        double share = (double)machine->cgroup_memory_bytes / (double)limit;
        append_gauge(sheet, share);
        ks_text_printf(&sheet->item, " %s", ks_units_share(share).text);
        put_in(sheet, share > HOT_SHARE ? KS_INK_HOT : KS_INK_END);
        ks_text_printf(&sheet->item, "limit %s", ks_units_bytes(limit).text);
        put(sheet);
    }
    if (machine->machine_available_bytes >= 0 && machine->machine_total_bytes > 0) {
        bool is_short = (double)machine->machine_available_bytes <
                        (1.0 - HOT_SHARE) * (double)machine->machine_total_bytes;
        ks_text_printf(&sheet->item, "machine has %s free",
                       ks_units_bytes(machine->machine_available_bytes).text);
        put_in(sheet, is_short ? KS_INK_HOT : KS_INK_END);
    }
    end(sheet);
}

static void put_gpu_memory(struct sheet *sheet, const struct ks_live_gpu *gpu)
{
    if (gpu->memory_bytes < 0 || gpu->memory_total_bytes <= 0) {
        return;
    }
    bool is_full = (double)gpu->memory_bytes > HOT_SHARE * (double)gpu->memory_total_bytes;
    ks_text_printf(&sheet->item, "%s of %s", ks_units_bytes(gpu->memory_bytes).text,
                   ks_units_bytes(gpu->memory_total_bytes).text);
    put_in(sheet, is_full ? KS_INK_HOT : KS_INK_END);
}

static void put_gpu_clock(struct sheet *sheet, const struct ks_live_gpu *gpu)
{
    const char *reason = ks_live_clock_reason(gpu->reasons);
    if (gpu->sm_mhz >= 0) {
        ks_text_printf(&sheet->item, "%s", ks_units_count(gpu->sm_mhz).text);
        if (gpu->sm_mhz_max > 0) {
            ks_text_printf(&sheet->item, " of %s", ks_units_count(gpu->sm_mhz_max).text);
        }
        ks_text_printf(&sheet->item, " MHz");
        put(sheet);
    }
    if (reason) {
        ks_text_printf(&sheet->item, "%s", reason);
        put_in(sheet, KS_INK_HOT);
    }
    if (gpu->power_mw >= 0) {
        ks_text_printf(&sheet->item, "%lld W", (long long)(gpu->power_mw / 1000));
        put(sheet);
    }
    if (gpu->temperature_c >= 0) {
        ks_text_printf(&sheet->item, "%lld C", (long long)gpu->temperature_c);
        put(sheet);
    }
}

static void write_gpu(struct sheet *sheet, const struct ks_live_gpu *gpu)
{
    char name[32];
    snprintf(name, sizeof(name), "GPU %lld", (long long)gpu->index);
    begin(sheet, name);
    if (gpu->busy_percent >= 0) {
        append_gauge(sheet, (double)gpu->busy_percent / 100.0);
        ks_text_printf(&sheet->item, " %lld %% busy", (long long)gpu->busy_percent);
        put(sheet);
    }
    put_gpu_memory(sheet, gpu);
    put_gpu_clock(sheet, gpu);
    end(sheet);
}

static void write_machine(struct sheet *sheet)
{
    const struct ks_live_machine *machine = sheet->picture->machine;
    if (!machine || sheet->picture->state == KS_LIVE_OVER) {
        return; /* what it used when it ended says little */
    }
    write_cpu(sheet, machine);
    write_memory(sheet, machine);
    size_t shown = machine->gpu_count <= GPUS_SHOWN_MAX ? machine->gpu_count : GPUS_SHOWN_MAX - 1;
    for (size_t i = 0; i < shown; i++) {
        write_gpu(sheet, &machine->gpus[i]);
    }
    if (shown < machine->gpu_count) {
        begin(sheet, "");
        ks_text_printf(&sheet->item, "and %zu more GPUs", machine->gpu_count - shown);
        put(sheet);
        end(sheet);
    }
}

/* ------------------------------------------------------------------ the latest window */

static void write_parts(struct sheet *sheet)
{
    struct ks_step_part parts[KS_STEP_PARTS];
    int64_t total_ns = ks_step_parts_of(sheet->picture->report, parts);
    size_t room = sheet->width - LABEL_WIDTH;
    if (total_ns <= 0) {
        return;
    }
    begin(sheet, "");
    ks_step_parts_bar(&sheet->out, parts, total_ns, room < BAR_WIDTH_MAX ? room : BAR_WIDTH_MAX,
                      sheet->style->ascii);
    end(sheet);
    begin(sheet, "");
    for (size_t i = 0; i < KS_STEP_PARTS; i++) {
        char plain[2] = {parts[i].plain, '\0'};
        if (parts[i].ns > 0) {
            ks_text_printf(&sheet->item, "%s %s %s", sheet->style->ascii ? plain : parts[i].block,
                           parts[i].name,
                           ks_units_share((double)parts[i].ns / (double)total_ns).text);
            put(sheet);
        }
    }
    end(sheet);
}

static void write_finding(struct sheet *sheet, size_t index)
{
    const struct ks_finding *finding = &sheet->picture->report->findings->list[index];
    begin(sheet, "");
    ks_text_printf(&sheet->item, "%zu. %s", index + 1, ks_view_finding_title(finding));
    if (finding->cause) {
        ks_text_printf(&sheet->item, " (cause: %s)", finding->cause);
    }
    ks_text_printf(&sheet->item, ":");
    put_words(sheet, KS_INK_STRONG);
    ks_sentence_saving(&sheet->item, sheet->picture->report, finding);
    if (finding->where.file.len > 0) {
        ks_text_printf(&sheet->item, ", at ");
        ks_sentence_line(&sheet->item, &finding->where, sheet->width / 2);
    }
    put_words(sheet, KS_INK_END);
    end(sheet);
}

static void write_report(struct sheet *sheet)
{
    const struct ks_live_picture *picture = sheet->picture;
    struct ks_verdict verdict;
    if (!picture->report) {
        return;
    }
    ks_verdict_compute(picture->report, &verdict);
    begin(sheet, "window");
    if (picture->report_window > 1) {
        ks_text_printf(&sheet->item, "%lld: ", (long long)picture->report_window);
    }
    ks_text_printf(&sheet->item, "%s", verdict.text);
    put_words(sheet, KS_INK_STRONG);
    end(sheet);
    write_parts(sheet);
    size_t count = picture->report->findings->count;
    for (size_t i = 0; i < count && i < FINDINGS_MAX; i++) {
        write_finding(sheet, i);
    }
    if (count > FINDINGS_MAX) {
        begin(sheet, "");
        ks_text_printf(&sheet->item, "and %zu more findings", count - FINDINGS_MAX);
        put(sheet);
        end(sheet);
    }
}

/* Which window is there and not shown yet, or why it cannot be. */
static void write_window(struct sheet *sheet)
{
    const struct ks_live_picture *picture = sheet->picture;
    bool is_shown = picture->report && picture->report_window == picture->window;
    if (picture->window <= 0 || (is_shown && picture->report_failure[0] == '\0')) {
        return;
    }
    begin(sheet, "");
    if (picture->report_failure[0]) {
        ks_text_printf(&sheet->item, "window %lld cannot be shown: ", (long long)picture->window);
        ks_plain_append(&sheet->item, ks_str_from(picture->report_failure));
        put_words(sheet, KS_INK_WARN);
    } else {
        ks_text_printf(&sheet->item, "window %lld is there, and is being read",
                       (long long)picture->window);
        put_words(sheet, KS_INK_FAINT);
    }
    end(sheet);
}

/* ------------------------------------------------------------------ the end */

static void append_end(struct sheet *sheet)
{
    const struct ks_live_sum *sum = &sheet->sum;
    const struct ks_live_rank *most = sum->most;
    const char *how = !most           ? "The run is over"
                      : most->is_over ? "The program has ended by itself"
                                      : "The program was killed, or crashed";
    if (sheet->picture->is_gone) {
        ks_text_printf(&sheet->item, "The folder is gone: nothing was recorded, or somebody "
                                     "removed it.");
        return;
    }
    ks_text_printf(&sheet->item, "%s", how);
    if (sum->steps > 0) {
        ks_text_printf(&sheet->item, " after %s%s step%s", most && most->is_over ? "" : "at least ",
                       ks_units_count(sum->steps).text, sum->steps == 1 ? "" : "s");
    }
    if (sum->dur_ns > 0) {
        ks_text_printf(&sheet->item, "%s %s", sum->steps > 0 ? " in" : " after",
                       duration(sum->dur_ns).text);
    }
    ks_text_printf(&sheet->item, "%s",
                   sheet->picture->window > 0 ? ". kscope report says all that was found."
                                              : ". No window was recorded.");
}

static void write_end(struct sheet *sheet)
{
    if (sheet->picture->state == KS_LIVE_ENDING) {
        begin(sheet, "");
        ks_text_printf(&sheet->item, "The processes that made steps have ended; the run goes on.");
        put_words(sheet, KS_INK_WARN);
        end(sheet);
    } else if (sheet->picture->state == KS_LIVE_OVER) {
        begin(sheet, "");
        append_end(sheet);
        put_words(sheet, KS_INK_STRONG);
        end(sheet);
    }
}

/* ------------------------------------------------------------------ all of it */

/* Bytes of the first `height` lines. */
static size_t bytes_that_fit(const struct ks_text *text, size_t height)
{
    size_t lines = 0;
    for (size_t i = 0; i < text->len; i++) {
        lines += text->ptr[i] == '\n';
        if (lines == height) {
            return i + 1;
        }
    }
    return text->len;
}

static enum ks_status hand_out(const struct sheet *sheet, ks_write_cb write, void *user,
                               struct ks_err *err)
{
    size_t height = sheet->style->height;
    if (sheet->out.failed || sheet->item.failed) {
        return ks_fail(err, KS_ERR_NOMEM, KS_NO_OFFSET, "Cannot draw the run: no memory");
    }
    size_t len = height > 0 ? bytes_that_fit(&sheet->out, height) : sheet->out.len;
    if (!write(user, sheet->out.ptr, len)) {
        return ks_fail(err, KS_ERR_IO, KS_NO_OFFSET, "Cannot draw the run: the receiver stopped");
    }
    return KS_OK;
}

enum ks_status ks_live_write_screen(const struct ks_live_picture *picture,
                                    const struct ks_live_style *style, ks_write_cb write,
                                    void *user, struct ks_err *err)
{
    size_t width = style->width > 0 ? style->width : WIDTH_DEFAULT;
    struct sheet sheet = {
        .picture = picture, .style = style, .width = width < WIDTH_MIN ? WIDTH_MIN : width};
    ks_text_init(&sheet.out);
    ks_text_init(&sheet.item);
    ks_live_sum_up(picture, &sheet.sum);
    write_head(&sheet);
    write_end(&sheet);
    write_pace(&sheet);
    write_ranks(&sheet);
    write_machine(&sheet);
    write_window(&sheet);
    write_report(&sheet);
    enum ks_status status = hand_out(&sheet, write, user, err);
    ks_text_release(&sheet.item);
    ks_text_release(&sheet.out);
    return status;
}
