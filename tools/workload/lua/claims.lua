-- Sessions that lock what they read because they are going to write: where locking reads and
-- inserts get into each other's way.
--
--   sysbench claims.lua --mysql-db=S --mysql-storage-engine=holdfast prepare
--   sysbench claims.lua --mysql-db=S --how=next --threads=16 --time=4 run
--   sysbench claims.lua --mysql-db=S cleanup
--
-- --how: take   one transaction takes the first job that is open (it waits for it), deletes it and
--               puts another one at the end;
--        claim  as two transactions: the first marks the job;
--        skip   as claim, with SKIP LOCKED;
--        next   SELECT MAX(id) ... FOR UPDATE, and a row behind it;
--        toggle reads the rows of one of 50 states with a lock, deletes one, or inserts one if
--               there is none;
--        blank  reads what no row is in, by a scan, and inserts a row somewhere.
--
-- Deadlocks and lock waits that take too long begin the transaction anew, at once. A server whose
-- sessions only ever kill each other does not come to the end of --time: give `timeout -s KILL`.

sysbench.cmdline.options = {
   how = {"take, claim, skip, next, toggle or blank", "take"},
   jobs = {"Open jobs", 1000},
   mysql_storage_engine = {"Engine of the tables", "innodb"}
}

local DEADLOCK, LOCK_WAIT_TIMEOUT, RECORD_CHANGED = 1213, 1205, 1020
local FIRST = "SELECT id FROM jobs WHERE state = 0 ORDER BY id LIMIT 1 FOR UPDATE"
local PUT = "INSERT INTO jobs (state, payload) VALUES (0, REPEAT('p', 100))"

local con

local function transaction(run)
   con:query("BEGIN")
   run()
   con:query("COMMIT")
end

local function claim(first)
   local id
   transaction(function()
      id = con:query_row(first)
      if id then con:query("UPDATE jobs SET state = 1, owner = " .. sysbench.tid .. " WHERE id = " .. id) end
   end)
   transaction(function()
      if id then con:query("DELETE FROM jobs WHERE id = " .. id) end
      con:query(PUT)
   end)
end

local ways = {
   take = function()
      transaction(function()
         local id = con:query_row(FIRST)
         if id then con:query("DELETE FROM jobs WHERE id = " .. id) end
         con:query(PUT)
      end)
   end,
   claim = function() claim(FIRST) end,
   skip = function() claim(FIRST .. " SKIP LOCKED") end,
   next = function()
      transaction(function()
         con:query("SELECT MAX(id) FROM jobs FOR UPDATE")
         con:query(PUT)
      end)
   end,
   toggle = function()
      local state = sysbench.rand.uniform(1, 50)
      transaction(function()
         local id = con:query_row("SELECT id FROM jobs WHERE state = " .. state .. " LIMIT 1 FOR UPDATE")
         if id then
            con:query("DELETE FROM jobs WHERE id = " .. id)
         else
            con:query("INSERT INTO jobs (state, payload) VALUES (" .. state .. ", 'x')")
         end
      end)
   end,
   blank = function()
      transaction(function()
         con:query("SELECT k FROM marks WHERE k > 100000000 FOR UPDATE")
         con:query("INSERT IGNORE INTO marks VALUES (" .. sysbench.rand.uniform(1, 100000000) .. ", 1)")
      end)
   end
}

function prepare()
   local to = sysbench.sql.driver():connect()
   local engine = ") ENGINE=" .. sysbench.opt.mysql_storage_engine
   to:query("CREATE TABLE jobs (id BIGINT AUTO_INCREMENT PRIMARY KEY, state INT NOT NULL, owner INT, payload VARCHAR(200), " ..
      "KEY (state, id)" .. engine)
   to:query("CREATE TABLE marks (k INT PRIMARY KEY, n INT NOT NULL, KEY (n)" .. engine)
   for _ = 1, sysbench.opt.jobs do to:query(PUT) end
end

function cleanup()
   sysbench.sql.driver():connect():query("DROP TABLE jobs, marks")
end

function thread_init()
   con = sysbench.sql.driver():connect()
end

function event()
   ways[sysbench.opt.how]()
end

sysbench.hooks.sql_error_ignorable = function(failed)
   local code = failed.sql_errno
   return (code == DEADLOCK or code == LOCK_WAIT_TIMEOUT or code == RECORD_CHANGED) and sysbench.error.RESTART_EVENT
end
