#include "export/row_filter.h"

#include "analyze/step_lookup.h"
#include "base/err.h"
#include "measure/sum.h"

/* ------------------------------------------------------------------ reading the options */

/* The bits of a word: today's name, or one of those that the reader knows. */
static uint32_t bits_of(struct ks_str word)
{
    for (unsigned i = 1; i < KS_CATEGORY_COUNT; i++) {
        if (ks_str_equal_nocase(word, ks_str_from(ks_category_name(i)))) {
            return (uint32_t)1 << i;
        }
    }
    enum ks_category category = ks_category_find(word);
    return category == KS_CATEGORY_OTHER_HOST ? 0 : (uint32_t)1 << category;
}

static enum ks_status read_categories(struct ks_row_filter *filter, const char *list,
                                      struct ks_err *err)
{
    filter->has_categories = true;
    for (const char *at = list; *at;) {
        size_t len = strcspn(at, ",");
        uint32_t bits = len > 0 ? bits_of((struct ks_str){at, len}) : 0;
        if (len > 0 && bits == 0) {
            return ks_fail(err, KS_ERR_USAGE, KS_NO_OFFSET,
                           "Cannot keep category %.*s: it must be of cpu_op, user_annotation, "
                           "cuda_runtime, cuda_driver, python_function, overhead, other, kernel, "
                           "gpu_memcpy, gpu_memset, gpu_user_annotation, cuda_sync",
                           (int)(len < 40 ? len : 40), at);
        }
        filter->categories |= bits;
        at += len + (at[len] == ',');
    }
    return KS_OK;
}

enum ks_status ks_row_filter_init(struct ks_row_filter *filter, const struct ks_view *view,
                                  const struct ks_export_options *options, struct ks_err *err)
{
    *filter = (struct ks_row_filter){.facts = view->facts};
    filter->has_time = options->time_given;
    filter->from_ns = options->time_given ? options->time_from_ns : INT64_MIN;
    filter->to_ns = options->time_given ? options->time_to_ns : INT64_MAX;
    return options->categories ? read_categories(filter, options->categories, err) : KS_OK;
}

/* ------------------------------------------------------------------ rows */

static uint32_t source_of(const struct ks_row_filter *filter, uint32_t track)
{
    return ks_trace_track(filter->facts->trace, track)->source;
}

bool ks_row_filter_has_time(const struct ks_row_filter *filter, int64_t start_ns, int64_t dur_ns)
{
    if (!filter->has_time) {
        return true;
    }
    return start_ns < filter->to_ns &&
           (start_ns >= filter->from_ns || ks_sum_add(start_ns, dur_ns) > filter->from_ns);
}

bool ks_row_filter_clip(const struct ks_row_filter *filter, int64_t *start_ns, int64_t *end_ns)
{
    bool is_kept = ks_row_filter_has_time(filter, *start_ns, ks_sum_sub(*end_ns, *start_ns));
    *start_ns = *start_ns > filter->from_ns ? *start_ns : filter->from_ns;
    *end_ns = *end_ns < filter->to_ns ? *end_ns : filter->to_ns;
    return is_kept;
}

bool ks_row_filter_keeps_slice(const struct ks_row_filter *filter, uint32_t track,
                               enum ks_category category, int64_t start_ns, int64_t dur_ns)
{
    return ks_row_filter_has_category(filter, category) &&
           ks_row_filter_has_time(filter, start_ns, dur_ns) &&
           ks_step_lookup_keeps_host(filter->facts, source_of(filter, track), start_ns);
}

bool ks_row_filter_keeps_gpu(const struct ks_row_filter *filter, uint32_t track,
                             enum ks_category category, int64_t start_ns, int64_t dur_ns,
                             int64_t launch_ns)
{
    return ks_row_filter_has_category(filter, category) &&
           ks_row_filter_has_time(filter, start_ns, dur_ns) &&
           ks_step_lookup_keeps_gpu(filter->facts, track, launch_ns);
}

bool ks_row_filter_keeps_moment(const struct ks_row_filter *filter, uint32_t track,
                                int64_t start_ns)
{
    return !filter->has_categories && ks_row_filter_has_time(filter, start_ns, 0) &&
           ks_step_lookup_keeps_host(filter->facts, source_of(filter, track), start_ns);
}

bool ks_row_filter_keeps_memory(const struct ks_row_filter *filter, uint32_t track,
                                int64_t start_ns, int64_t device)
{
    const struct ks_scope *scope = &filter->facts->scope;
    return (!scope->device_given || device < 0 || device == scope->device) &&
           ks_row_filter_keeps_moment(filter, track, start_ns);
}

bool ks_row_filter_keeps_link(const struct ks_row_filter *filter, uint32_t track, int64_t start_ns,
                              int64_t dur_ns)
{
    return (ks_row_filter_has_category(filter, KS_CATEGORY_RUNTIME) ||
            ks_row_filter_has_category(filter, KS_CATEGORY_DRIVER)) &&
           ks_row_filter_has_time(filter, start_ns, dur_ns) &&
           ks_step_lookup_keeps_host(filter->facts, source_of(filter, track), start_ns);
}
