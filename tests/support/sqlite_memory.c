#include "sqlite_memory.h"

#include <string.h>

#include "base/alloc.h"

enum { HEAD_SIZE = 16 }; // holds the size, keeps the alignment

static void *take(int size)
{
    char *block = ks_alloc((size_t)size + HEAD_SIZE, 1);
    if (block) {
        memcpy(block, &size, sizeof(size));
    }
    return block ? block + HEAD_SIZE : NULL;
}

static void give_back(void *ptr)
{
    if (ptr) {
        ks_free((char *)ptr - HEAD_SIZE);
    }
}

static int size_of(void *ptr)
{
    int size = 0;
    if (ptr) {
        memcpy(&size, (char *)ptr - HEAD_SIZE, sizeof(size));
    }
    return size;
}

static void *take_again(void *ptr, int size)
{
    char *block = ks_realloc((char *)ptr - HEAD_SIZE, (size_t)size + HEAD_SIZE, 1);
    if (block) {
        memcpy(block, &size, sizeof(size));
    }
    return block ? block + HEAD_SIZE : NULL;
}

static int round_up(int size)
{
    return (size + 7) & ~7;
}

static int begin(void *user)
{
    (void)user;
    return SQLITE_OK;
}

static void end(void *user)
{
    (void)user;
}

const sqlite3_mem_methods ks_sqlite_memory = {take,     give_back, take_again, size_of,
                                              round_up, begin,     end,        NULL};
