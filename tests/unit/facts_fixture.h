/* Small traces for the tests of analyses and rules: rows go through the builder, facts come out.
 * Every failure of the library ends the test. */
#ifndef KS_TESTS_FACTS_FIXTURE_H
#define KS_TESTS_FACTS_FIXTURE_H

#include "analyze/facts.h"
#include "store/builder.h"

/* A row of the host; what is left out is 0, ids are -1 when given as 0. */
struct host_row {
    int64_t tid;
    enum ks_category category;
    const char *name;
    int64_t start_ns;
    int64_t dur_ns;
    int64_t ext_id;
    int64_t corr;
    const char *dims;
    const char *types;
    const char *concrete;
    unsigned flags;
    int64_t seq; /* 0: none */
    int64_t aux; /* 0: none, -2: 0 */
};

/* A row of a device; the stream's number is `stream`. */
struct device_row {
    int64_t device;
    int64_t stream;
    enum ks_category category;
    const char *name;
    int64_t start_ns;
    int64_t dur_ns;
    int64_t corr;
    int64_t ext_id;
    int64_t bytes;
    double occupancy;       /* 0: unknown, -1: 0 */
    double blocks_per_sm;   /* 0: unknown */
    const char *collective; /* of two ranks, in fp32; NULL: none */
    int64_t elements;
};

struct memory_row {
    int64_t start_ns;
    int64_t bytes;
    int32_t device; /* -1: host */
    uint64_t addr;
    unsigned flags;
};

struct facts_fixture {
    struct ks_trace_builder *builder;
    struct ks_source *source;
    struct ks_trace *trace;
    struct ks_facts facts;
};

void facts_fixture_init(struct facts_fixture *fixture, uint32_t chunk_rows,
                        uint64_t chunk_bytes_max);
/* Ends the source that is open and opens one of this rank; the first is open with rank -1. */
void facts_fixture_next_rank(struct facts_fixture *fixture, int64_t rank);
void facts_fixture_host(struct facts_fixture *fixture, const struct host_row *rows, size_t count);
void facts_fixture_device(struct facts_fixture *fixture, const struct device_row *rows,
                          size_t count);
void facts_fixture_memory(struct facts_fixture *fixture, const struct memory_row *rows,
                          size_t count);
/* Makes the trace. */
void facts_fixture_seal(struct facts_fixture *fixture);
/* Seals and computes; `scope` may be NULL. */
void facts_fixture_compute(struct facts_fixture *fixture, const struct ks_scope *scope);
void facts_fixture_release(struct facts_fixture *fixture);

struct ks_findings;
struct ks_finding;
/* Seals, computes all of it, and asks the rules; what was in `findings` is forgotten. */
void facts_fixture_advise(struct facts_fixture *fixture, struct ks_findings *findings);
/* The finding of this rule, or NULL. */
const struct ks_finding *facts_fixture_finding(const struct ks_findings *findings, const char *id);
/* The three cases that the tests of each rule have (core/advise/README.md): a fault, a run to which
 * the rule says nothing, and one that is just short of one of its thresholds. */
enum rule_case { RULE_FIRES, RULE_SILENT, RULE_NEAR_MISS };
/* The rule has found something, or nothing; gives the first of its findings, or NULL. Each call
 * counts as a case of the rule: tests/advice/test_rule_cases.py looks for all three of each, and at
 * the code of the fixes, in the file that the environment names as KSCOPE_RULE_CASES. */
const struct ks_finding *rule_case(const struct ks_findings *findings, const char *id,
                                   enum rule_case kind);
/* Value of its evidence of this name, which must be there. */
double facts_fixture_evidence(const struct ks_finding *finding, const char *name);

/* The only row of this label and kind (and shapes, when given), or NULL. */
const struct ks_operator_fact *facts_fixture_operator(const struct facts_fixture *fixture,
                                                      const char *label, enum ks_operator_kind kind,
                                                      const char *shapes);
const struct ks_kernel_fact *facts_fixture_kernel(const struct facts_fixture *fixture,
                                                  const char *name);

/* Rows of a test name only the columns that matter to it. */
#pragma GCC diagnostic ignored "-Wmissing-field-initializers"

#define FACTS_HOST(fixture, ...)                                                                   \
    do {                                                                                           \
        const struct host_row rows_[] = {__VA_ARGS__};                                             \
        facts_fixture_host(fixture, rows_, KS_COUNT_OF(rows_));                                    \
    } while (0)
#define FACTS_DEVICE(fixture, ...)                                                                 \
    do {                                                                                           \
        const struct device_row rows_[] = {__VA_ARGS__};                                           \
        facts_fixture_device(fixture, rows_, KS_COUNT_OF(rows_));                                  \
    } while (0)

#define OP KS_CATEGORY_CPU_OP
#define NOTE KS_CATEGORY_USER_ANNOTATION
#define CALL KS_CATEGORY_RUNTIME
#define PY KS_CATEGORY_PYTHON
#define KERNEL KS_CATEGORY_KERNEL
#define MEMCPY KS_CATEGORY_MEMCPY
#define MEMSET KS_CATEGORY_MEMSET

#endif
