#include "analyze/registry.h"

/* Steps come first: the scope of the others depends on them. */
static const struct ks_analysis analyses[] = {
    {"steps", ks_steps_compute},
    {"breakdown", ks_breakdown_compute},
    {"phases", ks_phases_compute},
    {"devices", ks_devices_compute},
    {"kernels", ks_kernels_compute},
    {"launches", ks_launches_compute},
    {"inputs", ks_inputs_compute},
    {"recorder cost", ks_recorder_cost_compute},
    {"idle", ks_idle_compute},
    {"gpu copies", ks_gpu_copies_compute},
    {"syncs", ks_syncs_compute},
    {"time places", ks_time_places_compute},
    {"round trips", ks_round_trips_compute},
    {"op work", ks_op_work_compute},
    {"replays", ks_replays_compute},
    {"mean step", ks_mean_step_compute},
    {"operators", ks_operators_compute},
    {"memory steps", ks_memory_steps_compute},
    {"driver memory", ks_driver_memory_compute},
    {"autograd graph", ks_autograd_graph_compute},
    {"compiles", ks_compiles_compute},
    {"collectives", ks_collectives_compute},
    {"cpu steps", ks_cpu_steps_compute},
    {"tokenizing", ks_tokenizing_compute},
    {"regions", ks_regions_compute},
};

const struct ks_analysis *ks_analysis_at(size_t index)
{
    return index < KS_COUNT_OF(analyses) ? &analyses[index] : NULL;
}
