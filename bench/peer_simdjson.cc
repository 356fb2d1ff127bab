// The least that a program does with a trace by the fastest JSON parser that Debian has: sums dur by
// (cat, name), with simdjson's on-demand interface, in the order in which Kineto writes the keys.
// Only the bench builds it.
#include <simdjson.h>

#include <cstdio>
#include <string>
#include <string_view>
#include <unordered_map>

using namespace simdjson;

int main(int argc, char **argv)
{
    if (argc != 2) {
        return 2;
    }
    padded_string text;
    if (padded_string::load(argv[1]).get(text)) {
        return 1;
    }
    ondemand::parser parser;
    ondemand::document document;
    ondemand::array events;
    if (parser.iterate(text).get(document) || document["traceEvents"].get(events)) {
        return 1;
    }
    std::unordered_map<std::string, double> sums;
    std::string key;
    for (ondemand::object event : events) {
        std::string_view cat;
        std::string_view name;
        double dur = 0;
        if (event.find_field("cat").get(cat) || event.find_field("name").get(name) ||
            event.find_field("dur").get(dur)) {
            continue;
        }
        key.assign(cat);
        key += '\0';
        key += name;
        sums[key] += dur;
    }
    std::printf("%zu\n", sums.size());
    return 0;
}
