"""The copy Job: one model out of DMCR into the files of one claim, checked, resumable, and then done."""
