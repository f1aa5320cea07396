-- dbSTRESS for sysbench 1.0, as the Holdfast lab runs it on a server: five tables, a READ of two
-- SELECTs, a WRITE that changes one row of HISTORY. Tables and statements are those of the workload
-- that the lab drives the embedded engine with.
--
--   sysbench dbstress.lua --mysql-db=S --objects=10000 prepare
--   sysbench dbstress.lua --mysql-db=S --objects=10000 --threads=32 --rand-type=uniform \
--     --rw-ratio=1 run
--   sysbench dbstress.lua --mysql-db=S cleanup
--
-- An event is one transaction. With --statement-times every thread prints twice a
-- second what its statements took, as statement_times.lua beside this file says; EVENT
-- there is the whole transaction.

local times = dofile((debug.getinfo(1, "S").source:match("^@(.*/)") or "") .. "statement_times.lua")

sysbench.cmdline.options = {
   objects = {"OBJECTs; HISTORY has 20 rows for each", 10000},
   rw_ratio = {"One WRITE follows every so many READs; 0: READs only", 1},
   updates = {"UPDATEs of a WRITE", 1},
   delete_inserts = {"Pairs of DELETE and INSERT of a WRITE", 0},
   anti_dead = {"How sessions avoid each other's rows: slices, off, twice-sessions, or the width of a block of REFs such as 2000", "slices"},
   same_ref = {"All statements of a transaction take the same OBJECT", true},
   hpk = {"HISTORY is clustered by (REF_OBJECT, HORDER); off, that is an index that is not unique", true},
   skip_trx = {"No BEGIN and COMMIT: every statement is a transaction", false},
   for_update = {"Both SELECTs lock their rows", false},
   mysql_storage_engine = {"Engine of the tables", "innodb"},
   statement_times = {"Print what the statements took, two lines a second for each thread", false}
}

local HISTORY_PER_OBJECT, STATS, SECTIONS, ZONES = 20, 1000, 100, 10
local OBJECTS_AT_ONCE = 100

local function padded(text) return text .. string.rep("X", 100 - #text) end
local function date(n) return string.format("%02d/%02d/19%02d", n % 28 + 1, n % 12 + 1, n % 100) end
local function object_ref(n) return string.format("%010d", n) end
local function stat_ref(n) return string.format("%03d", n) end
local function history_note(object, horder, stat)
   return padded(string.format("note %02d of %010d, %03d ", horder, object, stat))
end

-- Tables ------------------------------------------------------------------------------------------

local TABLES = {
   {"zone", "ref CHAR(2) NOT NULL, name CHAR(40) NOT NULL, UNIQUE KEY zone_ref (ref)"},
   {"section", "ref CHAR(2) NOT NULL, ref_zone CHAR(2) NOT NULL, name CHAR(40) NOT NULL, UNIQUE KEY section_ref (ref)"},
   {"stat", "ref CHAR(3) NOT NULL, name CHAR(40) NOT NULL, numb INT NOT NULL, UNIQUE KEY stat_ref (ref)"},
   {"object", "ref CHAR(10) NOT NULL, ref_section CHAR(2) NOT NULL, name CHAR(30) NOT NULL, create_date CHAR(12) NOT NULL, " ..
      "note CHAR(100), UNIQUE KEY object_ref (ref)"},
   {"history", "ref_object CHAR(10) NOT NULL, horder INT NOT NULL, ref_stat CHAR(3) NOT NULL, begin_date CHAR(12) NOT NULL, " ..
      "end_date CHAR(12), note CHAR(100), %s history_ref (ref_object, horder)"}
}

local function insert(con, name, count, row)
   con:bulk_insert_init("INSERT INTO " .. name .. " VALUES")
   for i = 0, count - 1 do
      con:bulk_insert_next(row(i))
   end
   con:bulk_insert_done()
end

local function object_row(i)
   local name = string.format("object %06d", i)
   return string.format("('%s','%02d','%s','%s','%s')", object_ref(i), i % SECTIONS, name, date(i), padded(name))
end

local function history_row(i)
   local object, horder = math.floor(i / HISTORY_PER_OBJECT), i % HISTORY_PER_OBJECT
   local stat, day = (object + 10 * horder) % STATS, date(sysbench.rand.uniform(0, 99))
   return string.format("('%s',%d,'%s','%s','%s','%s')", object_ref(object), horder, stat_ref(stat), day, day,
                        history_note(object, horder, stat))
end

function cmd_prepare()
   local con = sysbench.sql.driver():connect()
   for _, t in ipairs(TABLES) do
      local columns = string.format(t[2], sysbench.opt.hpk and "UNIQUE KEY" or "KEY")
      con:query(string.format("CREATE TABLE %s (%s) ENGINE=%s CHARACTER SET latin1 COLLATE latin1_bin", t[1], columns,
                              sysbench.opt.mysql_storage_engine))
   end
   insert(con, "zone", ZONES, function(i) return string.format("('%02d','zone %06d')", i, i) end)
   insert(con, "section", SECTIONS, function(i) return string.format("('%02d','%02d','section %06d')", i, i % ZONES, i) end)
   insert(con, "stat", STATS, function(i) return string.format("('%03d','stat %06d',%d)", i, i, i) end)
   local objects = sysbench.opt.objects
   for first = 0, objects - 1, OBJECTS_AT_ONCE do
      local n = math.min(OBJECTS_AT_ONCE, objects - first)
      insert(con, "object", n, function(i) return object_row(first + i) end)
      insert(con, "history", n * HISTORY_PER_OBJECT, function(i) return history_row(first * HISTORY_PER_OBJECT + i) end)
   end
   con:query("ANALYZE TABLE zone, section, stat, object, history")
   con:disconnect()
end

function cmd_cleanup()
   local con = sysbench.sql.driver():connect()
   for _, t in ipairs(TABLES) do
      con:query("DROP TABLE IF EXISTS " .. t[1])
   end
   con:disconnect()
end

sysbench.cmdline.commands = {prepare = {cmd_prepare}, cleanup = {cmd_cleanup}}

-- Sessions ----------------------------------------------------------------------------------------

local CLASSES = {"EVENT", "SEL1", "SEL2", "UPDATE", "DELETE", "INSERT"}
local con, statements, transactions, draw_object

-- A prepared statement with parameters of these widths; 0: a number.
local function prepare(sql, widths)
   local statement = {handle = con:prepare(sql), parameters = {}}
   for n, width in ipairs(widths) do
      if width == 0 then
         statement.parameters[n] = statement.handle:bind_create(sysbench.sql.type.INT)
      else
         statement.parameters[n] = statement.handle:bind_create(sysbench.sql.type.CHAR, width)
      end
   end
   if #widths > 0 then
      statement.handle:bind_param(unpack(statement.parameters))
   end
   return statement
end

local function execute(class, ...)
   local statement = statements[class]
   for n, value in ipairs({...}) do
      statement.parameters[n]:set(value)
   end
   local begin = sysbench.opt.statement_times and times.now()
   statement.handle:execute()
   if begin then times.took(class, begin) end
end

-- The formulas of AntiDEAD: how a session moves the REF that it drew to one
-- that no other session takes.
local function anti_dead()
   local objects, sessions, session = sysbench.opt.objects, sysbench.opt.threads, sysbench.tid
   local function any() return sysbench.rand.default(0, objects - 1) end
   local function blocks(width)
      return function()
         local ref = any()
         local mine = ref - ref % width + session + 1
         -- The last block may be cut short by the end of the table; the one before it serves then.
         if mine < objects then return mine end
         return math.min(math.max(mine - width, 0), objects - 1)
      end
   end
   local rule = sysbench.opt.anti_dead
   if rule == "off" then return any end
   if rule == "twice-sessions" then return blocks(2 * sessions) end
   if tonumber(rule) and tonumber(rule) >= 1 then return blocks(math.floor(tonumber(rule))) end
   if rule ~= "slices" then error("--anti-dead is slices, off, twice-sessions or a width such as 2000") end
   local slice = math.floor(objects / sessions)
   local first, last = 5, slice - 5
   if slice <= 10 then first, last = 0, math.max(slice, 1) - 1 end
   return function() return math.min(sysbench.rand.default(first, last) + session * slice, objects - 1) end
end

function thread_init()
   con = sysbench.sql.driver():connect()
   local lock = sysbench.opt.for_update and " FOR UPDATE" or ""
   statements = {
      BEGIN = prepare("BEGIN", {}),
      COMMIT = prepare("COMMIT", {}),
      SEL1 = prepare("SELECT o.ref, o.name, o.create_date, o.note, s.ref, s.name, z.name FROM object o JOIN section s " ..
         "ON s.ref = o.ref_section JOIN zone z ON z.ref = s.ref_zone WHERE o.ref = ?" .. lock, {10}),
      SEL2 = prepare("SELECT h.horder, h.ref_stat, s.name, h.begin_date, h.end_date, h.note FROM history h JOIN stat s " ..
         "ON s.ref = h.ref_stat WHERE h.ref_object = ? ORDER BY h.horder" .. lock, {10}),
      UPDATE = prepare("UPDATE history SET ref_stat = ?, begin_date = ?, end_date = ?, note = ? " ..
         "WHERE ref_object = ? AND horder = ?", {3, 12, 12, 100, 10, 0}),
      DELETE = prepare("DELETE FROM history WHERE ref_object = ? AND horder = ?", {10, 0}),
      INSERT = prepare("INSERT INTO history VALUES (?, ?, ?, ?, ?, ?)", {10, 0, 3, 12, 12, 100})
   }
   times.start(CLASSES)
   transactions, draw_object = 0, anti_dead()
end

function thread_done()
   if sysbench.opt.statement_times then times.print() end
   con:disconnect()
end

local function bracket(what)
   if not sysbench.opt.skip_trx then statements[what].handle:execute() end
end

local function object_of(transaction)
   return sysbench.opt.same_ref and transaction or draw_object()
end

local function read()
   local object = draw_object()
   execute("SEL1", object_ref(object))
   execute("SEL2", object_ref(object_of(object)))
end

-- The new contents of a row of HISTORY: all rows are equally long, so that a
-- change of one happens in place.
local function new_row(object)
   local horder, stat = sysbench.rand.uniform(0, HISTORY_PER_OBJECT - 1), sysbench.rand.uniform(0, STATS - 1)
   return horder, stat_ref(stat), date(sysbench.rand.uniform(0, 99)), history_note(object, horder, stat)
end

local function write()
   local object = draw_object()
   for _ = 1, sysbench.opt.updates do
      object = object_of(object)
      local horder, stat, day, note = new_row(object)
      execute("UPDATE", stat, day, day, note, object_ref(object), horder)
   end
   for _ = 1, sysbench.opt.delete_inserts do
      object = object_of(object)
      local horder, stat, day, note = new_row(object)
      execute("DELETE", object_ref(object), horder)
      execute("INSERT", object_ref(object), horder, stat, day, day, note)
   end
end

function event()
   local begin = sysbench.opt.statement_times and times.now()
   local ratio = sysbench.opt.rw_ratio
   local writes = ratio > 0 and transactions % (ratio + 1) == ratio
   bracket("BEGIN")
   if writes then write() else read() end
   bracket("COMMIT")
   transactions = transactions + 1
   if begin then times.took("EVENT", begin) end
end
