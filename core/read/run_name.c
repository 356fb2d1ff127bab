#include "read/run_name.h"

/* More digits are no rank, process or window of ours. */
enum { DIGITS_MAX = 10 };

static bool take_text(struct ks_str *rest, struct ks_str text)
{
    if (!ks_str_starts(*rest, text)) {
        return false;
    }
    *rest = (struct ks_str){rest->ptr + text.len, rest->len - text.len};
    return true;
}

static bool take_number(struct ks_str *rest, int64_t *out)
{
    size_t len = 0;
    int64_t value = 0;
    while (len < rest->len && len <= DIGITS_MAX && rest->ptr[len] >= '0' && rest->ptr[len] <= '9') {
        value = value * 10 + (rest->ptr[len++] - '0');
    }
    *rest = (struct ks_str){rest->ptr + len, rest->len - len};
    *out = value;
    return len > 0 && len <= DIGITS_MAX;
}

bool ks_run_name_parse(struct ks_str path, struct ks_run_name *out)
{
    const char *slash = path.len > 0 ? memrchr(path.ptr, '/', path.len) : NULL;
    struct ks_str rest = path;
    if (slash) {
        rest = (struct ks_str){slash + 1, (size_t)(path.ptr + path.len - slash - 1)};
    }
    bool is_ours = take_text(&rest, KS_STR("rank")) && take_number(&rest, &out->rank) &&
                   take_text(&rest, KS_STR(".pid")) && take_number(&rest, &out->pid) &&
                   take_text(&rest, KS_STR(".window")) && take_number(&rest, &out->window);
    if (!is_ours) {
        return false;
    }
    out->is_stacks = take_text(&rest, KS_STR(".stacks"));
    return ks_str_equal(rest, KS_STR(".pt.trace.json.gz"));
}
