#include "read/json_members.h"

bool ks_json_each_member(struct ks_json_cursor *c, ks_json_member_cb take, void *user)
{
    char ch;
    bool more = true;
    if (ks_json_peek(c, &ch) != KS_JSON_OK || ch != '{') {
        return false;
    }
    c->at++;
    if (ks_json_peek(c, &ch) != KS_JSON_OK || ch == '}') {
        return false;
    }
    while (more) {
        struct ks_json_str key;
        if (ks_json_key(c, &key) != KS_JSON_OK ||
            take(c, (struct ks_str){key.ptr, key.len}, user) != KS_JSON_OK ||
            ks_json_next(c, '}', &more) != KS_JSON_OK) {
            return false;
        }
    }
    return true;
}

enum ks_json ks_json_take_number(struct ks_json_cursor *c, int64_t *out)
{
    int64_t value = 0;
    bool found = false;
    enum ks_json_kind kind;
    enum ks_json step = ks_json_kind_of(c, &kind);
    if (step == KS_JSON_OK && kind != KS_JSON_NUMBER) {
        return ks_json_skip(c);
    }
    step = step == KS_JSON_OK ? ks_json_int(c, &value, &found) : step;
    if (step == KS_JSON_OK && found) {
        *out = value;
    }
    return step;
}
