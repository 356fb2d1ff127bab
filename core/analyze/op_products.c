/* Products of matrices in bf16 or fp16 whose sizes are no multiples of 8: their rows do not begin
 * at multiples of 16 bytes, and slower kernels compute them. */
#include "analyze/op_work.h"

#include "analyze/shapes.h"
#include "base/alloc.h"
#include "base/err.h"
#include "base/grow.h"
#include "base/map.h"
#include "measure/sum.h"

enum { ALIGNED_ELEMENTS = 8 };

/* Products this large run at a rate that others can be held against. */
static const double flops_min = 2e9;
/* A product at less than this part of that rate is slow for its alignment: sizes that are no
 * multiples of 8 left 0.13 to 0.34 of the rate (H100, bf16, M 4096 and 8192). */
static const double slow_part = 0.6;

struct site {
    uint32_t name;
    uint32_t dims;
    double flops; /* of one call */
    int64_t calls;
    int64_t device_ns;
    int64_t sizes[3];
    bool is_aligned;
};

struct row {
    struct ks_work_span span;
    struct ks_op_row row;
    const struct ks_step *step;
    uint32_t site;
};

struct ks_product_parts {
    struct ks_map index; /* (name and types, dims) -> 1 + site; 0: none of ours */
    struct site *sites;
    size_t site_count;
    size_t site_capacity;
    struct row *rows; /* of sites that are not aligned */
    size_t row_count;
    size_t row_capacity;
};

enum ks_status ks_products_create(struct ks_op_work *work, struct ks_err *err)
{
    work->products = ks_new(&work->analyzer->scratch, struct ks_product_parts, 1);
    if (!work->products) {
        return ks_fail(err, KS_ERR_NOMEM, KS_NO_OFFSET, "Cannot follow products");
    }
    ks_map_init(&work->products->index);
    return KS_OK;
}

void ks_products_release(struct ks_op_work *work)
{
    if (work->products) {
        ks_map_release(&work->products->index);
        ks_free(work->products->sites);
        ks_free(work->products->rows);
    }
}

/* The last two shapes are the factors. */
static bool read_site(const struct ks_op_work *work, const struct ks_op_row *row, struct site *site)
{
    const struct ks_trace *trace = work->analyzer->trace;
    struct ks_str types = ks_trace_str(trace, (struct ks_strid){row->types});
    bool is_half =
        ks_str_contains(types, KS_STR("BFloat16")) || ks_str_contains(types, KS_STR("Half"));
    struct ks_shapes shapes;
    ks_shapes_read(ks_trace_str(trace, (struct ks_strid){row->dims}), &shapes);
    if (!is_half || shapes.count < 2) {
        return false;
    }
    const struct ks_shape *left = &shapes.items[shapes.count - 2];
    const struct ks_shape *right = &shapes.items[shapes.count - 1];
    if (left->count != right->count || (left->count != 2 && left->count != 3)) {
        return false;
    }
    int64_t inner = left->dims[left->count - 1];
    int64_t columns = right->dims[right->count - 1];
    double rows = (double)ks_shape_elements(left) / (double)(inner > 0 ? inner : 1);
    *site = (struct site){.name = row->name,
                          .dims = row->dims,
                          .flops = 2 * rows * (double)inner * (double)columns,
                          .sizes = {left->dims[left->count - 2], inner, columns},
                          .is_aligned = true};
    for (size_t i = 0; i < KS_COUNT_OF(site->sizes); i++) {
        site->is_aligned = site->is_aligned && site->sizes[i] % ALIGNED_ELEMENTS == 0;
    }
    return true;
}

/* `*index` 0: nothing that we look at, else 1 + index of the site. */
static enum ks_status find_site(struct ks_op_work *work, const struct ks_op_row *row,
                                uint64_t *index, struct ks_err *err)
{
    struct ks_product_parts *parts = work->products;
    bool added = false;
    uint64_t key = (uint64_t)row->types << 32 | row->name;
    KS_TRY(ks_grow(&parts->sites, parts->site_count, &parts->site_capacity, sizeof(*parts->sites),
                   "products", err));
    uint64_t *slot = ks_map_put(&parts->index, key, row->dims, &added);
    if (!slot) {
        return ks_fail(err, KS_ERR_NOMEM, KS_NO_OFFSET, "Cannot follow products");
    }
    if (added && read_site(work, row, &parts->sites[parts->site_count])) {
        *slot = ++parts->site_count;
    }
    *index = *slot;
    return KS_OK;
}

enum ks_status ks_products_note(struct ks_op_work *work, const struct ks_op_walk *walk,
                                const struct ks_op_row *row, struct ks_err *err)
{
    struct ks_product_parts *parts = work->products;
    if (!(ks_op_work_class(work, row->name) & KS_OP_PRODUCT) || row->device_ns <= 0 ||
        row->dims == 0) {
        return KS_OK;
    }
    const struct ks_step *step = ks_op_work_step(work, walk, row->start_ns);
    uint64_t index = 0;
    if (step) {
        KS_TRY(find_site(work, row, &index, err));
    }
    if (index == 0) {
        return KS_OK;
    }
    struct site *site = &parts->sites[index - 1];
    site->calls++;
    site->device_ns = ks_sum_add(site->device_ns, row->device_ns);
    if (site->is_aligned) {
        return KS_OK;
    }
    KS_TRY(ks_grow(&parts->rows, parts->row_count, &parts->row_capacity, sizeof(*parts->rows),
                   "products", err));
    parts->rows[parts->row_count++] =
        (struct row){.span = {walk->lane, KS_REPLAY_MISALIGNED, row->start_ns, row->end_ns},
                     .row = *row,
                     .step = step,
                     .site = (uint32_t)(index - 1)};
    return KS_OK;
}

/* FLOPs a ns of the large aligned products; 0: there are none. */
static double aligned_rate(const struct ks_product_parts *parts)
{
    double flops = 0;
    double device_ns = 0;
    for (size_t i = 0; i < parts->site_count; i++) {
        const struct site *site = &parts->sites[i];
        if (site->is_aligned && site->flops >= flops_min) {
            flops += site->flops * (double)site->calls;
            device_ns += (double)site->device_ns;
        }
    }
    return device_ns > 0 ? flops / device_ns : 0;
}

static bool is_slow(const struct site *site, double rate)
{
    return !site->is_aligned && site->flops >= flops_min &&
           site->flops * (double)site->calls < slow_part * rate * (double)site->device_ns;
}

enum ks_status ks_products_publish(struct ks_op_work *work, struct ks_err *err)
{
    struct ks_product_parts *parts = work->products;
    struct ks_product_cost *cost = &work->analyzer->facts->work.products;
    double rate = aligned_rate(parts);
    double aligned_ns = 0;
    const struct site *worst = NULL;
    for (size_t i = 0; i < parts->row_count && rate > 0; i++) {
        const struct row *row = &parts->rows[i];
        const struct site *site = &parts->sites[row->site];
        if (is_slow(site, rate)) {
            ks_op_work_add(&cost->cost, &row->row, row->step);
            aligned_ns += site->flops / rate;
            worst = !worst || site->device_ns > worst->device_ns ? site : worst;
            KS_TRY(ks_op_work_add_span(work, &row->span, err));
        }
    }
    ks_op_work_mean(work, &cost->cost);
    cost->aligned_device_ns = ks_op_work_mean_ns(work, (int64_t)aligned_ns);
    if (worst) {
        cost->op = (struct ks_strid){worst->name};
        cost->dims = (struct ks_strid){worst->dims};
        memcpy(cost->sizes, worst->sizes, sizeof(cost->sizes));
    }
    return KS_OK;
}
