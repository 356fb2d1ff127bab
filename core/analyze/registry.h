/* The analyses and what they share while they run. Results go to `facts`, and to `results` what
 * it points to; `names` says what host rows mean; `scratch` is rewound after each analysis. Adding
 * one: a file with a ks_<name>_compute, a line here and a line in registry.c, in the order of
 * their needs. */
#ifndef KS_ANALYZE_REGISTRY_H
#define KS_ANALYZE_REGISTRY_H

#include "analyze/device_time.h"
#include "analyze/facts.h"
#include "analyze/gpu_copies.h"
#include "analyze/row_names.h"

struct ks_analyzer {
    const struct ks_trace *trace;
    struct ks_facts *facts;
    struct ks_arena *results;      /* released with the facts */
    const struct ks_facts *framed; /* of a recording with Python frames, NULL none */
    struct ks_row_names names;
    struct ks_gpu_copies copies; /* for the analyses behind "gpu copies" */
    struct ks_device_time
        device_time; /* for the analyses of the stage of "operators", from it on */
    struct ks_arena scratch;
};

/* Two threads share the work. What runs in one of the middle stages reads no fact that the other
 * one writes, and has an analyzer of its own. */
enum ks_analysis_stage {
    KS_STAGE_FIRST,  /* all others need it */
    KS_STAGE_MIDDLE, /* needs only the first, and what is before it in its own stage */
    KS_STAGE_BESIDE, /* the same, on the second thread */
    KS_STAGE_LAST,   /* may need all others */
};

struct ks_analysis {
    const char *name;
    enum ks_analysis_stage stage;
    enum ks_status (*compute)(struct ks_analyzer *analyzer, struct ks_err *err);
};

/* The index-th analysis, or NULL past the last. */
const struct ks_analysis *ks_analysis_at(size_t index);

enum ks_status ks_steps_compute(struct ks_analyzer *analyzer, struct ks_err *err);
enum ks_status ks_breakdown_compute(struct ks_analyzer *analyzer, struct ks_err *err);
enum ks_status ks_phases_compute(struct ks_analyzer *analyzer, struct ks_err *err);
enum ks_status ks_devices_compute(struct ks_analyzer *analyzer, struct ks_err *err);
enum ks_status ks_kernels_compute(struct ks_analyzer *analyzer, struct ks_err *err);
enum ks_status ks_sequences_compute(struct ks_analyzer *analyzer, struct ks_err *err);
enum ks_status ks_launches_compute(struct ks_analyzer *analyzer, struct ks_err *err);
enum ks_status ks_inputs_compute(struct ks_analyzer *analyzer, struct ks_err *err);
enum ks_status ks_recorder_cost_compute(struct ks_analyzer *analyzer, struct ks_err *err);
enum ks_status ks_idle_compute(struct ks_analyzer *analyzer, struct ks_err *err);
enum ks_status ks_gpu_copies_compute(struct ks_analyzer *analyzer, struct ks_err *err);
enum ks_status ks_syncs_compute(struct ks_analyzer *analyzer, struct ks_err *err);
enum ks_status ks_time_places_compute(struct ks_analyzer *analyzer, struct ks_err *err);
enum ks_status ks_op_work_compute(struct ks_analyzer *analyzer, struct ks_err *err);
enum ks_status ks_replays_compute(struct ks_analyzer *analyzer, struct ks_err *err);
enum ks_status ks_round_trips_compute(struct ks_analyzer *analyzer, struct ks_err *err);
enum ks_status ks_driver_memory_compute(struct ks_analyzer *analyzer, struct ks_err *err);
enum ks_status ks_autograd_compute(struct ks_analyzer *analyzer, struct ks_err *err);
enum ks_status ks_autograd_graph_compute(struct ks_analyzer *analyzer, struct ks_err *err);
enum ks_status ks_compiles_compute(struct ks_analyzer *analyzer, struct ks_err *err);
enum ks_status ks_collectives_compute(struct ks_analyzer *analyzer, struct ks_err *err);
enum ks_status ks_memory_steps_compute(struct ks_analyzer *analyzer, struct ks_err *err);
enum ks_status ks_mean_step_compute(struct ks_analyzer *analyzer, struct ks_err *err);
enum ks_status ks_cpu_steps_compute(struct ks_analyzer *analyzer, struct ks_err *err);
enum ks_status ks_regions_compute(struct ks_analyzer *analyzer, struct ks_err *err);
enum ks_status ks_throttle_curves_compute(struct ks_analyzer *analyzer, struct ks_err *err);
enum ks_status ks_marks_compute(struct ks_analyzer *analyzer, struct ks_err *err);
enum ks_status ks_crowd_curves_compute(struct ks_analyzer *analyzer, struct ks_err *err);
enum ks_status ks_functions_compute(struct ks_analyzer *analyzer, struct ks_err *err);
enum ks_status ks_samples_compute(struct ks_analyzer *analyzer, struct ks_err *err);
enum ks_status ks_tokenizing_compute(struct ks_analyzer *analyzer, struct ks_err *err);
enum ks_status ks_operators_compute(struct ks_analyzer *analyzer, struct ks_err *err);

#endif
