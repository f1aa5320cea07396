-- What the optimiser is told: the right index is taken, for many rows per value as for few.
-- InnoDB says twice the values that there are, or more.
CREATE TABLE t (id INT PRIMARY KEY, few INT, many INT, pair INT, txt VARCHAR(20), KEY (few), KEY (many), KEY (few, pair), KEY (txt, many)) ENGINE=$ENGINE;
INSERT INTO t SELECT seq, seq MOD 4, seq MOD 5000, seq MOD 7, CONCAT('v', seq MOD 300) FROM seq_1_to_20000;
ANALYZE TABLE t;
SELECT index_name, seq_in_index, column_name, IF(cardinality BETWEEN d * 0.7 AND d * 4.5, 'about right', cardinality) FROM (
  SELECT index_name, seq_in_index, column_name, cardinality, CASE CONCAT(index_name, seq_in_index) WHEN 'PRIMARY1' THEN 20000
    WHEN 'few1' THEN 4 WHEN 'many1' THEN 5000 WHEN 'few_21' THEN 4 WHEN 'few_22' THEN 28 WHEN 'txt1' THEN 300
    WHEN 'txt2' THEN 15000 END d FROM information_schema.statistics WHERE table_schema = 'smoke') s ORDER BY 1, 2;
EXPLAIN SELECT * FROM t WHERE many = 17 AND few = 1;
EXPLAIN SELECT * FROM t WHERE id BETWEEN 5 AND 9;
EXPLAIN SELECT COUNT(*) FROM t a JOIN t b ON a.many = b.id WHERE a.txt = 'v7';
-- The primary key is the order of the table: a part of it is read, changed, and locked, as a part,
-- and what lies in order is not sorted.
FLUSH STATUS;
SELECT SUM(LENGTH(txt)) FROM t WHERE id BETWEEN 5001 AND 17000;
UPDATE t SET pair = pair + 1 WHERE id > 8000;
SELECT COUNT(*) FROM (SELECT txt FROM t ORDER BY id DESC LIMIT 100000) ordered;
SHOW STATUS WHERE Variable_name IN ('Handler_read_next', 'Handler_read_prev', 'Handler_update', 'Sort_rows', 'Select_range');
SELECT table_rows BETWEEN 18000 AND 22000, data_length > 400000, index_length > 500000 FROM information_schema.tables WHERE table_schema = 'smoke';
CHECK TABLE t;
CHECK TABLE t QUICK;
DELETE FROM t WHERE id MOD 3 = 0;
UPDATE t SET many = many + 1, txt = NULL WHERE id MOD 7 = 0;
CHECK TABLE t;
CHECKSUM TABLE t;
OPTIMIZE TABLE t;
CHECKSUM TABLE t;
CHECK TABLE t;
CREATE TABLE empty (id INT PRIMARY KEY, a INT, KEY (a)) ENGINE=$ENGINE;
ANALYZE TABLE empty;
CHECK TABLE empty;
SELECT * FROM empty WHERE a = 1;
CREATE TABLE other (a TEXT, b INT, c INT AS (b + 1) VIRTUAL, d DATETIME(3), KEY (a(10)), KEY (c), KEY (d DESC), UNIQUE (b)) ENGINE=$ENGINE;
INSERT INTO other (a, b, d) SELECT REPEAT('x', seq), seq, '2020-01-01 10:11:12.345' FROM seq_1_to_500;
INSERT INTO other (a, b, d) VALUES (NULL, NULL, NULL), (NULL, NULL, NULL);
CHECK TABLE other;
