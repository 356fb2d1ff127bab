/* What stands in for the server in a build without libmicrohttpd. */
#include "base/err.h"
#include "serve/serve.h"

const char *ks_serve_library(void)
{
    return NULL;
}

enum ks_status ks_serve_check(struct ks_err *err)
{
    return ks_fail(err, KS_ERR_UNSUPPORTED, KS_NO_OFFSET,
                   "Cannot serve a page: this kscope was built without libmicrohttpd; install it "
                   "(Debian: libmicrohttpd-dev), and build in a new folder");
}

enum ks_status ks_serve(const struct ks_serve_options *options, struct ks_err *err)
{
    ks_report_close(options->report);
    return ks_serve_check(err);
}
