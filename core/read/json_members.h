/* Small documents that are in memory as a whole: the members of an object, one after the other. */
#ifndef KS_READ_JSON_MEMBERS_H
#define KS_READ_JSON_MEMBERS_H

#include "read/json_cursor.h"

/* Stands at the value of `key` and must take it. */
typedef enum ks_json (*ks_json_member_cb)(struct ks_json_cursor *c, struct ks_str key, void *user);

/* Calls `take` for each member of the object at the cursor. False: it is no whole object with a
 * member in it, or `take` gave something else than KS_JSON_OK. */
bool ks_json_each_member(struct ks_json_cursor *c, ks_json_member_cb take, void *user);
/* Takes a number into `*out`; any other value is stepped over and changes nothing. */
enum ks_json ks_json_take_number(struct ks_json_cursor *c, int64_t *out);

#endif
