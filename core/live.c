/* A run while it goes on: looks at its folder again and again, and keeps the report of the latest
 * window until the traces are others. Only reads. */
#include <kscope/kscope.h>

#include <stdlib.h>
#include <time.h>

#include "base/alloc.h"
#include "base/arena.h"
#include "base/err.h"
#include "base/locale_c.h"
#include "read/run_folder.h"
#include "read/run_machine.h"
#include "report_view.h"
#include "show/live_picture.h"

/* Tables beyond this lie in a file: the memory belongs to the program that is watched. */
static const uint64_t TABLE_BYTES_MAX = (uint64_t)1 << 30;
static const int64_t AGAIN_NS = 5000000000LL; /* between two reports of one window */
static const int64_t FRESH_NS = 5000000000LL; /* a monitor that wrote so lately is there */
static const int64_t INTERVAL_NS_MAX = 3600 * 1000000000LL;

/* Tells whether the traces of a window are others than they were. */
struct window_key {
    int64_t number; /* 0: there is none */
    size_t rank_count;
    size_t stacks_count;
    uint64_t bytes;
};

struct ks_live {
    struct ks_arena arena; /* texts of the options */
    const char *path;
    struct ks_report_options options;
    struct ks_run_folder *folder;    /* NULL: it is gone */
    const struct ks_live_rank **all; /* of the folder, in its order */
    const struct ks_live_rank **ranks;
    const struct ks_live_rank **by_pace;
    struct ks_live_machine machine;
    int64_t written_ns; /* the monitor's file; 0: there is none */
    struct window_key there;
    struct window_key tried;
    int64_t tried_at_ns; /* by a clock that nobody sets */
    struct ks_report *report;
    char failure[KS_ERR_MESSAGE_SIZE];
    struct ks_live_picture picture;
};

static int64_t clock_ns(clockid_t clock)
{
    struct timespec now;
    (void)clock_gettime(clock, &now);
    return (int64_t)now.tv_sec * 1000000000LL + now.tv_nsec;
}

/* ------------------------------------------------------------------ one look */

static void forget_look(struct ks_live *live)
{
    ks_free(live->all);
    ks_free(live->ranks);
    ks_free(live->by_pace);
    live->all = live->ranks = live->by_pace = NULL;
    live->picture.rank_count = live->picture.paced_count = 0;
    ks_run_folder_close(live->folder);
    live->folder = NULL;
}

static enum ks_status list_ranks(struct ks_live *live, struct ks_err *err)
{
    size_t count = 0;
    while (ks_run_folder_rank(live->folder, count)) {
        count++;
    }
    live->all = ks_alloc(count + 1, sizeof(*live->all));
    live->ranks = ks_alloc(count + 1, sizeof(*live->ranks));
    live->by_pace = ks_alloc(count + 1, sizeof(*live->by_pace));
    if (!live->all || !live->ranks || !live->by_pace) {
        return ks_fail(err, KS_ERR_NOMEM, KS_NO_OFFSET, "Cannot look at the run: no memory");
    }
    for (size_t i = 0; i < count; i++) {
        live->all[i] = ks_run_folder_rank(live->folder, i);
    }
    struct ks_live_picture *picture = &live->picture;
    picture->ranks = live->ranks;
    picture->rank_count = ks_live_choose_ranks(live->all, count, live->ranks);
    picture->by_pace = live->by_pace;
    picture->paced_count = ks_live_sort_by_pace(live->ranks, picture->rank_count, live->by_pace);
    return KS_OK;
}

/* The latest window is the last of the list. */
static void find_window(struct ks_live *live)
{
    const struct ks_run_window *window = NULL;
    struct window_key key = {0};
    for (size_t i = 0; (window = ks_run_folder_window(live->folder, i)); i++) {
        if (window->number != key.number) {
            key = (struct window_key){.number = window->number};
        }
        key.rank_count++;
        key.stacks_count += window->has_stacks;
        key.bytes += (uint64_t)window->bytes;
    }
    live->there = key;
    live->picture.window = key.number;
    live->picture.window_rank_count = key.rank_count;
}

/* Does the process that writes the monitor's file still do it? */
static bool is_monitor_at_work(const struct ks_live *live)
{
    int64_t age_ns = live->picture.now_ns - live->written_ns;
    const struct ks_live_machine *machine = live->picture.machine;
    int64_t interval_ns = machine ? machine->interval_ns : 0;
    interval_ns = interval_ns < 0 || interval_ns > INTERVAL_NS_MAX ? 0 : interval_ns;
    int64_t limit_ns = FRESH_NS + 2 * interval_ns;
    return live->written_ns > 0 && age_ns < limit_ns && age_ns > -limit_ns;
}

static enum ks_live_state state_of(const struct ks_live *live)
{
    const struct ks_live_picture *picture = &live->picture;
    size_t running = 0;
    uint64_t steps = 0;
    for (size_t i = 0; i < picture->rank_count; i++) {
        running += picture->ranks[i]->process.is_running;
        steps += picture->ranks[i]->process.steps_seen;
    }
    if (running == 0 && !is_monitor_at_work(live)) {
        return KS_LIVE_OVER;
    }
    return running == 0 && steps > 0 ? KS_LIVE_ENDING : KS_LIVE_RUNNING;
}

static enum ks_status look_at_monitor(struct ks_live *live, struct ks_err *err)
{
    enum ks_status status = ks_run_machine_read(live->path, &live->machine, &live->written_ns);
    live->picture.machine = status == KS_OK ? &live->machine : NULL;
    if (status == KS_ERR_NOMEM) {
        return ks_fail(err, KS_ERR_NOMEM, KS_NO_OFFSET, "Cannot look at the run: no memory");
    }
    return KS_OK;
}

static enum ks_status look(struct ks_live *live, struct ks_err *err)
{
    forget_look(live);
    live->picture.now_ns = clock_ns(CLOCK_REALTIME);
    KS_TRY(ks_run_folder_open(live->path, &live->folder, err));
    KS_TRY(list_ranks(live, err));
    KS_TRY(look_at_monitor(live, err));
    find_window(live);
    live->picture.state = state_of(live);
    return KS_OK;
}

enum ks_status ks_live_look(struct ks_live *live, struct ks_err *err)
{
    enum ks_status status = look(live, err);
    if (status == KS_ERR_IO) {
        live->picture.is_gone = true;
        live->picture.state = KS_LIVE_OVER;
        return KS_OK;
    }
    live->picture.is_gone = false;
    return status;
}

/* ------------------------------------------------------------------ the report */

bool ks_live_is_report_due(const struct ks_live *live)
{
    const struct window_key *there = &live->there;
    const struct window_key *tried = &live->tried;
    bool is_same = there->number == tried->number && there->rank_count == tried->rank_count &&
                   there->stacks_count == tried->stacks_count && there->bytes == tried->bytes;
    if (is_same || there->number == 0 || !live->folder) {
        return false;
    }
    bool is_early = there->number == tried->number && live->picture.state == KS_LIVE_RUNNING &&
                    clock_ns(CLOCK_MONOTONIC) < live->tried_at_ns + AGAIN_NS;
    return !is_early;
}

/* Processes of one rank, one after the other or side by side, are several runs: the first is shown,
 * as `kscope run` does. */
static enum ks_status open_report(const struct ks_live *live, struct ks_report **out,
                                  struct ks_err *err)
{
    struct ks_report_options options = live->options;
    options.paths = &live->path;
    options.path_count = 1;
    options.window = live->there.number;
    options.chunk_bytes_max = options.memory_bytes_max ? 0 : TABLE_BYTES_MAX;
    options.threads = options.threads ? options.threads : 1; /* the others are the program's */
    enum ks_status status = ks_report_open(&options, out, err);
    if (status == KS_ERR_USAGE) {
        options.run = 1;
        status = ks_report_open(&options, out, err);
    }
    return status;
}

void ks_live_read_report(struct ks_live *live)
{
    struct ks_err err = {.offset = KS_NO_OFFSET};
    struct ks_report *report = NULL;
    if (live->there.number == 0) {
        return;
    }
    live->tried = live->there;
    live->failure[0] = '\0';
    if (open_report(live, &report, &err) == KS_OK) {
        ks_report_close(live->report);
        live->report = report;
        live->picture.report = ks_report_view(report);
        live->picture.report_window = live->there.number;
    } else {
        memcpy(live->failure, err.message, sizeof(live->failure));
    }
    live->tried_at_ns = clock_ns(CLOCK_MONOTONIC);
}

/* ------------------------------------------------------------------ life */

static enum ks_status copy_options(struct ks_live *live, const char *path,
                                   const struct ks_report_options *options, struct ks_err *err)
{
    static const struct ks_report_options none;
    const struct ks_report_options *from = options ? options : &none;
    live->path = ks_arena_copy(&live->arena, path, strlen(path));
    live->options = (struct ks_report_options){
        .cache = from->cache,
        .cache_bytes_max = from->cache_bytes_max,
        .memory_bytes_max = from->memory_bytes_max,
        .threads = from->threads,
        .log = from->log,
        .log_user = from->log_user,
    };
    if (from->cache_dir) {
        live->options.cache_dir =
            ks_arena_copy(&live->arena, from->cache_dir, strlen(from->cache_dir));
    }
    if (!live->path || (from->cache_dir && !live->options.cache_dir)) {
        return ks_fail(err, KS_ERR_NOMEM, KS_NO_OFFSET, "Cannot look at the run: no memory");
    }
    live->picture.path = live->path;
    live->picture.report_failure = live->failure;
    return KS_OK;
}

static enum ks_status look_first(struct ks_live *live, const char *path,
                                 const struct ks_report_options *options, struct ks_err *err)
{
    KS_TRY(copy_options(live, path, options, err));
    KS_TRY(look(live, err));
    bool is_run = live->written_ns > 0 || live->there.number > 0 ||
                  ks_run_folder_process(live->folder, 0) != NULL;
    if (!is_run) {
        return ks_fail(err, KS_ERR_IO, KS_NO_OFFSET,
                       "Cannot watch a run: the folder holds nothing that kscope run writes");
    }
    return KS_OK;
}

enum ks_status ks_live_open(const char *path, const struct ks_report_options *options,
                            struct ks_live **out, struct ks_err *err)
{
    *out = NULL;
    struct ks_live *live = ks_alloc(1, sizeof(*live));
    if (!live) {
        return ks_fail(err, KS_ERR_NOMEM, KS_NO_OFFSET, "Cannot look at the run: no memory");
    }
    ks_arena_init(&live->arena);
    enum ks_status status = look_first(live, path, options, err);
    if (status != KS_OK) {
        ks_live_close(live);
        return status;
    }
    *out = live;
    return KS_OK;
}

void ks_live_close(struct ks_live *live)
{
    if (live) {
        forget_look(live);
        ks_report_close(live->report);
        ks_arena_release(&live->arena);
        ks_free(live);
    }
}

/* ------------------------------------------------------------------ what was seen */

enum ks_live_state ks_live_state(const struct ks_live *live)
{
    return live->picture.state;
}

const struct ks_live_rank *ks_live_rank(const struct ks_live *live, size_t index)
{
    return index < live->picture.rank_count ? live->picture.ranks[index] : NULL;
}

const struct ks_live_machine *ks_live_machine(const struct ks_live *live)
{
    return live->picture.machine;
}

enum ks_status ks_live_write(const struct ks_live *live, const struct ks_live_style *style,
                             ks_write_cb write, void *user, struct ks_err *err)
{
    struct ks_locale_c locale;
    ks_locale_c_enter(&locale);
    enum ks_status status = style->json
                                ? ks_live_write_json(&live->picture, write, user, err)
                                : ks_live_write_screen(&live->picture, style, write, user, err);
    ks_locale_c_leave(&locale);
    return status;
}
