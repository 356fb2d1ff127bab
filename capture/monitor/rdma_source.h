/* Traffic of InfiniBand and RoCE ports, which goes by the kernel and is in no link's count. */
#ifndef KS_CAPTURE_MONITOR_RDMA_SOURCE_H
#define KS_CAPTURE_MONITOR_RDMA_SOURCE_H

#include "capture/monitor/kept_file.h"
#include "capture/monitor/look.h"

enum { KS_RDMA_PORTS_MAX = 32 };

struct ks_rdma_source {
    uint32_t count;
    int64_t due_ns;
    struct ks_rdma_port {
        struct ks_kept_file received_file, sent_file;
        struct ks_look_count received, sent;
    } ports[KS_RDMA_PORTS_MAX];
};

/* Lists the ports once, by memory of the program's heap. */
void ks_rdma_source_open(struct ks_rdma_source *source, const char *root);
void ks_rdma_source_look(struct ks_rdma_source *source, struct ks_look *look);
void ks_rdma_source_close(struct ks_rdma_source *source);

#endif
