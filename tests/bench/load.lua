-- wrk script: POSTs the lines of the file BENCH_BODIES in turn, one for each request, in one thread; prints a line of JSON at the end.
--
-- BENCH_COUNT=N    ends after N responses, checks each of them, and measures from the first request to the last
--                  response. Without it: ends after the duration, and only the counts of wrk are known.
-- BENCH_RATE=N     requests a second of all connections together, instead of as many as the server responds to
-- BENCH_EXPECT=S   text that the body of every counted response must contain
-- BENCH_KEEP=FILE  file for the bodies of the counted responses, one a line

local bodies = {}
local threads = {}
local count = tonumber(os.getenv("BENCH_COUNT"))
local rate = tonumber(os.getenv("BENCH_RATE"))
local expected = os.getenv("BENCH_EXPECT")
local never_ms = 24 * 3600 * 1000

-- In `done`, only global variables of a thread can be read.
sent, received, wrong, duration_seconds = 0, 0, 0, 0

wrk.method = "POST"

local ffi = require("ffi")
ffi.cdef [[
  struct bench_time { long seconds; long nanoseconds; };
  int clock_gettime(int clock, struct bench_time *time);
  int getpid(void);
  int kill(int pid, int signal);
]]
local monotonic, interrupt = 1, 2
local time = ffi.new("struct bench_time")

local function now()
  ffi.C.clock_gettime(monotonic, time)
  return tonumber(time.seconds) + tonumber(time.nanoseconds) / 1e9
end

-- One schedule for all connections.
local function paced()
  local began

  function delay()
    began = began or now()
    sent = sent + 1
    return math.max(0, (began + sent / rate - now()) * 1000)
  end
end

local function counted()
  local keep = os.getenv("BENCH_KEEP")
  local kept = keep and assert(io.open(keep, "w"))
  local began

  -- wrk calls this before each request. It is the only way to stop a connection from sending another one.
  function delay()
    if sent >= count then return never_ms end
    began = began or now()
    sent = sent + 1
    return 0
  end

  function response(status, _, body)
    received = received + 1
    if status ~= 200 or (expected and not body:find(expected, 1, true)) then wrong = wrong + 1 end
    if kept then kept:write(body, "\n") end
    if received == count then
      duration_seconds = now() - began
      if kept then kept:close() end
      ffi.C.kill(ffi.C.getpid(), interrupt)
    end
  end
end

function setup(thread)
  table.insert(threads, thread)
end

function init()
  local file = assert(os.getenv("BENCH_BODIES"), "BENCH_BODIES is not set")
  for line in io.lines(file) do
    table.insert(bodies, line)
  end
  wrk.body = bodies[1]
  if #bodies > 1 then
    local last = 0
    function request()
      last = last % #bodies + 1
      return wrk.format(nil, nil, nil, bodies[last])
    end
  end
  if count then counted() end
  if rate then paced() end
end

function done(summary, latency)
  local errors = summary.errors
  local thread = threads[1]
  local seconds, requests = summary.duration / 1e6, summary.requests
  if count then
    seconds, requests = thread:get("duration_seconds"), thread:get("received")
  end
  io.write(string.format(
    '\n{"requests": %d, "seconds": %.6f, "p50_ms": %.3f, "p99_ms": %.3f, "bytes": %d, "wrong": %d, "refused": %d, '
      .. '"socket_errors": %d}\n',
    requests, seconds, latency:percentile(50) / 1e3, latency:percentile(99) / 1e3, summary.bytes, thread:get("wrong"),
    errors.status, errors.connect + errors.read + errors.write + errors.timeout))
end
