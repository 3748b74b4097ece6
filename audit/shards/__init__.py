"""What is on disk: Arrow shards, the manifest beside them, and how a killed run goes on.

schema    the columns of a row            keys      rows -> Arrow, 16-byte key digests, KeySet
files     atomic files, disk errors that teach
attempt   fencing of earlier drivers, the lock on a run directory
write     one shard, beside and renamed   shard_file  one shard, opened and validated
object_store  a run on object storage   working_copy  the folder here that stands for it
read      scan a run, read its columns    cells     rows paired by question
complete  every key once: none lost, none twice; counts and costs
manifest  manifest.json, open_run_dir     redact    no secret reaches a file
questions questions.arrow, random access

RUN_DIR/manifest.json  attempt.json  questions.arrow  shards/*.arrow  quarantine/
"""
