/* The folder of the cache: which files in it are believed, how one gets into it whole or not at
 * all, and how it stays below its size. Used by several processes at once without a lock: names are
 * given by rename, and whoever holds a file open keeps it when it goes. Nothing here is an error to
 * a report: what cannot be done is not done. */
#ifndef KS_CACHE_CACHE_FOLDER_H
#define KS_CACHE_CACHE_FOLDER_H

#include "base/compiler.h"

enum { KS_CACHE_PATH_SIZE = 4096, KS_CACHE_NAME_SIZE = 96 };

struct ks_cache_folder {
    int fd;
    char path[KS_CACHE_PATH_SIZE];
    uint64_t bytes_max; /* of all files together */
};

/* A file that is being written; it has no name yet, or one that a crash leaves behind at most. */
struct ks_cache_draft {
    int fd;
    char name[KS_CACHE_NAME_SIZE]; /* "": none */
};

/* Opens, or makes with mode 0700, `path`, NULL: $XDG_CACHE_HOME/kinetoscope, else
 * $HOME/.cache/kinetoscope. Gives NULL, or why it is not used: a folder of someone else, one that
 * others may write to, a missing $HOME. */
const char *ks_cache_folder_open(struct ks_cache_folder *folder, const char *path,
                                 uint64_t bytes_max);
void ks_cache_folder_close(struct ks_cache_folder *folder);

/* Opens a file for reading and marks it as used now; -1: there is none, or none that is a plain
 * file of this user with mode 0600. */
int ks_cache_folder_find(const struct ks_cache_folder *folder, const char *name);
void ks_cache_folder_remove(const struct ks_cache_folder *folder, const char *name);

/* False: the folder cannot be written to, or the disk is nearly full. Either way the draft is to be
 * ended by one of the two below. */
bool ks_cache_draft_open(const struct ks_cache_folder *folder, struct ks_cache_draft *draft);
/* Ends the draft. It gets the name, unless it is larger than the whole cache may be; then old files
 * go until the folder is below its size. */
bool ks_cache_draft_publish(const struct ks_cache_folder *folder, struct ks_cache_draft *draft,
                            const char *name);
void ks_cache_draft_drop(const struct ks_cache_folder *folder, struct ks_cache_draft *draft);

#endif
