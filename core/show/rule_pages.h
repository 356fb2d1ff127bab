/* The pages docs/rules/<id>.md, as the build found them. */
#ifndef KS_SHOW_RULE_PAGES_H
#define KS_SHOW_RULE_PAGES_H

struct ks_rule_page {
    const char *id;   /* "input.starved"; NULL ends the list */
    const char *text; /* Markdown */
};

extern const struct ks_rule_page ks_rule_pages[];

#endif
