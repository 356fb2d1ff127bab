/* What the keys and values of a cache take (Pope et al., "Efficiently Scaling Transformer
 * Inference", 2022, 3.3; with shared heads Ainslie et al., "GQA", 2023). */
#include <kscope/kscope.h>

static uint64_t multiply(uint64_t a, uint64_t b)
{
    return b != 0 && a > UINT64_MAX / b ? UINT64_MAX : a * b;
}

uint64_t ks_kv_bytes(const struct ks_kv_shape *shape)
{
    const uint64_t factors[] = {shape->layers, shape->kv_heads, shape->head_size,
                                shape->batch,  shape->tokens,   shape->element_bytes};
    const size_t count = sizeof(factors) / sizeof(factors[0]);

    /* Nothing of anything is nothing, however much there is of the rest. */
    for (size_t i = 0; i < count; i++) {
        if (factors[i] == 0) {
            return 0;
        }
    }
    uint64_t bytes = 2; // keys, and values
    for (size_t i = 0; i < count; i++) {
        bytes = multiply(bytes, factors[i]);
    }
    return bytes;
}
