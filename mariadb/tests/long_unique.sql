-- Unique keys over whole texts: the server keeps a hash beside them and looks among the rows
-- with the same one. An engine that says that it can do so itself is given a key over nothing,
-- and two texts are the same.
CREATE TABLE t (id INT PRIMARY KEY, a TEXT, b BLOB, c INT, UNIQUE KEY (a) USING HASH, UNIQUE (b, id), UNIQUE (c) USING HASH) ENGINE=$ENGINE CHARACTER SET latin1;
SELECT index_name, column_name, index_type, non_unique FROM information_schema.statistics WHERE table_schema = 'smoke' ORDER BY 1, 2;
INSERT INTO t SELECT seq, REPEAT(seq, 1000), REPEAT(seq, 500), seq FROM seq_1_to_20;
INSERT INTO t VALUES (21, NULL, NULL, NULL), (22, NULL, NULL, NULL), (23, '', '', 0);
INSERT INTO t VALUES (24, REPEAT('7', 1000), 'x', 24);
INSERT INTO t VALUES (24, REPEAT('7', 1001), REPEAT('7', 500), 7);
INSERT INTO t VALUES (25, 'Text', 'x', 25), (26, 'TEXT  ', 'x', 26);
INSERT IGNORE INTO t VALUES (25, 'Text', 'x', 25), (26, 'TEXT  ', 'x', 26), (27, 'other', 'x', 27);
UPDATE t SET a = 'text' WHERE id = 3;
UPDATE t SET a = 'text3' WHERE id = 3;
REPLACE INTO t VALUES (28, 'text3', 'y', 28);
INSERT INTO t VALUES (29, 'TEXT3', 'z', 29) ON DUPLICATE KEY UPDATE c = c + 1000;
SELECT id, LENGTH(a), c FROM t WHERE id > 20 OR id = 3 ORDER BY id;
SELECT id FROM t WHERE a = REPEAT('5', 1000);
-- Without locks on ranges the server looks after it has written.
SET TRANSACTION_ISOLATION = 'READ-COMMITTED';
INSERT INTO t VALUES (30, 'Other', 'x', 30);
INSERT INTO t VALUES (30, 'another', 'x', 30), (31, 'ANOTHER', 'x', 31);
INSERT IGNORE INTO t VALUES (30, 'another', 'x', 30), (31, 'ANOTHER', 'x', 31), (32, NULL, 'x', 32);
UPDATE t SET a = 'other' WHERE id = 30;
UPDATE t SET a = CONCAT(a, '!') WHERE id IN (27, 30);
REPLACE INTO t VALUES (33, 'other!', 'y', 33);
INSERT INTO t VALUES (34, 'ANOTHER!', 'z', 34) ON DUPLICATE KEY UPDATE c = c + 1000;
BEGIN;
INSERT INTO t VALUES (35, 'in a transaction', 'x', 35);
INSERT INTO t VALUES (36, 'in a transaction', 'x', 36);
UPDATE t SET a = NULL WHERE id = 35;
INSERT INTO t VALUES (36, 'in a transaction', 'x', 36);
COMMIT;
SELECT id, LENGTH(a), c FROM t WHERE id > 20 ORDER BY id;
ALTER TABLE t ADD UNIQUE (b);
ALTER TABLE t DROP KEY a, ADD UNIQUE whole (a, c);
CHECK TABLE t EXTENDED;
