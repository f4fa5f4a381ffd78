#!/usr/bin/env bash
# What a session can be asked in its protocol can be asked in Python and in C++: no method is without a method there.
source "$(dirname "$0")/lib.bash"
source "$SRC/tests/cases/sums.bash"
export PYTHONPATH=$SRC/python PYTHONDONTWRITEBYTECODE=1
"$PYTHON" - "$SRC/include/backstep/session.h" <<'PY' || fail "a method of the protocol is missing"
import re, sys
import backstep

# Where the language wants another name.
python = {"process": "use_process", "shutdown": "close", "assert": "check"}
cpp = {"process": "use_process", "shutdown": "close", "goto": "go_to", "assert": "check"}
header = open(sys.argv[1]).read()
methods_of_class = header[header.index("class BACKSTEP_API Session"):]
with backstep.open("one") as s:
    methods = s.methods()
    assert len(methods) > 20 and "goto" in methods, methods
    for method in methods:
        name = python.get(method, method)
        assert name == "version" or callable(getattr(backstep.Session, name, None)), f"{method}: no {name} in Python"
        name = cpp.get(method, method)
        assert re.search(rf"^  [^/\n]*\b{name}\(", methods_of_class, re.M), f"{method}: no {name} in C++"
PY
ok
