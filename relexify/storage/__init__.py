"""Storage: how results are identified, cached, resumed and written. Everything that touches the disk goes through here.

fingerprint.py   hash everything that a result depends on, by content
revisions.py     version numbers of the computations, to raise when results change
cache.py         results of slow steps, by their fingerprint, with checksums
notes.py         read `relexify.json`, the notes of an output
notes_schema.py  validate the entries of these notes; packages that write entries register their shapes
shapes.py        shapes of json values, for messages that name the wrong key
runs/            unfinished work of a run: its identity, its folder, its checkpoints
files.py         write files and folders atomically, and check what may be replaced
inputs.py        check that an output replaces no input
arrays.py        arrays with metadata, as one safetensors file
tensor_files.py  rewrite safetensors files of any size, and link unchanged ones
checksums.py     detect damaged folders
locks.py         keep other processes out of a folder
shards.py        parts of a result that several processes compute
documents.py     model cards and other files that describe a finished output
json.py          read json files that may be damaged or written by others
"""
