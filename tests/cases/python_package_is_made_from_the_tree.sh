#!/usr/bin/env bash
# `pip install .` in the source folder needs no network and no other package: what makes the wheel is in the tree. The package
# that comes out asks a recording.
source "$(dirname "$0")/lib.bash"
source "$SRC/tests/cases/sums.bash"
mkdir tree wheels installed
cp -r "$SRC/python" "$SRC/pyproject.toml" "$SRC/LICENSE" tree
cat >make.py <<'PY'
import base64, hashlib, sys, zipfile
sys.path.insert(0, "tree/python")
import wheel_maker
name = wheel_maker.build_wheel("wheels")
assert name.startswith("backstep-") and name.endswith("-py3-none-any.whl"), name
with zipfile.ZipFile("wheels/" + name) as wheel:
    (record,) = [n for n in wheel.namelist() if n.endswith("/RECORD")]
    rows = [line.split(",") for line in wheel.read(record).decode().splitlines()]
    assert sorted(r[0] for r in rows) == sorted(wheel.namelist()) and "backstep/py.typed" in wheel.namelist()
    for path, digest, size in rows:
        content = wheel.read(path)
        want = "sha256=" + base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
        assert path == record or (digest, int(size)) == (want, len(content)), path
    wheel.extractall("installed")
wheel_maker.build_sdist("wheels")
PY
"$PYTHON" make.py || fail "the wheel is not as it should be"
if "$PYTHON" -m pip --version >/dev/null 2>&1; then
  rm -rf installed
  expect 0 env HOME="$T" "$PYTHON" -m pip install --quiet --no-index --no-deps --target installed ./tree
fi
cat >ask.py <<'PY'
import backstep
assert "/installed/" in backstep.__file__, backstep.__file__
with backstep.open("one") as s:
    assert s.count("call add") == 10
PY
PYTHONPATH=$T/installed PYTHONDONTWRITEBYTECODE=1 expect 0 "$PYTHON" ask.py
ok
