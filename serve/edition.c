#include "serve/edition.h"

#include "base/alloc.h"
#include "base/err.h"

static bool append(void *user, const char *bytes, size_t size)
{
    struct ks_text *text = user;
    ks_text_append(text, bytes, size);
    return !text->failed;
}

static enum ks_status write_texts(struct ks_edition *edition, struct ks_err *err)
{
    for (unsigned part = 0; part < KS_PAGE_PART_COUNT; part++) {
        struct ks_text *text = &edition->texts[part];
        enum ks_status status = ks_page_parts_write(edition->parts, part, append, text, err);
        if (text->failed) {
            return ks_fail(err, KS_ERR_NOMEM, KS_NO_OFFSET, "Cannot keep the page: no memory");
        }
        KS_TRY(status);
    }
    return KS_OK;
}

enum ks_status ks_edition_create(struct ks_report *report, int64_t version, struct ks_edition **out,
                                 struct ks_err *err)
{
    const struct ks_page_options options = {0};
    struct ks_edition *edition = ks_alloc(1, sizeof(*edition));
    *out = NULL;
    if (!edition) {
        ks_report_close(report);
        return ks_fail(err, KS_ERR_NOMEM, KS_NO_OFFSET, "Cannot keep the page: no memory");
    }
    *edition = (struct ks_edition){.version = version, .report = report, .holders = 1};
    for (unsigned part = 0; part < KS_PAGE_PART_COUNT; part++) {
        ks_text_init(&edition->texts[part]);
    }
    enum ks_status status = ks_page_parts_open(report, &options, &edition->parts, err);
    if (status == KS_OK) {
        status = write_texts(edition, err);
    }
    if (status != KS_OK) {
        ks_edition_let_go(edition);
        return status;
    }
    *out = edition;
    return KS_OK;
}

void ks_edition_hold(struct ks_edition *edition)
{
    edition->holders++;
}

void ks_edition_let_go(struct ks_edition *edition)
{
    if (!edition || --edition->holders > 0) {
        return;
    }
    for (unsigned part = 0; part < KS_PAGE_PART_COUNT; part++) {
        ks_text_release(&edition->texts[part]);
    }
    ks_page_parts_close(edition->parts);
    ks_report_close(edition->report);
    ks_free(edition);
}
