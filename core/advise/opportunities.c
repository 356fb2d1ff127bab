#include "advise/opportunities.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/err.h"

void ks_opportunities_add(struct ks_opportunities *opportunities,
                          const struct ks_opportunity *opportunity)
{
    if (opportunities->count < KS_OPPORTUNITIES_MAX) {
        opportunities->list[opportunities->count++] = *opportunity;
    }
}

const char *ks_opportunities_text(struct ks_opportunities *opportunities, const char *format, ...)
{
    char text[600];
    va_list args;
    va_start(args, format);
    int len = vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    KS_ASSERT(len >= 0 && (size_t)len < sizeof(text));
    const char *copy = ks_arena_copy(&opportunities->arena, text, (size_t)len);
    opportunities->is_text_missing = opportunities->is_text_missing || !copy;
    return copy;
}

bool ks_opportunities_is_found(const struct ks_findings *findings, const char *id)
{
    for (size_t i = 0; i < findings->count; i++) {
        if (strcmp(findings->list[i].rule->id, id) == 0) {
            return true;
        }
    }
    return false;
}

enum ks_status ks_opportunities_compute(const struct ks_facts *facts,
                                        const struct ks_findings *findings,
                                        struct ks_opportunities *opportunities, struct ks_err *err)
{
    ks_arena_init(&opportunities->arena);
    if (facts->has_gpu && !facts->mean_step.obstacle) {
        ks_opportunity_find_limit(facts, opportunities);
        ks_opportunity_find_gpu(facts, findings, opportunities);
    } else if (!facts->has_gpu) {
        ks_opportunity_find_cpu(facts, findings, opportunities);
    }
    return opportunities->is_text_missing
               ? ks_fail(err, KS_ERR_NOMEM, KS_NO_OFFSET, "Cannot write opportunities: no memory")
               : KS_OK;
}

void ks_opportunities_release(struct ks_opportunities *opportunities)
{
    ks_arena_release(&opportunities->arena);
    *opportunities = (struct ks_opportunities){0};
}
