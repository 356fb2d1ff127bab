/* Numbers out of the texts in which the kernel tells of itself. Nothing here takes memory, and no
 * text is trusted to be as documented: what is not there is not there. */
#ifndef KS_CAPTURE_MONITOR_WORDS_H
#define KS_CAPTURE_MONITOR_WORDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Steps over blanks and reads a decimal number; false, and no step, where there is none or it does
 * not fit. */
bool ks_words_number(const char **at, uint64_t *out);
/* Reads `count` numbers in a row; false when there are fewer. */
bool ks_words_numbers(const char *at, uint64_t *out, size_t count);
/* The number behind `key` at the start of a line: "Pss:" or "oom_kill ". */
bool ks_words_number_of(const char *text, const char *key, uint64_t *out);
/* The number behind "total=" in the line that starts with `key`: "some ". */
bool ks_words_total_of(const char *text, const char *key, uint64_t *out);
/* Start of the next line, or NULL. */
const char *ks_words_next_line(const char *at);
/* Steps over blanks, copies the word up to a blank, a line's end or `end`, and stands behind it;
 * false when it is empty or does not fit. */
bool ks_words_word(const char **at, char end, char *out, size_t size);

#endif
