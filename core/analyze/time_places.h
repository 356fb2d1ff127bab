/* Which function of the user's program holds time that no operator explains: the loader, code
 * between operators, a whole step (docs/analyses/places.md). */
#ifndef KS_ANALYZE_TIME_PLACES_H
#define KS_ANALYZE_TIME_PLACES_H

#include "analyze/registry.h"

enum { KS_TIME_QUIET_NS_MIN = 200 * 1000 };

/* Of a source, or of the first that has one (KS_TIME_ANY_SOURCE); NULL: no frames tell, or no
 * function holds half of the time. */
enum { KS_TIME_ANY_SOURCE = UINT32_MAX };
const struct ks_time_place *ks_time_place_find(const struct ks_facts *facts, uint32_t source,
                                               enum ks_time_kind kind);

#endif
