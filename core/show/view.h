/* What a report shows: the trace, its facts and findings, and what the user asked for. Borrowed;
 * all must outlive the view. */
#ifndef KS_SHOW_VIEW_H
#define KS_SHOW_VIEW_H

#include "advise/findings.h"
#include "advise/opportunities.h"
#include "compare/comparison.h"

#include <kscope/kscope_tuning.h>

struct ks_view {
    const struct ks_trace *trace;
    const struct ks_facts *facts;
    const struct ks_findings *findings;
    const struct ks_opportunities *opportunities;
    const char *const *paths; /* as the user gave them: files, folders, "-" */
    size_t path_count;
    const char *cgroup; /* limits of the control group and what they did; NULL: not known */
    bool is_throttled;  /* they held the program back */
    const struct ks_comparison *comparison; /* of an earlier run with this one; NULL: none */
    const struct ks_tuning *tuning;         /* of the script, by `kscope tune`; NULL: none */
};

/* Does the step count in means and shares? Cut ones do only when there is no other. */
bool ks_view_step_counts(const struct ks_view *view, const struct ks_step *step);

/* Rank of a source, or KS_UNKNOWN. */
int64_t ks_view_rank(const struct ks_view *view, uint32_t source);
/* The path of a source as the user knows it. */
struct ks_str ks_view_path(const struct ks_view *view, uint32_t source);
/* Text of a string id of the trace. */
struct ks_str ks_view_str(const struct ks_view *view, struct ks_strid id);
/* Duration of a mean complete step (of any, when none is complete), or KS_UNKNOWN. */
int64_t ks_view_step_ns(const struct ks_view *view);

/* Words of enums, as JSON and screen say them. */
const char *ks_view_step_source(enum ks_step_source source);
const char *ks_view_step_kind(enum ks_step_kind kind);
const char *ks_view_role(enum ks_role role);
const char *ks_view_idle_cause(enum ks_idle_cause cause);
const char *ks_view_status(enum ks_source_status status);
const char *ks_view_impact(enum ks_impact impact);
const char *ks_view_confidence(enum ks_confidence confidence);
const char *ks_view_severity(enum ks_severity severity);
const char *ks_view_step_verdict(enum ks_step_verdict verdict);
const char *ks_view_compare_state(enum ks_compare_state state);
const char *ks_view_finding_title(const struct ks_finding *finding);

#endif
