#include "capture/monitor/machine_source.h"

#include <stddef.h>
#include <string.h>
#include <unistd.h>

#include "capture/monitor/words.h"
#include "capture/shared/small_file.h"

#define NS_PER_MS INT64_C(1000000)

enum {
    SLOW_PERIOD_MS = 1000,
    /* The kernel visits each core, and each interrupt of each core, to write /proc/stat, and
     * counts in ticks of 10 ms. */
    STAT_PERIOD_MS = 500,
    STAT_PERIOD_LARGE_MS = 1000,
    CORES_LARGE = 32,
    SECTOR_SIZE = 512, /* of /proc/diskstats, whatever the disk's are */
};

enum pressure { PRESSURE_CPU, PRESSURE_MEMORY, PRESSURE_IO };

static const char *const PRESSURE_FILES[KS_MACHINE_PRESSURES] = {
    [PRESSURE_CPU] = "/cpu", [PRESSURE_MEMORY] = "/memory", [PRESSURE_IO] = "/io"};

void ks_machine_source_open(struct ks_machine_source *source, const char *root)
{
    memset(source, 0, offsetof(struct ks_machine_source, text));
    (void)ks_kept_path(source->root, root, "", "");
    ks_kept_file_open(&source->stat, root, "/proc", "/stat");
    ks_kept_file_open(&source->memory, root, "/proc", "/meminfo");
    ks_kept_file_open(&source->disks, root, "/proc", "/diskstats");
    /* Of the process's own namespace: a container's own links. */
    ks_kept_file_open(&source->links, root, "/proc/self", "/net/dev");
    for (int i = 0; i < KS_MACHINE_PRESSURES; i++) {
        ks_kept_file_open(&source->pressures[i], root, "/proc/pressure", PRESSURE_FILES[i]);
    }
}

void ks_machine_source_close(struct ks_machine_source *source)
{
    ks_kept_file_close(&source->stat);
    ks_kept_file_close(&source->memory);
    ks_kept_file_close(&source->disks);
    ks_kept_file_close(&source->links);
    for (int i = 0; i < KS_MACHINE_PRESSURES; i++) {
        ks_kept_file_close(&source->pressures[i]);
    }
}

/* ------------------------------------------------------------------ cores */

/* Time of guests is in that of users. A core that waits for a disk is free for whoever comes. */
static bool read_core(const char *at, struct ks_machine_core *out)
{
    enum { USER, NICE, SYSTEM, IDLE, IO_WAIT, IRQ, SOFT_IRQ, STEAL, PARTS };
    uint64_t part[PARTS];
    if (!ks_words_numbers(at, part, PARTS)) {
        return false;
    }
    out->busy = part[USER] + part[NICE] + part[SYSTEM] + part[IRQ] + part[SOFT_IRQ] + part[STEAL];
    out->all = out->busy + part[IDLE] + part[IO_WAIT];
    return true;
}

/* Within a tick a core has no share of anything. Idle time may go back by some ticks. */
static void put_core(struct ks_machine_source *source, struct ks_look *look, enum ks_metric metric,
                     uint32_t index, struct ks_machine_core *last,
                     const struct ks_machine_core *now)
{
    struct ks_look_rate rate = {0};
    if (last->all > 0 && now->all > last->all && now->busy >= last->busy) {
        double busy = (double)(now->busy - last->busy);
        double all = (double)(now->all - last->all);
        rate.value = busy < all ? 100 * busy / all : 100;
        rate.ns = look->now_ns - source->stat_seen_ns;
    }
    last->rate = ks_look_put_after(look, metric, index, last->rate, rate);
    last->busy = now->busy;
    last->all = now->all;
}

/* "cpu  ..." of all, then "cpu0 ..."; a core that is switched off has no line. */
static void look_at_cores(struct ks_machine_source *source, struct ks_look *look)
{
    int64_t period_ms = source->core_count > CORES_LARGE ? STAT_PERIOD_LARGE_MS : STAT_PERIOD_MS;
    if (!ks_look_is_due(look, &source->stat_due_ns, period_ms * NS_PER_MS)) {
        return;
    }
    (void)ks_kept_file_read(&source->stat, source->text, sizeof(source->text));
    source->core_count = 0;
    for (const char *line = source->text; line && strncmp(line, "cpu", 3) == 0;
         line = ks_words_next_line(line)) {
        struct ks_machine_core now;
        uint64_t index = 0;
        const char *at = line + 3;
        bool is_total = *at == ' ';
        if ((!is_total && !ks_words_number(&at, &index)) || !read_core(at, &now)) {
            continue;
        }
        if (is_total) {
            put_core(source, look, KS_METRIC_CPU_MACHINE, 0, &source->total, &now);
        } else if (index < KS_METRIC_CORES_MAX) {
            put_core(source, look, KS_METRIC_CPU_CORE, (uint32_t)index, &source->cores[index],
                     &now);
            source->core_count++;
        }
    }
    source->stat_seen_ns = look->now_ns;
}

/* ------------------------------------------------------------------ memory, pressure */

static void look_at_memory(struct ks_machine_source *source, struct ks_look *look)
{
    uint64_t total = 0;
    uint64_t available = 0;
    (void)ks_kept_file_read(&source->memory, source->text, sizeof(source->text));
    if (ks_words_number_of(source->text, "MemTotal:", &total) &&
        ks_words_number_of(source->text, "MemAvailable:", &available) && total > 0 &&
        available <= total) {
        ks_look_put(look, KS_METRIC_MEMORY_AVAILABLE, (double)available * 1024);
        ks_look_put(look, KS_METRIC_MEMORY_MACHINE,
                    100 * (double)(total - available) / (double)total);
    }
}

static void put_pressure(struct ks_machine_source *source, struct ks_look *look,
                         enum pressure which, enum ks_metric some, enum ks_metric full)
{
    uint64_t waited_us = 0;
    double percent = 100e-6; /* of a second, in a microsecond */
    (void)ks_kept_file_read(&source->pressures[which], source->text, sizeof(source->text));
    if (ks_words_total_of(source->text, "some ", &waited_us)) {
        ks_look_put_rate(look, some, &source->pressure_some[which], waited_us, percent);
    }
    if (full != some && ks_words_total_of(source->text, "full ", &waited_us)) {
        ks_look_put_rate(look, full, &source->pressure_full[which], waited_us, percent);
    }
}

/* For a whole machine "full" of the CPU has no meaning. */
static void look_at_pressure(struct ks_machine_source *source, struct ks_look *look)
{
    put_pressure(source, look, PRESSURE_CPU, KS_METRIC_PRESSURE_CPU, KS_METRIC_PRESSURE_CPU);
    put_pressure(source, look, PRESSURE_MEMORY, KS_METRIC_PRESSURE_MEMORY,
                 KS_METRIC_PRESSURE_MEMORY_FULL);
    put_pressure(source, look, PRESSURE_IO, KS_METRIC_PRESSURE_IO, KS_METRIC_PRESSURE_IO_FULL);
}

/* ------------------------------------------------------------------ disks */

static bool begins_with(const char *name, const char *const *list, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (strncmp(name, list[i], strlen(list[i])) == 0) {
            return true;
        }
    }
    return false;
}

static bool is_in_sys(const struct ks_machine_source *source, const char *folder, const char *name,
                      const char *file)
{
    char path[KS_KEPT_PATH_SIZE];
    struct ks_small_text text = {.ptr = path, .size = sizeof(path)};
    ks_small_text_put(&text, source->root);
    ks_small_text_put(&text, folder);
    ks_small_text_put(&text, name);
    ks_small_text_put(&text, file);
    return !text.is_cut && access(path, F_OK) == 0;
}

/* Partitions are in their disk, and what is made of disks (md, dm) is in these. */
static bool is_whole_disk(const struct ks_machine_source *source, const char *name)
{
    static const char *const MADE[] = {"loop", "ram", "zram", "dm-", "md", "sr", "nbd"};
    return !begins_with(name, MADE, sizeof(MADE) / sizeof(*MADE)) &&
           is_in_sys(source, "/sys/block/", name, "");
}

static struct ks_machine_disk *find_disk(struct ks_machine_source *source, const char *name)
{
    for (int i = 0; i < KS_MACHINE_DISKS_MAX; i++) {
        struct ks_machine_disk *disk = &source->disk_list[i];
        if (strcmp(disk->name, name) == 0) {
            return disk;
        }
        if (disk->name[0] == '\0') {
            memcpy(disk->name, name, strlen(name) + 1);
            disk->counts = is_whole_disk(source, name);
            return disk;
        }
    }
    return NULL;
}

/* "MAJOR MINOR NAME READS MERGED SECTORS MS WRITES MERGED SECTORS MS NOW BUSY-MS ...". */
static void look_at_disks(struct ks_machine_source *source, struct ks_look *look)
{
    enum { READ_SECTORS = 2, WRITE_SECTORS = 6, BUSY_MS = 9, FIELDS = 10 };
    struct ks_look_sum read = {0}, write = {0}, busy = {0};
    (void)ks_kept_file_read(&source->disks, source->text, sizeof(source->text));
    for (const char *at = source->text; at; at = ks_words_next_line(at)) {
        uint64_t number[2];
        uint64_t field[FIELDS];
        char name[KS_MACHINE_NAME_SIZE];
        const char *word = at;
        if (!ks_words_number(&word, &number[0]) || !ks_words_number(&word, &number[1]) ||
            !ks_words_word(&word, ' ', name, sizeof(name)) ||
            !ks_words_numbers(word, field, FIELDS)) {
            continue;
        }
        struct ks_machine_disk *disk = find_disk(source, name);
        if (disk && disk->counts) {
            ks_look_add_rate(&read, look, &disk->read, field[READ_SECTORS], SECTOR_SIZE);
            ks_look_add_rate(&write, look, &disk->write, field[WRITE_SECTORS], SECTOR_SIZE);
            ks_look_add_rate(&busy, look, &disk->busy_ms, field[BUSY_MS], 0.1);
        }
    }
    ks_look_put_total(look, KS_METRIC_DISK_READ, &read);
    ks_look_put_total(look, KS_METRIC_DISK_WRITE, &write);
    ks_look_put_highest(look, KS_METRIC_DISK_BUSY, &busy, 100);
}

/* ------------------------------------------------------------------ network */

/* What goes through a bridge, a bond or a tunnel goes through a link below it, too. */
static bool is_own_link(const struct ks_machine_source *source, const char *name)
{
    static const char *const MADE[] = {"veth", "tun", "tap", "docker", "virbr"};
    return strcmp(name, "lo") != 0 && !strchr(name, '.') &&
           !begins_with(name, MADE, sizeof(MADE) / sizeof(*MADE)) &&
           !is_in_sys(source, "/sys/class/net/", name, "/bridge") &&
           !is_in_sys(source, "/sys/class/net/", name, "/bonding");
}

static struct ks_machine_link *find_link(struct ks_machine_source *source, const char *name)
{
    for (int i = 0; i < KS_MACHINE_LINKS_MAX; i++) {
        struct ks_machine_link *link = &source->link_list[i];
        if (strcmp(link->name, name) == 0) {
            return link;
        }
        if (link->name[0] == '\0') {
            memcpy(link->name, name, strlen(name) + 1);
            link->counts = is_own_link(source, name);
            return link;
        }
    }
    return NULL;
}

/* "  NAME: BYTES and seven more received, BYTES and seven more sent", below two lines of heads. */
static void look_at_links(struct ks_machine_source *source, struct ks_look *look)
{
    enum { RECEIVED = 0, SENT = 8, FIELDS = 9 };
    struct ks_look_sum receive = {0}, send = {0};
    (void)ks_kept_file_read(&source->links, source->text, sizeof(source->text));
    for (const char *at = source->text; at; at = ks_words_next_line(at)) {
        uint64_t field[FIELDS];
        char name[KS_MACHINE_NAME_SIZE];
        const char *word = at;
        if (!ks_words_word(&word, ':', name, sizeof(name)) || *word != ':' ||
            !ks_words_numbers(word + 1, field, FIELDS)) {
            continue;
        }
        struct ks_machine_link *link = find_link(source, name);
        if (link && link->counts) {
            ks_look_add_rate(&receive, look, &link->receive, field[RECEIVED], 1);
            ks_look_add_rate(&send, look, &link->send, field[SENT], 1);
        }
    }
    ks_look_put_total(look, KS_METRIC_NET_RECEIVE, &receive);
    ks_look_put_total(look, KS_METRIC_NET_SEND, &send);
}

void ks_machine_source_look(struct ks_machine_source *source, struct ks_look *look)
{
    look_at_cores(source, look);
    if (ks_look_is_due(look, &source->slow_due_ns, SLOW_PERIOD_MS * NS_PER_MS)) {
        look_at_memory(source, look);
        look_at_pressure(source, look);
        look_at_disks(source, look);
        look_at_links(source, look);
    }
}
