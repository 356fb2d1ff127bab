#include "page/picture.h"

#include <stdarg.h>
#include <stdio.h>

#include "base/err.h"
#include "page/data_block.h"

enum { PART_SIZE = 512, MARGIN = 20, BAR_HEIGHT = 18 };

void ks_picture_put(struct ks_sink *sink, const char *format, ...)
{
    char part[PART_SIZE];
    va_list words;
    va_start(words, format);
    int len = vsnprintf(part, sizeof(part), format, words);
    va_end(words);
    KS_ASSERT(len >= 0 && len < PART_SIZE);
    ks_sink_put(sink, part, (size_t)len);
}

void ks_picture_text(struct ks_sink *sink, double x, double y, const char *attributes,
                     struct ks_str text)
{
    ks_picture_put(sink, "<text x=\"%.1f\" y=\"%.1f\" %s>", x, y, attributes);
    ks_data_block_text(sink, text);
    ks_sink_text(sink, "</text>\n");
}

void ks_picture_bar(struct ks_sink *sink, double x, double y, double width,
                    const struct ks_picture_key *key, struct ks_str value)
{
    ks_picture_put(sink, "<rect x=\"%.2f\" y=\"%.1f\" width=\"%.2f\" height=\"%d\" fill=\"%s\">", x,
                   y, width, BAR_HEIGHT, key->color);
    ks_picture_put(sink, "<title>%s ", key->label);
    ks_data_block_text(sink, value);
    ks_sink_text(sink, "</title></rect>\n");
}

/* Colours follow the reader's choice, also inside of an img element. */
void ks_picture_begin(struct ks_sink *sink, int width, int height, const char *title,
                      struct ks_str subtitle)
{
    ks_picture_put(sink,
                   "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %d\" width=\"%d\" "
                   "height=\"%d\" role=\"img\" font-family=\"sans-serif\" font-size=\"13\">\n",
                   width, height, width, height);
    ks_sink_text(sink, "<title>");
    ks_sink_text(sink, title);
    ks_sink_text(sink, "</title>\n<style>\n"
                       ".paper{fill:#fff}.ink{fill:#1c1e21}.faint{fill:#555}\n"
                       ".rule{stroke:#ddd}.edge{stroke:#888;fill:none}\n"
                       "@media (prefers-color-scheme:dark){.paper{fill:#16181d}.ink{fill:#e8eaed}"
                       ".faint{fill:#a9aeb8}.rule{stroke:#3a3f47}.edge{stroke:#8b919b}}\n"
                       "</style>\n");
    ks_picture_put(sink, "<rect class=\"paper\" width=\"%d\" height=\"%d\"/>\n", width, height);
    ks_picture_text(sink, MARGIN, 30, "class=\"ink\" font-size=\"17\" font-weight=\"bold\"",
                    ks_str_from(title));
    ks_picture_text(sink, MARGIN, 50, "class=\"faint\"", subtitle);
}

void ks_picture_end(struct ks_sink *sink)
{
    ks_sink_text(sink, "</svg>\n");
}
