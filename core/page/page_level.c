#include "page/page_level.h"

#include "base/compiler.h"
#include "measure/sum.h"
#include "show/json_writer.h"

static int64_t value_of(const struct ks_page_row *row, size_t field)
{
    switch (field) {
    case 0: return row->start_ns;
    case 1: return row->dur_ns;
    case 2: return row->depth;
    case 3: return row->name;
    default: return row->count;
    }
}

/* Starts are written as differences, which are short. */
static void write_columns(const struct ks_page_level *level, struct ks_json *json)
{
    static const char *const keys[] = {"ts", "dur", "depth", "name", "count"};
    for (size_t k = 0; k < KS_COUNT_OF(keys); k++) {
        for (size_t i = 0; i < level->count; i++) {
            bool is_delta = k == 0 && i > 0;
            int64_t before = is_delta ? level->rows[i - 1].start_ns : 0;
            level->column[i] = ks_sum_sub(value_of(&level->rows[i], k), before);
        }
        ks_json_ints(json, keys[k], level->column, level->count);
    }
}

void ks_page_level_write(const struct ks_page_level *level, struct ks_json *json, int64_t start_ns,
                         int64_t end_ns, int64_t resolution_ns)
{
    ks_json_object_begin(json, NULL);
    ks_json_int(json, "start_ns", start_ns);
    ks_json_int(json, "end_ns", end_ns);
    ks_json_int(json, "resolution_ns", resolution_ns);
    ks_json_bool(json, "is_exact", resolution_ns == 0);
    write_columns(level, json);
    ks_json_object_end(json);
}
