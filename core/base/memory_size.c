#include "base/memory_size.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/proc.h"

/* "max", or no number at all, means that there is no limit. */
static uint64_t read_limit(const char *path)
{
    char text[64];
    char *end = text;
    if (!ks_proc_read_text(path, text, sizeof(text)) || text[0] < '0' || text[0] > '9') {
        return UINT64_MAX;
    }
    unsigned long long limit = strtoull(text, &end, 10);
    return end == text || limit == 0 ? UINT64_MAX : limit;
}

uint64_t ks_memory_group_limit(const char *root, const char *group, const char *limit_name)
{
    char folder[PATH_MAX];
    char path[PATH_MAX + 64];
    uint64_t least = UINT64_MAX;
    size_t root_len = strlen(root);
    int len = snprintf(folder, sizeof(folder), "%s%s", root, group);
    if (len < 0 || (size_t)len >= sizeof(folder)) {
        return UINT64_MAX;
    }
    for (;;) {
        snprintf(path, sizeof(path), "%s/%s", folder, limit_name);
        uint64_t limit = read_limit(path);
        least = limit < least ? limit : least;
        char *slash = strrchr(folder, '/');
        if (!slash || strlen(folder) <= root_len) {
            return least;
        }
        *slash = '\0';
    }
}

/* Lines of /proc/self/cgroup: "0::/path" is version 2, "5:cpu,memory:/path" version 1. */
static uint64_t limit_of_line(char *line)
{
    char *controllers = strchr(line, ':');
    char *group = controllers ? strchr(controllers + 1, ':') : NULL;
    if (!group) {
        return UINT64_MAX;
    }
    *group++ = '\0';
    controllers++;
    if (controllers[0] == '\0') {
        return ks_memory_group_limit("/sys/fs/cgroup", group, "memory.max");
    }
    return strstr(controllers, "memory")
               ? ks_memory_group_limit("/sys/fs/cgroup/memory", group, "memory.limit_in_bytes")
               : UINT64_MAX;
}

static uint64_t group_limit(void)
{
    char text[4096];
    uint64_t least = UINT64_MAX;
    if (!ks_proc_read_text("/proc/self/cgroup", text, sizeof(text))) {
        return least;
    }
    for (char *line = text; line;) {
        char *next = strchr(line, '\n');
        if (next) {
            *next++ = '\0';
        }
        uint64_t limit = limit_of_line(line);
        least = limit < least ? limit : least;
        line = next;
    }
    return least;
}

uint64_t ks_memory_size(void)
{
    long pages = sysconf(_SC_PHYS_PAGES);
    long page = sysconf(_SC_PAGESIZE);
    uint64_t machine = pages > 0 && page > 0 ? (uint64_t)pages * (uint64_t)page : 0;
    uint64_t group = group_limit();
    return group < machine || machine == 0 ? (group == UINT64_MAX ? 0 : group) : machine;
}
