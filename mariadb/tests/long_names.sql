-- Names of characters that take five bytes each in the name of a file.
SET NAMES utf8mb4;
CREATE DATABASE `数据库数据库数据库数据库数据库数据库数据库数据`;
USE `数据库数据库数据库数据库数据库数据库数据库数据`;
CREATE TABLE `表格表格表格表格表格表格表格表格表格表格表格表格表格表格表格表格` (id INT PRIMARY KEY, `列` INT, KEY `索引` (`列`)) ENGINE=$ENGINE;
INSERT INTO `表格表格表格表格表格表格表格表格表格表格表格表格表格表格表格表格` VALUES (1, 1);
SELECT * FROM `表格表格表格表格表格表格表格表格表格表格表格表格表格表格表格表格`;
ALTER TABLE `表格表格表格表格表格表格表格表格表格表格表格表格表格表格表格表格` ADD c INT, ALGORITHM=COPY;
RENAME TABLE `表格表格表格表格表格表格表格表格表格表格表格表格表格表格表格表格` TO `表格表格表格表格表格表格表格表格表格表格表格表格表格表格表格表二`;
CREATE TABLE `分` (id INT PRIMARY KEY) ENGINE=$ENGINE PARTITION BY RANGE (id) (PARTITION `部分部分部分部分部分部分部分部分部分部分部分部分部分部分部分部分` VALUES LESS THAN (10));
INSERT INTO `分` VALUES (1), (2);
SELECT * FROM `分`;
DROP DATABASE `数据库数据库数据库数据库数据库数据库数据库数据`;
-- Control characters, and a name that the engine has for an index of its own.
USE smoke;
EXECUTE IMMEDIATE CONCAT('CREATE TABLE t (a INT, b INT, `c', CHAR(9), CHAR(1), '` INT, KEY `x', CHAR(9), 'y', CHAR(10), '` (a)) ENGINE=$ENGINE');
INSERT INTO t VALUES (1, 2, 3);
EXECUTE IMMEDIATE CONCAT('ALTER TABLE t ADD KEY `z', CHAR(1), '` (b)');
SELECT a FROM t WHERE a = 1;
EXECUTE IMMEDIATE CONCAT('CREATE TABLE `t', CHAR(9), '` (a INT) ENGINE=$ENGINE');
CREATE TABLE g (a INT, `ROW_ID` INT, KEY `ROW_ID` (a), KEY `row_id2` (a)) ENGINE=$ENGINE;
INSERT INTO g VALUES (1, 1);
SELECT a FROM g FORCE INDEX (ROW_ID) WHERE a = 1;
