/* The files that a list of paths stands for. */
#ifndef KS_READ_FOLDER_H
#define KS_READ_FOLDER_H

#include "base/arena.h"

struct ks_file_list {
    struct ks_file_entry {
        const char *path;
        bool is_given; /* named by the user, not found in a folder */
    } * list;
    size_t count;
    size_t capacity;
};

/* Appends one entry. Errors: KS_ERR_NOMEM. */
enum ks_status ks_file_list_append(struct ks_file_list *files, const struct ks_file_entry *entry,
                                   struct ks_arena *arena, struct ks_err *err) KS_MUST_CHECK;

/* Appends `path`, or the traces below it when it is a folder: names that end in .json, .json.gz,
 * .json.zst or .trace, sorted by path; links to folders are not followed, hidden and temporary
 * names and reports of our own are left out. A folder without a trace is an error; that of a run
 * gives the reason in its own words. Memory comes from the arena. Errors: KS_ERR_IO,
 * KS_ERR_NOMEM. */
enum ks_status ks_file_list_add(struct ks_file_list *files, const char *path,
                                struct ks_arena *arena, struct ks_err *err) KS_MUST_CHECK;

#endif
