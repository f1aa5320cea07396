-- dbt2 for sysbench 1.0, as the Holdfast lab runs it on a server: the nine tables of OSDL DBT-2 in
-- its MySQL flavour (new_order is clustered by district first, there are no foreign keys), and the
-- five transactions in the standard mix, without waiting.
--
--   sysbench dbt2.lua --mysql-db=S --warehouses=2 prepare
--   sysbench dbt2.lua --mysql-db=S --warehouses=2 --threads=16 run
--   sysbench dbt2.lua --mysql-db=S cleanup
--
-- An event is one transaction: 45 % new orders, 43 % payments, 4 % each of order status,
-- delivery, stock level. A session has a home warehouse. With --statement-times every thread
-- prints twice a second what they took, as statement_times.lua beside this file says; EVENT is
-- any of them. Like DBT-2's, a delivery reads its oldest order without a lock: two of them may
-- meet. --db-ps-mode says nothing here.

local bit = require("bit")
local times = dofile((debug.getinfo(1, "S").source:match("^@(.*/)") or "") .. "statement_times.lua")

sysbench.cmdline.options = {
   warehouses = {"Warehouses", 1},
   items = {"Items, which are also the rows of stock for each warehouse", 100000},
   customers = {"Customers of a district, who have an order each; the last 30 % of these are new", 3000},
   mysql_storage_engine = {"Engine of the tables", "innodb"},
   statement_times = {"Print what the transactions took, two lines a second for each thread", false}
}

local DISTRICTS = 10
local uniform = sysbench.rand.uniform

-- Values ------------------------------------------------------------------------------------------

local SYLLABLES = {"BAR", "OUGHT", "ABLE", "PRI", "PRES", "ESE", "ANTI", "CALLY", "ATION", "EING"}

-- The last name with this number, 0 to 999.
local function last_name(n)
   return SYLLABLES[math.floor(n / 100) + 1] .. SYLLABLES[math.floor(n / 10) % 10 + 1] .. SYLLABLES[n % 10 + 1]
end

local function names() return math.min(1000, sysbench.opt.customers) end

-- A number from `low` to `high`, some of them more often than others.
local function skewed(a, low, high)
   return bit.bor(uniform(0, a), uniform(low, high)) % (high - low + 1) + low
end

local function a_name() return last_name(skewed(255, 0, names() - 1)) end
local function a_customer() return skewed(1023, 1, sysbench.opt.customers) end
local function an_item() return skewed(8191, 1, sysbench.opt.items) end

local function letters(low, high) return sysbench.rand.string(string.rep("@", uniform(low, high))) end
local function digits(n) return sysbench.rand.string(string.rep("#", n)) end
local function tax() return uniform(0, 2000) / 10000 end

-- Of items and stock: one in ten has this word in it.
local function data()
   local text = letters(26, 50)
   if uniform(1, 10) > 1 then return text end
   local at = uniform(1, #text - 8)
   return text:sub(1, at - 1) .. "ORIGINAL" .. text:sub(at + 8)
end

local function address()
   return string.format("'%s','%s','%s','%s','%s11111'", letters(10, 20), letters(10, 20), letters(10, 20),
                        letters(2, 2), digits(4))
end

-- Tables ------------------------------------------------------------------------------------------

local STREET = "%s_street_1 VARCHAR(20), %s_street_2 VARCHAR(20), %s_city VARCHAR(20), %s_state CHAR(2), %s_zip CHAR(9), "
local function with_street(prefix) return (STREET:gsub("%%s", prefix)) end
local dists = {}
for n = 1, DISTRICTS do dists[n] = string.format("s_dist_%02d VARCHAR(24), ", n) end

local TABLES = {
   {"warehouse", "w_id INT NOT NULL, w_name VARCHAR(10), " .. with_street("w") .. "w_tax DOUBLE, w_ytd DECIMAL(24,12), " ..
      "PRIMARY KEY (w_id)"},
   {"district", "d_id INT NOT NULL, d_w_id INT NOT NULL, d_name VARCHAR(10), " .. with_street("d") .. "d_tax DOUBLE, " ..
      "d_ytd DECIMAL(24,12), d_next_o_id INT, PRIMARY KEY (d_w_id, d_id)"},
   {"customer", "c_id INT NOT NULL, c_d_id INT NOT NULL, c_w_id INT NOT NULL, c_first VARCHAR(16), c_middle CHAR(2), " ..
      "c_last VARCHAR(16), " .. with_street("c") .. "c_phone CHAR(16), c_since DATETIME, c_credit CHAR(2), " ..
      "c_credit_lim DECIMAL(24,12), c_discount DOUBLE, c_balance DECIMAL(24,12), c_ytd_payment DECIMAL(24,12), " ..
      "c_payment_cnt INT, c_delivery_cnt INT, c_data TEXT, PRIMARY KEY (c_w_id, c_d_id, c_id), " ..
      "KEY customer_name (c_w_id, c_d_id, c_last, c_first)"},
   {"history", "h_c_id INT, h_c_d_id INT, h_c_w_id INT, h_d_id INT, h_w_id INT, h_date DATETIME, h_amount DOUBLE, " ..
      "h_data VARCHAR(24)"},
   {"new_order", "no_o_id INT NOT NULL DEFAULT 0, no_d_id INT NOT NULL DEFAULT 0, no_w_id INT NOT NULL DEFAULT 0, " ..
      "PRIMARY KEY (no_d_id, no_w_id, no_o_id)"},
   {"orders", "o_id INT NOT NULL, o_d_id INT NOT NULL, o_w_id INT NOT NULL, o_c_id INT, o_entry_d DATETIME, o_carrier_id INT, " ..
      "o_ol_cnt INT, o_all_local DOUBLE, PRIMARY KEY (o_w_id, o_d_id, o_id), KEY orders_customer (o_w_id, o_d_id, o_c_id, o_id)"},
   {"order_line", "ol_o_id INT NOT NULL, ol_d_id INT NOT NULL, ol_w_id INT NOT NULL, ol_number INT NOT NULL, ol_i_id INT, " ..
      "ol_supply_w_id INT, ol_delivery_d DATETIME, ol_quantity DOUBLE, ol_amount DOUBLE, ol_dist_info VARCHAR(24), " ..
      "PRIMARY KEY (ol_w_id, ol_d_id, ol_o_id, ol_number)"},
   {"item", "i_id INT NOT NULL, i_im_id INT, i_name VARCHAR(24), i_price DOUBLE, i_data VARCHAR(50), PRIMARY KEY (i_id)"},
   {"stock", "s_i_id INT NOT NULL, s_w_id INT NOT NULL, s_quantity DOUBLE NOT NULL, " .. table.concat(dists) ..
      "s_ytd DECIMAL(16,8), s_order_cnt INT, s_remote_cnt INT, s_data VARCHAR(50), PRIMARY KEY (s_w_id, s_i_id)"}
}

-- Rows `1` to `count` of a table, one or several from each call of `row`.
local function insert(con, name, count, row)
   con:bulk_insert_init("INSERT INTO " .. name .. " VALUES")
   for n = 1, count do
      for _, text in ipairs({row(n)}) do con:bulk_insert_next(text) end
   end
   con:bulk_insert_done()
end

local function item_row(i)
   return string.format("(%d,%d,'%s',%.2f,'%s')", i, uniform(1, 10000), letters(14, 24), uniform(100, 10000) / 100, data())
end

local function stock_row(w, i)
   local texts = {}
   for n = 1, DISTRICTS do texts[n] = "'" .. letters(24, 24) .. "'" end
   return string.format("(%d,%d,%d,%s,0,0,0,'%s')", i, w, uniform(10, 100), table.concat(texts, ","), data())
end

local function customer_row(w, d, c)
   local name = c <= 1000 and (c - 1) % names() or skewed(255, 0, names() - 1)
   return string.format("(%d,%d,%d,'%s','OE','%s',%s,'%s',NOW(),'%s',50000,%.4f,-10,10,1,0,'%s')", c, d, w, letters(8, 16),
                        last_name(name), address(), digits(16), uniform(1, 10) == 1 and "BC" or "GC", uniform(0, 5000) / 10000,
                        letters(300, 500))
end

local function shuffled(n)
   local numbers = {}
   for i = 1, n do numbers[i] = i end
   for i = n, 2, -1 do
      local j = uniform(1, i)
      numbers[i], numbers[j] = numbers[j], numbers[i]
   end
   return numbers
end

-- The orders of a district: one for each customer, those after `delivered` are new.
local function load_orders(con, w, d)
   local orders = sysbench.opt.customers
   local delivered, customers, lines = math.floor(orders * 0.7), shuffled(orders), {}
   for o = 1, orders do lines[o] = uniform(5, 15) end
   insert(con, "orders", orders, function(o)
      local carrier = o <= delivered and tostring(uniform(1, 10)) or "NULL"
      return string.format("(%d,%d,%d,%d,NOW(),%s,%d,1)", o, d, w, customers[o], carrier, lines[o])
   end)
   insert(con, "order_line", orders, function(o)
      local rows = {}
      local new = o > delivered
      for n = 1, lines[o] do
         rows[n] = string.format("(%d,%d,%d,%d,%d,%d,%s,5,%.2f,'%s')", o, d, w, n, uniform(1, sysbench.opt.items), w,
                                 new and "NULL" or "NOW()", new and uniform(1, 999999) / 100 or 0, letters(24, 24))
      end
      return unpack(rows)
   end)
   insert(con, "new_order", orders - delivered, function(n) return string.format("(%d,%d,%d)", delivered + n, d, w) end)
end

local function load_warehouse(con, w)
   insert(con, "warehouse", 1, function()
      return string.format("(%d,'%s',%s,%.4f,300000)", w, letters(6, 10), address(), tax())
   end)
   insert(con, "district", DISTRICTS, function(d)
      return string.format("(%d,%d,'%s',%s,%.4f,30000,%d)", d, w, letters(6, 10), address(), tax(), sysbench.opt.customers + 1)
   end)
   insert(con, "stock", sysbench.opt.items, function(i) return stock_row(w, i) end)
   for d = 1, DISTRICTS do
      insert(con, "customer", sysbench.opt.customers, function(c) return customer_row(w, d, c) end)
      insert(con, "history", sysbench.opt.customers, function(c)
         return string.format("(%d,%d,%d,%d,%d,NOW(),10,'%s')", c, d, w, d, w, letters(12, 24))
      end)
      load_orders(con, w, d)
   end
end

function cmd_prepare()
   local con = sysbench.sql.driver():connect()
   local names_of_tables = {}
   for n, t in ipairs(TABLES) do
      con:query(string.format("CREATE TABLE %s (%s) ENGINE=%s CHARACTER SET latin1", t[1], t[2], sysbench.opt.mysql_storage_engine))
      names_of_tables[n] = t[1]
   end
   insert(con, "item", sysbench.opt.items, item_row)
   for w = 1, sysbench.opt.warehouses do load_warehouse(con, w) end
   con:query("ANALYZE TABLE " .. table.concat(names_of_tables, ", "))
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

-- Transactions ------------------------------------------------------------------------------------

local con, home

local function execute(sql, ...) con:query(sql:format(...)) end
-- The columns of the one row that there is; nothing if there is none.
local function row(sql, ...)
   local result = con:query(sql:format(...))
   if result.nrows > 0 then return unpack(result:fetch_row(), 1, result.nfields) end
end
local function number(sql, ...) return tonumber((row(sql, ...))) end

local function other_warehouse(w)
   local warehouses = sysbench.opt.warehouses
   if warehouses == 1 then return w end
   local other = uniform(1, warehouses - 1)
   return other < w and other or other + 1
end

local function new_order()
   local w, d, c, lines = home, uniform(1, DISTRICTS), a_customer(), uniform(5, 15)
   -- One in a hundred asks for an item that there is not, as the last one, and is rolled back.
   local wrong = uniform(1, 100) == 1
   local items, suppliers, all_local = {}, {}, 1
   for n = 1, lines do
      items[n] = wrong and n == lines and 0 or an_item()
      suppliers[n] = uniform(1, 100) == 1 and other_warehouse(w) or w
      if suppliers[n] ~= w then all_local = 0 end
   end
   execute("SELECT w_tax FROM warehouse WHERE w_id = %d", w)
   local o = number("SELECT d_next_o_id, d_tax FROM district WHERE d_w_id = %d AND d_id = %d FOR UPDATE", w, d)
   execute("UPDATE district SET d_next_o_id = d_next_o_id + 1 WHERE d_w_id = %d AND d_id = %d", w, d)
   execute("SELECT c_discount, c_last, c_credit FROM customer WHERE c_w_id = %d AND c_d_id = %d AND c_id = %d", w, d, c)
   execute("INSERT INTO new_order (no_o_id, no_d_id, no_w_id) VALUES (%d, %d, %d)", o, d, w)
   execute("INSERT INTO orders VALUES (%d, %d, %d, %d, NOW(), NULL, %d, %d)", o, d, w, c, lines, all_local)
   for n = 1, lines do
      local price = number("SELECT i_price, i_name, i_data FROM item WHERE i_id = %d", items[n])
      if not price then return false end
      local wanted = uniform(1, 10)
      local quantity, dist = row("SELECT s_quantity, s_dist_%02d, s_data FROM stock WHERE s_i_id = %d AND s_w_id = %d", d, items[n], w)
      local change = tonumber(quantity) >= wanted + 10 and -wanted or 91 - wanted
      execute("UPDATE stock SET s_quantity = s_quantity + %d WHERE s_i_id = %d AND s_w_id = %d", change, items[n], w)
      execute("INSERT INTO order_line VALUES (%d, %d, %d, %d, %d, %d, NULL, %d, %.2f, '%s')", o, d, w, n, items[n], suppliers[n],
              wanted, wanted * price, dist)
   end
   return true
end

-- A customer by name, as most come: the middle one of those that are called so. Their number.
local function by_name(w, d)
   local name = a_name()
   local result = con:query(string.format("SELECT c_id FROM customer WHERE c_w_id = %d AND c_d_id = %d AND c_last = '%s' ORDER BY c_first",
                                          w, d, name))
   local middle = math.floor((result.nrows + 1) / 2)
   local id
   for n = 1, result.nrows do
      local found = result:fetch_row()
      if n == middle then id = tonumber(found[1]) end
   end
   result:free()
   return id
end

local function somebody(w, d)
   return uniform(1, 100) <= 60 and by_name(w, d) or a_customer()
end

local function payment()
   local w, d, amount = home, uniform(1, DISTRICTS), uniform(100, 500000) / 100
   local cw, cd = w, d
   if uniform(1, 100) <= 15 then cw, cd = other_warehouse(w), uniform(1, DISTRICTS) end
   local w_name = row("SELECT w_name, w_street_1, w_street_2, w_city, w_state, w_zip FROM warehouse WHERE w_id = %d", w)
   execute("UPDATE warehouse SET w_ytd = w_ytd + %.2f WHERE w_id = %d", amount, w)
   local d_name = row("SELECT d_name, d_street_1, d_street_2, d_city, d_state, d_zip FROM district WHERE d_id = %d AND d_w_id = %d", d, w)
   execute("UPDATE district SET d_ytd = d_ytd + %.2f WHERE d_id = %d AND d_w_id = %d", amount, d, w)
   local c = somebody(cw, cd)
   local credit = row("SELECT c_credit, c_first, c_middle, c_last, c_phone, c_credit_lim, c_discount, c_balance, c_since FROM customer " ..
      "WHERE c_w_id = %d AND c_d_id = %d AND c_id = %d", cw, cd, c)
   -- A customer with bad credit gets a note.
   local note = ""
   if credit == "BC" then
      note = string.format(", c_data = LEFT(CONCAT('%d %d %d %d %d %.2f ', c_data), 500)", c, cd, cw, d, w, amount)
   end
   execute("UPDATE customer SET c_balance = c_balance - %.2f, c_ytd_payment = c_ytd_payment + %.2f, " ..
      "c_payment_cnt = c_payment_cnt + 1%s WHERE c_w_id = %d AND c_d_id = %d AND c_id = %d", amount, amount, note, cw, cd, c)
   execute("INSERT INTO history VALUES (%d, %d, %d, %d, %d, NOW(), %.2f, '%s    %s')", c, cd, cw, d, w, amount, w_name, d_name)
   return true
end

local function order_status()
   local w, d = home, uniform(1, DISTRICTS)
   local c = somebody(w, d)
   execute("SELECT c_first, c_middle, c_last, c_balance FROM customer WHERE c_w_id = %d AND c_d_id = %d AND c_id = %d", w, d, c)
   local o = number("SELECT o_id, o_carrier_id, o_entry_d FROM orders WHERE o_w_id = %d AND o_d_id = %d AND o_c_id = %d " ..
      "ORDER BY o_id DESC LIMIT 1", w, d, c)
   if o then
      execute("SELECT ol_i_id, ol_supply_w_id, ol_quantity, ol_amount, ol_delivery_d FROM order_line " ..
         "WHERE ol_w_id = %d AND ol_d_id = %d AND ol_o_id = %d", w, d, o)
   end
   return true
end

local function delivery()
   local w, carrier = home, uniform(1, 10)
   for d = 1, DISTRICTS do
      local o = number("SELECT no_o_id FROM new_order WHERE no_w_id = %d AND no_d_id = %d ORDER BY no_o_id LIMIT 1", w, d)
      if o then
         execute("DELETE FROM new_order WHERE no_o_id = %d AND no_w_id = %d AND no_d_id = %d", o, w, d)
         local c = number("SELECT o_c_id FROM orders WHERE o_id = %d AND o_w_id = %d AND o_d_id = %d FOR UPDATE", o, w, d)
         execute("UPDATE orders SET o_carrier_id = %d WHERE o_id = %d AND o_w_id = %d AND o_d_id = %d", carrier, o, w, d)
         execute("UPDATE order_line SET ol_delivery_d = NOW() WHERE ol_o_id = %d AND ol_w_id = %d AND ol_d_id = %d", o, w, d)
         local sum = number("SELECT SUM(ol_amount) FROM order_line WHERE ol_o_id = %d AND ol_w_id = %d AND ol_d_id = %d", o, w, d)
         execute("UPDATE customer SET c_balance = c_balance + %.2f, c_delivery_cnt = c_delivery_cnt + 1 " ..
            "WHERE c_id = %d AND c_w_id = %d AND c_d_id = %d", sum, c, w, d)
      end
   end
   return true
end

local function stock_level()
   local w, d, threshold = home, uniform(1, DISTRICTS), uniform(10, 20)
   execute("SELECT COUNT(DISTINCT s_i_id) FROM order_line JOIN stock ON s_w_id = ol_w_id AND s_i_id = ol_i_id " ..
      "JOIN district ON d_w_id = ol_w_id AND d_id = ol_d_id WHERE d_w_id = %d AND d_id = %d AND s_quantity < %d " ..
      "AND ol_o_id < d_next_o_id AND ol_o_id >= d_next_o_id - 20", w, d, threshold)
   return true
end

-- The mix, in percent.
local MIX = {
   {45, "NEW_ORDER", new_order},
   {43, "PAYMENT", payment},
   {4, "ORDER_STATUS", order_status},
   {4, "DELIVERY", delivery},
   {4, "STOCK_LEVEL", stock_level}
}

function thread_init()
   con = sysbench.sql.driver():connect()
   home = sysbench.tid % sysbench.opt.warehouses + 1
   local classes = {"EVENT"}
   for _, transaction in ipairs(MIX) do classes[#classes + 1] = transaction[2] end
   times.start(classes)
end

function thread_done()
   if sysbench.opt.statement_times then times.print() end
   con:disconnect()
end

-- After a deadlock the transaction is gone; after the end of a wait for a lock, it is not.
function sysbench.hooks.before_restart_event(_)
   con:query("ROLLBACK")
end

function event()
   local begin = sysbench.opt.statement_times and times.now()
   local draw, n = uniform(1, 100), 1
   while draw > MIX[n][1] do
      draw, n = draw - MIX[n][1], n + 1
   end
   con:query("BEGIN")
   con:query(MIX[n][3]() and "COMMIT" or "ROLLBACK")
   if begin then
      times.took(MIX[n][2], begin)
      times.took("EVENT", begin)
   end
end
