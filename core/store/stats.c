#include "store/trace.h"

/* clang-format off */
static const struct ks_stat_info infos[KS_STAT_COUNT] = {
#define KS_STAT(stat, level, text) [KS_STAT_##stat] = {#stat, KS_SEVERITY_##level, text},
#include "store/stats.def"
#undef KS_STAT
};
/* clang-format on */

const struct ks_stat_info *ks_stat_info(enum ks_stat stat)
{
    KS_ASSERT((unsigned)stat < KS_STAT_COUNT);
    return &infos[stat];
}

enum ks_source_status ks_source_status(const struct ks_source *source)
{
    enum ks_source_status status = KS_SOURCE_OK;
    for (size_t i = 0; i < KS_STAT_COUNT; i++) {
        if (source->counts[i] == 0 || infos[i].severity == KS_SEVERITY_INFO) {
            continue;
        }
        if (infos[i].severity == KS_SEVERITY_CUT) {
            return KS_SOURCE_TRUNCATED;
        }
        status = KS_SOURCE_REPAIRED;
    }
    return status;
}
