#include "analyze/gpu_peaks.h"

enum { WORDS_MAX = 3 };

/* The first row whose words all stand in the name counts: special forms come before plain ones. */
static const struct {
    const char *words[WORDS_MAX];
    struct ks_gpu_peaks peaks;
} table[] = {
    {{"B200"}, {"B200", {2250, 1125, 75, 4500}, 8000}},
    {{"H200"}, {"H200", {989, 495, 67, 1979}, 4800}},
    {{"H100", "PCIe"}, {"H100 PCIe", {756, 378, 51, 1513}, 2000}},
    {{"H100", "NVL"}, {"H100 NVL", {835, 418, 60, 1671}, 3938}},
    {{"H100"}, {"H100 SXM", {989, 495, 67, 1979}, 3352}},
    {{"A100", "PCI", "80GB"}, {"A100 80GB PCIe", {312, 156, 19.5, 0}, 1935}},
    {{"A100", "80GB"}, {"A100 80GB SXM", {312, 156, 19.5, 0}, 2039}},
    {{"A100"}, {"A100 40GB", {312, 156, 19.5, 0}, 1555}},
    {{"A30"}, {"A30", {165, 82, 10.3, 0}, 933}},
    {{"A40"}, {"A40", {149.7, 74.8, 37.4, 0}, 696}},
    {{"L40S"}, {"L40S", {362, 183, 91.6, 733}, 864}},
    {{"L40"}, {"L40", {181, 90.5, 90.5, 362}, 864}},
    {{"L4"}, {"L4", {121, 60, 30.3, 242}, 300}},
    {{"V100"}, {"V100", {125, 0, 15.7, 0}, 900}},
    {{"T4"}, {"T4", {65, 0, 8.1, 0}, 320}},
    {{"RTX 4090"}, {"RTX 4090", {165, 82.6, 82.6, 330}, 1008}},
    {{"RTX 3090"}, {"RTX 3090", {71, 35.6, 35.6, 0}, 936}},
};

/* "A10" does not stand in "A100": a word ends where no letter or digit follows. */
static bool has_word(struct ks_str name, const char *word)
{
    size_t len = strlen(word);
    for (size_t i = 0; i + len <= name.len; i++) {
        char before = i > 0 ? name.ptr[i - 1] : ' ';
        char after = i + len < name.len ? name.ptr[i + len] : ' ';
        bool is_inside = (before >= 'A' && before <= 'Z') || (before >= '0' && before <= '9');
        bool goes_on = (after >= '0' && after <= '9') || after == 'S';
        if (memcmp(name.ptr + i, word, len) == 0 && !is_inside && !goes_on) {
            return true;
        }
    }
    return false;
}

/* Other chips, or parts of one, under nearly the same name. */
static bool is_other(struct ks_str name)
{
    static const char *const words[] = {"Laptop", "Max-Q", "4090 D", "MIG"};
    for (size_t i = 0; i < KS_COUNT_OF(words); i++) {
        if (ks_str_contains(name, ks_str_from(words[i]))) {
            return true;
        }
    }
    return false;
}

const struct ks_gpu_peaks *ks_gpu_peaks_find(struct ks_str name)
{
    if (is_other(name)) {
        return NULL;
    }
    for (size_t i = 0; i < KS_COUNT_OF(table); i++) {
        bool is_it = true;
        for (size_t w = 0; w < WORDS_MAX && table[i].words[w]; w++) {
            is_it = is_it && (w == 0 ? has_word(name, table[i].words[w])
                                     : ks_str_contains(name, ks_str_from(table[i].words[w])));
        }
        if (is_it) {
            return &table[i].peaks;
        }
    }
    return NULL;
}

const struct ks_gpu_peaks *ks_gpu_peaks_of(const struct ks_trace *trace)
{
    const struct ks_gpu_peaks *found = NULL;
    for (uint32_t i = 0; i < ks_trace_source_count(trace); i++) {
        const struct ks_source *source = ks_trace_source(trace, i);
        const struct ks_gpu_peaks *peaks =
            source->gpu_count > 0 ? ks_gpu_peaks_find(ks_trace_str(trace, source->gpus[0].name))
                                  : NULL;
        if (!peaks || (found && found != peaks)) {
            return NULL;
        }
        found = peaks;
    }
    return found;
}
