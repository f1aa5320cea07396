-- BINARY and VARBINARY refer to each other: values of the same bytes are the same, a
-- shorter one is another one.
CREATE TABLE p (v VARBINARY(6) PRIMARY KEY, f BINARY(4) NOT NULL, UNIQUE KEY (f)) ENGINE=$ENGINE;
CREATE TABLE cf (id INT PRIMARY KEY, f BINARY(4), KEY (f), FOREIGN KEY (f) REFERENCES p (v) ON UPDATE CASCADE) ENGINE=$ENGINE;
CREATE TABLE cv (id INT PRIMARY KEY, v VARBINARY(8), KEY (v), FOREIGN KEY (v) REFERENCES p (f) ON UPDATE CASCADE) ENGINE=$ENGINE;
CREATE TABLE cl (id INT PRIMARY KEY, l BINARY(5), KEY (l), FOREIGN KEY (l) REFERENCES p (f) ON DELETE SET NULL) ENGINE=$ENGINE;
INSERT INTO p VALUES ('abcd', 'efgh'), ('ab', 'ef'), (x'61620000', 'ij'), ('abcdef', 'kl'), (x'00', x'00');
INSERT INTO cf VALUES (1, 'abcd'), (2, 'ab'), (3, NULL);
--error ER_NO_REFERENCED_ROW_2
INSERT INTO cf VALUES (4, 'abc');
--error ER_NO_REFERENCED_ROW_2
INSERT INTO cf VALUES (5, x'00');
INSERT INTO cv VALUES (1, 'efgh'), (2, x'65660000'), (3, NULL);
--error ER_NO_REFERENCED_ROW_2
INSERT INTO cv VALUES (4, 'ef');
--error ER_NO_REFERENCED_ROW_2
INSERT INTO cv VALUES (5, x'6566000000');
--error ER_NO_REFERENCED_ROW_2
INSERT INTO cv VALUES (6, '');
--error ER_NO_REFERENCED_ROW_2
INSERT INTO cl VALUES (1, 'efgh');
INSERT INTO cl VALUES (2, NULL);
-- What refers to nothing of these is none of their business.
DELETE FROM p WHERE v = 'ab';
--error ER_ROW_IS_REFERENCED_2
DELETE FROM p WHERE v = 'abcd';
--error ER_ROW_IS_REFERENCED_2
DELETE FROM p WHERE v = x'61620000';
UPDATE p SET v = 'abcde' WHERE v = 'abcdef';
-- Children follow if they can have the value.
UPDATE p SET v = 'wxyz', f = 'long' WHERE v = 'abcd';
--error ER_ROW_IS_REFERENCED_2
UPDATE p SET v = 'xyz' WHERE v = 'wxyz';
--error ER_ROW_IS_REFERENCED_2
UPDATE p SET v = 'vwxyz' WHERE v = 'wxyz';
UPDATE p SET f = 'x' WHERE f = 'long';
SELECT HEX(v), HEX(f) FROM p ORDER BY v;
SELECT id, HEX(f) FROM cf ORDER BY id;
SELECT id, HEX(v) FROM cv ORDER BY id;
SHOW CREATE TABLE cf\G
-- Text is no such value.
--error ER_CANT_CREATE_TABLE
CREATE TABLE ct (c CHAR(4) CHARACTER SET latin1, KEY (c), FOREIGN KEY (c) REFERENCES p (f)) ENGINE=$ENGINE;
-- Nor is a number.
--error ER_CANT_CREATE_TABLE
CREATE TABLE ci (c INT, KEY (c), FOREIGN KEY (c) REFERENCES p (f)) ENGINE=$ENGINE;
CREATE TABLE two (v VARBINARY(4), n INT, b BINARY(2), PRIMARY KEY (v, n, b)) ENGINE=$ENGINE;
CREATE TABLE ctwo (b BINARY(2), n INT, v VARBINARY(3), KEY (b, n, v), FOREIGN KEY (b, n, v) REFERENCES two (v, n, b) ON DELETE CASCADE) ENGINE=$ENGINE;
INSERT INTO two VALUES ('ab', 1, 'cd'), ('ab', 2, 'c'), ('a', 1, 'cd');
INSERT INTO ctwo VALUES ('ab', 1, 'cd'), ('ab', 2, x'6300'), ('ab', NULL, 'c');
--error ER_NO_REFERENCED_ROW_2
INSERT INTO ctwo VALUES ('ab', 2, 'c');
--error ER_NO_REFERENCED_ROW_2
INSERT INTO ctwo VALUES ('a', 1, 'cd');
DELETE FROM two WHERE n = 1;
SELECT HEX(b), n, HEX(v) FROM ctwo ORDER BY b, n;
