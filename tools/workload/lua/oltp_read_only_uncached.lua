-- sysbench's own oltp_read_only for sessions that leave the server's query cache alone
-- (MySQL before 8.0, MariaDB).
--
--   sysbench oltp_read_only_uncached.lua --mysql-db=S --tables=1 --table-size=100000 \
--     --threads=4 run
--
-- Options, prepare and cleanup are those of oltp_read_only, which sysbench finds in its own folder.

require("oltp_read_only")

local connect = thread_init

function thread_init()
   connect()
   con:query("SET SESSION query_cache_type = OFF")
end
