-- A registry as the first version of the tables was, without a run: sqlite3's dump of a file made by `audit registry add`.
BEGIN TRANSACTION;
CREATE TABLE alembic_version (
	version_num VARCHAR(32) NOT NULL,
	CONSTRAINT alembic_version_pkc PRIMARY KEY (version_num)
);
INSERT INTO "alembic_version" VALUES('0001');
CREATE TABLE cells (
	run_key VARCHAR(64) NOT NULL,
	model VARCHAR(255) NOT NULL,
	benchmark VARCHAR(255) NOT NULL,
	context VARCHAR(255) NOT NULL,
	model_revision TEXT NOT NULL,
	benchmark_revision TEXT NOT NULL,
	n INTEGER NOT NULL,
	verdict VARCHAR(64) NOT NULL,
	decision VARCHAR(16) NOT NULL,
	headline TEXT NOT NULL,
	sound BOOLEAN NOT NULL,
	comparable JSON NOT NULL,
	library TEXT,
	ids JSON,
	PRIMARY KEY (run_key, model, benchmark, context),
	FOREIGN KEY(run_key) REFERENCES runs ("key")
);
CREATE TABLE decisions (
	about VARCHAR(64) NOT NULL,
	run_dir TEXT NOT NULL,
	count INTEGER NOT NULL,
	last_sha256 VARCHAR(64) NOT NULL,
	noted VARCHAR(25) NOT NULL,
	PRIMARY KEY (about)
);
CREATE TABLE draws (
	name VARCHAR(255) NOT NULL,
	period VARCHAR(8) NOT NULL,
	drawn VARCHAR(25) NOT NULL,
	revision TEXT NOT NULL,
	pool_sha256 VARCHAR(64) NOT NULL,
	ids JSON NOT NULL,
	PRIMARY KEY (name, period)
);
CREATE TABLE indicators (
	run_key VARCHAR(64) NOT NULL,
	model VARCHAR(255) NOT NULL,
	benchmark VARCHAR(255) NOT NULL,
	context VARCHAR(255) NOT NULL,
	name VARCHAR(32) NOT NULL,
	estimate FLOAT,
	low FLOAT,
	high FLOAT,
	PRIMARY KEY (run_key, model, benchmark, context, name),
	FOREIGN KEY(run_key) REFERENCES runs ("key")
);
CREATE TABLE notices (
	id INTEGER NOT NULL,
	about VARCHAR(128) NOT NULL,
	kind VARCHAR(16) NOT NULL,
	title TEXT NOT NULL,
	body TEXT NOT NULL,
	created VARCHAR(25) NOT NULL,
	claimed VARCHAR(25),
	sent VARCHAR(25),
	tries INTEGER NOT NULL,
	problem TEXT NOT NULL,
	recipients JSON,
	PRIMARY KEY (id),
	UNIQUE (about, kind)
);
CREATE TABLE runs (
	"key" VARCHAR(64) NOT NULL,
	audit VARCHAR(32) NOT NULL,
	fingerprint VARCHAR(64) NOT NULL,
	answers_sha256 VARCHAR(64) NOT NULL,
	verdict_sha256 VARCHAR(64) NOT NULL,
	manifest_sha256 VARCHAR(64) NOT NULL,
	suite TEXT NOT NULL,
	suite_sha256 VARCHAR(64),
	decision VARCHAR(16) NOT NULL,
	exit_code INTEGER NOT NULL,
	started VARCHAR(25) NOT NULL,
	ended VARCHAR(25) NOT NULL,
	registered VARCHAR(25) NOT NULL,
	run_dir TEXT NOT NULL,
	run_by JSON NOT NULL,
	retention_days INTEGER,
	rotate_every VARCHAR(16),
	hold TEXT,
	removal VARCHAR(16),
	removed VARCHAR(25),
	PRIMARY KEY ("key")
);
CREATE INDEX ix_runs_answers_sha256 ON runs (answers_sha256);
CREATE INDEX ix_runs_registered ON runs (registered);
COMMIT;
