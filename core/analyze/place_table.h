/* The table of places while it is filled; see places.h for asking it. */
#ifndef KS_ANALYZE_PLACE_TABLE_H
#define KS_ANALYZE_PLACE_TABLE_H

#include "analyze/call_walk.h"
#include "base/map.h"

struct ks_place_table {
    struct ks_map index; /* (operator and kind, place) -> 1 + index of the use */
    struct ks_place_use *uses;
    size_t count;
    size_t capacity;
};

/* By file and line; no place (NULL) comes last. */
int ks_place_compare(const struct ks_place *a, const struct ks_place *b);

/* `table` zeroed. */
void ks_place_table_init(struct ks_place_table *table);
void ks_place_table_release(struct ks_place_table *table);
/* Counts a call with a known place. */
enum ks_status ks_place_table_add(struct ks_place_table *table, const struct ks_place_use *use,
                                  struct ks_err *err) KS_MUST_CHECK;
/* Counts a call of the walk in all its kinds; ignored without a place. */
enum ks_status ks_place_table_note(struct ks_place_table *table, const struct ks_call *call,
                                   struct ks_err *err) KS_MUST_CHECK;
/* Copies places with their texts into `facts`. */
enum ks_status ks_place_table_keep(const struct ks_place *places, size_t count,
                                   struct ks_facts *facts, struct ks_err *err) KS_MUST_CHECK;
/* Sorts the uses into `facts`. */
enum ks_status ks_place_table_publish(const struct ks_place_table *table, struct ks_facts *facts,
                                      struct ks_err *err) KS_MUST_CHECK;
/* Places and uses of another recording, for the names that this trace has. */
enum ks_status ks_place_table_adopt(const struct ks_facts *framed, struct ks_facts *facts,
                                    struct ks_err *err) KS_MUST_CHECK;

#endif
