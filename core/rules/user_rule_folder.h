/* The rules of a folder, read and parsed. */
#ifndef KS_RULES_USER_RULE_FOLDER_H
#define KS_RULES_USER_RULE_FOLDER_H

#include "rules/user_rule.h"

enum { KS_USER_RULES_MAX = 500, KS_USER_RULE_BYTES_MAX = 1000000 };

struct ks_user_rules {
    struct ks_user_rule *list; /* by file name */
    size_t count;
};

/* Reads the files of `path` whose names end in .sql, without those that begin with a dot, or
 * `path` itself when it is a file. Memory comes from the arena. KS_ERR_IO, KS_ERR_USAGE (no rule,
 * too many, a head that says too little, an id that comes twice), KS_ERR_NOMEM. */
enum ks_status ks_user_rules_read(const char *path, struct ks_user_rules *out,
                                  struct ks_arena *arena, struct ks_err *err) KS_MUST_CHECK;

#endif
