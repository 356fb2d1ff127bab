/* What `kscope run --record` records of all the run, beside its windows: words between commas. */
#ifndef KS_LAUNCH_RECORD_H
#define KS_LAUNCH_RECORD_H

#include <stdbool.h>

#include <kscope/kscope.h>

enum { KS_LAUNCH_RECORD_WORDS = 4 };

extern const char *const ks_launch_record_words[KS_LAUNCH_RECORD_WORDS];

/* Refuses text that holds no word, or one that is not known; the error lists those that are. */
KS_MUST_CHECK enum ks_status ks_launch_record_check(const char *text, struct ks_err *err);
/* Whether a text that was checked holds the word. */
bool ks_launch_record_has(const char *text, const char *word);
/* Whether it holds more than regions: these are of programs that know us, all else is of any
 * Python. */
bool ks_launch_record_is_of_all(const char *text);
/* How many recordings lie in the folder of a run. */
size_t ks_launch_record_count(const char *out_dir);
/* How many processes say there why something was not recorded; `line` is what one of them says. */
size_t ks_launch_record_reason(const char *out_dir, char *line, size_t size);

#endif
