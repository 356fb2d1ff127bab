#include "capture/monitor/rdma_source.h"

#include <dirent.h>
#include <string.h>

#include "capture/monitor/words.h"

#define NS_PER_S INT64_C(1000000000)

enum { WORD_SIZE = 4 }; /* the counters count in these */

static const char DEVICES[] = "/sys/class/infiniband";

static struct dirent *next_entry(DIR *folder)
{
    struct dirent *entry = readdir(folder);
    while (entry && entry->d_name[0] == '.') {
        entry = readdir(folder);
    }
    return entry;
}

/* `ports` is ".../DEVICE/ports". */
static void add_port(struct ks_rdma_source *source, const char *ports, const char *number)
{
    char folder[KS_KEPT_PATH_SIZE];
    struct ks_rdma_port port = {0};
    if (source->count == KS_RDMA_PORTS_MAX || !ks_kept_path(folder, ports, "/", number)) {
        return;
    }
    ks_kept_file_open(&port.received_file, folder, "/counters", "/port_rcv_data");
    ks_kept_file_open(&port.sent_file, folder, "/counters", "/port_xmit_data");
    source->ports[source->count++] = port;
}

static void add_device(struct ks_rdma_source *source, const char *devices, const char *name)
{
    char folder[KS_KEPT_PATH_SIZE];
    char ports[KS_KEPT_PATH_SIZE];
    if (!ks_kept_path(folder, devices, "/", name) || !ks_kept_path(ports, folder, "/ports", "")) {
        return;
    }
    DIR *list = opendir(ports);
    for (struct dirent *entry = list ? next_entry(list) : NULL; entry; entry = next_entry(list)) {
        add_port(source, ports, entry->d_name);
    }
    if (list) {
        (void)closedir(list);
    }
}

void ks_rdma_source_open(struct ks_rdma_source *source, const char *root)
{
    char devices[KS_KEPT_PATH_SIZE];
    memset(source, 0, sizeof(*source));
    DIR *list = ks_kept_path(devices, root, DEVICES, "") ? opendir(devices) : NULL;
    for (struct dirent *entry = list ? next_entry(list) : NULL; entry; entry = next_entry(list)) {
        add_device(source, devices, entry->d_name);
    }
    if (list) {
        (void)closedir(list);
    }
}

void ks_rdma_source_close(struct ks_rdma_source *source)
{
    for (uint32_t i = 0; i < source->count; i++) {
        ks_kept_file_close(&source->ports[i].received_file);
        ks_kept_file_close(&source->ports[i].sent_file);
    }
    source->count = 0;
}

static bool read_count(const struct ks_kept_file *file, uint64_t *out)
{
    char text[64];
    const char *at = text;
    return ks_kept_file_read(file, text, sizeof(text)) && ks_words_number(&at, out);
}

void ks_rdma_source_look(struct ks_rdma_source *source, struct ks_look *look)
{
    struct ks_look_sum received = {0};
    struct ks_look_sum sent = {0};
    if (source->count == 0 || !ks_look_is_due(look, &source->due_ns, NS_PER_S)) {
        return;
    }
    for (uint32_t i = 0; i < source->count; i++) {
        struct ks_rdma_port *port = &source->ports[i];
        uint64_t words = 0;
        if (read_count(&port->received_file, &words)) {
            ks_look_add_rate(&received, look, &port->received, words, WORD_SIZE);
        }
        if (read_count(&port->sent_file, &words)) {
            ks_look_add_rate(&sent, look, &port->sent, words, WORD_SIZE);
        }
    }
    ks_look_put_total(look, KS_METRIC_NET_RDMA_RECEIVE, &received);
    ks_look_put_total(look, KS_METRIC_NET_RDMA_SEND, &sent);
}
