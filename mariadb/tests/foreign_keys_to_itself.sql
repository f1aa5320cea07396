-- An index that a table needs because it refers to itself stays, also when the table is copied.
CREATE TABLE t (id INT PRIMARY KEY, u INT NOT NULL, p INT, q INT, UNIQUE u (u), CONSTRAINT f FOREIGN KEY (p) REFERENCES t (id) ON DELETE CASCADE, CONSTRAINT g FOREIGN KEY (q) REFERENCES t (u)) ENGINE=HOLDFAST;
INSERT INTO t VALUES (1, 10, 1, 10), (2, 20, 1, 10);
ALTER TABLE t DROP PRIMARY KEY;
ALTER TABLE t DROP KEY u, ADD c INT, ALGORITHM=COPY;
ALTER TABLE t DROP KEY u;
SHOW CREATE TABLE t\G
INSERT INTO t VALUES (3, 30, 2, 20);
-- Another index that does as well may take its place.
ALTER TABLE t DROP PRIMARY KEY, ADD KEY other (id);
ALTER TABLE t DROP KEY u, ADD UNIQUE u2 (u, id), ALGORITHM=COPY;
ALTER TABLE t RENAME COLUMN u TO v;
INSERT INTO t VALUES (4, 40, 3, 30);
-- The index may go with the reference, and with checks off.
ALTER TABLE t DROP FOREIGN KEY g, DROP KEY u2, ALGORITHM=COPY;
SET foreign_key_checks = 0;
ALTER TABLE t DROP KEY other, ALGORITHM=COPY;
SET foreign_key_checks = 1;
SHOW CREATE TABLE t\G
CHECK TABLE t;
