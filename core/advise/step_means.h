/* What rules about the host look at: means over the complete steps, and how much of the host's time
 * is the program's own rather than the profiler's (docs/rules/README.md). */
#ifndef KS_ADVISE_STEP_MEANS_H
#define KS_ADVISE_STEP_MEANS_H

#include "advise/findings.h"

struct ks_step_means {
    int64_t step_count;
    int64_t step_ns; /* true step */
    int64_t idle_ns; /* no device works */
    int64_t busy_ns; /* step - idle */
    int64_t idle_by_cause_ns[KS_IDLE_COUNT];
    int64_t unprofiled_step_ns; /* mean over the sources that know it; 0 unknown */
    /* Share of the idle time by launches and host code (profiler's part left out) that is there
     * without the profiler, too. */
    double host_scale_low;
    double host_scale_high;
};

/* NULL: `out` is filled. Else why rules about steps on a GPU cannot judge; static text. */
const char *ks_step_means_compute(const struct ks_facts *facts, struct ks_step_means *out);

/* Host time of an operator in a complete step: mean of a call times `calls_per_step`. 0: the
 * operator was not recorded. */
int64_t ks_step_means_operator_ns(const struct ks_facts *facts, struct ks_strid op,
                                  double calls_per_step);

/* The trace shows the reading of a value; computing it for that purpose, and what is done with it
 * on the host, come on top. On an H100 host 74 readings a step cost twice their own time more. */
#define KS_SYNC_READ_FACTOR 3.0
/* Making the small tensor on the host comes on top of copying it. */
#define KS_SMALL_COPY_FACTOR 1.5

/* Amounts of host time that one of the causes below explains, as the trace shows them. A rule looks
 * at its own; launch.bound leaves all of them out. */
int64_t ks_step_means_sync_ns(const struct ks_facts *facts, const struct ks_call_site **worst);
int64_t ks_step_means_small_copy_ns(const struct ks_facts *facts, const struct ks_call_site **worst,
                                    double *copies_per_step);
/* Host code that is most of why the device idles; 0 when it is not. */
int64_t ks_step_means_host_code_ns(const struct ks_step_means *means);

/* The part of `part` in `whole`, 0-1. */
double ks_step_means_share(int64_t part, int64_t whole);
int64_t ks_step_means_scale(int64_t ns, double factor);

/* Fills in what findings about host time have in common: title of the rule, verify, no bytes. */
struct ks_finding ks_step_means_finding(const struct ks_rule *rule);

#endif
