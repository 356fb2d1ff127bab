/* Finds tensors that go from a device to the host, are worked on there, and come back: by
 * operators, or by numpy and other code that no row shows. */
#ifndef KS_ANALYZE_TRIP_WALK_H
#define KS_ANALYZE_TRIP_WALK_H

#include "analyze/registry.h"

/* One round trip. */
struct ks_trip {
    uint32_t source;
    uint32_t lane;        /* thread ... */
    int64_t host_from_ns; /* ... and when the first operator begins on it and the last ends */
    int64_t host_until_ns;
    uint32_t step;      /* index into the steps */
    uint32_t op;        /* operator that brings the tensor to the host */
    uint32_t dims;      /* string id: shapes of its inputs */
    uint32_t work_op;   /* operator that took longest on the host */
    int64_t work_op_ns; /* how long */
    int64_t operators;  /* that worked on the tensor on the host */
    int64_t work_ns;    /* how long they took, and code between .numpy() and from_numpy() */
    int64_t other_ns;   /* operators on the host between that did not */
    int64_t wait_ns;    /* the operator that brings it, which waits for the device */
    int64_t copy_ns;    /* time of the copies on the device */
    int64_t bytes_down;
    int64_t bytes_up;
    int64_t down_end_ns; /* when it had arrived on the host ... */
    int64_t up_end_ns;   /* ... and was back on the device */
    bool is_none;        /* only looked like one */
};

struct ks_trips {
    struct ks_trip *items; /* ks_alloc; by source */
    size_t count;
    size_t capacity;
};

/* Pairs the analyzer's copies. `trips` zeroed; the caller frees trips->items, also after an
 * error. */
enum ks_status ks_trip_walk(struct ks_analyzer *analyzer, struct ks_trips *trips,
                            struct ks_err *err) KS_MUST_CHECK;

#endif
