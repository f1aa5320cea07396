-- A table that is renamed gives its generated references new names, and brings all of them to
-- another schema: not those that others have there.
CREATE TABLE p (a INT PRIMARY KEY) ENGINE=$ENGINE;
CREATE TABLE t (a INT, FOREIGN KEY (a) REFERENCES p (a)) ENGINE=$ENGINE;
CREATE TABLE x (a INT, CONSTRAINT u_ibfk_1 FOREIGN KEY (a) REFERENCES p (a)) ENGINE=$ENGINE;
CREATE TABLE named (a INT, CONSTRAINT mine FOREIGN KEY (a) REFERENCES p (a)) ENGINE=$ENGINE;
CREATE SCHEMA other;
CREATE TABLE other.y (a INT, CONSTRAINT mine FOREIGN KEY (a) REFERENCES smoke.p (a)) ENGINE=$ENGINE;
RENAME TABLE t TO u;
ALTER TABLE t RENAME TO u;
RENAME TABLE named TO other.named;
RENAME TABLE named TO still_named, t TO v;
RENAME TABLE x TO u, v TO x;
SELECT constraint_schema, constraint_name, table_name FROM information_schema.referential_constraints WHERE constraint_schema IN ('smoke', 'other') ORDER BY 1, 2;
DROP TABLE other.y;
RENAME TABLE still_named TO other.named;
INSERT INTO other.named VALUES (1);
SELECT constraint_schema, constraint_name, table_name FROM information_schema.referential_constraints WHERE constraint_schema IN ('smoke', 'other') ORDER BY 1, 2;
DROP SCHEMA other;
