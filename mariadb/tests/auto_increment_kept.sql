-- The number of the next row stays what it is when indexes and columns come and go. InnoDB reads
-- it again from a table with virtual columns: it forgets a number that no row got, and counts
-- beyond one that an UPDATE gave.
CREATE TABLE h (id INT AUTO_INCREMENT PRIMARY KEY, a INT, v INT AS (a + 1) VIRTUAL) ENGINE=$ENGINE;
CREATE TABLE i (id INT AUTO_INCREMENT PRIMARY KEY, a INT, v INT AS (a + 1) VIRTUAL) ENGINE=InnoDB;
INSERT INTO h (id, a) VALUES (NULL, 1), (1, 2), (NULL, 3), (1, 4) ON DUPLICATE KEY UPDATE a = a + 10;
INSERT INTO i (id, a) VALUES (NULL, 1), (1, 2), (NULL, 3), (1, 4) ON DUPLICATE KEY UPDATE a = a + 10;
SELECT table_name, auto_increment FROM information_schema.tables WHERE table_schema = 'smoke' ORDER BY 1;
ALTER TABLE h ADD KEY (a);
ALTER TABLE i ADD KEY (a);
SELECT table_name, auto_increment FROM information_schema.tables WHERE table_schema = 'smoke' ORDER BY 1;
UPDATE h SET id = 20 WHERE id = 1;
UPDATE i SET id = 20 WHERE id = 1;
SELECT table_name, auto_increment FROM information_schema.tables WHERE table_schema = 'smoke' ORDER BY 1;
ALTER TABLE h DROP KEY a, ADD COLUMN c INT FIRST;
ALTER TABLE i DROP KEY a;
SELECT table_name, auto_increment FROM information_schema.tables WHERE table_schema = 'smoke' ORDER BY 1;
INSERT INTO h (a) VALUES (5);
INSERT INTO i (a) VALUES (5);
SELECT id, a FROM h ORDER BY id;
SELECT id, a FROM i ORDER BY id;
