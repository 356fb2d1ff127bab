/* SQLite takes its memory through base/alloc.h, so that tests can make its allocations fail. */
#ifndef KS_TESTS_SQLITE_MEMORY_H
#define KS_TESTS_SQLITE_MEMORY_H

#include <sqlite3.h>

extern const sqlite3_mem_methods ks_sqlite_memory; /* for SQLITE_CONFIG_MALLOC */

#endif
