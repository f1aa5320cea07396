-- A lending library: many small tables that refer to each other, with views, triggers, procedures,
-- functions, an event and generated columns.
CREATE DATABASE library CHARACTER SET utf8mb4 COLLATE utf8mb4_unicode_ci;
USE library;

CREATE TABLE country (
  country_id SMALLINT UNSIGNED NOT NULL AUTO_INCREMENT PRIMARY KEY,
  name VARCHAR(50) NOT NULL,
  code CHAR(2) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  changed TIMESTAMP NOT NULL DEFAULT CURRENT_TIMESTAMP ON UPDATE CURRENT_TIMESTAMP,
  UNIQUE KEY (code)
) ENGINE=$ENGINE COMMENT='where people live';

CREATE TABLE city (
  city_id SMALLINT UNSIGNED NOT NULL AUTO_INCREMENT PRIMARY KEY,
  name VARCHAR(50) NOT NULL,
  country_id SMALLINT UNSIGNED NOT NULL,
  KEY (country_id), KEY by_name (name(10), country_id),
  FOREIGN KEY (country_id) REFERENCES country (country_id)
) ENGINE=$ENGINE;

CREATE TABLE address (
  address_id INT UNSIGNED NOT NULL AUTO_INCREMENT PRIMARY KEY,
  street VARCHAR(80) NOT NULL, line2 VARCHAR(80), city_id SMALLINT UNSIGNED NOT NULL, postcode VARCHAR(10),
  place POINT NOT NULL,
  label VARCHAR(200) AS (CONCAT_WS(', ', street, line2, postcode)) PERSISTENT,
  KEY (city_id), KEY (label(30)),
  FOREIGN KEY (city_id) REFERENCES city (city_id)
) ENGINE=$ENGINE;

CREATE TABLE branch (
  branch_id TINYINT UNSIGNED NOT NULL AUTO_INCREMENT PRIMARY KEY,
  name VARCHAR(40) NOT NULL UNIQUE, address_id INT UNSIGNED NOT NULL, opening SET('mon', 'tue', 'wed', 'thu', 'fri', 'sat', 'sun') NOT NULL,
  FOREIGN KEY (address_id) REFERENCES address (address_id)
) ENGINE=$ENGINE;

CREATE TABLE person (
  person_id INT UNSIGNED NOT NULL AUTO_INCREMENT PRIMARY KEY,
  first_name VARCHAR(45) NOT NULL, last_name VARCHAR(45) NOT NULL,
  email VARCHAR(100) CHARACTER SET latin1 COLLATE latin1_swedish_ci,
  address_id INT UNSIGNED NOT NULL, branch_id TINYINT UNSIGNED NOT NULL,
  born DATE, active BOOLEAN NOT NULL DEFAULT TRUE, balance DECIMAL(9,2) NOT NULL DEFAULT 0,
  settings JSON, photo MEDIUMBLOB, secret VARBINARY(32) INVISIBLE DEFAULT '',
  full_name VARCHAR(91) AS (CONCAT(first_name, ' ', last_name)) VIRTUAL,
  born_year SMALLINT AS (YEAR(born)) VIRTUAL,
  changed DATETIME(3) NOT NULL DEFAULT '2000-01-01',
  KEY by_name (last_name, first_name DESC), UNIQUE KEY (email), KEY (full_name), KEY (branch_id, born_year), KEY (address_id),
  CONSTRAINT adult_email CHECK (email IS NULL OR email LIKE '%@%'),
  CONSTRAINT lives_at FOREIGN KEY (address_id) REFERENCES address (address_id) ON UPDATE CASCADE,
  CONSTRAINT reads_at FOREIGN KEY (branch_id) REFERENCES branch (branch_id) ON UPDATE CASCADE
) ENGINE=$ENGINE;

CREATE TABLE language (language_id TINYINT UNSIGNED NOT NULL PRIMARY KEY, name CHAR(20) NOT NULL) ENGINE=$ENGINE;

CREATE TABLE author (
  author_id INT NOT NULL AUTO_INCREMENT PRIMARY KEY, name VARCHAR(80) NOT NULL, KEY (name)
) ENGINE=$ENGINE AUTO_INCREMENT=500;

CREATE TABLE book (
  book_id INT NOT NULL AUTO_INCREMENT PRIMARY KEY,
  title VARCHAR(200) NOT NULL, blurb TEXT, isbn CHAR(13) CHARACTER SET ascii, published YEAR, language_id TINYINT UNSIGNED NOT NULL,
  price DECIMAL(6,2) NOT NULL DEFAULT 19.90, rating ENUM('children', 'youth', 'adults') NOT NULL DEFAULT 'adults',
  features SET('audio', 'large print', 'pictures') DEFAULT 'audio',
  KEY by_title (title(20)), KEY (language_id), KEY newest (published DESC, title(5)), UNIQUE KEY (isbn),
  FOREIGN KEY (language_id) REFERENCES language (language_id) ON DELETE NO ACTION
) ENGINE=$ENGINE ROW_FORMAT=DYNAMIC;

CREATE TABLE book_author (
  book_id INT NOT NULL, author_id INT NOT NULL, share DOUBLE NOT NULL DEFAULT 1,
  PRIMARY KEY (book_id, author_id), KEY (author_id),
  FOREIGN KEY (book_id) REFERENCES book (book_id) ON DELETE CASCADE ON UPDATE CASCADE,
  FOREIGN KEY (author_id) REFERENCES author (author_id) ON DELETE RESTRICT ON UPDATE CASCADE
) ENGINE=$ENGINE;

CREATE TABLE copy (
  copy_id INT NOT NULL AUTO_INCREMENT PRIMARY KEY, book_id INT NOT NULL, branch_id TINYINT UNSIGNED NOT NULL,
  lent BOOLEAN NOT NULL DEFAULT FALSE, loans INT NOT NULL DEFAULT 0,
  KEY (book_id, branch_id), KEY (branch_id, lent),
  FOREIGN KEY (book_id) REFERENCES book (book_id), FOREIGN KEY (branch_id) REFERENCES branch (branch_id)
) ENGINE=$ENGINE;

CREATE TABLE loan (
  loan_id BIGINT NOT NULL AUTO_INCREMENT, copy_id INT NOT NULL, person_id INT UNSIGNED,
  lent_at DATETIME NOT NULL, returned_at DATETIME, fee DECIMAL(6,2) NOT NULL DEFAULT 0,
  days INT AS (TO_DAYS(returned_at) - TO_DAYS(lent_at)) PERSISTENT,
  PRIMARY KEY (loan_id), KEY (copy_id), KEY (person_id, lent_at), KEY (days),
  FOREIGN KEY (copy_id) REFERENCES copy (copy_id), FOREIGN KEY (person_id) REFERENCES person (person_id) ON DELETE SET NULL
) ENGINE=$ENGINE;

CREATE TABLE payment (
  payment_id BIGINT NOT NULL AUTO_INCREMENT, person_id INT UNSIGNED NOT NULL, amount DECIMAL(9,2) NOT NULL,
  paid_on DATE NOT NULL, note VARCHAR(60),
  PRIMARY KEY (payment_id, paid_on), KEY (person_id)
) ENGINE=$ENGINE PARTITION BY RANGE COLUMNS (paid_on)
  (PARTITION old VALUES LESS THAN ('2020-01-01'), PARTITION mid VALUES LESS THAN ('2024-01-01'), PARTITION now VALUES LESS THAN (MAXVALUE));

-- Without any key.
CREATE TABLE journal (at DATETIME NOT NULL, what VARCHAR(20) NOT NULL, id BIGINT, detail TEXT) ENGINE=$ENGINE;

-- What the library owns: moved by payments only, so that the sum of all
-- balances and this never changes.
CREATE TABLE till (till_id TINYINT NOT NULL PRIMARY KEY, amount DECIMAL(12,2) NOT NULL) ENGINE=$ENGINE;

DELIMITER //
CREATE TRIGGER loan_begins AFTER INSERT ON loan FOR EACH ROW BEGIN
  UPDATE copy SET lent = NEW.returned_at IS NULL, loans = loans + 1 WHERE copy_id = NEW.copy_id;
  INSERT INTO journal VALUES (NEW.lent_at, 'loan', NEW.loan_id, CONCAT('copy ', NEW.copy_id));
END //
CREATE TRIGGER loan_ends AFTER UPDATE ON loan FOR EACH ROW
  UPDATE copy SET lent = NEW.returned_at IS NULL WHERE copy_id = NEW.copy_id //
CREATE TRIGGER payment_moves AFTER INSERT ON payment FOR EACH ROW BEGIN
  UPDATE person SET balance = balance - NEW.amount WHERE person_id = NEW.person_id;
  UPDATE till SET amount = amount + NEW.amount WHERE till_id = NEW.person_id MOD 4;
END //
CREATE TRIGGER person_changes BEFORE UPDATE ON person FOR EACH ROW
  SET NEW.changed = GREATEST(OLD.changed, NEW.changed) //
CREATE FUNCTION fee_of(days INT, price DECIMAL(6,2)) RETURNS DECIMAL(6,2) DETERMINISTIC NO SQL
  RETURN IF(days > 28, LEAST(price, (days - 28) * 0.25), 0) //
CREATE PROCEDURE lend(IN the_copy INT, IN the_person INT UNSIGNED, IN at DATETIME)
  INSERT INTO loan (copy_id, person_id, lent_at) VALUES (the_copy, the_person, at) //
CREATE PROCEDURE books_of(IN the_author INT, OUT n INT) READS SQL DATA
  SELECT COUNT(*) INTO n FROM book_author WHERE author_id = the_author //
CREATE EVENT yearly ON SCHEDULE EVERY 1 YEAR STARTS '2030-01-01 00:00:00' DISABLE COMMENT 'not enabled' DO
  DELETE FROM journal WHERE at < NOW() - INTERVAL 10 YEAR //
DELIMITER ;

CREATE VIEW book_list AS
  SELECT b.book_id, b.title, GROUP_CONCAT(a.name ORDER BY a.name SEPARATOR '; ') AS authors, l.name AS language
  FROM book b JOIN language l USING (language_id) LEFT JOIN book_author USING (book_id) LEFT JOIN author a USING (author_id)
  GROUP BY b.book_id, b.title, l.name;
CREATE VIEW late AS
  SELECT p.person_id, p.full_name, COUNT(*) AS loans, SUM(fee_of(days, 20)) AS fees
  FROM person p JOIN loan USING (person_id) WHERE days > 28 GROUP BY p.person_id, p.full_name;
CREATE VIEW adult AS SELECT person_id, first_name, last_name, active FROM person WHERE born < '2005-01-01' WITH CHECK OPTION;
CREATE VIEW late_adult AS SELECT late.* FROM late JOIN adult USING (person_id);
CREATE VIEW branch_stock AS
  SELECT br.name, COUNT(*) AS copies, SUM(c.lent) AS lent, SUM(c.loans) AS loans FROM branch br JOIN copy c USING (branch_id) GROUP BY br.name;

INSERT INTO country (name, code) VALUES ('Österreich', 'AT'), ('Deutschland', 'DE'), ('Ελλάδα', 'GR'), ('日本', 'JP'), ('Россия', 'RU');
INSERT INTO city (name, country_id) SELECT CONCAT(ELT(seq MOD 4 + 1, 'Neustadt', 'Ñandú', '東京', 'Αθήνα'), ' ', seq), seq MOD 5 + 1 FROM seq_1_to_60;
INSERT INTO address (street, line2, city_id, postcode, place)
  SELECT CONCAT('Straße ', seq), IF(seq MOD 3, NULL, CONCAT('Tür ', seq MOD 50)), seq MOD 60 + 1, LPAD(seq, 5, '0'), POINT(seq / 8, -seq)
  FROM seq_1_to_400;
INSERT INTO branch (name, address_id, opening) VALUES ('Nord', 1, 'mon,tue,fri'), ('Süd', 2, 'sat,sun'), ('Bücherbus', 3, '');
INSERT INTO person (first_name, last_name, email, address_id, branch_id, born, active, balance, settings, photo, secret)
  SELECT ELT(seq MOD 5 + 1, 'Ada', 'Émile', 'Çiğdem', 'ada', '花'), CONCAT('von ', CHAR(65 + seq MOD 26), seq MOD 97),
         IF(seq MOD 7, CONCAT('p', seq, '@example.org'), NULL), seq MOD 400 + 1, seq MOD 3 + 1, '1950-01-01' + INTERVAL seq * 29 DAY,
         seq MOD 9 <> 0, 100, JSON_OBJECT('n', seq, 'tags', JSON_ARRAY('a', seq MOD 3)), IF(seq MOD 50, NULL, REPEAT(CHAR(seq MOD 256), seq * 40)),
         UNHEX(MD5(seq))
  FROM seq_1_to_1000;
INSERT INTO language VALUES (1, 'Deutsch'), (2, 'English'), (3, 'Русский'), (4, '日本語');
INSERT INTO author (name) SELECT CONCAT('Author ', seq) FROM seq_1_to_150;
INSERT INTO book (title, blurb, isbn, published, language_id, price, rating, features)
  SELECT CONCAT(ELT(seq MOD 3 + 1, 'The ', 'A ', 'Über '), 'book ', seq), REPEAT(CONCAT('about ', seq, '. '), seq MOD 400),
         IF(seq MOD 6, LPAD(seq * 97, 13, '9'), NULL), 1950 + seq MOD 75, seq MOD 4 + 1, seq MOD 90 + 0.5, seq MOD 3 + 1, seq MOD 8
  FROM seq_1_to_600;
INSERT INTO book_author SELECT seq MOD 600 + 1, 500 + (seq * 7) MOD 150, 1 / (seq MOD 3 + 1) FROM seq_1_to_900 ON DUPLICATE KEY UPDATE share = share / 3;
INSERT INTO copy (book_id, branch_id) SELECT seq MOD 600 + 1, seq MOD 3 + 1 FROM seq_1_to_1500;
INSERT INTO till VALUES (0, 0), (1, 0), (2, 0), (3, 0);
INSERT INTO loan (copy_id, person_id, lent_at, returned_at, fee)
  SELECT seq MOD 1500 + 1, seq * 31 MOD 1000 + 1, '2023-01-01' + INTERVAL seq HOUR, IF(seq MOD 8, '2023-01-01' + INTERVAL seq HOUR + INTERVAL seq MOD 60 DAY, NULL), 0
  FROM seq_1_to_3000;
UPDATE loan SET fee = fee_of(days, 15) WHERE days > 20;
INSERT INTO payment (person_id, amount, paid_on, note)
  SELECT seq * 17 MOD 1000 + 1, seq MOD 11 + 0.25, '2018-01-01' + INTERVAL seq * 2 DAY, IF(seq MOD 4, NULL, 'cash') FROM seq_1_to_1200;
DELETE FROM person WHERE person_id > 995;
CALL lend(77, 5, '2024-05-05 12:00:00');
