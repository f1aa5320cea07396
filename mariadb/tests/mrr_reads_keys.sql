-- A multi-range read finds the places of rows by the entries of its index, and reads each row once.
SET optimizer_switch = 'mrr=on,mrr_sort_keys=on,mrr_cost_based=off';
CREATE TABLE t (id INT PRIMARY KEY, a INT, c VARCHAR(30), KEY a (a)) ENGINE=$ENGINE;
INSERT INTO t SELECT seq, (seq * 7) MOD 2003, CONCAT('c', seq) FROM seq_1_to_2000;
ANALYZE TABLE t;
FLUSH STATUS;
SELECT VARIABLE_VALUE INTO @was FROM information_schema.GLOBAL_STATUS WHERE VARIABLE_NAME = 'holdfast_rows_read';
SELECT COUNT(c), SUM(id) FROM t FORCE INDEX (a) WHERE a BETWEEN 100 AND 1099;
SELECT VARIABLE_VALUE - @was < 1500 AS each_row_once FROM information_schema.GLOBAL_STATUS WHERE VARIABLE_NAME = 'holdfast_rows_read';
SHOW STATUS LIKE 'Handler_mrr_init';
-- With locks, and without a primary key.
SELECT COUNT(c), SUM(id) FROM t FORCE INDEX (a) WHERE a BETWEEN 100 AND 1099 LOCK IN SHARE MODE;
CREATE TABLE n (id INT, a INT, c VARCHAR(30), KEY a (a)) ENGINE=$ENGINE;
INSERT INTO n SELECT id, a, c FROM t;
SELECT COUNT(c), SUM(id) FROM n FORCE INDEX (a) WHERE a BETWEEN 100 AND 1099;
SELECT COUNT(c), SUM(id) FROM n FORCE INDEX (a) WHERE a IN (3, 5, 700);
