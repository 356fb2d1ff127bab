/* Text from inputs made safe for a terminal: control characters (C0, C1), bidirectional controls,
 * line separators and bytes that are no UTF-8 become \u00xx or \xff, so that a name can neither
 * move the cursor nor turn the line around. Widths are in columns of a terminal. */
#ifndef KS_SHOW_PLAIN_H
#define KS_SHOW_PLAIN_H

#include "base/text.h"

void ks_plain_append(struct ks_text *text, struct ks_str s);
/* At most `width` columns: what is too long loses its middle to "..". */
void ks_plain_append_fit(struct ks_text *text, struct ks_str s, size_t width);
/* The same for the name of a kernel, shortened by ks_plain_kernel; more of its start is kept. */
void ks_plain_append_kernel(struct ks_text *text, struct ks_str name, size_t width);
/* Columns that text made by the above takes. */
size_t ks_plain_width(struct ks_str plain);
/* A C++ kernel name without return type, parameter list and the namespaces that all share; other
 * names as they are. Points into `name`. */
struct ks_str ks_plain_kernel(struct ks_str name);

#endif
