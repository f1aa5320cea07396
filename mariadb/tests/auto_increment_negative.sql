-- A negative number moves a table that is at the second value of a series
-- of multiples to the third.
CREATE TABLE a (id INT AUTO_INCREMENT PRIMARY KEY, k INT UNIQUE) ENGINE=$ENGINE;
INSERT INTO a VALUES (-1, 1);
INSERT INTO a (k) VALUES (2);
INSERT INTO a VALUES (-5, 3), (NULL, 4);
INSERT INTO a VALUES (-6, 5);
INSERT INTO a (k) VALUES (6);
SELECT * FROM a;
-- It does not if the statement has taken a value, if the table is opened anew, or if the row is
-- refused, unless the statement looks at rows that are refused.
CREATE TABLE b (id INT AUTO_INCREMENT PRIMARY KEY, k INT UNIQUE) ENGINE=$ENGINE;
INSERT INTO b VALUES (NULL, 1), (-1, 2);
SELECT auto_increment FROM information_schema.tables WHERE table_schema = 'smoke' AND table_name = 'b';
CREATE TABLE c (id INT AUTO_INCREMENT PRIMARY KEY, k INT UNIQUE) ENGINE=$ENGINE;
INSERT INTO c (k) VALUES (1);
INSERT INTO c VALUES (-1, 1);
INSERT IGNORE INTO c VALUES (-1, 1);
INSERT INTO c VALUES (-1, 1) ON DUPLICATE KEY UPDATE id = -2;
UPDATE c SET id = -3;
SELECT auto_increment FROM information_schema.tables WHERE table_schema = 'smoke' AND table_name = 'c';
INSERT IGNORE INTO c SELECT -1, 1;
SELECT auto_increment FROM information_schema.tables WHERE table_schema = 'smoke' AND table_name = 'c';
CREATE TABLE d (id INT AUTO_INCREMENT PRIMARY KEY) ENGINE=$ENGINE;
INSERT INTO d VALUES (NULL);
FLUSH TABLES;
INSERT INTO d VALUES (-1), (NULL);
SELECT * FROM d;
-- 0 where it is a number, a fraction, and other series.
CREATE TABLE e (id INT UNSIGNED AUTO_INCREMENT PRIMARY KEY) ENGINE=$ENGINE;
INSERT INTO e VALUES (NULL);
SET STATEMENT sql_mode = 'NO_AUTO_VALUE_ON_ZERO' FOR INSERT INTO e VALUES (0);
INSERT INTO e VALUES (NULL);
SELECT * FROM e;
CREATE TABLE f (id DOUBLE AUTO_INCREMENT PRIMARY KEY) ENGINE=$ENGINE;
INSERT INTO f VALUES (NULL);
INSERT INTO f VALUES (-0.7);
INSERT INTO f VALUES (NULL);
SELECT * FROM f;
CREATE TABLE g (id INT AUTO_INCREMENT PRIMARY KEY) ENGINE=$ENGINE;
CREATE TABLE h (id TINYINT AUTO_INCREMENT PRIMARY KEY) ENGINE=$ENGINE;
CREATE TABLE i (id INT AUTO_INCREMENT PRIMARY KEY) ENGINE=$ENGINE;
SET auto_increment_increment = 10, auto_increment_offset = 10;
INSERT INTO g VALUES (NULL);
INSERT INTO g VALUES (-1);
INSERT INTO g VALUES (NULL);
SET auto_increment_increment = 60, auto_increment_offset = 60;
INSERT INTO h VALUES (NULL);
INSERT INTO h VALUES (-1);
INSERT INTO h VALUES (NULL);
SET auto_increment_increment = 10, auto_increment_offset = 3;
INSERT INTO i VALUES (NULL);
INSERT INTO i VALUES (-1);
INSERT INTO i VALUES (NULL);
SELECT * FROM g;
SELECT * FROM h;
SELECT * FROM i;
SET auto_increment_increment = 1, auto_increment_offset = 1;
-- Partitions.
CREATE TABLE j (id INT AUTO_INCREMENT PRIMARY KEY) ENGINE=$ENGINE PARTITION BY HASH (id) PARTITIONS 3;
INSERT INTO j VALUES (NULL);
INSERT INTO j VALUES (-1);
INSERT INTO j VALUES (NULL);
SELECT * FROM j ORDER BY id;
DROP TABLE a, b, c, d, e, f, g, h, i, j;
