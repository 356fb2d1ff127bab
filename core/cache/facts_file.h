/* Facts and findings as one file. It is for the build that wrote it and the sealed trace they were
 * made of only; both are told apart by its name and its head. */
#ifndef KS_CACHE_FACTS_FILE_H
#define KS_CACHE_FACTS_FILE_H

#include "advise/findings.h"

/* Writes to `fd`, from offset 0. `trace_id`: that of the sealed trace. Errors: KS_ERR_IO,
 * KS_ERR_NOMEM, KS_ERR_UNSUPPORTED (a pointer in the facts that is not described). */
enum ks_status ks_facts_file_write(int fd, uint64_t trace_id, const struct ks_facts *facts,
                                   const struct ks_findings *findings, struct ks_err *err)
    KS_MUST_CHECK;

/* Reads both; on an error both are left alone. Errors: KS_ERR_FORMAT (damaged, or of another
 * trace), KS_ERR_IO, KS_ERR_NOMEM. */
enum ks_status ks_facts_file_read(int fd, uint64_t trace_id, const struct ks_trace *trace,
                                  struct ks_facts *facts, struct ks_findings *findings,
                                  struct ks_err *err) KS_MUST_CHECK;

#endif
