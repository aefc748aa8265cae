BEGIN TRANSACTION;
CREATE TABLE agents (
	id TEXT NOT NULL, 
	name TEXT NOT NULL, 
	public_key BLOB NOT NULL, 
	enrollment_id TEXT NOT NULL, 
	token_id TEXT NOT NULL, 
	created_at_ms BIGINT NOT NULL, 
	labels TEXT NOT NULL, 
	revoked_at_ms BIGINT, 
	last_heard_at_ms BIGINT, 
	last_status BLOB, 
	last_reason_code INTEGER, 
	last_reason_detail TEXT NOT NULL, 
	last_reason_at_ms BIGINT, 
	boot_id TEXT NOT NULL, 
	epoch TEXT NOT NULL, 
	version TEXT NOT NULL, 
	capabilities TEXT NOT NULL, 
	CONSTRAINT pk_agents PRIMARY KEY (id), 
	CONSTRAINT fk_agents_token_id FOREIGN KEY(token_id) REFERENCES enroll_tokens (id), 
	CONSTRAINT uq_agents_enrollment_id UNIQUE (enrollment_id), 
	CONSTRAINT uq_agents_public_key UNIQUE (public_key)
);
INSERT INTO "agents" VALUES('01900000-0000-7000-8000-00000000000b','old-node',X'6B6B6B6B6B6B6B6B6B6B6B6B6B6B6B6B6B6B6B6B6B6B6B6B6B6B6B6B6B6B6B6B','01900000-0000-7000-8000-000000000001','01900000-0000-7000-8000-00000000000a',5,'{"rack":"7"}',NULL,9,X'7B22686E223A2268227D',NULL,'',NULL,'','','','[]');
CREATE TABLE alembic_version (
	version_num VARCHAR(32) NOT NULL, 
	CONSTRAINT alembic_version_pkc PRIMARY KEY (version_num)
);
INSERT INTO "alembic_version" VALUES('0003');
CREATE TABLE artifacts (
	sha256 TEXT NOT NULL, 
	bytes BIGINT NOT NULL, 
	created_at_ms BIGINT NOT NULL, 
	CONSTRAINT pk_artifacts PRIMARY KEY (sha256)
);
INSERT INTO "artifacts" VALUES('aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa',4,6);
INSERT INTO "artifacts" VALUES('bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb',4,6);
CREATE TABLE attempts (
	job_id TEXT NOT NULL, 
	attempt INTEGER NOT NULL, 
	agent_id TEXT NOT NULL, 
	assigned_at_ms BIGINT NOT NULL, 
	state TEXT NOT NULL, 
	device TEXT NOT NULL, 
	started_at_ms BIGINT, 
	ended_at_ms BIGINT, 
	code INTEGER, 
	detail TEXT NOT NULL, 
	outputs TEXT NOT NULL, 
	timings_ms TEXT NOT NULL, 
	CONSTRAINT pk_attempts PRIMARY KEY (job_id, attempt), 
	CONSTRAINT fk_attempts_agent_id FOREIGN KEY(agent_id) REFERENCES agents (id), 
	CONSTRAINT fk_attempts_job_id FOREIGN KEY(job_id) REFERENCES jobs (id)
);
INSERT INTO "attempts" VALUES('01900000-0000-7000-8000-00000000000d',1,'01900000-0000-7000-8000-00000000000b',9,'assigned','',NULL,NULL,NULL,'','[]','{}');
CREATE TABLE browser_sessions (
	session_hash BLOB NOT NULL, 
	expires_at_ms BIGINT NOT NULL, 
	CONSTRAINT pk_browser_sessions PRIMARY KEY (session_hash)
);
CREATE TABLE circuits (
	id TEXT NOT NULL, 
	name TEXT NOT NULL, 
	zkey_bytes BIGINT NOT NULL, 
	curve TEXT NOT NULL, 
	n_public BIGINT NOT NULL, 
	n_vars BIGINT NOT NULL, 
	domain_size BIGINT NOT NULL, 
	verification_key BLOB NOT NULL, 
	created_at_ms BIGINT NOT NULL, 
	CONSTRAINT pk_circuits PRIMARY KEY (id), 
	CONSTRAINT fk_circuits_id FOREIGN KEY(id) REFERENCES artifacts (sha256), 
	CONSTRAINT uq_circuits_name UNIQUE (name)
);
INSERT INTO "circuits" VALUES('aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa','merkle',4,'bn128',1,4,8,X'7B7D',7);
CREATE TABLE enroll_tokens (
	id TEXT NOT NULL, 
	secret_hash BLOB NOT NULL, 
	uses_max INTEGER NOT NULL, 
	uses INTEGER NOT NULL, 
	expires_at_ms BIGINT NOT NULL, 
	created_at_ms BIGINT NOT NULL, 
	labels TEXT NOT NULL, 
	revoked_at_ms BIGINT, 
	CONSTRAINT pk_enroll_tokens PRIMARY KEY (id), 
	CONSTRAINT uq_enroll_tokens_secret_hash UNIQUE (secret_hash)
);
INSERT INTO "enroll_tokens" VALUES('01900000-0000-7000-8000-00000000000a',X'7373737373737373737373737373737373737373737373737373737373737373',2,1,10000000000000,1,'{"rack":"7"}',NULL);
CREATE TABLE events (
	agent_id TEXT NOT NULL, 
	epoch TEXT NOT NULL, 
	stream TEXT NOT NULL, 
	seq BIGINT NOT NULL, 
	time_ms BIGINT NOT NULL, 
	received_at_ms BIGINT NOT NULL, 
	kind TEXT NOT NULL, 
	packed BLOB NOT NULL, 
	CONSTRAINT pk_events PRIMARY KEY (agent_id, epoch, stream, seq), 
	CONSTRAINT fk_events_agent_id_epoch_stream FOREIGN KEY(agent_id, epoch, stream) REFERENCES stream_heads (agent_id, epoch, stream)
);
INSERT INTO "events" VALUES('01900000-0000-7000-8000-00000000000b','01900000-0000-7000-8000-000000000001','events',1,5,9,'ev',X'84A17301A17705A16D06A16283A16BA26576A26B64A3612E62A3747874A474657874');
CREATE TABLE history_sources (
	agent_id TEXT NOT NULL, 
	number INTEGER NOT NULL, 
	name TEXT NOT NULL, 
	fields BIGINT NOT NULL, 
	seen_at_ms BIGINT NOT NULL, 
	CONSTRAINT pk_history_sources PRIMARY KEY (agent_id, number), 
	CONSTRAINT fk_history_sources_agent_id FOREIGN KEY(agent_id) REFERENCES agents (id), 
	CONSTRAINT uq_history_sources_agent_id_name UNIQUE (agent_id, name)
);
INSERT INTO "history_sources" VALUES('01900000-0000-7000-8000-00000000000b',1,'host',9,5);
CREATE TABLE hub (
	id TEXT NOT NULL, 
	generation BIGINT NOT NULL, 
	created_at_ms BIGINT NOT NULL, 
	started_at_ms BIGINT NOT NULL, 
	CONSTRAINT pk_hub PRIMARY KEY (id)
);
INSERT INTO "hub" VALUES('00000000-03e8-7d7c-925b-1f6468031cf2',4,1000,1003);
CREATE TABLE hub_events (
	id TEXT NOT NULL, 
	agent_id TEXT NOT NULL, 
	time_ms BIGINT NOT NULL, 
	kind TEXT NOT NULL, 
	level TEXT NOT NULL, 
	detail TEXT NOT NULL, 
	CONSTRAINT pk_hub_events PRIMARY KEY (id), 
	CONSTRAINT fk_hub_events_agent_id FOREIGN KEY(agent_id) REFERENCES agents (id)
);
CREATE TABLE jobs (
	id TEXT NOT NULL, 
	circuit_id TEXT NOT NULL, 
	engine TEXT NOT NULL, 
	curve TEXT NOT NULL, 
	inputs TEXT NOT NULL, 
	created_at_ms BIGINT NOT NULL, 
	priority INTEGER NOT NULL, 
	idempotency_key TEXT, 
	request_sha256 TEXT NOT NULL, 
	state TEXT NOT NULL, 
	attempt INTEGER NOT NULL, 
	failures INTEGER NOT NULL, 
	error_code INTEGER, 
	error_detail TEXT NOT NULL, 
	started_at_ms BIGINT, 
	ended_at_ms BIGINT, 
	proof BLOB, 
	public BLOB, 
	timings_ms TEXT NOT NULL, 
	revision BIGINT NOT NULL, 
	CONSTRAINT pk_jobs PRIMARY KEY (id), 
	CONSTRAINT fk_jobs_circuit_id FOREIGN KEY(circuit_id) REFERENCES circuits (id), 
	CONSTRAINT uq_jobs_idempotency_key UNIQUE (idempotency_key)
);
INSERT INTO "jobs" VALUES('01900000-0000-7000-8000-00000000000d','aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa','groth16','bn128','[{"role":"zkey","sha":"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa","n":4},{"role":"wtns","sha":"bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb","n":4}]',8,0,NULL,'','leased',1,0,NULL,'',NULL,NULL,NULL,NULL,'{}',1);
CREATE TABLE log_usage (
	agent_id TEXT NOT NULL, 
	records BIGINT NOT NULL, 
	bytes BIGINT NOT NULL, 
	CONSTRAINT pk_log_usage PRIMARY KEY (agent_id)
);
INSERT INTO "log_usage" VALUES('01900000-0000-7000-8000-00000000000b',1,40);
CREATE TABLE login_codes (
	code_hash BLOB NOT NULL, 
	expires_at_ms BIGINT NOT NULL, 
	CONSTRAINT pk_login_codes PRIMARY KEY (code_hash)
);
CREATE TABLE logs (
	id INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT, 
	agent_id TEXT NOT NULL, 
	epoch TEXT NOT NULL, 
	seq BIGINT NOT NULL, 
	time_ms BIGINT NOT NULL, 
	received_at_ms BIGINT NOT NULL, 
	severity INTEGER NOT NULL, 
	source TEXT NOT NULL, 
	text TEXT NOT NULL, 
	fields TEXT NOT NULL, 
	gap BIGINT, 
	bytes INTEGER NOT NULL
);
INSERT INTO "logs" VALUES(1,'01900000-0000-7000-8000-00000000000b','01900000-0000-7000-8000-000000000001',1,60000,60005,1,'agent','an old word','{}',NULL,40);
CREATE TABLE rollups (
	id INTEGER NOT NULL, 
	tier_s INTEGER NOT NULL, 
	agent_id TEXT NOT NULL, 
	start_ms BIGINT NOT NULL, 
	packed BLOB NOT NULL, 
	CONSTRAINT pk_rollups PRIMARY KEY (id), 
	CONSTRAINT uq_rollups_tier_s_agent_id_start_ms UNIQUE (tier_s, agent_id, start_ms)
);
INSERT INTO "rollups" VALUES(1,60,'01900000-0000-7000-8000-00000000000b',60000,X'789C9B389D91731223E3A4D3F60F18C0807DD2810310040079870A80');
CREATE TABLE rollups_due (
	tier_s INTEGER NOT NULL, 
	start_ms BIGINT NOT NULL, 
	agent_id TEXT NOT NULL, 
	CONSTRAINT pk_rollups_due PRIMARY KEY (tier_s, start_ms, agent_id)
);
INSERT INTO "rollups_due" VALUES(600,0,'01900000-0000-7000-8000-00000000000b');
CREATE TABLE samples (
	id INTEGER NOT NULL, 
	agent_id TEXT NOT NULL, 
	time_ms BIGINT NOT NULL, 
	packed BLOB NOT NULL, 
	CONSTRAINT pk_samples PRIMARY KEY (id)
);
INSERT INTO "samples" VALUES(1,'01900000-0000-7000-8000-00000000000b',60005,X'91940109CB3FE000000000000007');
CREATE TABLE sessions (
	id TEXT NOT NULL, 
	agent_id TEXT NOT NULL, 
	opened_at_ms BIGINT NOT NULL, 
	generation BIGINT NOT NULL, 
	remote TEXT NOT NULL, 
	boot_id TEXT NOT NULL, 
	epoch TEXT NOT NULL, 
	closed_at_ms BIGINT, 
	reason_code INTEGER, 
	reason_detail TEXT NOT NULL, 
	CONSTRAINT pk_sessions PRIMARY KEY (id), 
	CONSTRAINT fk_sessions_agent_id FOREIGN KEY(agent_id) REFERENCES agents (id)
);
CREATE TABLE stream_heads (
	agent_id TEXT NOT NULL, 
	epoch TEXT NOT NULL, 
	stream TEXT NOT NULL, 
	seq BIGINT NOT NULL, rows BIGINT DEFAULT '0' NOT NULL, bytes BIGINT DEFAULT '0' NOT NULL, oldest_at_ms BIGINT DEFAULT '4611686018427387904' NOT NULL, 
	CONSTRAINT pk_stream_heads PRIMARY KEY (agent_id, epoch, stream), 
	CONSTRAINT fk_stream_heads_agent_id FOREIGN KEY(agent_id) REFERENCES agents (id)
);
INSERT INTO "stream_heads" VALUES('01900000-0000-7000-8000-00000000000b','01900000-0000-7000-8000-000000000001','events',1,1,264,9);
INSERT INTO "stream_heads" VALUES('01900000-0000-7000-8000-00000000000b','01900000-0000-7000-8000-000000000001','readings',1,0,0,4611686018427387904);
CREATE TABLE suppressions (
	agent_id TEXT NOT NULL, 
	epoch TEXT NOT NULL, 
	stream TEXT NOT NULL, 
	window_ms BIGINT NOT NULL, 
	first_seq BIGINT NOT NULL, 
	last_seq BIGINT NOT NULL, 
	events BIGINT NOT NULL, 
	hub_event_id TEXT NOT NULL, 
	CONSTRAINT pk_suppressions PRIMARY KEY (agent_id, epoch, stream, window_ms), 
	CONSTRAINT fk_suppressions_agent_id FOREIGN KEY(agent_id) REFERENCES agents (id)
);
CREATE TABLE volumes (
	tier_s INTEGER NOT NULL, 
	rows BIGINT NOT NULL, 
	bytes BIGINT NOT NULL, 
	horizon_ms BIGINT NOT NULL, 
	CONSTRAINT pk_volumes PRIMARY KEY (tier_s)
);
INSERT INTO "volumes" VALUES(0,1,150,0);
INSERT INTO "volumes" VALUES(60,1,150,0);
INSERT INTO "volumes" VALUES(600,0,0,0);
INSERT INTO "volumes" VALUES(3600,0,0,0);
CREATE INDEX ix_hub_events_agent_id_id ON hub_events (agent_id, id);
CREATE INDEX ix_jobs_state ON jobs (state);
CREATE INDEX ix_sessions_agent_id ON sessions (agent_id);
CREATE INDEX ix_attempts_agent_id ON attempts (agent_id);
CREATE INDEX ix_events_agent_id_received_at_ms ON events (agent_id, received_at_ms);
CREATE INDEX ix_samples_agent_id_time_ms ON samples (agent_id, time_ms);
CREATE INDEX ix_samples_time_ms ON samples (time_ms);
CREATE INDEX ix_rollups_tier_s_start_ms ON rollups (tier_s, start_ms);
CREATE INDEX ix_stream_heads_oldest_at_ms ON stream_heads (oldest_at_ms);
CREATE INDEX ix_logs_agent_id_id ON logs (agent_id, id);
CREATE INDEX ix_logs_agent_id_received_at_ms ON logs (agent_id, received_at_ms);
DELETE FROM "sqlite_sequence";
INSERT INTO "sqlite_sequence" VALUES('logs',1);
COMMIT;
