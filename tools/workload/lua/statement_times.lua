-- What statements take, for the scripts beside this one: every thread prints twice a second
--   statements SEL1 17:340,18:11 SEL2 33:351 ...
-- A time is bucket:count, where bucket b is 2^(b/8) microseconds.

local ffi = require("ffi")
ffi.cdef [[
typedef struct { long seconds; long nanoseconds; } holdfast_time;
int clock_gettime(int clock, holdfast_time *now);
]]

local MONOTONIC, BUCKETS_PER_DOUBLING, LINE_MICROSECONDS = 1, 8, 5e5

local M = {}
local clock, classes, times, last_line

-- Microseconds.
function M.now()
   ffi.C.clock_gettime(MONOTONIC, clock)
   return tonumber(clock.seconds) * 1e6 + tonumber(clock.nanoseconds) / 1e3
end

-- Begins, in a thread, with the names of what will be timed.
function M.start(names)
   clock, classes, times = ffi.new("holdfast_time"), names, {}
   for _, class in ipairs(classes) do times[class] = {} end
   last_line = M.now()
end

-- Prints what there is.
function M.print()
   local line = {"statements"}
   for _, class in ipairs(classes) do
      local counts = {}
      for bucket, count in pairs(times[class]) do
         counts[#counts + 1] = bucket .. ":" .. count
      end
      if #counts > 0 then
         line[#line + 1] = class .. " " .. table.concat(counts, ",")
      end
      times[class] = {}
   end
   if #line > 1 then
      -- One write, so that the lines of the threads do not mix.
      io.stdout:write(table.concat(line, " ") .. "\n")
      io.stdout:flush()
   end
end

-- Notes that something of `class` has taken from `begin` until now, and prints from time to time.
function M.took(class, begin)
   local now = M.now()
   local bucket = math.max(0, math.floor(BUCKETS_PER_DOUBLING * math.log(now - begin) / math.log(2) + 0.5))
   times[class][bucket] = (times[class][bucket] or 0) + 1
   if now - last_line >= LINE_MICROSECONDS then
      M.print()
      last_line = now
   end
end

return M
