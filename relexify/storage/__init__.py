"""Storage: how results are identified, cached, resumed and written. Everything that touches the disk goes through here.

fingerprint.py   one name for everything that a result depends on, by content
revisions.py     what to raise when the code computes something else
cache.py         results of slow steps, found again by their fingerprint, with checksums
notes.py         read `relexify.json`, the notes of an output
notes_schema.py  validate its entries, whose shapes the packages that write them register
shapes.py        shapes of json values, for messages that name the key that is wrong
runs/            unfinished work of a run: its identity, its folder, its checkpoints
files.py         write files and folders atomically, and check what may be replaced
inputs.py        check that an output replaces no input
arrays.py        arrays with metadata, as one safetensors file
tensor_files.py  rewrite safetensors files of any size, and link those that stay the same
checksums.py     detect damaged folders
locks.py         keep other processes out of a folder
shards.py        parts of a result that several processes compute
documents.py     model cards and other files that describe a finished output
json.py          read json that others may have written, and results that may be damaged
"""
