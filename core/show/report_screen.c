/* The overview: what a user must know, on one screen of 24 lines. Order: the verdict, what was read
 * and what is wrong with it, where a step's time goes, the devices, why they idle, what to change
 * first, what was looked at, and the command to type next. */
#include "show/report.h"

#include <math.h>
#include <stdio.h>

#include "base/err.h"
#include "base/text.h"
#include "show/ink.h"
#include "show/plain.h"
#include "show/sentences.h"
#include "show/step_parts.h"
#include "show/tuning_show.h"
#include "show/units.h"
#include "show/verdict.h"

enum {
    WIDTH_DEFAULT = 100,
    LABEL_WIDTH = 9,
    INPUTS_MAX = 2,
    DAMAGES_MAX = 3,
    DEVICES_MAX = 4,
    REGIONS_MAX = 4,
    REGION_WIDTH = 30, /* of a name, and of a category */
    REGION_LINES = 3,
    FINDINGS_MAX = 4,
    FINDING_LINES = 5, /* title, saving and place, fix, code */
    TAIL_LINES = 4,    /* what follows the findings */
    SCREEN_LINES = 24,
    BAR_WIDTH_MAX = 72,
    FIX_LINES_MAX = 4,
    CODE_LINES_MAX = 4,
    ROOM_MIN = 12,
    FINE_NAMES_MAX = 3,
    REASON_NAMES_MAX = 3, /* rules that lack the same thing */
    CHECK_LINES_MAX = 2,
    LIMIT_LINES = 3,
};

static const double IDLE_SHARE_MIN = 0.005;

struct screen {
    const struct ks_view *view;
    const struct ks_report_style *style;
    size_t width;
    struct ks_text out;
    struct ks_text line; /* one paragraph before it is wrapped */
};

/* ------------------------------------------------------------------ lines */

static void ink(struct screen *screen, enum ks_ink colour)
{
    ks_ink(&screen->out, screen->style->colour, colour);
}

static void label(struct screen *screen, const char *name)
{
    ink(screen, KS_INK_FAINT);
    ks_text_printf(&screen->out, "%-*s", LABEL_WIDTH, name);
    ink(screen, KS_INK_END);
}

/* Bytes up to the last blank within `room` columns of a text that is wider; 0: there is none. */
static size_t bytes_to_blank(struct ks_str text, size_t room)
{
    size_t end = room; /* text has no fewer bytes than columns */
    while (end > 0 && text.ptr[end] != ' ') {
        end--;
    }
    return end;
}

/* What does not fit into the last line: lists are cut in the middle, as their end counts. */
enum cut { CUT_MIDDLE, CUT_END };

static void write_last(struct screen *screen, struct ks_str rest, size_t room, enum cut cut)
{
    size_t end = cut == CUT_END && ks_plain_width(rest) > room ? bytes_to_blank(rest, room - 3) : 0;
    if (end > 0) {
        ks_text_append(&screen->out, rest.ptr, end);
        ks_text_append(&screen->out, " ..", 3);
    } else {
        ks_plain_append_fit(&screen->out, rest, room);
    }
    ks_text_append(&screen->out, "\n", 1);
}

/* Writes screen->line, broken at blanks so that each line ends before the width; the first line
 * starts where the output stands, the others at `indent`. At most `lines_max` lines. */
static void wrap_cut(struct screen *screen, size_t indent, size_t lines_max, enum cut cut)
{
    struct ks_str rest = {screen->line.ptr, screen->line.len};
    size_t room = screen->width > indent + ROOM_MIN ? screen->width - indent : ROOM_MIN;
    for (size_t line = 1; rest.len > 0; line++) {
        if (line > 1) {
            ks_text_printf(&screen->out, "%*s", (int)indent, "");
        }
        bool is_last = ks_plain_width(rest) <= room || line == lines_max;
        size_t end = is_last ? 0 : bytes_to_blank(rest, room);
        if (end == 0) { /* the last line, or one long word */
            write_last(screen, rest, room, cut);
            break;
        }
        ks_text_append(&screen->out, rest.ptr, end);
        ks_text_append(&screen->out, "\n", 1);
        while (end < rest.len && rest.ptr[end] == ' ') {
            end++;
        }
        rest = (struct ks_str){rest.ptr + end, rest.len - end};
    }
    screen->out.failed = screen->out.failed || screen->line.failed;
    ks_text_reset(&screen->line);
}

static void wrap(struct screen *screen, size_t indent, size_t lines_max)
{
    wrap_cut(screen, indent, lines_max, CUT_MIDDLE);
}

/* ------------------------------------------------------------------ inputs */

static void write_input(struct screen *screen, uint32_t index, size_t room)
{
    const struct ks_source *source = ks_trace_source(screen->view->trace, index);
    enum ks_source_status status = ks_source_status(source);
    struct ks_text facts;
    ks_text_init(&facts);
    struct ks_unit_text events = ks_units_count((int64_t)source->events);
    ks_text_printf(&facts, ", %s events", events.text);
    if (source->rank >= 0) {
        ks_text_printf(&facts, ", rank %lld", (long long)source->rank);
    }
    if (source->torch_version.v != 0) {
        ks_text_printf(&facts, ", torch ");
        ks_plain_append_fit(&facts, ks_view_str(screen->view, source->torch_version), 24);
    }
    size_t facts_width = ks_plain_width((struct ks_str){facts.ptr, facts.len}) + 11;
    size_t path_room = room > facts_width + 20 ? room - facts_width : 20;
    ks_plain_append_fit(&screen->out, ks_view_path(screen->view, index), path_room);
    ks_text_append(&screen->out, facts.ptr, facts.len);
    screen->out.failed = screen->out.failed || facts.failed;
    ks_text_release(&facts);
    if (status != KS_SOURCE_OK) {
        ks_text_append(&screen->out, ", ", 2);
        ink(screen, KS_INK_WARN);
        ks_text_printf(&screen->out, "%s", ks_view_status(status));
        ink(screen, KS_INK_END);
    }
    ks_text_append(&screen->out, "\n", 1);
}

/* What was repaired, lost or cut in all inputs together: stated next to the results. */
static void write_damage(struct screen *screen)
{
    const struct ks_trace *trace = screen->view->trace;
    size_t kinds = 0;
    for (int stat = 0; stat < KS_STAT_COUNT; stat++) {
        const struct ks_stat_info *info = ks_stat_info((enum ks_stat)stat);
        uint64_t total = 0;
        for (uint32_t i = 0; i < ks_trace_source_count(trace); i++) {
            total += ks_trace_source(trace, i)->counts[stat];
        }
        if (total == 0 || info->severity == KS_SEVERITY_INFO || ++kinds > DAMAGES_MAX) {
            continue;
        }
        struct ks_unit_text count = ks_units_count((int64_t)total);
        label(screen, "");
        ink(screen, KS_INK_WARN);
        ks_text_printf(&screen->line, "! %s %s", count.text, info->sentence);
        wrap(screen, LABEL_WIDTH, 1);
        ink(screen, KS_INK_END);
    }
    if (kinds > DAMAGES_MAX) {
        label(screen, "");
        ks_text_printf(&screen->out, "! and %zu more counters: see kscope info\n",
                       kinds - DAMAGES_MAX);
    }
}

static void write_inputs(struct screen *screen)
{
    uint32_t count = ks_trace_source_count(screen->view->trace);
    uint32_t shown = count <= INPUTS_MAX ? count : INPUTS_MAX - 1;
    for (uint32_t i = 0; i < shown; i++) {
        label(screen, i == 0 ? "input" : "");
        write_input(screen, i, screen->width - LABEL_WIDTH);
    }
    if (shown < count) {
        label(screen, "");
        ks_text_printf(&screen->out, "and %u more files: --table inputs\n", count - shown);
    }
    write_damage(screen);
    if (screen->view->facts->running_count > 0) {
        label(screen, "");
        ks_text_printf(&screen->out,
                       "the program is still running: this is what is there so far\n");
    }
    if (screen->view->is_throttled) {
        label(screen, "");
        ink(screen, KS_INK_WARN);
        ks_text_printf(&screen->line, "! control group: %s", screen->view->cgroup);
        wrap(screen, LABEL_WIDTH, 1);
        ink(screen, KS_INK_END);
    }
}

/* ------------------------------------------------------------------ steps */

/* What the blocks stand for; an entry is never broken. */
static void write_legend(struct screen *screen, const struct ks_step_part *parts, int64_t total_ns)
{
    size_t used = 0;
    label(screen, "");
    for (size_t i = 0; i < KS_STEP_PARTS; i++) {
        if (parts[i].ns <= 0) {
            continue;
        }
        struct ks_unit_text share = ks_units_share((double)parts[i].ns / (double)total_ns);
        char plain[2] = {parts[i].plain, '\0'};
        size_t width = strlen(parts[i].name) + strlen(share.text) + 3;
        if (used > 0 && LABEL_WIDTH + used + 2 + width > screen->width) {
            ks_text_append(&screen->out, "\n", 1);
            label(screen, "");
            used = 0;
        }
        ks_text_printf(&screen->out, "%s%s %s %s", used > 0 ? "  " : "",
                       screen->style->ascii ? plain : parts[i].block, parts[i].name, share.text);
        used += width + (used > 0 ? 2 : 0);
    }
    ks_text_append(&screen->out, "\n", 1);
}

static void write_breakdown(struct screen *screen)
{
    struct ks_step_part parts[KS_STEP_PARTS];
    int64_t total_ns = ks_step_parts_of(screen->view, parts);
    size_t room = screen->width - LABEL_WIDTH;
    size_t width = room < BAR_WIDTH_MAX ? room : BAR_WIDTH_MAX;
    if (total_ns <= 0) {
        return;
    }
    label(screen, "");
    ks_step_parts_bar(&screen->out, parts, total_ns, width, screen->style->ascii);
    ks_text_append(&screen->out, "\n", 1);
    write_legend(screen, parts, total_ns);
}

static const char *found_by(enum ks_step_source source)
{
    switch (source) {
    case KS_STEPS_PROFILER: return "marked by the profiler";
    case KS_STEPS_MARK: return "marked by the program";
    case KS_STEPS_ENGINE: return "marked by the engine";
    case KS_STEPS_OPTIMIZER: return "found by the optimizer steps";
    case KS_STEPS_TOP_SPAN: return "found by a repeated span";
    case KS_STEPS_GRAPH: return "found by graph launches";
    case KS_STEPS_PERIOD: return "found by the rhythm of launches";
    case KS_STEPS_WINDOW: return "no steps marked: the whole recording";
    case KS_STEPS_NONE: break;
    }
    return "";
}

/* "4 (2 to 5), mean 47.4 ms, 46.2 ms to 48.6 ms, marked by the profiler" */
static void append_steps(struct screen *screen, int64_t first, int64_t last, int64_t min_ns,
                         int64_t max_ns)
{
    const struct ks_facts *facts = screen->view->facts;
    struct ks_text *line = &screen->line;
    uint32_t files = ks_trace_source_count(screen->view->trace);
    ks_text_printf(line, "%zu", facts->step_count);
    if (files > 1) {
        ks_text_printf(line, " in %u files", files);
    }
    if (first == last) {
        ks_text_printf(line, " (number %lld)", (long long)first);
    } else {
        ks_text_printf(line, " (%lld to %lld)", (long long)first, (long long)last);
    }
    struct ks_unit_text mean = ks_units_time(ks_view_step_ns(screen->view));
    struct ks_unit_text least = ks_units_time(min_ns);
    struct ks_unit_text most = ks_units_time(max_ns);
    if (min_ns == max_ns) {
        ks_text_printf(line, ", %s", mean.text);
    } else {
        ks_text_printf(line, ", mean %s, %s to %s", mean.text, least.text, most.text);
    }
    ks_text_printf(line, ", %s", found_by(facts->step_source));
}

/* What a step takes when nobody records, where `run` timed some; of several ranks the slowest. */
static void append_unprofiled(struct screen *screen)
{
    int64_t ns = 0;
    for (uint32_t i = 0; i < ks_trace_source_count(screen->view->trace); i++) {
        int64_t own_ns = screen->view->facts->sources[i].unprofiled_ns;
        ns = own_ns > ns ? own_ns : ns;
    }
    if (ns > 0) {
        ks_text_printf(&screen->line, "; %s unprofiled", ks_units_time(ns).text);
    }
}

static void write_steps(struct screen *screen)
{
    const struct ks_facts *facts = screen->view->facts;
    int64_t min_ns = INT64_MAX;
    int64_t max_ns = 0;
    int64_t first = INT64_MAX;
    int64_t last = INT64_MIN;
    for (size_t i = 0; i < facts->step_count; i++) {
        const struct ks_step *step = &facts->steps[i];
        first = step->number < first ? step->number : first;
        last = step->number > last ? step->number : last;
        if (ks_view_step_counts(screen->view, step)) {
            min_ns = step->dur_ns < min_ns ? step->dur_ns : min_ns;
            max_ns = step->dur_ns > max_ns ? step->dur_ns : max_ns;
        }
    }
    if (facts->step_count == 0) {
        return;
    }
    label(screen, "steps");
    if (facts->step_source == KS_STEPS_WINDOW) {
        ks_text_printf(&screen->line, "%s", found_by(facts->step_source));
    } else {
        append_steps(screen, first, last, min_ns, max_ns);
        if (facts->complete_step_count < facts->step_count) {
            ks_text_printf(&screen->line, ", %zu cut",
                           facts->step_count - facts->complete_step_count);
        }
        append_unprofiled(screen);
    }
    wrap(screen, LABEL_WIDTH, 2);
    write_breakdown(screen);
}

/* ------------------------------------------------------------------ devices */

static void write_device(struct screen *screen, const struct ks_device_fact *device)
{
    int64_t rank = ks_view_rank(screen->view, device->source);
    char name[32];
    snprintf(name, sizeof(name), "GPU %lld",
             device->device == KS_UNKNOWN ? -1LL : (long long)device->device);
    label(screen, name);
    struct ks_text *line = &screen->line;
    if (rank != KS_UNKNOWN && ks_trace_source_count(screen->view->trace) > 1) {
        ks_text_printf(line, "rank %lld, ", (long long)rank);
    } else if (device->name.v != 0) {
        ks_plain_append_fit(line, ks_view_str(screen->view, device->name), 30);
        ks_text_append(line, ", ", 2);
    }
    struct ks_unit_text span = ks_units_time(device->span_ns);
    if (device->span_ns > 0) {
        struct ks_unit_text util =
            ks_units_share((double)device->busy_ns / (double)device->span_ns);
        ks_text_printf(line, "busy %s of %s", util.text, span.text);
    } else {
        ks_text_printf(line, "work that takes no time");
    }
    if (device->comm_ns > 0) {
        struct ks_unit_text comm = ks_units_time(device->comm_ns);
        struct ks_unit_text exposed = ks_units_time(device->exposed_comm_ns);
        ks_text_printf(line, "; communication %s (%s exposed)", comm.text, exposed.text);
    }
    if (isfinite(device->tensor_core_share) && device->compute_ns > 0) {
        struct ks_unit_text share = ks_units_share(device->tensor_core_share);
        ks_text_printf(line, "; tensor cores %s", share.text);
    }
    wrap(screen, LABEL_WIDTH, 1);
}

/* Causes by time, the longest first, of steps that count; those under half a percent are left out.
 * "GPU idle 43 % of a step: host code 30 %, data 10 %, launch 3 %" */
static void write_idle(struct screen *screen)
{
    const struct ks_facts *facts = screen->view->facts;
    int64_t ns[KS_IDLE_COUNT] = {0};
    int64_t idle_ns = 0;
    int64_t total_ns = 0;
    for (size_t i = 0; i < facts->step_count; i++) {
        const struct ks_step *step = &facts->steps[i];
        if (!ks_view_step_counts(screen->view, step)) {
            continue;
        }
        total_ns += step->dur_ns;
        idle_ns += step->idle_ns;
        for (size_t cause = 0; cause < KS_IDLE_COUNT; cause++) {
            ns[cause] += step->idle_by_cause_ns[cause];
        }
    }
    if (idle_ns == 0) {
        return;
    }
    label(screen, "idle");
    ks_text_printf(&screen->line, "%s idle %s of a step", facts->has_gpu ? "GPU" : "thread",
                   ks_units_share((double)idle_ns / (double)total_ns).text);
    for (size_t shown = 0; shown < KS_IDLE_COUNT; shown++) {
        size_t most = 0;
        for (size_t cause = 1; cause < KS_IDLE_COUNT; cause++) {
            most = ns[cause] > ns[most] ? cause : most;
        }
        double share = (double)ns[most] / (double)total_ns;
        if (share < IDLE_SHARE_MIN && shown > 0) {
            break;
        }
        ks_text_printf(&screen->line, "%s %s %s", shown > 0 ? "," : ":",
                       ks_view_idle_cause((enum ks_idle_cause)most), ks_units_share(share).text);
        ns[most] = 0;
    }
    wrap(screen, LABEL_WIDTH, 1);
}

static void write_devices(struct screen *screen)
{
    const struct ks_facts *facts = screen->view->facts;
    if (facts->device_count == 0 && facts->step_count > 0) {
        label(screen, "GPU");
        ks_text_printf(&screen->out, "no GPU work in the trace\n");
    }
    size_t shown = facts->device_count <= DEVICES_MAX ? facts->device_count : DEVICES_MAX - 1;
    for (size_t i = 0; i < shown; i++) {
        write_device(screen, &facts->devices[i]);
    }
    if (shown < facts->device_count) {
        label(screen, "");
        ks_text_printf(&screen->out, "and %zu more GPUs: --table devices\n",
                       facts->device_count - shown);
    }
}

/* ------------------------------------------------------------------ findings */

static void append_line(struct screen *screen, const struct ks_finding *finding)
{
    if (finding->where.file.len > 0) {
        ks_text_printf(&screen->line, ", at ");
        ks_sentence_line(&screen->line, &finding->where, screen->width / 2);
    }
}

static void write_finding(struct screen *screen, size_t index)
{
    const struct ks_finding *finding = &screen->view->findings->list[index];
    ink(screen, KS_INK_STRONG);
    ks_text_printf(&screen->line, "%zu. %s", index + 1, ks_view_finding_title(finding));
    if (finding->cause) {
        ks_text_printf(&screen->line, " (cause: %s)", finding->cause);
    }
    ks_text_printf(&screen->line, "  %s", finding->rule->id);
    wrap(screen, 3, 2);
    ink(screen, KS_INK_END);

    ks_text_append(&screen->out, "   ", 3);
    ks_sentence_saving(&screen->line, screen->view, finding);
    append_line(screen, finding);
    wrap(screen, 3, 2);
    if (finding->fix_text) {
        ks_text_append(&screen->out, "   ", 3);
        ink(screen, KS_INK_GOOD);
        ks_text_append(&screen->out, "fix: ", 5);
        ink(screen, KS_INK_END);
        ks_plain_append(&screen->line, ks_str_from(finding->fix_text));
        wrap_cut(screen, 8, FIX_LINES_MAX, CUT_END);
    }
    if (finding->fix_code && index == 0) { /* its first line; all of it is in the JSON */
        struct ks_str code = {finding->fix_code, strcspn(finding->fix_code, "\n")};
        ks_text_printf(&screen->out, "%*s", 8, "");
        ks_plain_append(&screen->line, code);
        wrap(screen, 8, CODE_LINES_MAX);
    }
}

static size_t lines_used(const struct screen *screen)
{
    size_t lines = 0;
    for (size_t i = 0; i < screen->out.len; i++) {
        lines += screen->out.ptr[i] == '\n';
    }
    return lines;
}

/* As many as the screen holds, but at least the first; all up to an explicit limit. */
static void write_findings(struct screen *screen)
{
    const struct ks_findings *findings = screen->view->findings;
    size_t limit = screen->style->row_limit ? screen->style->row_limit : FINDINGS_MAX;
    size_t shown = 0;
    ks_text_append(&screen->out, "\n", 1);
    while (shown < findings->count && shown < limit) {
        bool has_room = lines_used(screen) + FINDING_LINES + TAIL_LINES <= SCREEN_LINES;
        if (shown > 0 && !has_room && screen->style->row_limit == 0) {
            break;
        }
        write_finding(screen, shown++);
    }
    if (shown < findings->count) {
        ks_text_printf(&screen->out, "   and %zu more: --table findings\n",
                       findings->count - shown);
    }
}

/* Does the rule lack the same thing as the one at `index`? */
static bool is_of_reason(const struct ks_findings *findings, size_t index, size_t other)
{
    const struct ks_check *check = &findings->checks[index];
    const struct ks_check *next = &findings->checks[other];
    return check->reason && next->reason && next->state == KS_CHECK_COULD_NOT &&
           strcmp(next->reason, check->reason) == 0;
}

/* Writes the rule at `index`, behind it others that lack the same thing, and what that is. Gives
 * how many rules this is. */
static size_t write_reason(struct screen *screen, size_t index)
{
    const struct ks_findings *findings = screen->view->findings;
    size_t count = 1;
    ks_text_printf(&screen->line, "%s", findings->checks[index].rule->id);
    for (size_t i = index + 1; i < findings->check_count; i++) {
        if (is_of_reason(findings, index, i) && ++count <= REASON_NAMES_MAX) {
            ks_text_printf(&screen->line, ", %s", findings->checks[i].rule->id);
        }
    }
    if (count > REASON_NAMES_MAX) {
        ks_text_printf(&screen->line, " and %zu more", count - REASON_NAMES_MAX);
    }
    if (findings->checks[index].reason) {
        ks_text_printf(&screen->line, " (%s)", findings->checks[index].reason);
    }
    return count;
}

static size_t count_checks(const struct ks_findings *findings, enum ks_check_state state)
{
    size_t count = 0;
    for (size_t i = 0; i < findings->check_count; i++) {
        count += findings->checks[i].state == state;
    }
    return count;
}

static void write_fine(struct screen *screen)
{
    const struct ks_findings *findings = screen->view->findings;
    size_t total = count_checks(findings, KS_CHECK_FINE);
    size_t shown = 0;
    if (total == 0) {
        return;
    }
    if (findings->count == 0) {
        ks_text_printf(&screen->out, "Nothing was found that would make a step faster.\n");
    }
    ks_text_printf(&screen->out, "Looked at, fine: ");
    for (size_t i = 0; i < findings->check_count && shown < FINE_NAMES_MAX; i++) {
        if (findings->checks[i].state == KS_CHECK_FINE) {
            ks_text_printf(&screen->line, "%s%s", shown++ ? ", " : "",
                           findings->checks[i].rule->id);
        }
    }
    if (shown < total) {
        ks_text_printf(&screen->line, " and %zu more", total - shown);
    }
    wrap(screen, strlen("Looked at, fine: "), CHECK_LINES_MAX);
}

/* The first reason only: there is no room for all. */
static void write_not_judged(struct screen *screen)
{
    const struct ks_findings *findings = screen->view->findings;
    size_t total = count_checks(findings, KS_CHECK_COULD_NOT);
    size_t first = 0;
    if (total == 0) {
        return;
    }
    while (findings->checks[first].state != KS_CHECK_COULD_NOT) {
        first++;
    }
    ks_text_printf(&screen->out, "Could not be judged: ");
    size_t said = write_reason(screen, first);
    if (said < total) {
        ks_text_printf(&screen->line, "; and %zu more: --markdown says why", total - said);
    }
    wrap(screen, strlen("Could not be judged: "), CHECK_LINES_MAX);
}

/* ------------------------------------------------------------------ beyond faults */

/* What limits the step next, where there is room, and the names of what is worth a try. */
static void write_opportunities(struct screen *screen)
{
    const struct ks_opportunities *opportunities = screen->view->opportunities;
    size_t first = 0;
    bool has_room = lines_used(screen) + LIMIT_LINES + TAIL_LINES <= SCREEN_LINES;
    if (opportunities->count > 0 && strncmp(opportunities->list[0].id, "limit.", 6) == 0) {
        first = 1;
        if (has_room || screen->view->findings->count == 0) {
            label(screen, "limit");
            ks_text_printf(&screen->line, "%s", opportunities->list[0].text);
            wrap(screen, LABEL_WIDTH, LIMIT_LINES);
        }
    }
    for (size_t i = first; i < opportunities->count; i++) {
        ks_text_printf(&screen->line, "%s%s", i > first ? ", " : "", opportunities->list[i].id);
    }
    if (first < opportunities->count) {
        ks_text_printf(&screen->out, "Worth a try: ");
        ks_text_printf(&screen->line, " (--markdown says why)");
        wrap(screen, strlen("Worth a try: "), 1);
    }
}

/* ------------------------------------------------------------------ the last line */

/* Does the terminal get these bytes as they are: no controls, no text that turns direction? */
static bool is_printable(const char *path)
{
    struct ks_text plain;
    ks_text_init(&plain);
    ks_plain_append(&plain, ks_str_from(path));
    bool same =
        !plain.failed && ks_str_equal((struct ks_str){plain.ptr, plain.len}, ks_str_from(path));
    ks_text_release(&plain);
    return same;
}

/* The path as a shell reads it back. */
static void append_quoted(struct ks_text *text, const char *path)
{
    bool is_plain = *path && *path != '-' &&
                    strspn(path, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLM"
                                 "NOPQRSTUVWXYZ0123456789_./+=:@%,-") == strlen(path);
    if (is_plain) {
        ks_text_append_str(text, ks_str_from(path));
        return;
    }
    if (!is_printable(path)) { // a command that cannot be shown cannot be copied either
        ks_text_printf(text, "PATH");
        return;
    }
    ks_text_append(text, "'", 1);
    for (const char *at = path; *at; at++) {
        bool is_quote = *at == '\'';
        ks_text_append(text, is_quote ? "'\\''" : at, is_quote ? 4 : 1);
    }
    ks_text_append(text, "'", 1);
}

/* Those with the most time: "step (training_loop) 1.80 ms in 2 calls; ..." */
static void write_regions(struct screen *screen)
{
    const struct ks_facts *facts = screen->view->facts;
    if (facts->region_count == 0) {
        return;
    }
    label(screen, "regions");
    for (size_t i = 0; i < facts->region_count && i < REGIONS_MAX; i++) {
        const struct ks_region_fact *region = &facts->regions[i];
        ks_text_printf(&screen->line, "%s", i > 0 ? "; " : "");
        ks_plain_append_fit(&screen->line, ks_view_str(screen->view, region->name), REGION_WIDTH);
        if (region->category.v != 0) {
            ks_text_printf(&screen->line, " (");
            ks_plain_append_fit(&screen->line, ks_view_str(screen->view, region->category),
                                REGION_WIDTH);
            ks_text_printf(&screen->line, ")");
        }
        ks_text_printf(&screen->line, " %s in %s call%s", ks_units_time(region->total_ns).text,
                       ks_units_count(region->calls).text, region->calls == 1 ? "" : "s");
    }
    wrap(screen, LABEL_WIDTH, REGION_LINES);
}

/* "train (train.py:12)" */
static void append_function(struct screen *screen, const struct ks_function_id *id)
{
    ks_plain_append_fit(&screen->line, ks_view_str(screen->view, id->name), REGION_WIDTH);
    if (id->first_line > 0) {
        ks_text_printf(&screen->line, " (");
        ks_plain_append_fit(&screen->line, ks_view_str(screen->view, id->file), REGION_WIDTH);
        ks_text_printf(&screen->line, ":%u)", id->first_line);
    }
}

/* Those that take most time by themselves: "load (data.py:3) 1.20 s in 300 calls; ..." */
static void write_functions(struct screen *screen)
{
    const struct ks_facts *facts = screen->view->facts;
    if (facts->function_count == 0) {
        return;
    }
    label(screen, "calls");
    for (size_t i = 0; i < facts->function_count && i < REGIONS_MAX; i++) {
        const struct ks_function_fact *function = &facts->functions[i];
        ks_text_printf(&screen->line, "%s", i > 0 ? "; " : "");
        append_function(screen, &function->id);
        ks_text_printf(&screen->line, " %s in %s call%s", ks_units_time(function->self_ns).text,
                       ks_units_count(function->calls).text, function->calls == 1 ? "" : "s");
    }
    wrap(screen, LABEL_WIDTH, REGION_LINES);
}

/* Of the thread that ran most: "MainThread: load (data.py:3) 45 %; ..." */
static void write_samples(struct screen *screen)
{
    const struct ks_facts *facts = screen->view->facts;
    if (facts->sample_count == 0) {
        return;
    }
    uint32_t track = facts->samples[0].track;
    struct ks_str name =
        ks_view_str(screen->view, ks_trace_track(screen->view->trace, track)->name);
    label(screen, "samples");
    ks_plain_append_fit(&screen->line, name.len > 0 ? name : KS_STR("a thread"), REGION_WIDTH);
    for (size_t i = 0; i < facts->sample_count && i < REGIONS_MAX; i++) {
        const struct ks_sample_fact *sample = &facts->samples[i];
        if (sample->track != track || sample->self_looks == 0) {
            break;
        }
        double share = (double)sample->self_looks / (double)sample->thread_looks;
        ks_text_printf(&screen->line, "%s", i > 0 ? "; " : ": ");
        append_function(screen, &sample->id);
        ks_text_printf(&screen->line, " %s", ks_units_share(share).text);
    }
    wrap(screen, LABEL_WIDTH, REGION_LINES);
}

/* What `kscope tune` kept, and what it gained. */
static void write_tuned(struct screen *screen)
{
    const struct ks_tuning *tuning = screen->view->tuning;
    if (!tuning) {
        return;
    }
    label(screen, "tuned");
    ks_tuning_append_sentence(tuning, &screen->line);
    wrap(screen, LABEL_WIDTH, 3);
}

static void write_next(struct screen *screen)
{
    const struct ks_view *view = screen->view;
    const struct ks_facts *facts = view->facts;
    if (view->path_count == 0 || strcmp(view->paths[0], "-") == 0) {
        return;
    }
    const char *table = facts->kernel_count > 0     ? "report --table kernels"
                        : facts->operator_count > 0 ? "report --table operators"
                        : facts->region_count > 0   ? "report --table regions"
                        : facts->function_count > 0 ? "report --table functions"
                        : facts->sample_count > 0   ? "report --table samples"
                                                    : "info";
    label(screen, "next");
    ks_text_printf(&screen->out, "kscope %s ", table);
    for (size_t i = 0; i < view->path_count && i < 2; i++) {
        ks_text_append(&screen->out, " ", i > 0);
        append_quoted(&screen->out, view->paths[i]);
    }
    ks_text_printf(&screen->out, "%s\n", view->path_count > 2 ? " ..." : "");
}

enum ks_status ks_report_write_screen(const struct ks_view *view,
                                      const struct ks_report_style *style, ks_write_cb write,
                                      void *user, struct ks_err *err)
{
    struct screen screen = {
        .view = view, .style = style, .width = style->width ? style->width : WIDTH_DEFAULT};
    ks_text_init(&screen.out);
    ks_text_init(&screen.line);

    struct ks_verdict verdict;
    ks_verdict_compute(view, &verdict);
    ink(&screen, KS_INK_STRONG);
    ks_text_printf(&screen.line, "%s", verdict.text);
    wrap(&screen, 0, 3);
    ink(&screen, KS_INK_END);
    write_inputs(&screen);
    write_steps(&screen);
    write_devices(&screen);
    write_idle(&screen);
    write_regions(&screen);
    write_functions(&screen);
    write_samples(&screen);
    write_findings(&screen);
    write_opportunities(&screen);
    write_fine(&screen);
    write_not_judged(&screen);
    write_tuned(&screen);
    write_next(&screen);

    enum ks_status status = KS_OK;
    if (screen.out.failed || screen.line.failed) {
        status = ks_fail(err, KS_ERR_NOMEM, KS_NO_OFFSET, "Cannot write the report: no memory");
    } else if (!write(user, screen.out.ptr, screen.out.len)) {
        status = ks_fail(err, KS_ERR_IO, KS_NO_OFFSET,
                         "Cannot write the report: the receiver "
                         "stopped");
    }
    ks_text_release(&screen.line);
    ks_text_release(&screen.out);
    return status;
}
