#include "text_args.h"

#include <string.h>
#include <unistd.h>

#include "message.h"
#include "output.h"

int ks_cli_read_text(const struct ks_cli_args *args, struct ks_cli_text *text)
{
    int64_t limit = 0;
    int64_t width = 0;
    int status = ks_cli_number(args, "limit", 1, INT32_MAX, &limit);
    if (status == KS_EXIT_OK) {
        status = ks_cli_number(args, "width", 40, 1000, &width);
    }
    if (status != KS_EXIT_OK) {
        return status;
    }
    if (ks_cli_given(args, "limit") && ks_cli_given(args, "all-rows")) {
        return ks_cli_usage_fail(args, "Cannot use --limit with --all-rows");
    }
    const char *target = ks_cli_value(args, "output");
    bool is_stdout = !target || strcmp(target, "-") == 0;
    text->row_limit = ks_cli_given(args, "all-rows") ? SIZE_MAX : (size_t)limit;
    text->colour = ks_cli_colour(ks_cli_value(args, "color"), is_stdout ? STDOUT_FILENO : -1);
    text->ascii = !ks_cli_utf8();
    text->width = width ? (size_t)width : is_stdout ? ks_cli_width(STDOUT_FILENO) : 0;
    return KS_EXIT_OK;
}
