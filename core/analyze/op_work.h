/* The parts of the analysis "op work": each looks at the operators as they end, and says at the end
 * what those of its kind cost and where they are. */
#ifndef KS_ANALYZE_OP_WORK_H
#define KS_ANALYZE_OP_WORK_H

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
    KS_OP_FUSED_STEP = 256,       /* of an optimizer */
    KS_OP_PRODUCT_BACKWARD = 512, /* node of the backward pass */
};

/* State of the parts. */
struct ks_optimizer_parts;
struct ks_retuning_parts;
struct ks_attention_parts;
struct ks_product_parts;
struct ks_rate_parts;

struct ks_op_work {
    struct ks_analyzer *analyzer;
    uint16_t *classes; /* by string id: KS_OP_* */
    struct ks_work_span *spans;
    size_t span_count;
    size_t span_capacity;
    struct ks_optimizer_parts *optimizer;
    struct ks_retuning_parts *retuning;
    struct ks_attention_parts *attention;
    struct ks_product_parts *products;
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
enum ks_status ks_op_work_add_span(struct ks_op_work *work, const struct ks_work_span *span,
                                   struct ks_err *err) KS_MUST_CHECK;

/* Each part: made, told of each row, told that the source is over, released. */
enum ks_status ks_optimizer_create(struct ks_op_work *work, struct ks_err *err) KS_MUST_CHECK;
enum ks_status ks_optimizer_note(struct ks_op_work *work, const struct ks_op_walk *walk,
                                 const struct ks_op_row *row, struct ks_err *err) KS_MUST_CHECK;
enum ks_status ks_optimizer_publish(struct ks_op_work *work, struct ks_err *err) KS_MUST_CHECK;

enum ks_status ks_retuning_create(struct ks_op_work *work, struct ks_err *err) KS_MUST_CHECK;
enum ks_status ks_retuning_note(struct ks_op_work *work, const struct ks_op_walk *walk,
                                const struct ks_op_row *row, struct ks_err *err) KS_MUST_CHECK;
enum ks_status ks_retuning_publish(struct ks_op_work *work, struct ks_err *err) KS_MUST_CHECK;
void ks_retuning_release(struct ks_op_work *work);

enum ks_status ks_attention_create(struct ks_op_work *work, struct ks_err *err) KS_MUST_CHECK;
enum ks_status ks_attention_note(struct ks_op_work *work, const struct ks_op_walk *walk,
                                 const struct ks_op_row *row, struct ks_err *err) KS_MUST_CHECK;
enum ks_status ks_attention_publish(struct ks_op_work *work, struct ks_err *err) KS_MUST_CHECK;
void ks_attention_release(struct ks_op_work *work);

enum ks_status ks_products_create(struct ks_op_work *work, struct ks_err *err) KS_MUST_CHECK;
enum ks_status ks_products_note(struct ks_op_work *work, const struct ks_op_walk *walk,
                                const struct ks_op_row *row, struct ks_err *err) KS_MUST_CHECK;
enum ks_status ks_products_publish(struct ks_op_work *work, struct ks_err *err) KS_MUST_CHECK;
void ks_products_release(struct ks_op_work *work);

enum ks_status ks_rates_create(struct ks_op_work *work, struct ks_err *err) KS_MUST_CHECK;
enum ks_status ks_rates_note(struct ks_op_work *work, const struct ks_op_walk *walk,
                             const struct ks_op_row *row, struct ks_err *err) KS_MUST_CHECK;
enum ks_status ks_rates_publish(struct ks_op_work *work, struct ks_err *err) KS_MUST_CHECK;

#endif
