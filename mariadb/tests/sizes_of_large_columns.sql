-- DATA_LENGTH counts the pages of columns that are kept apart from their rows, and gives them back.
CREATE TABLE t (id INT PRIMARY KEY, a LONGTEXT, KEY (a(10))) ENGINE=$ENGINE;
INSERT INTO t SELECT seq, REPEAT('x', 100000) FROM seq_1_to_50;
ANALYZE TABLE t;
SELECT data_length > 4900000, data_length < 12000000, index_length < 400000, avg_row_length > 90000 FROM information_schema.tables WHERE table_schema = 'smoke';
CREATE TABLE u (id INT PRIMARY KEY, a INT, KEY (a)) ENGINE=$ENGINE;
INSERT INTO u SELECT seq, seq FROM seq_1_to_20000;
ANALYZE TABLE u;
SELECT data_length > 400000, data_length < 2000000, index_length > 200000, index_length < 2000000 FROM information_schema.tables WHERE table_schema = 'smoke' AND table_name = 'u';
TRUNCATE t;
SELECT data_length, index_length FROM information_schema.tables WHERE table_schema = 'smoke' AND table_name = 't';
DROP TABLE t, u;
-- A partitioned table has what its partitions have together.
CREATE TABLE p (id INT PRIMARY KEY, a LONGTEXT, KEY (a(10))) ENGINE=$ENGINE PARTITION BY HASH (id) PARTITIONS 4;
INSERT INTO p SELECT seq, REPEAT('x', 100000) FROM seq_1_to_48;
ANALYZE TABLE p;
SELECT data_length > 4700000, data_length < 12000000, index_length < 400000, avg_row_length > 90000 FROM information_schema.tables WHERE table_schema = 'smoke' AND table_name = 'p';
SELECT partition_name, data_length > 1170000, data_length < 4000000, avg_row_length > 90000 FROM information_schema.partitions WHERE table_schema = 'smoke' AND table_name = 'p' ORDER BY 1;
SELECT data_length = (SELECT SUM(data_length) FROM information_schema.partitions WHERE table_schema = 'smoke' AND table_name = 'p') FROM information_schema.tables WHERE table_schema = 'smoke' AND table_name = 'p';
TRUNCATE p;
SELECT data_length < 200000 FROM information_schema.tables WHERE table_schema = 'smoke' AND table_name = 'p';
DROP TABLE p;
