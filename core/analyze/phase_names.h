/* What the name of a host row says about the phase of a training step (docs/analyses/phases.md). */
#ifndef KS_ANALYZE_PHASE_NAMES_H
#define KS_ANALYZE_PHASE_NAMES_H

#include "analyze/facts.h"

enum {
    KS_PHASE_LABEL_MASK = 15,   /* 1 + enum ks_phase of all that runs inside such a row; 0 none */
    KS_PHASE_NAME_KNOWN = 16,   /* the name was looked up */
    KS_PHASE_NAME_LOSS = 32,    /* operator that computes a loss */
    KS_PHASE_NAME_SOFTMAX = 64, /* log_softmax: part of the loss when one follows */
    KS_PHASE_NAME_COPY = 128,   /* may copy to the device */
    KS_PHASE_NAME_UPDATE = 256, /* the optimizer's step, not zero_grad */
};

/* Flags of one text. */
unsigned ks_phase_names_classify(struct ks_str name);

/* Phase of all that runs in a row with these flags, or KS_PHASE_COUNT. */
static inline enum ks_phase ks_phase_names_label(unsigned flags)
{
    unsigned label = flags & KS_PHASE_LABEL_MASK;
    return label ? (enum ks_phase)(label - 1) : KS_PHASE_COUNT;
}

#endif
