#include "analyze/registry.h"

/* In the order of their needs. Both middle stages take about as long. */
static const struct ks_analysis analyses[] = {
    {"steps", KS_STAGE_FIRST, ks_steps_compute},
    {"devices", KS_STAGE_FIRST, ks_devices_compute},
    {"breakdown", KS_STAGE_MIDDLE, ks_breakdown_compute},
    {"kernels", KS_STAGE_MIDDLE, ks_kernels_compute},
    {"sequences", KS_STAGE_MIDDLE, ks_sequences_compute},
    {"gpu copies", KS_STAGE_MIDDLE, ks_gpu_copies_compute},
    {"syncs", KS_STAGE_MIDDLE, ks_syncs_compute},
    {"time places", KS_STAGE_MIDDLE, ks_time_places_compute},
    {"round trips", KS_STAGE_MIDDLE, ks_round_trips_compute},
    {"op work", KS_STAGE_MIDDLE, ks_op_work_compute},
    {"replays", KS_STAGE_MIDDLE, ks_replays_compute},
    {"operators", KS_STAGE_BESIDE, ks_operators_compute},
    {"autograd", KS_STAGE_BESIDE, ks_autograd_compute},
    {"launches", KS_STAGE_BESIDE, ks_launches_compute},
    {"recorder cost", KS_STAGE_BESIDE, ks_recorder_cost_compute},
    {"idle", KS_STAGE_BESIDE, ks_idle_compute},
    {"phases", KS_STAGE_BESIDE, ks_phases_compute},
    {"inputs", KS_STAGE_BESIDE, ks_inputs_compute},
    {"compiles", KS_STAGE_BESIDE, ks_compiles_compute},
    {"memory steps", KS_STAGE_BESIDE, ks_memory_steps_compute},
    {"driver memory", KS_STAGE_BESIDE, ks_driver_memory_compute},
    {"autograd graph", KS_STAGE_BESIDE, ks_autograd_graph_compute},
    {"collectives", KS_STAGE_LAST, ks_collectives_compute},
    {"mean step", KS_STAGE_LAST, ks_mean_step_compute},
    {"cpu steps", KS_STAGE_LAST, ks_cpu_steps_compute},
    {"tokenizing", KS_STAGE_LAST, ks_tokenizing_compute},
    {"regions", KS_STAGE_LAST, ks_regions_compute},
    {"throttle curves", KS_STAGE_LAST, ks_throttle_curves_compute},
    {"crowd curves", KS_STAGE_LAST, ks_crowd_curves_compute},
    {"marks", KS_STAGE_LAST, ks_marks_compute},
    {"functions", KS_STAGE_LAST, ks_functions_compute},
    {"samples", KS_STAGE_LAST, ks_samples_compute},
};

const struct ks_analysis *ks_analysis_at(size_t index)
{
    return index < KS_COUNT_OF(analyses) ? &analyses[index] : NULL;
}
