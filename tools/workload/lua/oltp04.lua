-- The oltp test of sysbench 0.4 for sysbench 1.0: one table whose rows are all alike, the modes
-- complex, simple and nontrx.
--
--   sysbench oltp04.lua --mysql-db=S --table-size=100000 prepare
--   sysbench oltp04.lua --mysql-db=S --table-size=100000 --threads=4 --rand-type=special run
--   sysbench oltp04.lua --mysql-db=S cleanup
--
-- --rand-type is 0.4's --oltp-dist-type: special (its default: 1 % of the rows get 75 % of the
-- accesses), uniform, pareto. Unlike 1.0, ranges never cross the end of the table, k is 0 in every
-- row, c is a blank, pad is the same everywhere.

sysbench.cmdline.options = {
   table_size = {"Rows of the table", 10000},
   test_mode = {"complex, simple or nontrx", "complex"},
   nontrx_mode = {"Of nontrx: select, update_key, update_nokey, insert or delete", "select"},
   read_only = {"Of complex: SELECTs only", false},
   range_size = {"Rows of a range", 100},
   point_selects = {"Of complex: point selects of a transaction", 10},
   simple_ranges = {"Of complex: simple ranges", 1},
   sum_ranges = {"Of complex: SUM ranges", 1},
   order_ranges = {"Of complex: ORDER BY ranges", 1},
   distinct_ranges = {"Of complex: DISTINCT ranges", 1},
   index_updates = {"Of complex: updates of k, which is indexed", 1},
   non_index_updates = {"Of complex: updates of c, which is not", 1},
   mysql_storage_engine = {"Engine of the table", "innodb"}
}

local PAD = "qqqqqqqqqqwwwwwwwwwweeeeeeeeeerrrrrrrrrrtttttttttt"
local ROWS_AT_ONCE = 1000

function cmd_prepare()
   local con = sysbench.sql.driver():connect()
   con:query("CREATE TABLE sbtest (id INT UNSIGNED NOT NULL AUTO_INCREMENT, k INT UNSIGNED NOT NULL DEFAULT 0, " ..
      "c CHAR(120) NOT NULL DEFAULT '', pad CHAR(60) NOT NULL DEFAULT '', PRIMARY KEY (id), KEY k (k)) ENGINE=" ..
      sysbench.opt.mysql_storage_engine .. " CHARACTER SET latin1")
   for first = 1, sysbench.opt.table_size, ROWS_AT_ONCE do
      con:bulk_insert_init("INSERT INTO sbtest (id, k, c, pad) VALUES")
      for id = first, math.min(first + ROWS_AT_ONCE - 1, sysbench.opt.table_size) do
         con:bulk_insert_next(string.format("(%d,0,' ','%s')", id, PAD))
      end
      con:bulk_insert_done()
   end
   con:query("ANALYZE TABLE sbtest")
   con:disconnect()
end

function cmd_cleanup()
   local con = sysbench.sql.driver():connect()
   con:query("DROP TABLE IF EXISTS sbtest")
   con:disconnect()
end

sysbench.cmdline.commands = {prepare = {cmd_prepare}, cleanup = {cmd_cleanup}}

local con, statements, run

-- A prepared statement with `numbers` parameters, before them a text if `text` is its width.
local function prepare(sql, numbers, text)
   local statement = {handle = con:prepare(sql), parameters = {}}
   if text then
      statement.parameters[1] = statement.handle:bind_create(sysbench.sql.type.CHAR, text)
   end
   for _ = 1, numbers do
      statement.parameters[#statement.parameters + 1] = statement.handle:bind_create(sysbench.sql.type.INT)
   end
   if #statement.parameters > 0 then
      statement.handle:bind_param(unpack(statement.parameters))
   end
   return statement
end

local function execute(name, ...)
   local statement = statements[name]
   for n, value in ipairs({...}) do
      statement.parameters[n]:set(value)
   end
   statement.handle:execute()
end

local function id() return sysbench.rand.default(1, sysbench.opt.table_size) end

-- Both ends of a range that lies in the table.
local function range()
   local size, rows = sysbench.opt.range_size, sysbench.opt.table_size
   local first = id()
   if first + size > rows then first = rows - size end
   if first < 1 then first = 1 end
   return first, first + size - 1
end

local function random_c()
   return sysbench.rand.string("###########-###########-###########-###########-###########-" ..
      "###########-###########-###########-###########-###########")
end

local function times(n, each)
   for _ = 1, n do each() end
end

local function complex()
   local opt = sysbench.opt
   execute("BEGIN")
   times(opt.point_selects, function() execute("select", id()) end)
   times(opt.simple_ranges, function() execute("simple_range", range()) end)
   times(opt.sum_ranges, function() execute("sum_range", range()) end)
   times(opt.order_ranges, function() execute("order_range", range()) end)
   times(opt.distinct_ranges, function() execute("distinct_range", range()) end)
   if not opt.read_only then
      times(opt.index_updates, function() execute("update_key", id()) end)
      times(opt.non_index_updates, function() execute("update_nokey", random_c(), id()) end)
      local again = id()
      execute("delete", again)
      execute("insert_id", again)
   end
   execute("COMMIT")
end

local NONTRX = {
   select = function() execute("select", id()) end,
   update_key = function() execute("update_key", id()) end,
   update_nokey = function() execute("update_nokey", random_c(), id()) end,
   insert = function() execute("insert") end,
   delete = function() execute("delete", id()) end
}

function thread_init()
   con = sysbench.sql.driver():connect()
   local between = " FROM sbtest WHERE id BETWEEN ? AND ?"
   statements = {
      BEGIN = prepare("BEGIN", 0),
      COMMIT = prepare("COMMIT", 0),
      select = prepare("SELECT c FROM sbtest WHERE id = ?", 1),
      simple_range = prepare("SELECT c" .. between, 2),
      sum_range = prepare("SELECT SUM(k)" .. between, 2),
      order_range = prepare("SELECT c" .. between .. " ORDER BY c", 2),
      distinct_range = prepare("SELECT DISTINCT c" .. between .. " ORDER BY c", 2),
      update_key = prepare("UPDATE sbtest SET k = k + 1 WHERE id = ?", 1),
      update_nokey = prepare("UPDATE sbtest SET c = ? WHERE id = ?", 1, 120),
      delete = prepare("DELETE FROM sbtest WHERE id = ?", 1),
      insert_id = prepare("INSERT INTO sbtest (id, k, c, pad) VALUES (?, 0, ' ', '" .. PAD .. "')", 1),
      insert = prepare("INSERT INTO sbtest (k, c, pad) VALUES (0, ' ', '" .. PAD .. "')", 0)
   }
   local mode = sysbench.opt.test_mode
   if mode == "complex" then
      run = complex
   elseif mode == "simple" then
      run = NONTRX.select
   elseif mode == "nontrx" then
      run = NONTRX[sysbench.opt.nontrx_mode]
   end
   if not run then
      error("--test-mode is complex, simple or nontrx; --nontrx-mode select, update_key, update_nokey, insert or delete")
   end
end

function thread_done()
   con:disconnect()
end

function event()
   run()
end
