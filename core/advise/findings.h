/* What rules find. A rule looks at facts and trace and adds findings; it never prints. */
#ifndef KS_ADVISE_FINDINGS_H
#define KS_ADVISE_FINDINGS_H

#include "analyze/facts.h"

enum ks_impact { KS_IMPACT_TIME, KS_IMPACT_MEMORY, KS_IMPACT_RISK };
enum ks_confidence { KS_CONFIDENCE_HIGH, KS_CONFIDENCE_MEDIUM, KS_CONFIDENCE_LOW };

enum { KS_EVIDENCE_MAX = 12, KS_FINDING_STEPS_MAX = 16, KS_FINDING_RANKS_MAX = 64 };

struct ks_evidence {
    const char *name; /* static text: "input_wait" */
    double value;
    const char *unit; /* "ns", "count", "bytes", "share" */
};

struct ks_saving {
    int64_t low_ns; /* per step */
    int64_t high_ns;
};

struct ks_where {
    int64_t steps[KS_FINDING_STEPS_MAX];
    size_t step_count;
    int64_t rank;               /* KS_UNKNOWN */
    int64_t device;             /* KS_UNKNOWN */
    int64_t stream;             /* KS_UNKNOWN */
    struct ks_strid op, module; /* 0 unknown */
    struct ks_str file;         /* empty: unknown; text of the facts */
    int64_t line;               /* KS_UNKNOWN */
};

struct ks_finding {
    const struct ks_rule *rule;
    enum ks_impact impact;            /* time: as the rule says */
    enum ks_confidence confidence;    /* from the width of the saving */
    struct ks_saving saving;          /* without the profiler's own cost */
    struct ks_saving saving_in_trace; /* as the trace shows it */
    /* Both, if this were the only finding; set by ks_findings_add. */
    struct ks_saving saving_alone, saving_alone_in_trace;
    int64_t order_ns;  /* findings are ordered by this, not by the middle of the saving; 0: none */
    double share;      /* middle of the saving / true step, 0-1 */
    const char *cause; /* static text ("storage"), NULL none */
    const char *title; /* NULL: the rule's title */
    const char *fix_text; /* text in the findings' arena */
    const char *fix_code; /* NULL none */
    const char *verify;
    int64_t bytes;           /* KS_UNKNOWN */
    int64_t steps_until_oom; /* KS_UNKNOWN */
    const char *group;       /* findings of one cause share a group; NULL: the rule's id */
    bool is_primary;
    struct ks_evidence evidence[KS_EVIDENCE_MAX];
    size_t evidence_count;
    struct ks_where where;
    int64_t ranks[KS_FINDING_RANKS_MAX];
    size_t rank_count;
};

enum ks_check_state { KS_CHECK_FINE, KS_CHECK_COULD_NOT, KS_CHECK_FOUND };

/* What each rule looked at: "looked and found nothing" and "could not look" are stated. */
struct ks_check {
    const struct ks_rule *rule;
    enum ks_check_state state;
    const char *reason; /* in the findings' arena or static */
};

struct ks_findings {
    struct ks_arena arena;
    struct ks_finding *list; /* in order of report: `order` is the index + 1 */
    size_t count;
    size_t capacity;
    struct ks_check *checks; /* one a rule, in registry order */
    size_t check_count;
    bool is_text_missing; /* some text could not be written */
};

/* A rule: one file rule_<id>.c and one line in registry.c. */
struct ks_rule {
    const char *id;    /* "input.starved" */
    const char *title; /* one sentence without number */
    enum ks_impact impact;
    bool hinders_graphs; /* a CUDA graph cannot be captured over what it finds, or is worth less
                          * before its repair ... */
    bool wants_graphs;   /* ... and is the repair of this one: those come first */
    bool is_consequence; /* of what another rule of its group finds: comes behind all causes */
    bool has_severity;   /* its author says what findings weigh; else their share does */
    enum ks_severity severity;
    /* Adds findings, and says in `*check` what it saw. KS_OK also when it finds nothing. */
    enum ks_status (*check)(const struct ks_facts *facts, struct ks_findings *out,
                            struct ks_check *check, struct ks_err *err);
};

/* Copies the finding; computes share and confidence. */
enum ks_status ks_findings_add(struct ks_findings *findings, const struct ks_facts *facts,
                               const struct ks_finding *finding, struct ks_err *err) KS_MUST_CHECK;
/* Puts the evidence behind what the finding shows already; what does not fit is left out. */
void ks_finding_show(struct ks_finding *finding, const struct ks_evidence *list, size_t count);
/* Sets file and line to where the operator, or its calls of this kind, mostly come from, when at
 * least half of them do; else leaves them alone. */
void ks_findings_set_place(struct ks_where *where, const struct ks_facts *facts, struct ks_strid op,
                           enum ks_place_kind kind);
/* Sets file and line to the function that holds the time of this kind, of a source or of any
 * (KS_TIME_ANY_SOURCE), when frames tell. */
void ks_findings_set_time_place(struct ks_where *where, const struct ks_facts *facts,
                                uint32_t source, enum ks_time_kind kind);
/* Sets the rank, if a source has one. */
void ks_findings_set_rank(struct ks_where *where, const struct ks_facts *facts, uint32_t source);
/* Sets the steps, as many as there is room for. */
void ks_findings_set_steps(struct ks_where *where, const int64_t *steps, size_t count);
/* Sets the rank of a source, when it is known, and its first complete steps. */
void ks_findings_set_source(struct ks_where *where, const struct ks_facts *facts, uint32_t source);
/* How much it weighs, when findings are settled. */
enum ks_severity ks_finding_severity(const struct ks_finding *finding);
/* printf into the findings' arena. NULL when out of memory, which ks_findings_compute then returns:
 * rules need not look. */
const char *ks_findings_text(struct ks_findings *findings, const char *format, ...) KS_PRINTF(2, 3);

/* Has the rule found something? For a rule that another one, before it in the registry, accounts
 * for. */
bool ks_findings_has(const struct ks_findings *findings, const struct ks_rule *rule);

/* What comes after the rules: orders the findings, marks the first of each group, cuts savings so
 * that those added up fit into the step, and drops time findings that are left with none. A rule
 * without a finding left has found nothing. Can be done again when findings were added. */
void ks_findings_settle(struct ks_findings *findings, const struct ks_facts *facts);

/* Makes `out`, zeroed, a copy that can take more, with room for so many checks more. Texts stay
 * those of `from`, which must outlive it. */
enum ks_status ks_findings_extend(const struct ks_findings *from, size_t more_checks,
                                  struct ks_findings *out, struct ks_err *err) KS_MUST_CHECK;

/* Runs all rules and settles what they find. `findings` zeroed. */
enum ks_status ks_findings_compute(const struct ks_facts *facts, struct ks_findings *findings,
                                   struct ks_err *err) KS_MUST_CHECK;
void ks_findings_release(struct ks_findings *findings);

/* The index-th rule, or NULL past the last. */
const struct ks_rule *ks_rule_at(size_t index);

#endif
