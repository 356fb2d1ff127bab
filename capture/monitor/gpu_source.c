#include "capture/monitor/gpu_source.h"

#include <stdlib.h>
#include <string.h>

#include "capture/monitor/words.h"

#define NS_PER_MS INT64_C(1000000)

enum {
    /* The driver's own samples are 1/6 s apart and more, and a call takes it 50 to 200 us. */
    BUSY_PERIOD_MS = 500,
    UNITS_PERIOD_MIN_MS = 100, /* between two samples that are worth comparing */
    SLOW_PERIOD_MS = 1000,     /* PCIe: each call measures for 20 ms */
    ENERGY_PERIOD_MS = 10000,  /* the driver computes for 4 ms; at the start and the end, too */
    UUID_SIZE = 96,
    KIB = 1024,
    MIB = 1024 * 1024,
};

/* ------------------------------------------------------------------ which devices */

static bool is_a_number(const char *word, uint64_t *out)
{
    return ks_words_number(&word, out) && *word == '\0';
}

/* "3" or "GPU-...". False: CUDA takes no device from here on. */
static bool add_named(struct ks_gpu_source *source, const char *word)
{
    const struct ks_nvml_calls *calls = &source->calls;
    ks_nvml_device device = NULL;
    uint64_t number = 0;
    bool is_found = is_a_number(word, &number)
                        ? number < UINT32_MAX && calls->by_index((unsigned)number, &device) == 0
                        : calls->by_uuid && calls->by_uuid(word, &device) == 0;
    if (is_found && source->count < KS_METRIC_GPUS_MAX) {
        source->gpus[source->count++] = (struct ks_gpu){.device = device};
    }
    return is_found;
}

static void add_visible(struct ks_gpu_source *source, const char *list)
{
    char word[UUID_SIZE];
    while (ks_words_word(&list, ',', word, sizeof(word)) && add_named(source, word) &&
           *list == ',') {
        list++;
    }
}

static void add_all(struct ks_gpu_source *source)
{
    unsigned count = 0;
    if (source->calls.count(&count) != 0) {
        return;
    }
    for (unsigned i = 0; i < count && source->count < KS_METRIC_GPUS_MAX; i++) {
        ks_nvml_device device = NULL;
        if (source->calls.by_index(i, &device) == 0) { /* else it is not ours to see */
            source->gpus[source->count++] = (struct ks_gpu){.device = device};
        }
    }
}

static void keep_own(struct ks_gpu_source *source)
{
    const char *rank = getenv("LOCAL_RANK");
    uint64_t number = 0;
    if (rank && is_a_number(rank, &number) && number < source->count) {
        source->gpus[0] = source->gpus[number];
        source->count = 1;
    }
}

/* ------------------------------------------------------------------ opening */

static void open_gpm(struct ks_gpu_source *source, struct ks_gpu *gpu)
{
    const struct ks_nvml_calls *calls = &source->calls;
    struct ks_nvml_gpm_support support = {.version = KS_NVML_GPM_VERSION};
    if (!calls->gpm_support || !calls->gpm_alloc || !calls->gpm_free || !calls->gpm_sample ||
        !calls->gpm_metrics || calls->gpm_support(gpu->device, &support) != 0 ||
        support.is_supported == 0 || calls->gpm_alloc(&gpu->earlier) != 0) {
        return;
    }
    if (calls->gpm_alloc(&gpu->later) != 0) {
        (void)calls->gpm_free(gpu->earlier);
        return;
    }
    gpu->has_gpm = true;
}

bool ks_gpu_source_find(struct ks_gpu_source *source)
{
    return ks_nvml_calls_find(&source->calls);
}

void ks_gpu_source_open(struct ks_gpu_source *source)
{
    const char *visible = getenv("CUDA_VISIBLE_DEVICES");
    source->is_open = source->calls.init() == 0;
    if (!source->is_open) {
        return;
    }
    if (visible) {
        add_visible(source, visible);
    } else {
        add_all(source);
    }
    keep_own(source);
    for (uint32_t i = 0; i < source->count; i++) {
        struct ks_gpu *gpu = &source->gpus[i];
        unsigned index = 0;
        bool is_known = source->calls.index && source->calls.index(gpu->device, &index) == 0;
        gpu->index = is_known && index < KS_METRIC_GPUS_MAX ? index : i;
        open_gpm(source, gpu);
    }
}

void ks_gpu_source_close(struct ks_gpu_source *source)
{
    for (uint32_t i = 0; i < source->count; i++) {
        if (source->gpus[i].has_gpm) {
            (void)source->calls.gpm_free(source->gpus[i].earlier);
            (void)source->calls.gpm_free(source->gpus[i].later);
        }
    }
    if (source->is_open) {
        (void)source->calls.shut_down();
    }
    memset(source, 0, sizeof(*source));
}

/* ------------------------------------------------------------------ what is cheap */

static void put(struct ks_look *look, const struct ks_gpu *gpu, enum ks_metric metric, double value)
{
    ks_look_put_of(look, metric, gpu->index, value, 0);
}

static void look_at_use(const struct ks_nvml_calls *calls, const struct ks_gpu *gpu,
                        struct ks_look *look)
{
    struct ks_nvml_utilization busy = {0};
    unsigned milliwatts = 0;
    if (calls->utilization && calls->utilization(gpu->device, &busy) == 0) {
        put(look, gpu, KS_METRIC_GPU_BUSY, busy.gpu);
        put(look, gpu, KS_METRIC_GPU_MEMORY_BUSY, busy.memory);
    }
    if (calls->power && calls->power(gpu->device, &milliwatts) == 0) {
        put(look, gpu, KS_METRIC_GPU_POWER, milliwatts / 1e3);
    }
}

/* The older call counts what the driver keeps for itself as used. */
static void look_at_memory(const struct ks_nvml_calls *calls, const struct ks_gpu *gpu,
                           struct ks_look *look)
{
    struct ks_nvml_memory_2 now = {.version = KS_NVML_MEMORY_2_VERSION};
    struct ks_nvml_memory older = {0};
    if (calls->memory_2 && calls->memory_2(gpu->device, &now) == 0) {
        put(look, gpu, KS_METRIC_GPU_MEMORY, (double)now.used);
        put(look, gpu, KS_METRIC_GPU_MEMORY_SIZE, (double)now.total);
    } else if (calls->memory && calls->memory(gpu->device, &older) == 0) {
        put(look, gpu, KS_METRIC_GPU_MEMORY, (double)older.used);
        put(look, gpu, KS_METRIC_GPU_MEMORY_SIZE, (double)older.total);
    }
}

/* ------------------------------------------------------------------ counters of its units */

static const struct {
    unsigned id;
    enum ks_metric metric;
    double scale;
} GPM_METRICS[] = {
    {KS_NVML_GPM_SM_ACTIVE, KS_METRIC_GPU_SM_ACTIVE, 1},
    {KS_NVML_GPM_SM_OCCUPANCY, KS_METRIC_GPU_SM_OCCUPANCY, 1},
    {KS_NVML_GPM_TENSOR_ACTIVE, KS_METRIC_GPU_TENSOR_ACTIVE, 1},
    {KS_NVML_GPM_DRAM_ACTIVE, KS_METRIC_GPU_DRAM_ACTIVE, 1},
    {KS_NVML_GPM_PCIE_RECEIVED, KS_METRIC_GPU_PCIE_RECEIVE, MIB},
    {KS_NVML_GPM_PCIE_SENT, KS_METRIC_GPU_PCIE_SEND, MIB},
    {KS_NVML_GPM_NVLINK_RECEIVED, KS_METRIC_GPU_NVLINK_RECEIVE, MIB},
    {KS_NVML_GPM_NVLINK_SENT, KS_METRIC_GPU_NVLINK_SEND, MIB},
};

enum { GPM_METRIC_COUNT = sizeof(GPM_METRICS) / sizeof(*GPM_METRICS) };

static void put_gpm(struct ks_gpu_source *source, const struct ks_gpu *gpu, struct ks_look *look)
{
    struct ks_nvml_gpm_request *request = &source->request;
    request->version = KS_NVML_GPM_VERSION;
    request->count = GPM_METRIC_COUNT;
    request->earlier = gpu->earlier;
    request->later = gpu->later;
    for (unsigned i = 0; i < GPM_METRIC_COUNT; i++) {
        request->metrics[i] = (struct ks_nvml_gpm_metric){.id = GPM_METRICS[i].id};
    }
    if (source->calls.gpm_metrics(request) != 0) {
        return;
    }
    double seconds = (double)(look->now_ns - gpu->sampled_ns) / 1e9;
    for (unsigned i = 0; i < GPM_METRIC_COUNT; i++) {
        const struct ks_nvml_gpm_metric *metric = &request->metrics[i];
        if (metric->status == 0 && metric->value >= 0) { /* not for "not a number", either */
            ks_look_put_of(look, GPM_METRICS[i].metric, gpu->index,
                           metric->value * GPM_METRICS[i].scale, seconds);
        }
    }
}

/* Between two samples; the later one is the earlier one of the next look. */
static void look_at_units(struct ks_gpu_source *source, struct ks_gpu *gpu, struct ks_look *look)
{
    if (gpu->has_sample && look->now_ns < gpu->sampled_ns + UNITS_PERIOD_MIN_MS * NS_PER_MS) {
        return; /* a last look */
    }
    if (source->calls.gpm_sample(gpu->device, gpu->later) != 0) {
        gpu->has_sample = false;
        return;
    }
    if (gpu->has_sample) {
        put_gpm(source, gpu, look);
    }
    ks_nvml_sample sample = gpu->earlier;
    gpu->earlier = gpu->later;
    gpu->later = sample;
    gpu->has_sample = true;
    gpu->sampled_ns = look->now_ns;
}

/* ------------------------------------------------------------------ once a second */

static void look_at_clocks(const struct ks_nvml_calls *calls, const struct ks_gpu *gpu,
                           struct ks_look *look)
{
    unsigned value = 0;
    unsigned long long bits = 0;
    if (calls->clock && calls->clock(gpu->device, KS_NVML_CLOCK_SM, &value) == 0) {
        put(look, gpu, KS_METRIC_GPU_SM_CLOCK, value);
    }
    if (calls->clock && calls->clock(gpu->device, KS_NVML_CLOCK_MEMORY, &value) == 0) {
        put(look, gpu, KS_METRIC_GPU_MEMORY_CLOCK, value);
    }
    if (calls->temperature && calls->temperature(gpu->device, KS_NVML_SENSOR_GPU, &value) == 0) {
        put(look, gpu, KS_METRIC_GPU_TEMPERATURE, value);
    }
    if (calls->reasons && calls->reasons(gpu->device, &bits) == 0) {
        put(look, gpu, KS_METRIC_GPU_CLOCK_REASONS, (double)bits);
    }
}

static void look_at_energy(const struct ks_nvml_calls *calls, struct ks_gpu *gpu,
                           struct ks_look *look)
{
    unsigned long long millijoules = 0;
    if (!calls->energy || calls->energy(gpu->device, &millijoules) != 0) {
        return;
    }
    if (gpu->energy_first == 0 || millijoules < gpu->energy_first) {
        gpu->energy_first = millijoules; /* the driver was loaded anew */
    }
    put(look, gpu, KS_METRIC_GPU_ENERGY, (double)(millijoules - gpu->energy_first) / 1e3);
}

static void look_at_pcie(const struct ks_nvml_calls *calls, const struct ks_gpu *gpu,
                         struct ks_look *look)
{
    unsigned kilobytes = 0;
    if (calls->pcie && calls->pcie(gpu->device, KS_NVML_PCIE_RECEIVED, &kilobytes) == 0) {
        put(look, gpu, KS_METRIC_GPU_PCIE_RECEIVE, kilobytes * 1e3);
    }
    if (calls->pcie && calls->pcie(gpu->device, KS_NVML_PCIE_SENT, &kilobytes) == 0) {
        put(look, gpu, KS_METRIC_GPU_PCIE_SEND, kilobytes * 1e3);
    }
}

static bool field_value(const struct ks_nvml_field *field, uint64_t *out)
{
    bool is_wide =
        field->type == KS_NVML_UNSIGNED_LONG || field->type == KS_NVML_UNSIGNED_LONG_LONG;
    *out = is_wide ? field->value.u64 : field->value.u32;
    return field->status == 0 && (is_wide || field->type == KS_NVML_UNSIGNED);
}

static void look_at_nvlink(const struct ks_nvml_calls *calls, struct ks_gpu *gpu,
                           struct ks_look *look)
{
    struct ks_nvml_field fields[2] = {
        {.id = KS_NVML_FIELD_NVLINK_RECEIVED, .scope = KS_NVML_ALL_LINKS},
        {.id = KS_NVML_FIELD_NVLINK_SENT, .scope = KS_NVML_ALL_LINKS}};
    uint64_t kib = 0;
    if (!calls->fields || calls->fields(gpu->device, 2, fields) != 0) {
        return;
    }
    if (field_value(&fields[0], &kib)) {
        ks_look_put_rate_of(look, KS_METRIC_GPU_NVLINK_RECEIVE, gpu->index, &gpu->nvlink_received,
                            kib, KIB);
    }
    if (field_value(&fields[1], &kib)) {
        ks_look_put_rate_of(look, KS_METRIC_GPU_NVLINK_SEND, gpu->index, &gpu->nvlink_sent, kib,
                            KIB);
    }
}

void ks_gpu_source_look(struct ks_gpu_source *source, struct ks_look *look)
{
    bool is_busy_due = ks_look_is_due(look, &source->busy_due_ns, BUSY_PERIOD_MS * NS_PER_MS);
    bool is_slow_due = ks_look_is_due(look, &source->slow_due_ns, SLOW_PERIOD_MS * NS_PER_MS);
    bool is_energy_due = ks_look_is_due(look, &source->energy_due_ns, ENERGY_PERIOD_MS * NS_PER_MS);
    for (uint32_t i = 0; i < source->count; i++) {
        struct ks_gpu *gpu = &source->gpus[i];
        if (is_busy_due) {
            look_at_use(&source->calls, gpu, look);
            look_at_memory(&source->calls, gpu, look);
        }
        if (is_busy_due && gpu->has_gpm) {
            look_at_units(source, gpu, look);
        }
        if (is_slow_due) {
            look_at_clocks(&source->calls, gpu, look);
        }
        if (is_energy_due) {
            look_at_energy(&source->calls, gpu, look);
        }
        if (is_slow_due && !gpu->has_gpm) {
            if (!look->is_last) { /* whoever stops should not wait for it */
                look_at_pcie(&source->calls, gpu, look);
            }
            look_at_nvlink(&source->calls, gpu, look);
        }
    }
}
