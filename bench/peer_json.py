"""The least that a Python script does with a trace: load it, sum dur by (cat, name)."""

import json
import sys

with open(sys.argv[1], "rb") as f:
    events = json.load(f)["traceEvents"]
sums = {}
for event in events:
    if "dur" in event:
        key = (event.get("cat"), event.get("name"))
        sums[key] = sums.get(key, 0.0) + event["dur"]
print(len(sums))
