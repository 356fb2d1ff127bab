/* Steps over arrays whose values nobody needs, or only as text: shapes and strides, types of
 * inputs, printed scalars. Which form is quickest is chosen when the program runs. */
#ifndef KS_READ_JSON_ARRAYS_H
#define KS_READ_JSON_ARRAYS_H

#include "read/json_scan.h"

/* At an opening bracket: the byte behind the closing one when the array is plain, else NULL. Plain
 * are numbers, nested or not, as ks_scan_numbers takes them, and strings that need no second look
 * with "," or ", " between them. Reads up to KS_WINDOW_PAD bytes past the end. */
typedef const char *(*ks_scan_array_cb)(const char *p);

const char *ks_scan_array_scalar(const char *p);
/* The quickest form for this processor. */
ks_scan_array_cb ks_scan_array_choose(void);

#endif
