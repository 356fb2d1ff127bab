/* The report as GitHub-flavoured Markdown, for a comment on a change or an issue: the verdict, what
 * was read, where a mean step's time goes, each finding with evidence and fix, and the checks.
 * Names from the input never become markup. */
#include "show/report.h"

#include <string.h>

#include "base/err.h"
#include "base/text.h"
#include "show/plain.h"
#include "show/sentences.h"
#include "show/units.h"
#include "show/verdict.h"

enum { NAME_WIDTH = 120, PLACE_WIDTH = 400, FENCE_MIN = 3, FUNCTIONS_MAX = 10 };

struct markdown {
    const struct ks_view *view;
    struct ks_text out;
    struct ks_text line; /* text before it is escaped */
};

/* ------------------------------------------------------------------ text */

/* Writes md->line so that nothing in it is markup. */
static void escape(struct markdown *md)
{
    for (size_t i = 0; i < md->line.len; i++) {
        char c = md->line.ptr[i];
        if (c == '<' || c == '&') {
            ks_text_printf(&md->out, c == '<' ? "&lt;" : "&amp;");
            continue;
        }
        ks_text_append(&md->out, "\\", c && strchr("\\`*_[]|~#!@", c) ? 1 : 0);
        ks_text_append(&md->out, &c, 1);
    }
    md->out.failed = md->out.failed || md->line.failed;
    ks_text_reset(&md->line);
}

static void text(struct markdown *md, const char *words)
{
    ks_plain_append(&md->line, ks_str_from(words ? words : ""));
    escape(md);
}

static void name(struct markdown *md, struct ks_str s)
{
    ks_plain_append_fit(&md->line, s, NAME_WIDTH);
    escape(md);
}

/* A fence is longer than any row of backticks in what it holds. */
static void code_block(struct markdown *md, const char *code)
{
    size_t most = FENCE_MIN - 1;
    for (const char *at = code; *at; at++) {
        size_t ticks = strspn(at, "`");
        most = ticks > most ? ticks : most;
    }
    for (int end = 0; end < 2; end++) {
        for (size_t i = 0; i <= most; i++) {
            ks_text_append(&md->out, "`", 1);
        }
        ks_text_printf(&md->out, end == 0 ? "python\n%s\n" : "\n", code);
    }
    ks_text_append(&md->out, "\n", 1);
}

/* ------------------------------------------------------------------ inputs and steps */

static void write_inputs(struct markdown *md)
{
    ks_text_printf(&md->out, "| input | events | rank | status |\n|---|---:|---:|---|\n");
    for (uint32_t i = 0; i < ks_trace_source_count(md->view->trace); i++) {
        const struct ks_source *source = ks_trace_source(md->view->trace, i);
        ks_text_printf(&md->out, "| ");
        name(md, ks_view_path(md->view, i));
        ks_text_printf(&md->out, " | %s | ", ks_units_count((int64_t)source->events).text);
        if (source->rank >= 0) {
            ks_text_printf(&md->out, "%lld", (long long)source->rank);
        }
        ks_text_printf(&md->out, " | %s |\n", ks_view_status(ks_source_status(source)));
    }
    ks_text_append(&md->out, "\n", 1);
}

static void write_share_row(struct markdown *md, const char *kind, const char *word, int64_t ns,
                            int64_t total_ns, size_t count)
{
    if (ns > 0) {
        ks_text_printf(&md->out, "| %s%s | %s | %s |\n", kind, word,
                       ks_units_time(ns / (int64_t)count).text,
                       ks_units_share((double)ns / (double)total_ns).text);
    }
}

/* What a mean step is made of, and why the device idles in it. */
static void write_steps(struct markdown *md)
{
    const struct ks_facts *facts = md->view->facts;
    int64_t role_ns[KS_ROLE_COUNT] = {0};
    int64_t idle_ns[KS_IDLE_COUNT] = {0};
    int64_t total_ns = 0;
    size_t count = 0;
    for (size_t i = 0; i < facts->step_count; i++) {
        const struct ks_step *step = &facts->steps[i];
        if (!ks_view_step_counts(md->view, step)) {
            continue;
        }
        count++;
        total_ns += step->dur_ns;
        for (size_t role = 0; role < KS_ROLE_COUNT; role++) {
            role_ns[role] += step->breakdown_ns[role];
        }
        for (size_t cause = 0; cause < KS_IDLE_COUNT; cause++) {
            idle_ns[cause] += step->idle_by_cause_ns[cause];
        }
    }
    if (total_ns <= 0) {
        return;
    }
    ks_text_printf(&md->out, "| a step (mean of %zu) | %s | 100 %% |\n|---|---:|---:|\n", count,
                   ks_units_time(total_ns / (int64_t)count).text);
    for (size_t role = 0; role < KS_ROLE_COUNT; role++) {
        write_share_row(md, "", ks_view_role((enum ks_role)role), role_ns[role], total_ns, count);
    }
    for (size_t cause = 0; cause < KS_IDLE_COUNT; cause++) {
        write_share_row(md, "idle: ", ks_view_idle_cause((enum ks_idle_cause)cause), idle_ns[cause],
                        total_ns, count);
    }
    ks_text_append(&md->out, "\n", 1);
}

/* ------------------------------------------------------------------ functions and samples */

static void write_function_name(struct markdown *md, const struct ks_function_id *id)
{
    ks_text_printf(&md->out, "| ");
    name(md, ks_view_str(md->view, id->name));
    ks_text_printf(&md->out, " | ");
    if (id->first_line > 0) {
        name(md, ks_view_str(md->view, id->file));
        ks_text_printf(&md->out, ":%u", id->first_line);
    }
}

static void write_functions(struct markdown *md)
{
    const struct ks_facts *facts = md->view->facts;
    if (facts->function_count == 0) {
        return;
    }
    ks_text_printf(&md->out, "| function | place | calls | self | total |\n"
                             "|---|---|---:|---:|---:|\n");
    for (size_t i = 0; i < facts->function_count && i < FUNCTIONS_MAX; i++) {
        const struct ks_function_fact *function = &facts->functions[i];
        write_function_name(md, &function->id);
        ks_text_printf(&md->out, " | %s | %s | %s |\n", ks_units_count(function->calls).text,
                       ks_units_time(function->self_ns).text,
                       ks_units_time(function->total_ns).text);
    }
    ks_text_append(&md->out, "\n", 1);
}

/* The thread's name, or else its number. */
static void write_thread(struct markdown *md, uint32_t track)
{
    const struct ks_track *thread = ks_trace_track(md->view->trace, track);
    struct ks_str words = ks_view_str(md->view, thread->name);
    ks_text_printf(&md->out, " | ");
    if (words.len > 0) {
        name(md, words);
    } else {
        ks_text_printf(&md->out, "%lld", (long long)thread->number);
    }
}

static void write_samples(struct markdown *md)
{
    const struct ks_facts *facts = md->view->facts;
    if (facts->sample_count == 0) {
        return;
    }
    ks_text_printf(&md->out, "| innermost in samples | place | thread | self | total |\n"
                             "|---|---|---|---:|---:|\n");
    for (size_t i = 0; i < facts->sample_count && i < FUNCTIONS_MAX; i++) {
        const struct ks_sample_fact *sample = &facts->samples[i];
        double looks = (double)sample->thread_looks;
        write_function_name(md, &sample->id);
        write_thread(md, sample->track);
        ks_text_printf(&md->out, " | %s | %s |\n",
                       ks_units_share((double)sample->self_looks / looks).text,
                       ks_units_share((double)sample->total_looks / looks).text);
    }
    ks_text_append(&md->out, "\n", 1);
}

/* ------------------------------------------------------------------ findings */

static void append_value(struct ks_text *out, const struct ks_evidence *evidence)
{
    const char *unit = evidence->unit;
    if (strcmp(unit, "ns") == 0) {
        ks_text_printf(out, "%s", ks_units_time((int64_t)evidence->value).text);
    } else if (strcmp(unit, "bytes") == 0) {
        ks_text_printf(out, "%s", ks_units_bytes((int64_t)evidence->value).text);
    } else if (strcmp(unit, "share") == 0) {
        ks_text_printf(out, "%s", ks_units_share(evidence->value).text);
    } else if (strcmp(unit, "count") == 0) {
        ks_text_printf(out, "%s", ks_units_count((int64_t)evidence->value).text);
    } else {
        ks_text_printf(out, "%g %s", evidence->value, unit);
    }
}

static void write_evidence(struct markdown *md, const struct ks_finding *finding)
{
    for (size_t i = 0; i < finding->evidence_count; i++) {
        ks_text_printf(&md->out, "%s`%s` ", i ? ", " : "Evidence: ", finding->evidence[i].name);
        append_value(&md->out, &finding->evidence[i]);
    }
    if (finding->evidence_count > 0) {
        ks_text_printf(&md->out, ".\n\n");
    }
}

static void write_place(struct markdown *md, const struct ks_finding *finding)
{
    ks_sentence_place(&md->line, md->view, finding, PLACE_WIDTH);
    if (md->line.len > 0) {
        ks_text_printf(&md->out, "At ");
        escape(md);
        ks_text_printf(&md->out, ".\n\n");
    }
}

static void write_finding(struct markdown *md, size_t index)
{
    const struct ks_finding *finding = &md->view->findings->list[index];
    ks_text_printf(&md->out, "### %zu. ", index + 1);
    text(md, ks_view_finding_title(finding));
    ks_text_printf(&md->out, " (`%s`, %s)\n\n", finding->rule->id,
                   ks_view_severity(ks_finding_severity(finding)));
    ks_sentence_saving(&md->line, md->view, finding);
    escape(md);
    ks_text_printf(&md->out, "\n\n");
    write_place(md, finding);
    write_evidence(md, finding);
    if (finding->fix_text) {
        ks_text_printf(&md->out, "**Fix.** ");
        text(md, finding->fix_text);
        ks_text_printf(&md->out, "\n\n");
    }
    if (finding->fix_code) {
        code_block(md, finding->fix_code);
    }
    if (finding->verify) {
        ks_text_printf(&md->out, "**Verify.** ");
        text(md, finding->verify);
        ks_text_printf(&md->out, "\n\n");
    }
}

/* No faults: what limits the step next, and what is worth a try. */
static void write_opportunities(struct markdown *md)
{
    const struct ks_opportunities *opportunities = md->view->opportunities;
    for (size_t i = 0; i < opportunities->count; i++) {
        const struct ks_opportunity *opportunity = &opportunities->list[i];
        ks_text_printf(&md->out, "%s- %s (`%s`). ", i == 0 ? "Beyond faults:\n\n" : "",
                       opportunity->title, opportunity->id);
        text(md, opportunity->text);
        ks_text_printf(&md->out, "%s", i + 1 < opportunities->count ? "\n" : "\n\n");
    }
}

static void write_checks(struct markdown *md)
{
    ks_text_printf(&md->out, "| looked at | |\n|---|---|\n");
    for (size_t i = 0; i < md->view->findings->check_count; i++) {
        const struct ks_check *check = &md->view->findings->checks[i];
        if (check->state == KS_CHECK_FOUND) {
            continue;
        }
        ks_text_printf(&md->out, "| `%s` | %s", check->rule->id,
                       check->state == KS_CHECK_FINE ? "fine" : "could not be judged");
        ks_text_printf(&md->out, "%s", check->reason ? ": " : "");
        text(md, check->reason);
        ks_text_printf(&md->out, " |\n");
    }
}

enum ks_status ks_report_write_markdown(const struct ks_view *view, ks_write_cb write, void *user,
                                        struct ks_err *err)
{
    struct markdown md = {.view = view};
    struct ks_verdict verdict;
    ks_text_init(&md.out);
    ks_text_init(&md.line);
    ks_verdict_compute(view, &verdict);
    ks_text_printf(&md.out, "## ");
    text(&md, verdict.text);
    ks_text_printf(&md.out, "\n\n");
    write_inputs(&md);
    write_steps(&md);
    write_functions(&md);
    write_samples(&md);
    for (size_t i = 0; i < view->findings->count; i++) {
        write_finding(&md, i);
    }
    write_opportunities(&md);
    write_checks(&md);

    enum ks_status status = KS_OK;
    if (md.out.failed || md.line.failed) {
        status = ks_fail(err, KS_ERR_NOMEM, KS_NO_OFFSET, "Cannot write the report: no memory");
    } else if (!write(user, md.out.ptr, md.out.len)) {
        status =
            ks_fail(err, KS_ERR_IO, KS_NO_OFFSET, "Cannot write the report: the receiver stopped");
    }
    ks_text_release(&md.line);
    ks_text_release(&md.out);
    return status;
}
