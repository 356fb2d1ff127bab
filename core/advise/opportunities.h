/* What could make a healthy run faster still: what limits it next, and what is worth a try. No
 * faults, and no promises; findings are apart (docs/opportunities.md). */
#ifndef KS_ADVISE_OPPORTUNITIES_H
#define KS_ADVISE_OPPORTUNITIES_H

#include "advise/findings.h"

enum { KS_OPPORTUNITIES_MAX = 12 };

struct ks_opportunity {
    const char *id;    /* static text: "limit.compute" */
    const char *title; /* static text */
    const char *text;  /* in the arena */
    const char *code;  /* static text; NULL none */
    int64_t most_ns;   /* that a step could be shorter by, at most; KS_UNKNOWN: nobody can say */
    struct ks_evidence evidence[KS_EVIDENCE_MAX];
    size_t evidence_count;
};

struct ks_opportunities {
    struct ks_arena arena;
    struct ks_opportunity list[KS_OPPORTUNITIES_MAX]; /* the limit first */
    size_t count;
    bool is_text_missing;
};

/* `opportunities` zeroed; release it also after an error. KS_ERR_NOMEM. */
enum ks_status ks_opportunities_compute(const struct ks_facts *facts,
                                        const struct ks_findings *findings,
                                        struct ks_opportunities *opportunities, struct ks_err *err)
    KS_MUST_CHECK;
void ks_opportunities_release(struct ks_opportunities *opportunities);

/* For the files that look for them: a copy of it is kept; and printf into the arena. */
void ks_opportunities_add(struct ks_opportunities *opportunities,
                          const struct ks_opportunity *opportunity);
const char *ks_opportunities_text(struct ks_opportunities *opportunities, const char *format, ...)
    KS_PRINTF(2, 3);
/* Does a rule of this id find something? Then it is no opportunity. */
bool ks_opportunities_is_found(const struct ks_findings *findings, const char *id);

void ks_opportunity_find_limit(const struct ks_facts *facts, struct ks_opportunities *out);
void ks_opportunity_find_gpu(const struct ks_facts *facts, const struct ks_findings *findings,
                             struct ks_opportunities *out);
void ks_opportunity_find_cpu(const struct ks_facts *facts, const struct ks_findings *findings,
                             struct ks_opportunities *out);

/* Products in a mean step, and how near they come to what the GPU can do. */
struct ks_compute_rate {
    const struct ks_gpu_peaks *peaks; /* NULL: the GPU is not in the table */
    enum ks_number_kind kind;         /* that most of them are made of */
    double flops;                     /* of a mean step, all kinds */
    double peak_ns;                   /* they would take at the peak of their kind; 0 unknown */
    int64_t device_ns;                /* they take */
    bool is_partial;                  /* some take part without known FLOPs */
};
void ks_opportunity_compute_rate(const struct ks_facts *facts, struct ks_compute_rate *out);

#endif
