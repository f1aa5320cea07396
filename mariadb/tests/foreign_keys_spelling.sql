-- SHOW CREATE TABLE writes columns of a key as the tables do, however the statement did.
CREATE TABLE parent (Id INT, Other INT, PRIMARY KEY (Id), UNIQUE KEY (Other, Id)) ENGINE=$ENGINE;
CREATE TABLE child (First INT, Second INT, FOREIGN KEY (FIRST) REFERENCES parent (ID), CONSTRAINT two FOREIGN KEY (second, first) REFERENCES parent (other, id)) ENGINE=$ENGINE;
SHOW CREATE TABLE child\G
ALTER TABLE child ADD CONSTRAINT later FOREIGN KEY (SECOND) REFERENCES parent (OTHER);
SHOW CREATE TABLE child\G
SELECT column_name, referenced_column_name FROM information_schema.key_column_usage WHERE table_schema = 'smoke' AND table_name = 'child' ORDER BY constraint_name, ordinal_position;
CREATE TABLE own (Id INT PRIMARY KEY, Parent INT, FOREIGN KEY (PARENT) REFERENCES own (ID)) ENGINE=$ENGINE;
SHOW CREATE TABLE own\G
INSERT INTO own VALUES (1, 1);
INSERT INTO own VALUES (2, 3);
INSERT INTO parent VALUES (1, 1);
INSERT INTO child VALUES (1, 1);
INSERT INTO child VALUES (2, 1);
SET foreign_key_checks = 0;
CREATE TABLE early (Id INT, FOREIGN KEY (ID) REFERENCES late (Key_Of_Late)) ENGINE=$ENGINE;
CREATE TABLE late (key_of_late INT PRIMARY KEY) ENGINE=$ENGINE;
SHOW CREATE TABLE early\G
ALTER TABLE parent RENAME COLUMN id TO iD;
SHOW CREATE TABLE child\G
SET foreign_key_checks = 1;
INSERT INTO early VALUES (1);
DROP TABLE early, late, child, own, parent;
