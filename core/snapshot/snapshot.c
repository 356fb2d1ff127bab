#include "snapshot/snapshot.h"

#include "base/alloc.h"
#include "base/err.h"

void ks_snapshot_init(struct ks_snapshot *snapshot, struct ks_stack_pool *pool)
{
    *snapshot = (struct ks_snapshot){.pool = pool};
}

void ks_snapshot_release(struct ks_snapshot *snapshot)
{
    ks_free(snapshot->segments);
    ks_free(snapshot->blocks);
    ks_free(snapshot->events);
    ks_free(snapshot->marks);
    ks_free(snapshot->settings);
    *snapshot = (struct ks_snapshot){0};
}

enum ks_status ks_snapshot_add_device(struct ks_snapshot *snapshot, int32_t device,
                                      struct ks_err *err)
{
    size_t at = snapshot->device_count;
    while (at > 0 && snapshot->devices[at - 1] >= device) {
        at--;
    }
    if (at < snapshot->device_count && snapshot->devices[at] == device) {
        return KS_OK;
    }
    if (snapshot->device_count == KS_SNAP_DEVICES_MAX) {
        return ks_fail(err, KS_ERR_LIMIT, KS_NO_OFFSET,
                       "Cannot keep snapshot: more than %d devices", KS_SNAP_DEVICES_MAX);
    }
    memmove(snapshot->devices + at + 1, snapshot->devices + at,
            (snapshot->device_count - at) * sizeof(*snapshot->devices));
    snapshot->devices[at] = device;
    snapshot->device_count++;
    return KS_OK;
}

size_t ks_snapshot_events_of(const struct ks_snapshot *snapshot, int32_t device, size_t *first)
{
    size_t low = 0;
    while (low < snapshot->event_count && snapshot->events[low].device != device) {
        low++;
    }
    size_t end = low;
    while (end < snapshot->event_count && snapshot->events[end].device == device) {
        end++;
    }
    *first = low;
    return end - low;
}
