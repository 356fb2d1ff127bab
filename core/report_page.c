/* The public API: an open report as a page, and as pictures. */
#include <kscope/kscope.h>

#include "base/alloc.h"
#include "base/err.h"
#include "base/locale_c.h"
#include "page/page.h"
#include "page/page_content.h"
#include "page/page_search.h"
#include "page/page_tile.h"
#include "page/picture.h"
#include "report_view.h"

enum { ROWS_DEFAULT = 1000 };

/* What is to be written: a picture, or the page with so many rows. */
struct work {
    bool is_page;
    size_t row_limit;
    const struct ks_comparison *comparison;
    enum ks_picture picture;
};

enum ks_status ks_page_can_write(struct ks_err *err)
{
    return ks_page_check(err);
}

const char *ks_picture_name(enum ks_picture picture)
{
    static const char *const names[KS_PICTURE_COUNT] = {"steps", "idle", "memory"};
    KS_ASSERT((size_t)picture < KS_PICTURE_COUNT);
    return names[picture];
}

static enum ks_status write_work(const struct work *work, const struct ks_view *view,
                                 ks_write_cb write, void *user, struct ks_err *err)
{
    if (work->is_page) {
        struct ks_view compared = *view;
        compared.comparison = work->comparison;
        return ks_page_write(&compared, work->row_limit, write, user, err);
    }
    switch (work->picture) {
    case KS_PICTURE_STEPS: return ks_picture_steps(view, write, user, err);
    case KS_PICTURE_IDLE: return ks_picture_idle(view, write, user, err);
    case KS_PICTURE_MEMORY: return ks_picture_memory(view, write, user, err);
    case KS_PICTURE_COUNT: break;
    }
    return ks_fail(err, KS_ERR_USAGE, KS_NO_OFFSET, "Cannot draw picture: number=%d",
                   (int)work->picture);
}

/* A chunk of a trace from the cache may turn out to be damaged. Nothing was written by then, so the
 * input is read after all; findings of the user's rules would be lost by that, so then it is an
 * error. */
static enum ks_status write_or_reread(struct ks_report *report, const struct work *work,
                                      ks_write_cb write, void *user, struct ks_err *err)
{
    struct ks_counted counted = {write, user, 0};
    struct ks_locale_c locale;
    ks_locale_c_enter(&locale);
    enum ks_status status =
        write_work(work, ks_report_view(report), ks_counted_write, &counted, err);
    if (ks_report_must_reread(report, status) && counted.bytes == 0 &&
        !ks_report_shows_given(report)) {
        status = ks_report_reread(report, err);
        if (status == KS_OK) {
            status = write_work(work, ks_report_view(report), write, user, err);
        }
    }
    ks_locale_c_leave(&locale);
    return status;
}

enum ks_status ks_report_write_page(struct ks_report *report, const struct ks_page_options *options,
                                    ks_write_cb write, void *user, struct ks_err *err)
{
    const struct work work = {
        .is_page = true,
        .row_limit = options->row_limit > 0 ? options->row_limit : ROWS_DEFAULT,
        .comparison = options->comparison,
    };
    return write_or_reread(report, &work, write, user, err);
}

enum ks_status ks_report_write_picture(struct ks_report *report, enum ks_picture picture,
                                       ks_write_cb write, void *user, struct ks_err *err)
{
    const struct work work = {.picture = picture};
    return write_or_reread(report, &work, write, user, err);
}

/* ------------------------------------------------------------------ parts, for a server */

struct ks_page_parts {
    struct ks_page_content content;
    struct ks_page_rows rows;
};

static void release_parts(struct ks_page_parts *parts)
{
    ks_page_content_release(&parts->content);
    ks_page_rows_release(&parts->rows);
}

static enum ks_status gather_parts(struct ks_page_parts *parts, struct ks_report *report,
                                   size_t row_limit, struct ks_err *err)
{
    const struct ks_view *view = ks_report_view(report);
    *parts = (struct ks_page_parts){0};
    enum ks_status status = ks_page_rows_init(&parts->rows, view, err);
    if (status == KS_OK) {
        status = ks_page_content_init(&parts->content, view, row_limit, &parts->rows, err);
    }
    return status;
}

/* As write_or_reread: the cache may hold a damaged trace. */
static enum ks_status gather_or_reread(struct ks_page_parts *parts, struct ks_report *report,
                                       size_t row_limit, struct ks_err *err)
{
    enum ks_status status = gather_parts(parts, report, row_limit, err);
    if (ks_report_must_reread(report, status) && !ks_report_shows_given(report)) {
        release_parts(parts);
        *parts = (struct ks_page_parts){0};
        status = ks_report_reread(report, err);
        if (status == KS_OK) {
            status = gather_parts(parts, report, row_limit, err);
        }
    }
    return status;
}

enum ks_status ks_page_parts_open(struct ks_report *report, const struct ks_page_options *options,
                                  struct ks_page_parts **out, struct ks_err *err)
{
    size_t row_limit = options->row_limit > 0 ? options->row_limit : ROWS_DEFAULT;
    struct ks_locale_c locale;
    *out = NULL;
    KS_TRY(ks_page_check(err));
    struct ks_page_parts *parts = ks_alloc(1, sizeof(*parts));
    if (!parts) {
        return ks_fail(err, KS_ERR_NOMEM, KS_NO_OFFSET, "Cannot gather a page: no memory");
    }
    ks_locale_c_enter(&locale);
    enum ks_status status = gather_or_reread(parts, report, row_limit, err);
    ks_locale_c_leave(&locale);
    if (status != KS_OK) {
        ks_page_parts_close(parts);
        return status;
    }
    *out = parts;
    return KS_OK;
}

void ks_page_parts_close(struct ks_page_parts *parts)
{
    if (parts) {
        release_parts(parts);
        ks_free(parts);
    }
}

enum ks_status ks_page_parts_write(const struct ks_page_parts *parts, enum ks_page_part part,
                                   ks_write_cb write, void *user, struct ks_err *err)
{
    struct ks_locale_c locale;
    ks_locale_c_enter(&locale);
    enum ks_status status = part < KS_PAGE_REPORT
                                ? ks_page_write_frame(part, write, user, err)
                                : ks_page_content_write(&parts->content, part, write, user, err);
    ks_locale_c_leave(&locale);
    return status;
}

enum ks_status ks_page_parts_write_tile(const struct ks_page_parts *parts,
                                        const struct ks_page_tile *tile, ks_write_cb write,
                                        void *user, struct ks_err *err)
{
    struct ks_locale_c locale;
    ks_locale_c_enter(&locale);
    enum ks_status status = ks_page_tile_write(&parts->content.timeline, tile, write, user, err);
    ks_locale_c_leave(&locale);
    return status;
}

enum ks_status ks_page_parts_find(const struct ks_page_parts *parts, const char *text,
                                  size_t text_size, size_t limit, ks_write_cb write, void *user,
                                  struct ks_err *err)
{
    return ks_page_search_write(&parts->content.timeline, (struct ks_str){text, text_size}, limit,
                                write, user, err);
}
