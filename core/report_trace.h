/* From the options of a report to a trace: reads the input, or opens it when it is sealed, within
 * the memory that it may take. */
#ifndef KS_REPORT_TRACE_H
#define KS_REPORT_TRACE_H

#include "read/read.h"

/* `any_run`: all files together, for looking at them. `stacks`: see ks_read_options. */
enum ks_status ks_report_read_trace(const struct ks_report_options *options, bool any_run,
                                    struct ks_stacks_list *stacks, struct ks_trace **out,
                                    struct ks_err *err) KS_MUST_CHECK;

/* Is the input a sealed trace? */
bool ks_report_is_sealed(const struct ks_report_options *options);

/* Sets chunk_bytes_max for an input of `bytes` (0: not known), unless it is given. Gives what the
 * chunks of a sealed trace may take. */
uint64_t ks_report_choose_memory(struct ks_report_options *options, uint64_t bytes);

#endif
