/* Findings as bytes of a file, for the facts they were made of and the same build
 * (base/image.h). */
#ifndef KS_ADVISE_FINDINGS_IMAGE_H
#define KS_ADVISE_FINDINGS_IMAGE_H

#include "advise/findings.h"
#include "base/text.h"

enum ks_status ks_findings_pack(const struct ks_findings *findings, struct ks_text *out,
                                struct ks_err *err) KS_MUST_CHECK;
/* `bytes` lies in `arena`, which becomes that of the findings; when it fails, it stays the
 * caller's. */
enum ks_status ks_findings_unpack(char *bytes, size_t size, struct ks_arena *arena,
                                  struct ks_findings *findings, struct ks_err *err) KS_MUST_CHECK;

#endif
