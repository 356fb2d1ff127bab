/* A part of the timeline at any resolution, for who looks closer than the whole page does: spans
 * one by one when they are few enough, else blocks of them. Reads the rows that it needs, and no
 * others. docs/formats/page.md describes the document. */
#ifndef KS_PAGE_PAGE_TILE_H
#define KS_PAGE_PAGE_TILE_H

#include "page/page_timeline.h"

/* `timeline` was gathered with its rows. KS_ERR_USAGE: the tile asks for what is not there. */
enum ks_status ks_page_tile_write(const struct ks_page_timeline *timeline,
                                  const struct ks_page_tile *tile, ks_write_cb write, void *user,
                                  struct ks_err *err) KS_MUST_CHECK;

#endif
