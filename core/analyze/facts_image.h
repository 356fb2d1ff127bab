/* Facts as bytes of a file, for the same trace and the same build (base/image.h). What is left out:
 * replays, for which what-ifs of other changes than the rules ask would be wanted; the findings of
 * all rules lie beside the facts (advise/findings_image.h). */
#ifndef KS_ANALYZE_FACTS_IMAGE_H
#define KS_ANALYZE_FACTS_IMAGE_H

#include "analyze/facts.h"
#include "base/image.h"

extern const struct ks_image_type ks_facts_image_type;

enum ks_status ks_facts_pack(const struct ks_facts *facts, struct ks_text *out, struct ks_err *err)
    KS_MUST_CHECK;
/* `bytes` lies in `arena`, which becomes that of the facts; when it fails, it stays the caller's.
 */
enum ks_status ks_facts_unpack(char *bytes, size_t size, const struct ks_trace *trace,
                               struct ks_arena *arena, struct ks_facts *facts, struct ks_err *err)
    KS_MUST_CHECK;

#endif
