/* Line numbers of Python code: the table of locations that code objects have since 3.11. */
#ifndef KS_CAPTURE_SAMPLER_LINE_TABLE_H
#define KS_CAPTURE_SAMPLER_LINE_TABLE_H

#include <stddef.h>
#include <stdint.h>

/* Line of the code unit `unit` (2 bytes each), which is -1 before the first one ran. 0: the table
 * does not tell. */
uint32_t ks_line_table_find(const uint8_t *table, size_t size, uint32_t first_line, int64_t unit);

#endif
