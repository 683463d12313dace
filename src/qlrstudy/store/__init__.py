"""The disk: runs, tunings, studies and archives, read and written here alone.

STORE/<task>-<algorithm>-seed<seed>-<identity>/    a run; see `runs`
STORE/tunings/<task>-<algorithm>-<identity>/       a search; see `tunings`
STORE/studies/<name>-<scale>.json                  which runs are whose; see `studies`
"""
