/* What the kernel says of the whole machine: cores, memory, who waits for what, disks, network. */
#ifndef KS_CAPTURE_MONITOR_MACHINE_SOURCE_H
#define KS_CAPTURE_MONITOR_MACHINE_SOURCE_H

#include "capture/monitor/kept_file.h"
#include "capture/monitor/look.h"

enum {
    KS_MACHINE_TEXT_SIZE = 128 * 1024, /* /proc/stat of 1024 cores has some 70 KiB of them */
    KS_MACHINE_DISKS_MAX = 64,
    KS_MACHINE_LINKS_MAX = 64,
    KS_MACHINE_NAME_SIZE = 32,
    KS_MACHINE_PRESSURES = 3,
};

/* In ticks of the kernel since it booted. Zero: never seen. */
struct ks_machine_core {
    uint64_t busy;
    uint64_t all;
    struct ks_look_rate rate; /* as it was put last */
};

struct ks_machine_disk {
    char name[KS_MACHINE_NAME_SIZE]; /* "": an unused entry */
    bool counts;                     /* it is a whole disk of its own */
    struct ks_look_count read, write, busy_ms;
};

struct ks_machine_link {
    char name[KS_MACHINE_NAME_SIZE];
    bool counts;
    struct ks_look_count receive, send;
};

struct ks_machine_source {
    char root[KS_KEPT_PATH_SIZE];
    struct ks_kept_file stat, memory, disks, links;
    struct ks_kept_file pressures[KS_MACHINE_PRESSURES];
    struct ks_look_count pressure_some[KS_MACHINE_PRESSURES];
    struct ks_look_count pressure_full[KS_MACHINE_PRESSURES];
    uint32_t core_count; /* as of the last look */
    int64_t stat_due_ns, slow_due_ns;
    int64_t stat_seen_ns;
    struct ks_machine_core total;
    struct ks_machine_core cores[KS_METRIC_CORES_MAX];
    struct ks_machine_disk disk_list[KS_MACHINE_DISKS_MAX];
    struct ks_machine_link link_list[KS_MACHINE_LINKS_MAX];
    char text[KS_MACHINE_TEXT_SIZE];
};

void ks_machine_source_open(struct ks_machine_source *source, const char *root);
void ks_machine_source_look(struct ks_machine_source *source, struct ks_look *look);
void ks_machine_source_close(struct ks_machine_source *source);

#endif
