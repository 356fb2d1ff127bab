/* Which build of the library runs: what one build has written for itself, another must not take. */
#ifndef KS_BASE_BUILD_ID_H
#define KS_BASE_BUILD_ID_H

#include "base/str.h"

/* The id that the linker gave to the program or shared object this code is part of; empty when it
 * gave none. */
struct ks_str ks_build_id(void);
/* Does the pointer point into that program or shared object? Such pointers are good in this process
 * only. */
bool ks_build_owns(const void *ptr);

#endif
