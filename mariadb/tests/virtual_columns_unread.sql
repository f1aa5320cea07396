-- Virtual columns that a statement has no use for are not computed, also in a
-- table without a primary key.
CREATE TABLE t (a INT, b TEXT, v BLOB AS (LAST_VALUE(@a := @a + 1, a)) VIRTUAL) ENGINE=$ENGINE;
INSERT INTO t (a, b) VALUES (1, REPEAT('x', 9000)), (2, REPEAT('y', 9000)), (3, 'z');
SET @a = 0;
UPDATE t SET a = a + 10 WHERE a = 1;
SELECT @a;
DELETE FROM t WHERE a = 2;
SELECT @a;
SELECT a, LENGTH(b), v FROM t;
SELECT @a;
UPDATE t SET b = 'short' WHERE a = 11;
DELETE FROM t WHERE b = 'z';
SELECT a, b FROM t;
