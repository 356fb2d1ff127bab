/* A seed for hashes that nobody can guess, so that hand-made input cannot fill one slot. */
#ifndef KS_BASE_SEED_H
#define KS_BASE_SEED_H

#include <stdint.h>

uint64_t ks_seed_random(void);

#endif
