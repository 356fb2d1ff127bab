/* The parts of the analysis "op work": each looks at the operators as they end, and says at the end
 * what those of its kind cost and where they are. */
#ifndef KS_ANALYZE_OP_WORK_H
#define KS_ANALYZE_OP_WORK_H

#include "analyze/op_traffic.h"
#include "analyze/op_walk.h"
#include "analyze/replay.h"

/* What an operator is, by its name. */
enum {
    KS_OP_KNOWN = 1,
    KS_OP_CONVOLUTION = 2, /* by cuDNN */
    KS_OP_PRODUCT = 4,     /* of matrices */
    KS_OP_BATCHED = 8,     /* ... of many */
    KS_OP_SOFTMAX = 16,
    KS_OP_MATH = 32,      /* scaled_dot_product_attention by single operators */
    KS_OP_EFFICIENT = 64, /* ... by its memory-efficient kernel */
    KS_OP_FOREACH = 128,
    KS_OP_FUSED_STEP = 256,          /* of an optimizer */
    KS_OP_PRODUCT_BACKWARD = 512,    /* node of the backward pass */
    KS_OP_COMPILED = 1024,           /* code of a compiler runs in it */
    KS_OP_ACCUMULATE = 2048,         /* adds a gradient to that of the batches before */
    KS_OP_WEIGHTED = 4096,           /* layer whose inputs are a tensor, a weight and a bias */
    KS_OP_CUDNN_ATTENTION = 1 << 13, /* scaled_dot_product_attention by cuDNN */
    KS_OP_REGION = 1 << 14,          /* code that torch.compile made of a function */
    KS_OP_GRAPH = 1 << 15,           /* compiled graph, the work of such code */
    KS_OP_GRAPH_BACKWARD = 1 << 16,  /* ... of a backward pass */
    KS_OP_LOOKUP = 1 << 17,          /* compiled code is looked for */
    KS_OP_GATHER = 1 << 18,          /* FSDP brings parameters together */
    KS_OP_SCATTER = 1 << 19,         /* ... sums up their gradients */
    KS_OP_CAST = 1 << 20,
};

/* State of the parts. */
struct ks_optimizer_parts;
struct ks_retuning_parts;
struct ks_attention_parts;
struct ks_product_parts;
struct ks_slow_parts;
struct ks_compiled_parts;
struct ks_traffic_parts;
struct ks_pointwise_parts;
struct ks_logits_parts;
struct ks_cast_parts;
struct ks_cache_parts;
struct ks_prefix_parts;
struct ks_call_parts;
struct ks_reading_parts;
struct ks_rate_parts;

struct ks_op_work {
    struct ks_analyzer *analyzer;
    uint32_t *classes; /* by string id: KS_OP_* */
    struct ks_work_span *spans;
    size_t span_count;
    size_t span_capacity;
    struct ks_optimizer_parts *optimizer;
    struct ks_retuning_parts *retuning;
    struct ks_attention_parts *attention;
    struct ks_product_parts *products;
    struct ks_slow_parts *slow;
    struct ks_compiled_parts *compiled;
    struct ks_traffic_parts *traffic;
    struct ks_pointwise_parts *pointwise;
    struct ks_logits_parts *logits;
    struct ks_cast_parts *casts;
    struct ks_cache_parts *caches;
    struct ks_prefix_parts *prefixes;
    struct ks_call_parts *calls;
    struct ks_reading_parts *readings;
    struct ks_rate_parts *rates;
};

unsigned ks_op_class_of(struct ks_str name);
unsigned ks_op_work_class(struct ks_op_work *work, uint32_t name);

/* Complete step of the source that holds the moment, NULL: none. */
const struct ks_step *ks_op_work_step(const struct ks_op_work *work, const struct ks_op_walk *walk,
                                      int64_t ns);
/* Adds a row of the step to the sums, which ks_op_work_mean turns into means. */
void ks_op_work_add(struct ks_work_cost *cost, const struct ks_op_row *row,
                    const struct ks_step *step);
void ks_op_work_mean(const struct ks_op_work *work, struct ks_work_cost *cost);
int64_t ks_op_work_mean_ns(const struct ks_op_work *work, int64_t ns);
/* Did the thread start a copy this way from `from_ns` on, before `until_ns`? */
bool ks_op_work_has_copy(const struct ks_op_work *work, uint32_t lane, int64_t from_ns,
                         int64_t until_ns, enum ks_copy_way way);
enum ks_status ks_op_work_add_span(struct ks_op_work *work, const struct ks_work_span *span,
                                   struct ks_err *err) KS_MUST_CHECK;

/* Has one of the rows around the walk's row this class? */
bool ks_op_work_is_inside(struct ks_op_work *work, const struct ks_op_walk *walk, unsigned class);
/* `*traffic` NULL: the operator launches nothing itself, is none of op_traffic.h, or its shapes are
 * not known. Good until the next call. */
enum ks_status ks_op_work_traffic(struct ks_op_work *work, const struct ks_op_row *row,
                                  const struct ks_traffic **traffic, struct ks_err *err)
    KS_MUST_CHECK;
enum ks_status ks_traffic_create(struct ks_op_work *work, struct ks_err *err) KS_MUST_CHECK;
void ks_traffic_release(struct ks_op_work *work);

/* Does the row lie in a cast of the weight or bias of the layer around it? */
bool ks_op_work_is_weight_cast(struct ks_op_work *work, const struct ks_op_walk *walk,
                               const struct ks_op_row *row);
/* Sorts the spans so far, by thread and time. */
void ks_op_work_sort_spans(struct ks_op_work *work);

/* Each part: made, told of each row, told that the source is over, released. */
enum ks_status ks_optimizer_create(struct ks_op_work *work, struct ks_err *err) KS_MUST_CHECK;
enum ks_status ks_optimizer_note(struct ks_op_work *work, const struct ks_op_walk *walk,
                                 const struct ks_op_row *row, struct ks_err *err) KS_MUST_CHECK;
enum ks_status ks_optimizer_publish(struct ks_op_work *work, struct ks_err *err) KS_MUST_CHECK;

enum ks_status ks_retuning_create(struct ks_op_work *work, struct ks_err *err) KS_MUST_CHECK;
enum ks_status ks_retuning_note(struct ks_op_work *work, const struct ks_op_walk *walk,
                                const struct ks_op_row *row, struct ks_err *err) KS_MUST_CHECK;
/* Does the operator try algorithms, or make a plan? */
bool ks_retuning_tries(struct ks_op_work *work, const struct ks_op_row *row);
enum ks_status ks_retuning_publish(struct ks_op_work *work, struct ks_err *err) KS_MUST_CHECK;
void ks_retuning_release(struct ks_op_work *work);

enum ks_status ks_attention_create(struct ks_op_work *work, struct ks_err *err) KS_MUST_CHECK;
enum ks_status ks_attention_note(struct ks_op_work *work, const struct ks_op_walk *walk,
                                 const struct ks_op_row *row, struct ks_err *err) KS_MUST_CHECK;
enum ks_status ks_attention_publish(struct ks_op_work *work, struct ks_err *err) KS_MUST_CHECK;
void ks_attention_release(struct ks_op_work *work);

/* Keeps nothing but spans. */
enum ks_status ks_shards_note(struct ks_op_work *work, const struct ks_op_walk *walk,
                              const struct ks_op_row *row, struct ks_err *err) KS_MUST_CHECK;

enum ks_status ks_products_create(struct ks_op_work *work, struct ks_err *err) KS_MUST_CHECK;
enum ks_status ks_products_note(struct ks_op_work *work, const struct ks_op_walk *walk,
                                const struct ks_op_row *row, struct ks_err *err) KS_MUST_CHECK;
enum ks_status ks_products_publish(struct ks_op_work *work, struct ks_err *err) KS_MUST_CHECK;
void ks_products_release(struct ks_op_work *work);

enum ks_status ks_slow_create(struct ks_op_work *work, struct ks_err *err) KS_MUST_CHECK;
enum ks_status ks_slow_note(struct ks_op_work *work, const struct ks_op_walk *walk,
                            const struct ks_op_row *row, struct ks_err *err) KS_MUST_CHECK;
enum ks_status ks_slow_publish(struct ks_op_work *work, struct ks_err *err) KS_MUST_CHECK;
void ks_slow_release(struct ks_op_work *work);

enum ks_status ks_compiled_create(struct ks_op_work *work, struct ks_err *err) KS_MUST_CHECK;
enum ks_status ks_compiled_note(struct ks_op_work *work, const struct ks_op_walk *walk,
                                const struct ks_op_row *row, struct ks_err *err) KS_MUST_CHECK;
enum ks_status ks_compiled_publish(struct ks_op_work *work, struct ks_err *err) KS_MUST_CHECK;
void ks_compiled_release(struct ks_op_work *work);

/* Innermost open row around the one that is shown whose name has one of the classes, or NULL; of
 * those that lie deeper than KS_OP_SEARCH_MAX none is seen. */
enum { KS_OP_SEARCH_MAX = 64 };
const struct ks_op_row *ks_op_work_around(struct ks_op_work *work, const struct ks_op_walk *walk,
                                          unsigned classes);
enum ks_status ks_logits_create(struct ks_op_work *work, struct ks_err *err) KS_MUST_CHECK;
enum ks_status ks_logits_note(struct ks_op_work *work, const struct ks_op_walk *walk,
                              const struct ks_op_row *row, struct ks_err *err) KS_MUST_CHECK;
enum ks_status ks_logits_publish(struct ks_op_work *work, struct ks_err *err) KS_MUST_CHECK;
void ks_logits_release(struct ks_op_work *work);

enum ks_status ks_casts_create(struct ks_op_work *work, struct ks_err *err) KS_MUST_CHECK;
enum ks_status ks_casts_note(struct ks_op_work *work, const struct ks_op_walk *walk,
                             const struct ks_op_row *row, struct ks_err *err) KS_MUST_CHECK;
enum ks_status ks_casts_publish(struct ks_op_work *work, struct ks_err *err) KS_MUST_CHECK;
void ks_casts_release(struct ks_op_work *work);

enum ks_status ks_pointwise_create(struct ks_op_work *work, struct ks_err *err) KS_MUST_CHECK;
enum ks_status ks_pointwise_note(struct ks_op_work *work, const struct ks_op_walk *walk,
                                 const struct ks_op_row *row, struct ks_err *err) KS_MUST_CHECK;
enum ks_status ks_pointwise_publish(struct ks_op_work *work, struct ks_err *err) KS_MUST_CHECK;
void ks_pointwise_release(struct ks_op_work *work);
enum ks_status ks_caches_create(struct ks_op_work *work, struct ks_err *err) KS_MUST_CHECK;
enum ks_status ks_caches_note(struct ks_op_work *work, const struct ks_op_walk *walk,
                              const struct ks_op_row *row, struct ks_err *err) KS_MUST_CHECK;
enum ks_status ks_caches_publish(struct ks_op_work *work, struct ks_err *err) KS_MUST_CHECK;
void ks_caches_release(struct ks_op_work *work);

enum ks_status ks_prefixes_create(struct ks_op_work *work, struct ks_err *err) KS_MUST_CHECK;
enum ks_status ks_prefixes_note(struct ks_op_work *work, const struct ks_op_walk *walk,
                                const struct ks_op_row *row, struct ks_err *err) KS_MUST_CHECK;
enum ks_status ks_prefixes_publish(struct ks_op_work *work, struct ks_err *err) KS_MUST_CHECK;
void ks_prefixes_release(struct ks_op_work *work);

enum ks_status ks_calls_create(struct ks_op_work *work, struct ks_err *err) KS_MUST_CHECK;
enum ks_status ks_calls_note(struct ks_op_work *work, const struct ks_op_walk *walk,
                             const struct ks_op_row *row, struct ks_err *err) KS_MUST_CHECK;
enum ks_status ks_calls_publish(struct ks_op_work *work, struct ks_err *err) KS_MUST_CHECK;
void ks_calls_release(struct ks_op_work *work);

enum ks_status ks_readings_create(struct ks_op_work *work, struct ks_err *err) KS_MUST_CHECK;
enum ks_status ks_readings_note(struct ks_op_work *work, const struct ks_op_walk *walk,
                                const struct ks_op_row *row, struct ks_err *err) KS_MUST_CHECK;
enum ks_status ks_readings_publish(struct ks_op_work *work, struct ks_err *err) KS_MUST_CHECK;
void ks_readings_release(struct ks_op_work *work);
enum ks_status ks_rates_create(struct ks_op_work *work, struct ks_err *err) KS_MUST_CHECK;
enum ks_status ks_rates_note(struct ks_op_work *work, const struct ks_op_walk *walk,
                             const struct ks_op_row *row, struct ks_err *err) KS_MUST_CHECK;
enum ks_status ks_rates_publish(struct ks_op_work *work, struct ks_err *err) KS_MUST_CHECK;

#endif
