#!/usr/bin/env bash
# luajit: traces that are compiled, thrown away and compiled again, foreign functions and callbacks, with and without the
# compiler.
source "$(dirname "$0")/lib.bash"
have luajit || skip "no luajit here (apt-get install luajit)"
cat >script.lua <<'LUA'
local ffi = require("ffi")
ffi.cdef [[ int abs(int); void qsort(void*, size_t, size_t, int (*)(const int*, const int*)); typedef struct { int x, y; } point; ]]
local function loop(n) local s = 0 for i = 1, n do s = (s + i * i) % 1000003 end return s end
print(loop(3000000))
local t = {}
for i = 1, 200000 do t[i % 1000] = (t[i % 1000] or 0) + (i % 3 == 0 and 1.5 or i) end
print(t[3], #t)
local points = ffi.new("point[?]", 1000)
for round = 1, 200 do for i = 0, 999 do points[i].x = points[i].x + i; points[i].y = ffi.C.abs(points[i].x - 5000) end end
print(points[10].x, points[999].y)
local numbers = ffi.new("int[100]")
for i = 0, 99 do numbers[i] = i * 7919 % 101 end
local compare = ffi.cast("int (*)(const int*, const int*)", function(a, b) return a[0] - b[0] end)
jit.off(true, true)
ffi.C.qsort(numbers, 100, 4, compare)
print(numbers[0], numbers[50], numbers[99])
local parts = {}
for i = 1, 20000 do parts[#parts + 1] = string.format("%d:%s", i, tostring(i):reverse()) end
print(#table.concat(parts), select(2, pcall(error, "the end")))
local co = coroutine.wrap(function() for i = 1, 1000 do coroutine.yield(i) end end)
local sum = 0 for i = 1, 1000 do sum = sum + co() end
print(sum, collectgarbage("count") > 0)
LUA
export OUTPUT=same
record_replay jit luajit "$T/script.lua"
record_replay much luajit -Ohotloop=2 -Omaxtrace=20 "$T/script.lua"
record_replay interpreter luajit -joff "$T/script.lua"
ok
