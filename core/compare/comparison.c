#include "compare/comparison.h"

#include "base/err.h"
#include "compare/compare_impl.h"

enum ks_status ks_compare_no_memory(struct ks_err *err)
{
    return ks_fail(err, KS_ERR_NOMEM, KS_NO_OFFSET, "Cannot compare two runs: no memory");
}

enum ks_status ks_compare_copy(struct ks_comparison *out, struct ks_str text, struct ks_str *copy,
                               struct ks_err *err)
{
    *copy =
        (struct ks_str){ks_arena_copy(&out->arena, text.ptr ? text.ptr : "", text.len), text.len};
    return copy->ptr ? KS_OK : ks_compare_no_memory(err);
}

enum ks_status ks_compare_copy_id(struct ks_comparison *out, const struct ks_trace *trace,
                                  struct ks_strid id, struct ks_str *copy, struct ks_err *err)
{
    *copy = (struct ks_str){0};
    return id.v == 0 ? KS_OK : ks_compare_copy(out, ks_trace_str(trace, id), copy, err);
}

enum ks_status ks_comparison_compute(const struct ks_compare_input sides[KS_COMPARE_SIDES],
                                     struct ks_comparison *out, struct ks_err *err)
{
    *out = (struct ks_comparison){0};
    ks_arena_init(&out->arena);
    out->is_by_shape = sides[KS_COMPARE_A].facts->scope.group_by_shape &&
                       sides[KS_COMPARE_B].facts->scope.group_by_shape;
    KS_TRY(ks_compare_steps(sides, out, err));
    KS_TRY(ks_compare_setups(sides, out, err));
    KS_TRY(ks_compare_parts(sides, out, err));
    KS_TRY(ks_compare_work(sides, out, err));
    KS_TRY(ks_compare_memory(sides, out, err));
    return ks_compare_findings(sides, out, err);
}

void ks_comparison_release(struct ks_comparison *comparison)
{
    ks_arena_release(&comparison->arena);
    *comparison = (struct ks_comparison){0};
}
